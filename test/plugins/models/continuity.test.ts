import t, { type Test } from "tap";
import { orderByPin, preferPrevious } from "../../../plugins/models/continuity.ts";
import type { Log } from "../../../src/core/log.ts";
import type { Target } from "../../../src/core/marketplace.ts";
import { Health } from "../../../src/upstream/health.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

const target = (name: string, weight = 1): Target => ({ provider: { name } as Target["provider"], model: "m", weight });
const names = (targets: readonly Target[]) => targets.map(({ provider }) => provider.name).join("");

t.test("pins spread over targets by their weights", async (t) => {
  const targets = [target("a", 3), target("b", 1)];
  let first = 0;
  for (let i = 0; i < 4000; i++) if (names(orderByPin(targets, `pin ${i}`)).startsWith("a")) first++;
  // Five standard deviations.
  t.ok(Math.abs(first - 3000) < 140, `${first} of 4000 at three quarters`);
});

t.test(
  "the order of targets in the file does not affect a pin, and a removed one moves its own pins only",
  async (t) => {
    const all = [target("a"), target("b", 2), target("c")];
    for (let i = 0; i < 500; i++) {
      const order = names(orderByPin(all, `${i}`));
      t.equal(names(orderByPin(all.toReversed(), `${i}`)), order);
      const left = all.filter(({ provider }) => provider.name !== "a");
      t.equal(names(orderByPin(left, `${i}`)), order.replace("a", ""));
    }
  },
);

t.test("a choice made by load is kept, until its target is gone", async (t) => {
  const [a, b] = [target("a"), target("b")];
  const health = new Health(0.5, {} as Log);
  t.equal(names(preferPrevious([a, b], "one", health)), "ab");
  t.equal(names(preferPrevious([b, a], "one", health)), "ab");
  t.equal(names(preferPrevious([b, a], "two", health)), "ba");
  t.equal(names(preferPrevious([b], "one", health)), "b");
  t.equal(names(preferPrevious([a, b], "one", health)), "ba", "and it stays there");
  const next = new Health(0.5, {} as Log, undefined, health);
  t.equal(names(preferPrevious([a, b], "one", next)), "ba", "also after a reload");
});

async function twoTargets(t: Test) {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: [openai-responses, anthropic-messages, openai-chat, gemini] } }
models: { m: { targets: [{ to: up:a, weight: 1 }, { to: up:b, weight: 1 }] } }
`,
  );
  /** Which of the two served a request. */
  return async (path: string, headers: Record<string, string>, more = "") => {
    const answer = await fetch(url + path, { method: "POST", headers: asking(headers), body: `{"model":"m"${more}}` });
    await answer.text();
    const { url: asked = "", body } = upstream.seen.at(-1) ?? {};
    return /models\/(\w)/.exec(asked)?.[1] ?? (JSON.parse(String(body)) as { model: string }).model;
  };
}

const ask = await twoTargets(t);

/** Two requests of one conversation that have nothing but this in common. */
const PINS: Record<
  string,
  (name: string, turn: number) => [path: string, headers: Record<string, string>, body?: string]
> = {
  "a header of Claude Code": (name) => ["/v1/messages", { "x-claude-code-session-id": name }],
  "metadata.user_id": (name) => ["/v1/messages", {}, `,"metadata":{"user_id":"{\\"session_id\\":\\"${name}\\"}"}`],
  "a header of Codex": (name) => ["/v1/responses", { session_id: name }],
  "an affinity header": (name) => ["/v1/responses", { "x-session-affinity": name }],
  "a session header beside contents": (name) => ["/v1beta/models/m:generateContent", { "x-session-id": name }],
  prompt_cache_key: (name, turn) => ["/v1/responses", {}, `,"prompt_cache_key":"${name}","input":"${turn}"`],
  "first words as a string, and as parts": (name, turn) => [
    "/v1/messages",
    {},
    `,"messages":[{"role":"user","content":${turn === 0 ? `"${name}"` : `[{"type":"text","text":"${name}","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"x"`}}]`,
  ],
  "a document that is marked for the cache, with other questions": (name, turn) => [
    "/v1/messages",
    {},
    `,"messages":[{"role":"user","content":[{"type":"text","text":"${name}","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Question ${turn}"}]}]`,
  ],
  "a marked document in Chat": (name, turn) => [
    "/v1/chat/completions",
    {},
    `,"messages":[{"role":"user","content":[{"type":"text","text":"${name}","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Question ${turn}"}]}]`,
  ],
  "first words behind other instructions": (name, turn) => [
    "/v1/chat/completions",
    {},
    `,"messages":[{"role":"system","content":"It is ${turn} o'clock."},{"role":"user","content":"${name}"}]`,
  ],
  "an input that is a text": (name, turn) => [
    "/v1/responses",
    {},
    `,"instructions":"${turn}","input":${turn === 0 ? `"${name}"` : `[{"role":"developer","content":"x"},{"role":"user","content":"${name}"}]`}`,
  ],
};

for (const [way, pin] of Object.entries(PINS)) {
  t.test(`requests of one conversation by ${way} go to one target, other conversations to others`, async (t) => {
    const served = new Set<string>();
    for (let i = 0; i < 24; i++) {
      const first = await ask(...pin(`conversation ${i}`, 0));
      served.add(first);
      t.equal(await ask(...pin(`conversation ${i}`, 1)), first);
    }
    t.same([...served].sort(), ["a", "b"]);
  });
}

t.test("a request without anything to identify its conversation has none, which is no error", async (t) => {
  for (const metadata of ["null", "7", '"text"', "[]", '{"user_id":7}', '{"user_id":""}'])
    t.match(await ask("/v1/messages", {}, `,"metadata":${metadata}`), /^[ab]$/, metadata);
  for (const messages of [
    "null",
    "7",
    '""',
    "[]",
    "[7]",
    "[[]]",
    '[{"role":"user"}]',
    '[{"role":"user","content":[{}]}]',
  ])
    t.match(await ask("/v1/messages", {}, `,"messages":${messages}`), /^[ab]$/, messages);
});

t.test("a conversation that is balanced by latency keeps its target beside a fallback that is too", async (t) => {
  const upstream = await httpUpstream((_, reply) => {
    setTimeout(() => reply.writeHead(200, { "content-type": "application/json" }).end("{}"), Math.random() * 10);
  });
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { balance: latency, targets: [up:a, up:b], fallback: [f] }, f: { balance: latency, targets: [up:c, up:d] } }
`,
  );
  const served = new Map<string, Set<string>>();
  for (let i = 0; i < 60; i++) {
    const name = `conversation ${i % 12}`;
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: name }] });
    await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body })).text();
    const { model } = JSON.parse(String(upstream.seen.at(-1)?.body)) as { model: string };
    served.set(name, (served.get(name) ?? new Set()).add(model));
  }
  t.same(
    [...served.values()].map(({ size }) => size),
    Array(12).fill(1),
  );
});
