import t from "tap";
import type { Budget } from "../../src/core/limit-kinds.ts";
import { ScopeCounts, type SpentSum, UsedWindows } from "../../src/store/scope-counts.ts";

const START = 1_800_000_000_000;

t.test("only scopes that were used in the last minute have windows, however many there are", (t) => {
  const windows = new UsedWindows();
  let most = 0;
  for (let i = 0; i < 10_000; i++) {
    const now = START + i * 100;
    const scope = new ScopeCounts(windows);
    scope.requests.add(now, 1);
    if (i % 2 === 0) scope.tokens.add(now, 10);
    windows.freeEmpty(now);
    most = Math.max(most, windows.size);
  }
  // A window counts 61 seconds, and there are ten new scopes in each.
  t.ok(most > 600 && most < 800, `${most} at most`);
  t.end();
});

t.test("scopes that are added all at once are looked at a few at a time, and freed nevertheless", (t) => {
  const windows = new UsedWindows();
  for (let i = 0; i < 10_000; i++) new ScopeCounts(windows).requests.add(START, 1);
  const later = START + 62_000;
  windows.freeEmpty(later);
  t.ok(windows.size >= 9900, `${windows.size} are left`);
  for (let i = 0; i < 100; i++) windows.freeEmpty(later);
  t.equal(windows.size, 0);
  t.end();
});

t.test("what is in a window stays, and a freed one counts anew", (t) => {
  const windows = new UsedWindows();
  const scope = new ScopeCounts(windows);
  scope.requests.add(START, 1);
  windows.freeEmpty(START + 60_000);
  t.equal(scope.requests.sum(START + 60_000), 1);
  windows.freeEmpty(START + 62_000);
  t.equal(windows.size, 0);
  scope.requests.add(START + 63_000, 1);
  t.equal(scope.requests.sum(START + 63_000), 1);
  t.equal(windows.size, 1);
  t.end();
});

t.test(
  "budgets are found with the sums that exist, also those that begin later, and other budgets with theirs",
  (t) => {
    const scope = new ScopeCounts(new UsedWindows());
    const sum = (per: Budget["per"]): SpentSum => ({
      ...{ per, start: 0, end: 1, latest: 1, spent: 0, pending: 0, reported: 0, known: 0, elsewhere: 0 },
    });
    const budget = (per: Budget["per"], nano: number): Budget => ({ per, nano, soft: false });
    const budgets = [budget("day", 200), budget("month", 900), budget("day", 100)];
    const found = (of: readonly Budget[]) =>
      scope.sumsOf(of).map((each) => [each.budget.nano, each.sum.per, each.isRepeated, each.firstMark]);
    t.same(found(budgets), []);
    scope.sums.push(sum("day"));
    const daily = [
      [200, "day", false, 80],
      [100, "day", true, 80],
    ];
    t.same(found(budgets), daily);
    scope.sums.push(sum("month"));
    t.same(found(budgets), [daily[0], [900, "month", false, 720], daily[1]]);
    t.equal(scope.sumsOf(structuredClone(budgets)), scope.sumsOf(budgets), "a copy is the same");
    t.same(found([budget("day", 50)]), [[50, "day", false, 40]]);
    t.same(found([]), []);
    t.equal(scope.sumsOf(budgets)[0]?.sum, scope.sums[0]);
    t.end();
  },
);
