import t from "tap";
import type { Head } from "../../src/core/head.ts";
import { Frame } from "../../src/wire/frame.ts";
import { chainOf, startedExchange } from "../support/chain.ts";

const head = { status: 200 } as Head;

t.test("a stage returns frames synchronously: a promise, or anything else, is its plugin's failure", async (t) => {
  const frame = new Frame("event", Buffer.from("data: {}\n\n"));
  const lists = [() => [frame.bytes], () => [frame, undefined], () => new Array(1), () => [[frame]]];
  const wrong = [async () => frame, () => Promise.reject(new Error("late")), () => "text", () => frame.bytes, ...lists];
  for (const stage of wrong) {
    const [guarded] = await chainOf({ mine: { response: () => stage as never } }).response(startedExchange(), head);
    t.throws(() => guarded?.(frame), { code: "plugin_failed", origin: "mine.response", cause: /gives frames/ });
  }
});

t.test("the end follows what a stage returns for it, once and last", async (t) => {
  const [piece, end] = [new Frame("piece", Buffer.from("x")), new Frame("end", Buffer.alloc(0))];
  for (const made of [[], piece, [piece], [end, piece], [piece, end, end]]) {
    const [stage] = await chainOf({ own: { response: () => () => made } }).response(startedExchange(), {
      status: 200,
    } as Head);
    t.same(stage?.(end), Array.isArray(made) && made.length === 0 ? [end] : [piece, end]);
  }
});
