import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { FileError, StoreUnavailableError } from "../src/core/errors.ts";
import type { Log } from "../src/core/log.ts";
import type { PriceVersion } from "../src/core/price-list.ts";
import { LatePrices } from "../src/late-prices.ts";
import { PriceVersions } from "../src/store/price-versions.ts";
import { eventually } from "./support/process.ts";

const price = (version: string): PriceVersion => ({ version, price: {}, source: "gateway.yaml" });

/** A store that throws an error while it has one. */
class Versions extends PriceVersions {
  error: Error | undefined;
  tries = 0;
  readonly kept: string[] = [];

  override async keep(prices: readonly PriceVersion[]): Promise<void> {
    this.tries++;
    if (this.error) throw this.error;
    this.kept.push(...prices.map(({ version }) => version));
  }

  override async find(): Promise<undefined> {}
}

function open(error?: Error) {
  const versions = Object.assign(new Versions(), { error });
  const logged: string[] = [];
  const log = {
    warn: (_: object, message: string) => logged.push(`warn ${message}`),
    error: (_: object, message: string) => logged.push(`error ${message}`),
  } as unknown as Log;
  return { versions, logged, prices: new LatePrices(versions, log, 5) };
}

t.test("prices are stored once the store can be written again, those of all reloads together", async (t) => {
  for (const error of [new StoreUnavailableError("away"), new FileError("the disk is full")]) {
    const { versions, logged, prices } = open(error);
    await prices.keep([price("a")]);
    await prices.keep([price("a"), price("b")]);
    await eventually(() => versions.tries > 4, "some attempts");
    versions.error = undefined;
    await eventually(() => versions.kept.length > 0, "the store to have them");
    const { tries } = versions;
    await sleep(30);
    t.same(versions.kept, ["a", "b"]);
    t.equal(versions.tries, tries, "nothing is tried any more");
    t.same(logged, Array(2).fill("warn the prices of gateway.yaml cannot be stored yet"));
  }
});

t.test("an error that does not pass is thrown, and ends later attempts with a line in the log", async (t) => {
  const { versions, logged, prices } = open(new Error("no such table"));
  await t.rejects(prices.keep([price("a")]), /no such table/);
  versions.error = new StoreUnavailableError("away");
  await prices.keep([price("a")]);
  versions.error = new Error("no such table");
  await eventually(() => logged.length > 1, "the error");
  const { tries } = versions;
  await sleep(30);
  t.equal(versions.tries, tries);
  t.same(logged.slice(1), ["error prices of gateway.yaml cannot be stored"]);
});

t.test("nothing is tried after it was closed", async (t) => {
  const { versions, prices } = open(new StoreUnavailableError("away"));
  await prices.keep([price("a")]);
  prices.close();
  await prices.keep([price("b")]);
  await sleep(30);
  t.equal(versions.tries, 2);
});
