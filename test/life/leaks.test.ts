import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { chunk } from "../support/chunk.ts";
import { openConnections } from "../support/descriptors.ts";
import { asking, KEY } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { each } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

/** Exchanges of all kinds together; the plan's own number is 10,000. */
const COUNT = Number(process.env["GATEWAY_TEST_EXCHANGES"] ?? 600);
const WIDTH = 16;
/** Timers and sockets of ended exchanges that may still be reachable, whatever their number. */
const KEPT = 20;

/** Tells what the gateway's process holds. */
const HOLDINGS = `
import { readdirSync } from "node:fs";
import { Socket } from "node:net";
import { queryObjects, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
const Timer = setTimeout(() => {}).constructor;
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");
export default class Holdings {
  async serve() {
    for (let i = 0; i < 4; i++) { collect(); await new Promise((next) => setImmediate(next)); }
    const resources = {};
    // Files that are being read, and what runs at the end of this turn, are gone by themselves.
    for (const name of process.getActiveResourcesInfo()) if (!/^FSReq|^Immediate$/.test(name)) resources[name] = (resources[name] ?? 0) + 1;
    const emitters = { process, stdout: process.stdout, stderr: process.stderr };
    const listeners = {};
    for (const [name, emitter] of Object.entries(emitters))
      for (const event of emitter.eventNames()) listeners[name + " " + String(event)] = emitter.listenerCount(event);
    const { heapUsed, external } = process.memoryUsage();
    const files = readdirSync("/proc/self/fd").length;
    // Timers that keep no process running are no active resources.
    const objects = { timers: queryObjects(Timer), sockets: queryObjects(Socket) };
    return { body: JSON.stringify({ resources, listeners, files, objects, heap: heapUsed + external }) };
  }
}`;

interface Holdings {
  resources: Record<string, number>;
  listeners: Record<string, number>;
  /** Open file descriptors. */
  files: number;
  /** Objects that are reachable. */
  objects: { timers: number; sockets: number };
  /** Bytes that are in use after a collection. */
  heap: number;
}

const SSE = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const JSON_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const event = (delta: object, reason: string | null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
const STREAM = [event({ content: "Hi" }, null), event({}, "stop"), "data: [DONE]\n\n"].map(chunk);
const WHOLE =
  '{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';

/** What providers do, by the model that is asked for. */
const PROVIDERS: Record<string, (socket: Socket) => unknown> = {
  whole: (socket) => socket.write(`${JSON_HEAD}content-length: ${WHOLE.length}\r\n\r\n${WHOLE}`),
  stream: (socket) => socket.write(`${SSE}${STREAM.join("")}0\r\n\r\n`),
  endless: (socket) => socket.write(SSE + STREAM[0]),
  silent: () => {},
  cut: (socket) => socket.end(SSE + STREAM[0]),
  reset: (socket) => socket.write(SSE + STREAM[0], () => setTimeout(() => socket.resetAndDestroy(), 5)),
  failing: (socket) => socket.write("HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}"),
  garbage: (socket) => socket.end("nonsense\r\n\r\n"),
};

interface Kind {
  path?: string;
  model?: string;
  headers?: Record<string, string>;
  body?: string;
  /** The client leaves: once there is an answer, or once the provider has been asked. */
  leaves?: "answered" | "asked";
  /** What its row says; undefined: there is none. */
  outcome: string | undefined;
}

const KINDS: Record<string, Kind> = {
  "a whole answer": { model: "whole", outcome: "completed" },
  "a stream": { model: "stream", outcome: "completed" },
  "a translated answer": { path: "/v1/messages", model: "whole", outcome: "completed" },
  "a translated stream": { path: "/v1/messages", model: "stream", outcome: "completed" },
  "a client that leaves a stream": { model: "endless", leaves: "answered", outcome: "aborted" },
  "one that leaves a translated stream": {
    path: "/v1/messages",
    model: "endless",
    leaves: "answered",
    outcome: "aborted",
  },
  "one that leaves before the head": { model: "silent", leaves: "asked", outcome: "aborted" },
  "a stream that is cut": { model: "cut", outcome: "upstream_error" },
  "a stream that is reset": { model: "reset", outcome: "upstream_error" },
  "a translated stream that is cut": { path: "/v1/messages", model: "cut", outcome: "upstream_error" },
  "a provider that fails": { model: "failing", outcome: "upstream_error" },
  "a provider that makes no sense": { model: "garbage", outcome: "upstream_error" },
  "a provider that is not there": { model: "absent", outcome: "upstream_error" },
  "a model that is not there": { model: "unknown", outcome: "rejected" },
  "a wrong key": { model: "whole", headers: { authorization: "Bearer wrong-key-0123456789" }, outcome: "rejected" },
  "a body that is no JSON": { body: '{"model":', outcome: "rejected" },
  "a path that is not there": { path: "/v1/nothing", outcome: undefined },
  "a path that passes": { path: "/v1/files", body: JSON.stringify("x".repeat(5000).split("")), outcome: "completed" },
  "an upload that is left": { path: "/left", body: '{"left":"', leaves: "asked", outcome: "aborted" },
};

/** Requests that a provider has been asked, by what stands in them, and who wants to know. */
const asked = new Map<string, () => void>();
let made = 0;

function ask(port: number, kind: Kind): Promise<void> {
  const { path = "/v1/chat/completions", model = "", headers = {}, leaves } = kind;
  const stream = !["whole", "failing"].includes(model);
  const mark = `mark-${++made}-`;
  const messages = [{ role: "user", content: mark }];
  const body = kind.body ?? JSON.stringify({ model, stream, max_tokens: 9, messages });
  const half = leaves !== undefined && kind.body !== undefined;
  const { promise, resolve } = Promise.withResolvers<void>();
  const options = {
    ...{ port, host: "127.0.0.1", method: "POST", agent: false },
    path: half ? `${path}/${mark}` : path,
    headers: asking({ ...headers, ...(half ? { "content-length": "100000" } : {}) }),
  };
  const sent = request(options, (answer) => {
    answer.resume().on("error", () => {});
    if (leaves === "answered") sent.destroy();
  });
  sent.on("error", () => {}).on("close", resolve);
  if (leaves === "asked") asked.set(mark, () => sent.destroy());
  if (half) sent.write(body);
  else sent.end(body);
  return promise;
}

/** A WebSocket that is opened, and left without a word. */
const socketLeft = (port: number): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.write(
      `GET /v1/realtime?model=voice HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
    );
    socket.once("data", () => socket.resetAndDestroy());
    socket.on("error", () => {}).on("close", () => resolve());
  });
const VOICE =
  "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n";

t.test("exchanges of all kinds leak nothing, and each has its row", { timeout: 600_000 }, async (t) => {
  const scripts = { ...PROVIDERS, voice: (socket: Socket) => socket.write(VOICE) };
  const upstreams = await Promise.all(
    Object.entries(scripts).map(async ([name, script]) => {
      const upstream = await rawUpstream(async (socket, { body, head }) => {
        // A body that never comes in full is not waited for.
        const text = / \/\S*mark-|upgrade/.test(head) ? head : String(await body);
        const [mark = ""] = /mark-\d+-/.exec(text) ?? [];
        asked.get(mark)?.();
        asked.delete(mark);
        script(socket);
      });
      return { name, upstream };
    }),
  );
  for (const { upstream } of upstreams) t.teardown(() => upstream.close());
  const gateway = await startProcess(
    t,
    `log: { level: error }
overload: { delay: off }
retry: { attempts: 0 }
health: { failures: 1000000, errors: "off" }
connections: { idle: 1s }
providers:
${upstreams.map(({ name, upstream }) => `  ${name}: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat], websocket: true }`).join("\n")}
  absent: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat] }
