import t from "tap";
import { sleepSync } from "../../src/store/sleep-sync.ts";

t.test("the thread does nothing else until the time has passed", async (t) => {
  let others = 0;
  setImmediate(() => others++);
  const before = performance.now();
  sleepSync(30);
  t.ok(performance.now() - before >= 29);
  t.equal(others, 0);
});
