import t from "tap";
import { ScopeCounts, UsedWindows } from "../../src/store/scope-counts.ts";

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