models:
${[...upstreams.map(({ name }) => name), "absent"].map((name) => `  ${name}: { targets: ["${name}:m"] }`).join("\n")}
paths: { /v1/files: { pass: whole }, "/left/*": { pass: silent }, /holdings: { serve: holdings, use: read } }
plugins: { holdings: { from: ./holdings.ts }, auth: { failures: 0 } }
`,
    { files: { "holdings.ts": HOLDINGS } },
  );
  const look = async (): Promise<Holdings> => {
    const response = await fetch(`${gateway.url}/holdings`, { headers: { ...asking(), connection: "close" } });
    return (await response.json()) as Holdings;
  };
  const kinds = Object.values(KINDS);
  const expected: Record<string, number> = {};
  let wrongKeys = 0;
  const round = async (count: number) => {
    const all = Array.from({ length: count }, (_, nth) => kinds[nth % (kinds.length + 1)]);
    for (const kind of all) {
      const outcome = kind ? kind.outcome : "aborted";
      if (outcome) expected[outcome] = (expected[outcome] ?? 0) + 1;
      if (kind === KINDS["a wrong key"]) wrongKeys++;
    }
    await each(all, (kind) => (kind ? ask(gateway.port, kind) : socketLeft(gateway.port)), WIDTH);
    const left = upstreams.filter(({ name }) => ["endless", "silent", "voice"].includes(name));
    await until(() => left.every(({ upstream }) => upstream.open === 0), "providers to hear who has left");
    // Kept connections to providers are no leak, but would be counted.
    for (const { upstream } of upstreams) upstream.cut();
    await until(() => upstreams.every(({ upstream }) => upstream.open === 0), "kept connections to end");
  };
  const quiet = async () => {
    await after(1500);
    await until(() => openConnections(gateway.port) === 0, "the kept connections of clients to end");
    return look();
  };
  await round(Math.max(100, COUNT / 10));
  const before = await quiet();
  await round(COUNT);
  const behind = await quiet();
  t.same(behind.listeners, before.listeners, "listeners");
  t.same(behind.resources, before.resources, "sockets and timers");
  t.equal(behind.files, before.files, "file descriptors");
  // A few are kept by caches, which are full after some hundred exchanges.
  for (const kind of ["timers", "sockets"] as const)
    t.ok(
      behind.objects[kind] <= before.objects[kind] + KEPT,
      `${kind}: ${before.objects[kind]} to ${behind.objects[kind]}`,
    );
  const growth = (behind.heap - before.heap) / COUNT;
  t.comment(
    `${COUNT} exchanges: heap ${(before.heap / 2 ** 20).toFixed(1)} to ${(behind.heap / 2 ** 20).toFixed(1)} MiB`,
  );
  // What is kept of each exchange would be more; code and caches that fill up are not.
  if (COUNT >= 5000) t.ok(growth < 500, `${growth.toFixed(0)} bytes for each exchange`);
  t.equal(await gateway.end(), 0);
  const { outcomes, twice } = gateway.ledger();
  // Of wrong keys, the first hundred a minute have a row.
  const without = Math.max(0, wrongKeys - 100);
  const { rejected = 0 } = outcomes;
  t.ok(
    rejected <= (expected["rejected"] ?? 0) && rejected >= (expected["rejected"] ?? 0) - without,
    `${rejected} rejected`,
  );
  t.same({ ...outcomes, twice }, { ...expected, rejected, twice: 0 }, "one row each");
});
