import type { Test } from "tap";
import { PriceList, type PriceVersion } from "../../src/core/price-list.ts";
import type { PriceVersions } from "../../src/store/price-versions.ts";

const terms = (input: number) => new PriceList([{ price: { input, output: 2 } }], "table 1").all;

/** Tests for prices in any store. @param open an empty store, and a function that returns since when its prices were in use */
export function pricesContract(
  t: Test,
  open: (t: Test) => Promise<{ prices: PriceVersions; since(): unknown[] | Promise<unknown[]> }>,
): void {
  t.test("terms are kept under their name, once, whoever keeps them again", async (t) => {
    const { prices, since } = await open(t);
    await prices.keep([...terms(1), ...terms(3), ...terms(1)]);
    const before = await since();
    await prices.keep(terms(1));
    await prices.keep([]);
    t.same(await since(), before);
    t.equal(before.length, 2);
    // A store keeps the source of the price, not of each figure.
    const { sources, ...first } = terms(1)[0] as PriceVersion;
    t.same(Object.keys(sources ?? {}), ["input", "output"]);
    t.same(await prices.find(first.version), first);
    t.equal(await prices.find("none"), undefined);
  });
}
