import type { ServerResponse } from "node:http";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import openaiResponses from "../../../plugins/protocols/openai-responses/index.ts";
import { DeliveredTokens } from "../../../plugins/usage/delivered-tokens.ts";
import { deliveredOutput } from "../../../plugins/usage/settlement.ts";
import { UnseenReasoning } from "../../../plugins/usage/unseen-reasoning.ts";
import type { UsageReading } from "../../../plugins/usage/usage-reading.ts";
import type { DoneExchange } from "../../../src/core/phases.ts";
import { Frame } from "../../../src/wire/frame.ts";
import { startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

const event = (json: object) => `data: ${JSON.stringify(json)}\n\n`;
const piece = (delta: object) => event({ id: "c", choices: [{ index: 0, delta }] });
const TEXT = Array.from({ length: 40 }, () => piece({ content: " word" })).join("");
const TOKENS = 40;
const ONE = "one-key-0123456789abcdef";
const OTHER = "other-key-0123456789abcdef";

interface Answer {
  /** Milliseconds before the text, and for it. */
  times?: readonly [before: number, text: number];
  /** The tokens of reasoning that the provider reports at the end; undefined: the stream breaks off. */
  reasoning?: number;
  /** What comes before that. */
  text?: string;
  whole?: boolean;
}

const usageOf = (reasoning: number) => ({
  prompt_tokens: 5,
  completion_tokens: 40 + reasoning,
  completion_tokens_details: { reasoning_tokens: reasoning },
});

/** Writes the pieces of a text at one pace, and then breaks off. */
async function writeSlowly(reply: ServerResponse, text: string, before: number, time: number): Promise<void> {
  const pieces = text.split(/(?<=\n\n)/);
  await after(before);
  for (const each of pieces) {
    reply.write(each);
    await after(time / pieces.length);
  }
  reply.destroy();
}

/** A provider whose next answers are these, and what the ledger has for each. */
async function start(t: Test) {
  const next: Answer[] = [];
  const upstream = await httpUpstream((_, reply) => {
    const { reasoning, text = TEXT, whole, times } = next.shift() as Answer;
    reply.writeHead(200, { "content-type": whole ? "application/json" : "text/event-stream" });
    const usage = reasoning === undefined ? undefined : usageOf(reasoning);
    if (times) return void writeSlowly(reply, text, ...times);
    if (whole) reply.end(JSON.stringify({ choices: [{ index: 0, message: { content: text } }], usage }));
    else if (usage) reply.end(`${text}${event({ id: "c", choices: [], usage })}data: [DONE]\n\n`);
    else reply.write(text, () => setTimeout(() => reply.destroy(), 50));
  });
  t.teardown(() => upstream.close());
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { price: { input: 0, output: 1 }, targets: [up:x] }, n: { price: { input: 0, output: 1 }, targets: [up:y] } }
keys: { one: { key: ${ONE} }, other: { key: ${OTHER} } }
`,
  );
  return async (
    answer: Answer,
    { key = ONE, path = "/v1/chat/completions", ...request } = {} as Record<string, string>,
  ) => {
    next.push(answer);
    const body = { model: "m", stream: answer.whole !== true, max_tokens: 9000, ...request };
    const response = await fetch(url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "x" }], ...body }),
    });
    await response.text().catch(() => {});
    await gateway.stores.ledger.flush();
    const [found] = await gateway.stores.ledger.recent(1);
    const { total, reasoning = 0 } = found?.usage?.out ?? {};
    return { source: found?.source, total, reasoning };
  };
}

t.test("reasoning of which a stream tells nothing counts as usual, where the stream breaks off", async (t) => {
  const ask = await start(t);
  t.same(await ask({}), { source: "estimated", total: TOKENS, reasoning: 0 }, "nothing is known yet");
  await ask({ reasoning: 300 });
  await ask({ reasoning: 500, whole: true });
  await ask({ reasoning: 0 });
  const usual = Math.round((300 + 500 + 0) / 3);
  const expected = { source: "estimated", total: TOKENS + usual, reasoning: usual };
  t.same(await ask({}), expected);
  t.same(await ask({}, { path: "/v1/messages" }), expected, "to a client of another protocol");
  t.same(await ask({}), expected, "an estimate is not learned from");
  t.same(await ask({}, { model: "n" }), { source: "estimated", total: TOKENS, reasoning: 0 }, "another target");
  t.same(
    await ask({}, { max_tokens: 200 } as never),
    { source: "estimated", total: 200, reasoning: 200 },
    "no more than allowed",
  );
});

t.test("where the text's pace is known, the time before it tells how much a model has reasoned", async (t) => {
  const ask = await start(t);
  const times = [1500, 800] as const;
  const high = { reasoning_effort: "high" };
  // 50 tokens, of which a busy machine makes more.
  const isByTime = ({ reasoning }: { reasoning: number }) => reasoning > 0 && reasoning < 3000;
  t.ok(isByTime(await ask({ times }, high)), "nothing else is known yet, but the request asks for it");
  t.equal((await ask({ times })).reasoning, 0, "a model that may not reason");
  await ask({ reasoning: 7000 });
  t.ok(isByTime(await ask({ times })));
  t.equal((await ask({})).reasoning, 7000, "a text that comes at once tells no pace");
  await ask({ reasoning: 0 }, { reasoning_effort: "none" });
  t.equal((await ask({ times }, { reasoning_effort: "none" })).reasoning, 0, "nothing was reasoned");
});

t.test("a key pays for what its own answers usually reason, or else those of all", async (t) => {
  const ask = await start(t);
  await ask({ reasoning: 1000 });
  t.equal((await ask({}, { key: OTHER })).reasoning, 1000, "nothing is known of it");
  await ask({ reasoning: 10 }, { key: OTHER });
  t.equal((await ask({}, { key: OTHER })).reasoning, 10);
  t.equal((await ask({})).reasoning, 1000);
});

t.test("only answers at the effort of the request tell how much it reasons", async (t) => {
  const ask = await start(t);
  const none = { reasoning_effort: "none" };
  await ask({ reasoning: 4000 });
  await ask({ reasoning: 0 }, none);
  t.equal((await ask({}, none)).reasoning, 0);
  t.equal((await ask({})).reasoning, 4000);
  await ask({ reasoning: 100 }, { reasoning_effort: "low" });
  t.equal((await ask({}, { reasoning_effort: "low" })).reasoning, 100);
  t.equal((await ask({}, { reasoning_effort: "made-up" })).reasoning, 4000, "others count as the usual one");
});

t.test("nothing is added to a stream that has no text yet, or shows its reasoning", async (t) => {
  const ask = await start(t);
  await ask({ reasoning: 1000 });
  t.equal((await ask({ text: piece({ role: "assistant", content: "" }) })).total, 0);
  const shown = piece({ reasoning_content: "One, two, three, four." });
  t.ok(((await ask({ text: shown + TEXT })).total ?? 0) < 100);
  await ask({ reasoning: 9000, text: shown + TEXT });
  t.equal((await ask({})).reasoning, 1000, "nor is shown reasoning learned from");
});

/** What has been learned from answers at one target. */
function learning() {
  const unseen = new UnseenReasoning();
  const target = { provider: { name: "up" }, model: "x" };
  const answer = (id: string, reasoning = 0) =>
    ({
      attempt: { target },
      operation: { task: "generate" },
      caller: { id },
      usage: { out: { total: 1000, reasoning } },
    }) as unknown as DoneExchange;
  const reading = { delivered: { unseenParts: 1 } } as unknown as UsageReading;
  const usual = { effort: undefined };
  return {
    learn: (id: string, reasoning: number) => unseen.learn(answer(id, reasoning), reading, usual),
    expected: (id: string) => Math.round(unseen.expected(answer(id), usual) ?? 0),
  };
}

/** What a stream of Responses has delivered: reasoning of which only the end is told, and perhaps a text. */
function responsesStream(parts: number, ...deltas: string[]): DeliveredTokens {
  const delivered = new DeliveredTokens(openaiResponses);
  const done = { type: "response.output_item.done", item: { type: "reasoning", id: "rs_1", summary: [] } };
  const events: object[] = [
    { type: "response.created", response: { id: "resp_1", reasoning: { effort: "medium" } } },
    ...Array<object>(parts).fill(done),
    ...deltas.map((delta) => ({ type: "response.output_text.delta", item_id: "m", output_index: 9, delta })),
  ];
  for (const each of events) delivered.observe(new Frame("event", Buffer.from(event(each))));
  return delivered;
}

t.test("reasoning of which only the end is told counts as the mean of such parts, once that is known", async (t) => {
  const unseen = new UnseenReasoning();
  const attempt = { target: { provider: { name: "up" }, model: "x" }, protocol: openaiResponses };
  const answer = (reasoning: number) =>
    ({
      ...{ attempt, operation: { task: "generate" }, caller: { id: "one" } },
      usage: { in: {}, out: { total: 5000, reasoning } },
    }) as unknown as DoneExchange;
  const asked = { effort: "medium" };
  const reasoningOf = (delivered: DeliveredTokens) =>
    deliveredOutput({}, delivered, unseen.expected(answer(0), asked)).reasoning;
  t.equal(reasoningOf(responsesStream(2, "Hello")), 800, "nothing is known yet");
  unseen.learn(answer(600), { delivered: responsesStream(2, "Hello") }, asked);
  t.equal(reasoningOf(responsesStream(2, "Hello")), 600);
  t.equal(reasoningOf(responsesStream(1, "Hello")), 300);
  t.equal(reasoningOf(responsesStream(3)), 900, "before any output");
  t.equal(reasoningOf(responsesStream(0, "Hello")), 300, "without an item");
  t.equal(reasoningOf(responsesStream(0)), undefined);
});

t.test("the mean follows the newer answers", async (t) => {
  const { learn, expected } = learning();
  const after = (times: number, reasoning: number) => {
    for (let i = 0; i < times; i++) learn("one", reasoning);
    return expected("one");
  };
  t.equal(after(1, 1000), 1000);
  t.equal(after(1, 0), 500);
  t.equal(after(58, 0), 16);
  t.ok(after(50, 1000) > 600, "not the mean of all, which is 464");
});

t.test("of thousands of keys those that ask no more are forgotten, and count as all", async (t) => {
  const { learn, expected } = learning();
  learn("first", 5000);
  for (let i = 0; i < 3000; i++) learn(`key ${i}`, 10);
  t.equal(expected("first"), 5000);
  for (let i = 3000; i < 5000; i++) learn(`key ${i}`, 10);
  t.equal(expected("first"), 10);
  t.equal(expected("key 4999"), 10);
});
