import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { ProviderSlots } from "../../src/upstream/provider-slots.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { providerOf } from "../support/provider.ts";
import { open, socketUpstream } from "../support/sockets.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** A provider that holds every request until `go` is called once for it, and knows how many it had at a time. */
async function holding(t: Test) {
  const held: (() => void)[] = [];
  const state = { most: 0, running: 0 };
  const upstream = await httpUpstream((_, reply) => {
    state.most = Math.max(state.most, ++state.running);
    reply.on("close", () => state.running--);
    held.push(() => reply.setHeader("content-type", "application/json").end("{}"));
  });
  t.teardown(() => upstream.close());
  return { upstream, state, held, go: () => held.shift()?.() };
}

const SPEAKS = "[openai-chat, openai-responses, anthropic-messages, gemini]";
const ASK = {
  "openai-chat": ["/v1/chat/completions", '{"model":"m","messages":[]}'],
  "openai-responses": ["/v1/responses", '{"model":"m","input":"x"}'],
  "anthropic-messages": ["/v1/messages", '{"model":"m","max_tokens":1,"messages":[]}'],
  gemini: ["/v1beta/models/m:generateContent", '{"contents":[]}'],
} as const;

const post = ({ url }: Running, [path, body]: readonly [string, string], signal?: AbortSignal) =>
  fetch(url + path, { method: "POST", headers: asking(), body, ...(signal ? { signal } : {}) });
const chat = (running: Running, signal?: AbortSignal) => post(running, ASK["openai-chat"], signal);

/** A gateway whose model has these origins as targets, the first one best. */
const gateway = (t: Test, origins: readonly string[], more = "", each = "concurrency: 2") =>
  startGateway(
    t,
    `providers:\n${origins.map((origin, i) => `  p${i}: { url: "${origin}/v1", speaks: ${SPEAKS}, ${each} }\n`).join("")}models: { m: { targets: [${origins.map((_, i) => `{ to: "p${i}:x", weight: ${1e9 ** (1 - i)} }`).join(", ")}] } }\n${more}`,
  );

