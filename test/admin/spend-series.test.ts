import { join } from "node:path";
import t from "tap";
import { spend } from "../../src/admin/spend.ts";
import { dailySpend } from "../../src/admin/spend-series.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test("a series has the daily cost of an expensive group, the last one that of all others", async (t) => {
  const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const noon = Date.UTC(2026, 10, 19, 12);
  const costs = { free: [0, 0], small: [1, 2], dear: [0, 900], middle: [40, 0], others: [5, 6] };
  for (const [model, [first, second]] of Object.entries(costs)) {
    stores.ledger.append(plainEntry(noon, { model, cost: first as number }));
    stores.ledger.append(plainEntry(noon + 86_400_000, { model, cost: second as number }));
  }
  const query = new URLSearchParams(`since=${noon}&until=${noon + 86_400_001}&by=model&series=2`);
  const subject = { stores, config: { timezone: "UTC" } } as unknown as Parameters<typeof spend>[0];
  const { body } = await spend(subject, { query } as unknown as Parameters<typeof spend>[1]);
  const { rows, series, days } = body as {
    rows: { group: string[]; cost: number; requests: number }[];
    series: object[];
    days: string[];
  };
  t.same(days, ["2026-11-19", "2026-11-20"]);
  t.same(
    rows.map(({ group, cost, requests }) => [...group, cost, requests]),
    [
      ["dear", 900, 2],
      ["middle", 40, 2],
      ["others", 11, 2],
      ["small", 3, 2],
      ["free", 0, 2],
    ],
  );
  t.same(series, [{ group: ["dear"], costs: [0, 900] }, { group: ["middle"], costs: [40, 0] }, { costs: [6, 8] }]);
});

t.test("groups of several values stay apart, and days without requests cost nothing", (t) => {
  const sum = (group: string[], cost: number) => ({
    ...{ group, cost, requests: 1, failed: 0, tokensIn: 3, cached: 0, tokensOut: 0, reasoning: 0 },
    ...{ assumedCost: 0, unsettled: 0 },
  });
  const given = [sum(["a,b", "c", "1"], 1), sum(["a", "b,c", "1"], 2), sum(["a", "b,c", "3"], 4)];
  const { sums, series } = dailySpend(given, ["1", "2", "3"], 5);
  t.match(sums, [
    { group: ["a", "b,c"], cost: 6, requests: 2, tokensIn: 6 },
    { group: ["a,b", "c"], cost: 1, requests: 1, tokensIn: 3 },
  ]);
  t.same(series, [
    { group: ["a", "b,c"], costs: [2, 0, 4] },
    { group: ["a,b", "c"], costs: [1, 0, 0] },
  ]);
  t.match(given[1], { cost: 2, requests: 1 }, "what was given is unchanged");
  t.end();
});
