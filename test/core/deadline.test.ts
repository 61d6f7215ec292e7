import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { Deadline } from "../../src/core/deadline.ts";

function listener() {
  const began = performance.now();
  const times: number[] = [];
  return { times, expired: () => void times.push(performance.now() - began) };
}

t.test("expires when nothing moved it, and only once", async (t) => {
  const one = listener();
  const deadline = Deadline.acquire(one);
  deadline.set(20);
  await sleep(60);
  t.equal(one.times.length, 1);
  t.ok((one.times[0] as number) >= 18);
  deadline.release();
});

t.test("a limit that is moved expires after its last move; a shorter one expires sooner; none never", async (t) => {
  const one = listener();
  const deadline = Deadline.acquire(one);
  for (let i = 0; i < 6; i++) {
    deadline.set(40);
    await sleep(10);
  }
  t.same(one.times, []);
  deadline.set(5000);
  deadline.set(10);
  await sleep(40);
  t.equal(one.times.length, 1);
  deadline.set(0);
  await sleep(60);
  t.equal(one.times.length, 1);
  deadline.release();
});

t.test("who has given it back is not woken, and who takes it next is woken in its own time", async (t) => {
  const before = listener();
  const old = Deadline.acquire(before);
  old.set(15);
  old.release();
  old.release();
  const after = listener();
  const deadline = Deadline.acquire(after);
  t.equal(deadline, old);
  deadline.set(60);
  await sleep(35);
  t.same([before.times, after.times], [[], []]);
  await sleep(60);
  t.equal(after.times.length, 1);
  t.same(before.times, []);
  deadline.release();
  deadline.set(1);
  await sleep(10);
  t.equal(after.times.length, 1);
});
