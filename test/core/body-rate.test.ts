import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { type BodyRateLimits, BodyRateMonitor } from "../../src/core/body-rate.ts";
import type { GatewayError } from "../../src/core/errors.ts";

/** A pace and what it has said. */
function judged(limits: BodyRateLimits) {
  const errors: GatewayError[] = [];
  const pace = new BodyRateMonitor(limits, { onTooSlow: (error) => errors.push(error) });
  return { pace, errors, said: () => errors.map(({ message }) => /slowly/.test(message)) };
}

t.test("silence ends a body, once, and bytes postpone that", async (t) => {
  const { pace, errors, said } = judged({ idle: 600, slowest: 0 });
  for (let i = 0; i < 9; i++) {
    await sleep(80);
    pace.addBytes(1);
  }
  t.same(errors, []);
  await sleep(1500);
  t.same(said(), [false]);
  t.match(errors[0], { code: "body_timeout", status: 408 });
});

t.test("too few bytes per time end it, whether they come continuously or never", async (t) => {
  const limits = { idle: 10_000, slowest: 1_000_000, patience: 50 };
  const [dripping, silent] = [judged(limits), judged(limits)];
  for (let i = 0; i < 10; i++) {
    await sleep(15);
    dripping.pace.addBytes(1);
  }
  t.same([dripping.said(), silent.said()], [[true], [true]]);
});

t.test("a burst pays for no more time than a sender may be silent", async (t) => {
  const limits = { idle: 600, slowest: 1000, patience: 30 };
  const [dripping, steady, unlimited] = [judged(limits), judged(limits), judged({ ...limits, idle: 0 })];
  for (const { pace } of [dripping, steady, unlimited]) pace.addBytes(1_000_000);
  for (let i = 0; i < 30; i++) {
    await sleep(30);
    for (const { pace } of [dripping, unlimited]) pace.addBytes(1);
    steady.pace.addBytes(1000);
  }
  t.same([dripping.said(), steady.said(), unlimited.said()], [[true], [], []]);
});

t.test("very many tiny pieces end it at once; fewer, or larger ones, do not", async (t) => {
  const [tiny, few, larger] = [judged({ idle: 0 }), judged({ idle: 0 }), judged({ idle: 0 })];
  for (let i = 0; i < 30_000; i++) {
    if (i < 10_400) tiny.pace.addBytes(31);
    larger.pace.addBytes(1024);
    if (i < 9999) few.pace.addBytes(1);
  }
  t.match(tiny.errors, [{ code: "bad_request", status: 400, message: /more than 10000 pieces.*larger chunks/ }]);
  few.pace.addBytes(1, 20);
  t.same([few.errors.length, larger.errors.length], [1, 0], "chunks that are reported together count as many");
});

t.test("enough bytes in any pieces end nothing; nor does anything after its end", async (t) => {
  const { pace, errors } = judged({ idle: 10_000, slowest: 1000, patience: 30 });
  pace.addBytes(2000);
  await sleep(120);
  t.same(errors, []);
  pace.stop();
  const other = judged({ idle: 40, slowest: 0 });
  // What has stopped holds nobody else's deadline.
  pace.pause();
  pace.resume();
  pace.addBytes(1);
  pace.stop();
  await sleep(120);
  t.same(other.said(), [false]);
  t.same(errors, []);
});

t.test("time in which nobody reads does not count", async (t) => {
  const { pace, errors, said } = judged({ idle: 40, slowest: 1000, patience: 40 });
  pace.pause();
  await sleep(150);
  t.same(errors, []);
  pace.resume();
  await sleep(150);
  t.same(said(), [true]);
});

t.test("a stream is monitored only while it is read", async (t) => {
  const stream = new PassThrough();
  const errors: string[] = [];
  const watched = (body: PassThrough) =>
    BodyRateMonitor.watch(body, { idle: 50, slowest: 0 }, ({ code }) => errors.push(code));
  watched(stream);
  stream.write("x");
  stream.pause();
  await sleep(120);
  t.same(errors, [], "it is paused");
  stream.end();
  stream.resume();
  await sleep(120);
  t.same(errors, [], "it has ended");
  watched(stream);
  const silent = new PassThrough();
  watched(silent);
  await sleep(120);
  t.same(errors, ["body_timeout"]);
});
