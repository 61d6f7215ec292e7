import { join } from "node:path";
import t from "tap";
import { budgetSpending, formatSpending, groupBudgets } from "../../src/cli/budget-spending.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test("a budget's spending is that of its period in the zone", async (t) => {
  const { ledger, close } = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(close);
  const now = Date.UTC(2026, 10, 20, 12);
  ledger.append(plainEntry(now - 1, { group: "acme", cost: 1e9 }));
  // The 20th has begun in Berlin, and not in UTC.
  ledger.append(plainEntry(Date.UTC(2026, 10, 19, 23, 30), { group: "acme/x", cost: 2e9 }));
  ledger.append(plainEntry(Date.UTC(2026, 9, 1), { group: "acme", cost: 4e9 }));
  const budget = (per: "day" | "month" | "total") => ({ nano: 10e9, per, soft: false });
  const limits = new Map([["acme", { budgets: [budget("day"), budget("month"), budget("total")] }]]);
  const owners = groupBudgets(["acme", "none"], limits);
  const spent = async (zone: string) =>
    (await budgetSpending(owners, ledger, zone, now)).map((each) => each.spent / 1e9);
  t.same(await spent("UTC"), [1, 3, 7]);
  t.same(await spent("Europe/Berlin"), [3, 3, 7]);
  const told = await budgetSpending(owners, ledger, "UTC", now);
  t.equal(formatSpending(told), "$1.0000 of $10/day, $3.0000 of $10/month, $7.0000 of $10");
});
