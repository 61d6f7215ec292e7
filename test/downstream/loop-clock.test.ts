import t from "tap";
import { loopClock } from "../../src/downstream/loop-clock.ts";
import { eventually } from "../support/process.ts";

t.test("the real clock goes on, tells what this thread has used, and what of the time it worked", async (t) => {
  const clock = loopClock();
  const [now, cpu] = [clock.now(), clock.cpuTime()];
  await eventually(() => clock.cpuTime() > cpu && clock.now() > now, "some work");
  const busy = clock.utilization();
  t.ok(busy >= 0 && busy <= 1, `${busy}`);
});

t.test("what runs again and again ends when it is told to", async (t) => {
  let runs = 0;
  const end = loopClock().every(1, () => runs++);
  await eventually(() => runs > 2, "some runs");
  end();
  const before = runs;
  await new Promise((later) => setTimeout(later, 20));
  t.equal(runs, before);
});
