import t from "tap";
import type { Usage } from "../../src/core/usage.ts";
import { entryToRow } from "../../src/store/ledger-row.ts";
import { HOUR, HourSums, SUM_COLUMNS } from "../../src/store/ledger-sums.ts";
import { plainEntry } from "../support/plain-entry.ts";

const usage = { in: { total: 100, cached: 40 }, out: { total: 10, reasoning: 3 }, raw: undefined };
const entry = plainEntry(10 * HOUR, { id: "1", model: "fast", cost: 7, usage });

t.test("rows of an hour, a kind and a holder are added up, and others separately", async (t) => {
  const sums = new HourSums();
  sums.add(entryToRow(entry), 1, 0);
  sums.add(entryToRow({ ...entry, time: 11 * HOUR - 1 }), 1, 0);
  sums.add(entryToRow({ ...entry, time: 11 * HOUR }), 1, 0);
  sums.add(entryToRow({ ...entry, model: "smart" }), 2, 0);
  sums.add(entryToRow(entry), 1, 7);
  t.same(SUM_COLUMNS, [
    ...["requests", "failed", "unsettled", "tokens_in", "cached", "tokens_out", "reasoning", "cost", "assumed_cost"],
  ]);
  t.same(sums.rows(), [
    [10 * HOUR, "k", "fast", "p:m", 0, 2, 0, 0, 200, 80, 20, 6, 14, 0],
    [11 * HOUR, "k", "fast", "p:m", 0, 1, 0, 0, 100, 40, 10, 3, 7, 0],
    [10 * HOUR, "k", "smart", "p:m", 0, 1, 0, 0, 100, 40, 10, 3, 7, 0],
    [10 * HOUR, "k", "fast", "p:m", 7, 1, 0, 0, 100, 40, 10, 3, 7, 0],
  ]);
});

t.test(
  "what did not complete is failed, what is not known in full is unsettled, and unreported counts add 0",
  async (t) => {
    const sums = new HourSums();
    const { usage, cost: _, ...unknown } = entry;
    sums.add(entryToRow({ ...unknown, outcome: "aborted", source: "none" }), 1, 0);
    sums.add(entryToRow({ ...unknown, outcome: "aborted", source: "none" }), 1, 0);
    sums.add(entryToRow({ ...entry, source: "partial" }), 2, 0);
    sums.add(entryToRow({ ...unknown, usage: usage as Usage, assumedCost: 5 }), 3, 0);
    t.same(sums.rows(), [
      [10 * HOUR, "k", "fast", "p:m", 0, 2, 2, 2, 0, 0, 0, 0, 0, 0],
      [10 * HOUR, "k", "fast", "p:m", 0, 1, 0, 1, 100, 40, 10, 3, 7, 0],
      // Reported, and no price.
      [10 * HOUR, "k", "fast", "p:m", 0, 1, 0, 1, 100, 40, 10, 3, 0, 5],
    ]);
  },
);
