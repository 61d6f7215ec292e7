import t from "tap";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { mergeEntries, PAGE_ROWS, readPages } from "../../src/store/ledger-pages.ts";
import { plainEntry } from "../support/plain-entry.ts";

const entry = (time: number, id = `${time}`) => plainEntry(time, { id });

async function ids(entries: AsyncIterable<LedgerEntry>): Promise<string[]> {
  const found: string[] = [];
  for await (const { id } of entries) found.push(id);
  return found;
}

t.test("pages are requested one after the other, up to one that is not full", async (t) => {
  const all = Array.from({ length: PAGE_ROWS * 2 + 5 }, (_, time) => entry(time));
  const asked: unknown[] = [];
  const page = async (after: { time: number } | undefined) => {
    asked.push(after);
    const from = after === undefined ? 0 : after.time + 1;
    return all.slice(from, from + PAGE_ROWS);
  };
  t.same(
    await ids(readPages(page)),
    all.map(({ id }) => id),
  );
  const places = [PAGE_ROWS - 1, PAGE_ROWS * 2 - 1].map((time) => ({ time, id: `${time}` }));
  t.same(asked, [undefined, ...places]);
  t.same(await ids(readPages(() => [])), []);
});

t.test("other rows are merged in order, and duplicates come once", async (t) => {
  async function* stored() {
    yield* [entry(1), entry(2, "b"), entry(2, "d"), entry(5)];
  }
  const others = [entry(9), entry(2, "c"), entry(2, "b"), entry(0), entry(5)];
  t.same(await ids(mergeEntries(stored(), others)), ["0", "1", "b", "c", "d", "5", "9"]);
  t.same(await ids(mergeEntries(stored(), [])), ["1", "b", "d", "5"]);
});
