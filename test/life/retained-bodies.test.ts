import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import t, { type Test } from "tap";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const MIB = 1024 * 1024;
const KEYS = ["one", "two", "three", "four"].map((name) => `key-${name}-0123456789abcdef`);
const event = (content: string, reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta: { content }, finish_reason: reason }] })}\n\n`;
const PATHS: Record<string, string> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
  gemini: "/v1beta/models/m:streamGenerateContent?alt=sse",
};

/** Keeps weak references to what a translated attempt sends, and the exchanges. */
const PROBE = `
import type { Attempt, SendExchange } from "model-gateway";
export default class Probe {
  send(exchange: SendExchange, attempt: Attempt) {
    (globalThis as never as { probed: unknown[] }).probed.push({ exchange: new WeakRef(exchange), body: new WeakRef(attempt.body), bytes: new WeakRef(attempt.body.bytes()) });
  }
}`;

interface Probed {
  exchange: WeakRef<{ body: { length: number }; slots: Map<unknown, unknown> }>;
  body: WeakRef<object>;
  bytes: WeakRef<object>;
}

/** A gateway with room for two large bodies of one key, and a provider whose streams go on until \`finish\`. */
async function setUp(t: Test) {
  const probed: Probed[] = [];
  Reflect.set(globalThis, "probed", probed);
  const waiting: { end(text: string): unknown }[] = [];
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" }).write(event("Hi"));
    waiting.push(reply);
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `body: { limit: 3MiB, memory: 8MiB, memory_per_key: 4MiB }
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }
plugins: { probe: { from: ./probe.ts } }
chains: { llm: [sse, auth, models, rewrite, probe, usage] }
keys: { ${KEYS.map((key, i) => `k${i}: { key: ${key} }`).join(", ")} }
`,
    { "probe.ts": PROBE },
  );
  const ask = async (key: number, kind: string, text: string) => {
    const headers = { authorization: `Bearer ${KEYS[key]}`, "content-type": "application/json" };
    const body =
      kind === "gemini"
        ? { contents: [{ role: "user", parts: [{ text }] }] }
        : {
            ...{ model: "m", stream: true },
            ...(kind === "responses"
              ? { input: text }
              : { max_tokens: 9, messages: [{ role: "user", content: text }] }),
          };
    return fetch(`${running.url}${PATHS[kind]}`, { method: "POST", headers, body: JSON.stringify(body) });
  };
  const finish = () => {
    for (const reply of waiting.splice(0)) reply.end(`${event("", "stop")}data: [DONE]\n\n`);
  };
  const memory = running.gateway.generation.bodies;
  return { ask, finish, memory, probed, running };
}

/** Reports whether none of these exist after some garbage collections. */
async function areGone(...refs: WeakRef<object>[]): Promise<boolean> {
  for (let i = 0; i < 50; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    if (refs.every((ref) => ref.deref() === undefined)) return true;
  }
  return false;
}

const LARGE = "a ".repeat(MIB - 1000);

t.test("large bodies of running streams have a bound, for a key and in all; what is small always passes", async (t) => {
  const { ask, finish, memory } = await setUp(t);
  const kinds = Object.keys(PATHS);
  for (const kind of kinds) {
    const streams = [];
    for (const key of [0, 0, 1, 2]) streams.push(await ask(key, kind, LARGE));
    t.same(
      streams.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    for (const key of [0, 1, 3]) {
      const refused = await ask(key, kind, LARGE);
      t.equal(refused.status, 503, `${kind}, key ${key}`);
      t.match(refused.headers.get("retry-after"), /^\d+$/);
      if (refused.status === 503) t.match(await refused.text(), /large requests that are being answered/);
    }
    const small = await ask(0, kind, "hi");
    t.equal(small.status, 200);
    finish();
    for (const stream of [...streams, small]) await stream.text();
    await until(() => memory.size === 0, "the end of the exchanges");
  }
});

t.test("a translated stream keeps nothing of its request but the client's body", async (t) => {
  const { ask, finish, probed } = await setUp(t);
  for (const kind of ["messages", "responses", "gemini"]) {
    const stream = await ask(0, kind, LARGE);
    t.equal(stream.status, 200);
    const reader = stream.body?.getReader();
    await reader?.read();
    const { exchange, body, bytes } = probed.at(-1) as Probed;
    t.ok(await areGone(body, bytes), `${kind}: the body that was sent`);
    const { body: kept, slots } = exchange.deref() ?? { body: { length: 0 }, slots: new Map() };
    t.ok(kept.length > LARGE.length, "the client's body can be read");
    const state = [...slots.values()].find((each) => (each as { translation?: object }).translation);
    t.equal(Reflect.get((state as { translation: object }).translation, "decoded"), undefined);
    finish();
    while (!(await reader?.read())?.done);
  }
});

t.test("a translated stream that breaks off is estimated from what its request was", async (t) => {
  const { ask, running } = await setUp(t);
  const stream = await ask(0, "messages", LARGE);
  await stream.body?.cancel();
  const ended = () => running.log.lines.find(({ message }) => message === "exchange")?.fields;
  await until(() => ended() !== undefined, "the end of the exchange");
  const { outcome, estimated, tokens_in } = ended() ?? {};
  t.match({ outcome, estimated }, { outcome: "aborted", estimated: true });
  t.ok(Number(tokens_in) > MIB / 2, "a word of two letters is about a token");
});

t.test("an idle connection keeps nothing of its last request", async (t) => {
  const { ask, finish, probed } = await setUp(t);
  for (const kind of ["chat", "messages"]) {
    const stream = await ask(0, kind, LARGE);
    finish();
    await stream.text();
    t.ok(await areGone((probed.at(-1) as Probed).exchange), kind);
  }
});
