import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { Deadline } from "../../src/core/deadline.ts";

function sleeper() {
  const began = performance.now();
  const rings: number[] = [];
  return { rings, expired: () => void rings.push(performance.now() - began) };
}

t.test("rings when nothing moved it, and only once", async (t) => {
  const one = sleeper();
  const alarm = Deadline.acquire(one);
  alarm.set(20);
  await sleep(60);
  t.equal(one.rings.length, 1);
  t.ok((one.rings[0] as number) >= 18);
  alarm.release();
});

t.test("a limit that is moved rings after its last move; a shorter one rings sooner; none never", async (t) => {
  const one = sleeper();
  const alarm = Deadline.acquire(one);
  for (let i = 0; i < 6; i++) {
    alarm.set(40);
    await sleep(10);
  }
  t.same(one.rings, []);
  alarm.set(5000);
  alarm.set(10);
  await sleep(40);
  t.equal(one.rings.length, 1);
  alarm.set(0);
  await sleep(60);
  t.equal(one.rings.length, 1);
  alarm.release();
});

t.test("who has given it back is not woken, and who takes it next is woken in its own time", async (t) => {
  const before = sleeper();
  const old = Deadline.acquire(before);
  old.set(15);
  old.release();
  old.release();
  const after = sleeper();
  const alarm = Deadline.acquire(after);
  t.equal(alarm, old);
  alarm.set(60);
  await sleep(35);
  t.same([before.rings, after.rings], [[], []]);
  await sleep(60);
  t.equal(after.rings.length, 1);
  t.same(before.rings, []);
  alarm.release();
  alarm.set(1);
  await sleep(10);
  t.equal(after.rings.length, 1);
});
