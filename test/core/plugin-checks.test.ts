import t from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import type { FailedAnswer, Head } from "../../src/core/head.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { chainOf, startedExchange } from "../support/chain.ts";

const head = { status: 200 } as Head;

t.test("an answer in a later phase than route is the failure of that plugin, and is none", async (t) => {
  const answers = (exchange: object) => Object.assign(exchange, { answer: { body: "{}" } });
  for (const act of [(each: object) => void answers(each), async (each: object) => void answers(each)]) {
    const chain = chainOf({ own: { send: act, response: act, failed: act } });
    const exchange = startedExchange();
    const attempt = {} as Attempt;
    await t.rejects(async () => chain.send(exchange, attempt), { code: "plugin_failed", origin: "own.send" });
    await t.rejects(async () => chain.response(exchange, head), { code: "plugin_failed", origin: "own.response" });
    await chain.failed(exchange, attempt, {} as FailedAnswer);
    t.match(exchange.failedErrors, [{ code: "plugin_failed", origin: "own.failed" }]);
    t.match(exchange, { answer: undefined, answerer: undefined });
  }
});

t.test("a plugin that ends before it has read the response has failed", async (t) => {
  for (const response of [() => undefined, async () => undefined])
    await t.rejects(
      async () => chainOf({ mine: { response } }).response(startedExchange(), { status: 200, isReading: true } as Head),
      {
        code: "plugin_failed",
        origin: "mine.response",
        cause: /readBody has: await it/,
      },
    );
});

t.test("a head that cannot be sent is the failure of the plugin that changed it", async (t) => {
  for (const make of [
    (head: Head) => head.headers.set("bad header", "x"),
    (head: Head) => head.headers.append("x-own", "secret\r\nx: y"),
    (head: Head) => Object.assign(head, { status: 99 }),
    (head: Head) => Object.assign(head, { status: Number.NaN }),
  ]) {
    for (const response of [
      (_: unknown, head: Head) => void make(head),
      async (_: unknown, head: Head) => void make(head),
    ]) {
      const head = { status: 200, headers: new HeaderList() } as unknown as Head;
      const run = async () => chainOf({ mine: { response } }).response(startedExchange(), head);
      const error = await run().catch((thrown) => thrown);
      t.match(error, { code: "plugin_failed", origin: "mine.response" });
      t.notMatch(String(error.cause), /secret/);
    }
  }
});

t.test("an address that cannot be sent is the failure of the plugin that has set it", async (t) => {
  const attempt = () => ({ method: "POST" }) as Attempt;
  for (const wrong of [
    { method: "PO ST" },
    { path: "v1/chat/completions" },
    { path: "/v1/chat completions" },
    { path: new URL("http://vendor.example/v1") as never },
    { query: "a=b\r\nx: y" },
  ] satisfies Partial<Attempt>[]) {
    const send = (_: unknown, attempt: Attempt) => void Object.assign(attempt, wrong);
    for (const plugin of [{ send }, { send: async (...args: Parameters<typeof send>) => send(...args) }]) {
      const run = async () => chainOf({ mine: plugin }).send(startedExchange(), attempt());
      await t.rejects(run, { code: "plugin_failed", origin: "mine.send" });
    }
  }
  const fine = { path: "/v1/chat%20completions?a=\xe4", query: "" };
  await chainOf({ mine: { send: (_: unknown, attempt: Attempt) => void Object.assign(attempt, fine) } }).send(
    startedExchange(),
    attempt(),
  );
});

t.test("notices that are no texts are removed, and are the failure of the plugin that has left them", async (t) => {
  const one = startedExchange();
  const access = () => void one.notices.push("first", 5 as never, "last");
  t.throws(() => chainOf({ mine: { access } }).access(one), { code: "plugin_failed", origin: "mine.access" });
  t.same(one.notices, ["first", "last"]);
});
