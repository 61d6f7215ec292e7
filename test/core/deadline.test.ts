import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { Deadline } from "../../src/core/deadline.ts";
import { until } from "../support/until.ts";

function listener() {
  const began = performance.now();
  const times: number[] = [];
  return { times, onExpired: () => void times.push(performance.now() - began) };
}

t.test("expires once, after the last time it was set", async (t) => {
  const one = listener();
  const deadline = Deadline.acquire(one);
  deadline.set(20);
  await until(() => one.times.length > 0, "the limit");
  await sleep(40);
  t.equal(one.times.length, 1);
  t.ok((one.times[0] as number) >= 18);
  deadline.release();
});

t.test("a limit that is set again expires after the last time; a shorter one expires sooner; none never", async (t) => {
  const one = listener();
  const deadline = Deadline.acquire(one);
  const longer = performance.now() + 600;
  while (performance.now() < longer) {
    deadline.set(400);
    await sleep(10);
  }
  t.same(one.times, []);
  deadline.set(5000);
  deadline.set(10);
  await until(() => one.times.length > 0, "the shorter limit");
  t.equal(one.times.length, 1);
  deadline.set(0);
  await sleep(60);
  t.equal(one.times.length, 1);
  deadline.release();
});

t.test("a released deadline never expires, and its next user gets its own time", async (t) => {
  const before = listener();
  const old = Deadline.acquire(before);
  old.set(15);
  old.release();
  old.release();
  const after = listener();
  const deadline = Deadline.acquire(after);
  t.equal(deadline, old);
  // Far behind the first one's time, also where this machine is busy.
  deadline.set(1000);
  await sleep(35);
  t.same([before.times, after.times], [[], []]);
  await until(() => after.times.length > 0, "its own time");
  t.equal(after.times.length, 1);
  t.same(before.times, []);
  deadline.release();
  deadline.set(1);
  await sleep(10);
  t.equal(after.times.length, 1);
});