t.test("a full provider leads to the next target; where all are full a request waits for the first", async (t) => {
  const [one, two] = [await holding(t), await holding(t)];
  const running = await gateway(t, [one.upstream.origin.origin, two.upstream.origin.origin]);
  const asked = Array.from({ length: 7 }, () => chat(running));
  await until(() => one.held.length === 2 && two.held.length === 2);
  for (let i = 0; i < 7; i++) {
    one.go();
    two.go();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  for (const answer of await Promise.all(asked)) t.equal(answer.status, 200);
  t.same([one.state.most, two.state.most], [2, 2]);
  t.equal(one.upstream.seen.length + two.upstream.seen.length, 7);
});

t.test("a request for a full provider waits for it rather than going to one that is suspended", async (t) => {
  const one = await holding(t);
  const dead = await httpUpstream((_, reply) => reply.writeHead(500).end());
  t.teardown(() => dead.close());
  const each = "concurrency: 1, health: { failures: 1, open: 10m, longest: 10m }";
  const running = await gateway(t, [one.upstream.origin.origin, dead.origin.origin], "", each);
  const first = [chat(running), chat(running)];
  await until(() => dead.seen.length === 1, "the failure that suspends it");
  const asked = [...first, chat(running)];
  for (let i = 0; i < 3; i++) {
    await until(() => one.held.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    one.go();
  }
  for (const answer of await Promise.all(asked)) t.equal(answer.status, 200);
  t.equal(dead.seen.length, 1);
});

t.test(
  "a request that waits too long gets an error in its protocol, with the provider's name and when to retry",
  async (t) => {
    const one = await holding(t);
    const running = await gateway(t, [one.upstream.origin.origin], "overload: { wait: 50ms, delay: off }\n");
    const first = [chat(running), chat(running)];
    await until(() => one.held.length === 2);
    for (const [protocol, ask] of Object.entries(ASK)) {
      const answer = await post(running, ask);
      t.equal(answer.status, 503, protocol);
      t.ok(answer.headers.has("retry-after"), protocol);
      t.match(await answer.json(), { error: { message: /^The provider p0 has as many requests/ } }, protocol);
    }
    one.go();
    one.go();
    for (const answer of await Promise.all(first)) t.equal(answer.status, 200);
    t.equal(one.upstream.seen.length, 2);
    const late = chat(running);
    await until(() => one.held.length === 1);
    one.go();
    t.equal((await late).status, 200, "there is room again");
  },
);

t.test("a client that disconnects while it waits takes no slot", async (t) => {
  const one = await holding(t);
  const running = await gateway(t, [one.upstream.origin.origin], "", "concurrency: 1");
  const first = chat(running);
  await until(() => one.held.length === 1);
  const leaving = new AbortController();
  const gone = chat(running, leaving.signal).catch(() => "gone");
  await until(() => running.gateway.exchanges.length === 2, "the second request");
  await new Promise((resolve) => setTimeout(resolve, 50));
  leaving.abort();
  t.equal(await gone, "gone");
  await until(() => running.log.lines.some(({ fields }) => fields["outcome"] === "aborted"));
  one.go();
  t.equal((await first).status, 200);
  const next = chat(running);
  await until(() => one.held.length === 1);
  one.go();
  t.equal((await next).status, 200);
  t.equal(one.upstream.seen.length, 2);
});

t.test("a slot is released however an attempt ends", async (t) => {
  let answer = "200";
  const upstream = await httpUpstream((_, reply) => {
    if (answer === "reset") return reply.destroy();
    if (answer === "silence") return;
    if (answer === "cut")
      return reply.writeHead(200, { "content-length": 9 }).write("{}", () => setTimeout(() => reply.destroy(), 20));
    if (answer === "error first")
      return reply.writeHead(200, { "content-type": "text/event-stream" }).end('data: {"error":{"message":"no"}}\n\n');
    return reply.writeHead(Number(answer), { "content-type": "application/json" }).end("{}");
  });
  t.teardown(() => upstream.close());
  const each = "concurrency: 1, timeouts: { first_byte: 100ms }";
  const running = await gateway(t, [upstream.origin.origin, "http://127.0.0.1:1"], "", each);
  for (const end of ["200", "400", "401", "429", "500", "504", "reset", "silence", "cut", "error first"]) {
    answer = end;
    const told = await chat(running);
    await told.text().catch(() => "");
    t.ok(running.gateway.generation.upstreams.slots.hasFree({ ...providerOf(), name: "p0", concurrency: 1 }), end);
    t.ok(running.gateway.generation.upstreams.slots.hasFree({ ...providerOf(), name: "p1", concurrency: 1 }), end);
  }
  answer = "200";
  t.equal((await chat(running)).status, 200);
});

t.test("a client that disconnects in the middle of its answer releases its slot", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "text/event-stream" }).write('data: {"choices":[]}\n\n'),
  );
  t.teardown(() => upstream.close());
  const running = await gateway(t, [upstream.origin.origin], "", "concurrency: 1");
  const { slots } = running.gateway.generation.upstreams;
  const provider = { ...providerOf(), name: "p0", concurrency: 1 };
  for (let i = 0; i < 3; i++) {
    const leaving = new AbortController();
    t.equal((await chat(running, leaving.signal)).status, 200);
    t.notOk(slots.hasFree(provider));
    leaving.abort();
    await until(() => slots.hasFree(provider));
  }
});

t.test("pass-through requests and WebSockets take slots too", async (t) => {
  const one = await holding(t);
  const more = "overload: { wait: 50ms, delay: off }\npaths: { /vendors/one/*: { pass: p0, open: true } }\n";
  const running = await gateway(t, [one.upstream.origin.origin], more, "concurrency: 1");
  const list = () => fetch(`${running.url}/vendors/one/x`, { headers: asking() });
  const first = list();
  await until(() => one.held.length === 1);
  const refused = await list();
  t.same([refused.status, (await chat(running)).status], [503, 503]);
  t.match(await refused.json(), { error: { message: /^The provider p0 has/ } });
  one.go();
  t.equal((await first).status, 200);
  const second = list();
  await until(() => one.held.length === 1);
  one.go();
  t.equal((await second).status, 200);

  const sockets = await socketUpstream(t);
  const talking = await startGateway(
    t,
    `providers: { a: { url: "http://127.0.0.1:${sockets.port}/v1", speaks: [openai-chat], websocket: true, concurrency: 1 } }
models: { m: { targets: [a:x] } }
overload: { wait: 50ms, delay: off }
paths: { /v1/realtime: { protocol: openai-realtime }, /v1/sockets/*: { pass: a, open: true } }
`,
  );
  const connect = (path: string) => open(`ws://127.0.0.1:${talking.port}${path}`, [], { "x-api-key": KEY });
  for (const path of ["/v1/realtime?model=m", "/v1/sockets/any"]) {
    const { socket, closed } = await connect(path);
    await t.rejects(connect("/v1/realtime?model=m"), /^503 .*The provider a has/, path);
    await t.rejects(connect("/v1/sockets/any"), /^503 .*The provider a has/, path);
    socket.close();
    await closed;
    await until(() =>
      talking.gateway.generation.upstreams.slots.hasFree({ ...providerOf(), name: "a", concurrency: 1 }),
    );
  }
  t.equal(sockets.handshakes.length, 2);
});

