import t, { type Test } from "tap";
import { LoopLateness } from "../../src/downstream/loop-lateness.ts";
import { TestClock } from "../support/loop-clock.ts";

function made(t: Test, limit = 50) {
  const clock = new TestClock();
  const lateness = new LoopLateness(clock, (now) => lateness.evaluate(now, limit));
  t.teardown(() => lateness.close());
  lateness.start();
  /** Works on one thing in each turn, for two seconds. */
  const work = async (milliseconds: number): Promise<void> => {
    for (const end = clock.now() + 2000; clock.now() < end; ) {
      clock.work(milliseconds);
      await clock.turn();
    }
  };
  return { clock, lateness, work };
}

t.test("the delay is that of a request which arrives at a random time", async (t) => {
  const { clock, lateness } = made(t);
  await clock.rest(100);
  t.equal(lateness.delay, 0);
  // Half of the time passes in one turn, in which a request is met that waits for the rest of it.
  await clock.rest(40);
  clock.work(90);
  await clock.turn();
  const [short, long] = [4 * 10, 90];
  const squares = 4 * 10 * 10 + long * long;
  t.ok(Math.abs(lateness.delay - (squares / (short + long) - 10)) < 1e-9, `${lateness.delay} ms`);
});

t.test("a loop that has no time left is late at once, and overloaded only after a second", async (t) => {
  const { clock, lateness, work } = made(t);
  clock.work(120);
  await clock.turn();
  t.same([lateness.isLate, lateness.isLateForLong(clock.now())], [true, false]);
  await work(120);
  t.equal(lateness.isLateForLong(clock.now()), true);
  await clock.rest(60);
  t.same([lateness.isLate, lateness.isLateForLong(clock.now())], [false, false]);
});

t.test("without a limit the loop is never late", async (t) => {
  const { lateness, work } = made(t, 0);
  await work(120);
  t.equal(lateness.isLate, false);
});

t.test("time in which other processes have the core is no delay", async (t) => {
  const { clock, lateness } = made(t);
  for (let i = 0; i < 20; i++) {
    clock.away(120);
    await clock.turn();
    t.equal(lateness.delay, 0);
  }
});

t.test("a loop is idle a second after the last request", async (t) => {
  const { clock, lateness } = made(t);
  await clock.rest(900);
  lateness.countRequest();
  await clock.rest(900);
  t.equal(lateness.isIdle(clock.now()), false);
  await clock.rest(300);
  t.equal(lateness.isIdle(clock.now()), true);
});

t.test("samples are taken between start and stop", async (t) => {
  const { clock, lateness } = made(t);
  lateness.start();
  t.equal(clock.timers, 1);
  lateness.stop();
  t.equal(clock.timers, 0);
});

t.test("each sample reports the utilization of the loop at the last evaluation", async (t) => {
  const clock = new TestClock();
  const utilizations: number[] = [];
  const lateness: LoopLateness = new LoopLateness(
    clock,
    (now) => lateness.evaluate(now, 50),
    (utilization) => utilizations.push(utilization),
  );
  t.teardown(() => lateness.close());
  lateness.start();
  await clock.rest(40);
  t.same(utilizations, [1, 1, 1, 1], "unknown at first");
  await clock.rest(10);
  clock.work(50);
  await clock.turn();
  t.same(utilizations.slice(4), [0, 1]);
});
