import t from "tap";
import { loopClock } from "../../src/downstream/loop-clock.ts";
import { until } from "../support/until.ts";

t.test("the real clock runs, and reports the CPU time of this thread and the time it was active", async (t) => {
  const clock = loopClock();
  const [now, cpu] = [clock.now(), clock.cpuTime()];
  await until(() => clock.cpuTime() > cpu && clock.now() > now, "some work");
  const busy = clock.utilization();
  t.ok(busy >= 0 && busy <= 1, `${busy}`);
});

t.test("a repeated task ends when it is stopped", async (t) => {
  let runs = 0;
  const end = loopClock().every(1, () => runs++);
  await until(() => runs > 2, "some runs");
  end();
  const before = runs;
  await new Promise((later) => setTimeout(later, 20));
  t.equal(runs, before);
});