t.test("a request whose client has left meanwhile is not sent, and keeps no slot", async (t) => {
  const { gateway: served } = await gateway(t, ["http://127.0.0.1:9"], "", "concurrency: 1");
  const { upstreams } = served.generation;
  const provider = { ...providerOf(), name: "p0", concurrency: 1 };
  const attempt = { target: { provider } } as never;
  const left = { isBrokenOff: true, address: "::1", onAbort: () => () => {} } as never;
  await t.rejects(upstreams.dispatch(left, attempt), { code: "client_gone" });
  t.ok(upstreams.slots.hasFree(provider));
});

t.test("each of several processes has its share, and no request waits for longer than its timeout", async (t) => {
  const provider = { ...providerOf(), concurrency: 5, timeouts: { connect: 0, first_byte: 0, idle: 0, total: 30 } };
  const places = new ProviderSlots({ queue: 10, wait: 60_000 }, 2);
  const seeker = { address: "10.0.0.1", onAbort: () => () => {} };
  for (let i = 0; i < 3; i++) t.notOk(places.acquire(provider, seeker) instanceof Promise);
  t.notOk(places.hasFree(provider));
  const awake = setTimeout(() => {}, 10_000);
  await t.rejects(async () => places.acquire(provider, seeker), { code: "overloaded" });
  clearTimeout(awake);
  t.ok(places.hasFree({ ...provider, name: "another" }), "each provider separately");
});

t.test("a request whose time ends while it waits for its next target is not sent there", async (t) => {
  const failing: (() => void)[] = [];
  const first = await httpUpstream((_, reply) => void failing.push(() => reply.writeHead(503).end("{}")));
  t.teardown(() => first.close());
  const full = await holding(t);
  const running = await startGateway(
    t,
    `timeouts: { total: 900ms }
providers:
  p0: { url: "${first.origin.origin}/v1", speaks: ${SPEAKS} }
  p1: { url: "${full.upstream.origin.origin}/v1", speaks: ${SPEAKS}, concurrency: 1 }
models: { m: { targets: [{ to: "p0:x", weight: 1000000000 }, "p1:x"] }, other: { targets: ["p1:x"] } }
overload: { wait: 10s, delay: off }
`,
  );
  const waiting = chat(running);
  await until(() => failing.length === 1);
  // Its time ends later than that of the request that waits for it.
  await new Promise((resolve) => setTimeout(resolve, 150));
  const occupying = post(running, ["/v1/chat/completions", '{"model":"other","messages":[]}']);
  await until(() => full.held.length === 1);
  failing[0]?.();
  t.equal((await occupying).status, 504);
  t.equal((await waiting).status, 504);
  t.equal(full.upstream.seen.length, 1);
  const { ledger } = running.gateway.stores;
  await ledger.flush();
  const attempts = (await ledger.recent(2)).map((row) => row.attempts.map(({ status }) => status));
  t.same(attempts.map(String).sort(), ["", "503"], "one attempt each");
  const next = post(running, ["/v1/chat/completions", '{"model":"other","messages":[]}']);
  await until(() => full.held.length === 2, "the next request, which finds a free slot");
  full.held.at(-1)?.();
  await next;
});

t.test("a reload keeps the slots of a provider that was not in use when it was prepared", async (t) => {
  const one = await holding(t);
  const more = "overload: { wait: 50ms, delay: off }\n";
  const running = await gateway(t, [one.upstream.origin.origin], more, "concurrency: 1");
  const file = join(running.folder, "gateway.yaml");
  writeFileSync(file, `${readFileSync(file, "utf8")}log: { level: warn }\n`);
  const prepared = await running.gateway.prepare();
  const first = chat(running);
  await until(() => one.held.length === 1);
  t.equal(running.gateway.adopt(prepared).changes.length, 1);
  t.equal((await chat(running)).status, 503);
  one.go();
  t.equal((await first).status, 200);
  const second = chat(running);
  await until(() => one.held.length === 1);
  one.go();
  t.equal((await second).status, 200);
});
