import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { formatTimeLimit, TimeoutError, waitUntil, withTimeout } from "../../src/core/timeout.ts";

t.test("the result is returned, and so is the error", async (t) => {
  t.equal(await withTimeout(10_000, Promise.resolve(7)), 7);
  await t.rejects(withTimeout(10_000, Promise.reject(new Error("no"))), /^no$/);
});

t.test("a time limit is named in seconds, rounded, and in milliseconds below one", async (t) => {
  t.same([1, 250.4, 1000, 1500, 70_000, 59_987.123].map(formatTimeLimit), [
    "1 ms",
    "250 ms",
    "1 s",
    "1.5 s",
    "70 s",
    "60 s",
  ]);
});

t.test("an operation that takes too long is reported as a timeout", async (t) => {
  const silent = await withTimeout(5, new Promise(() => {})).catch((thrown: unknown) => thrown);
  t.ok(silent instanceof TimeoutError);
  // An answer that fails later is nobody's to hear.
  await t.rejects(
    withTimeout(
      5,
      sleep(10).then(() => Promise.reject(new Error("late"))),
    ),
    /in 5 ms/,
  );
  await sleep(20);
});

t.test("a condition is awaited until it holds, or for the time that is given", async (t) => {
  let looks = 0;
  await waitUntil(() => ++looks === 3);
  t.equal(looks, 3);
  await waitUntil(() => false, 20);
});
