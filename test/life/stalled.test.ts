import { readFileSync } from "node:fs";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { asking, KEY } from "../support/key.ts";
import { type GatewayProcess, START_ENV, START_FLAGS, startProcess } from "../support/process.ts";
import { post } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

/** Readers that stall, MiB of one event, and events of nothing; the plan's own numbers are 500, 1024 and 1,000,000. */
const READERS = Number(process.env["GATEWAY_TEST_STALLED"] ?? 40);
const EVENT = Number(process.env["GATEWAY_TEST_EVENT_MIB"] ?? 32) * 2 ** 20;
const EVENTS = Number(process.env["GATEWAY_TEST_EMPTY_EVENTS"] ?? 50_000);
/** MiB of memory that it may have at most, whatever comes. */
const MEMORY = 512;

const HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const event = (delta: object, reason: string | null) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
const FIRST = event({ role: "assistant", content: "Hi" }, null);
const END = `${event({}, "stop")}data: [DONE]\n\n`;
const WHOLE =
  '{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}';
const BODY = (model: string) =>
  `{"model":"${model}","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}`;
const PATHS = { passed: "/v1/chat/completions", translated: "/v1/messages" };

const drained = (socket: Socket) =>
  new Promise<void>((resolve) => {
    const over = () => {
      socket.off("drain", over).off("close", over);
      resolve();
    };
    socket.once("drain", over).once("close", over);
  });

/** Writes as fast as it is taken. */
async function pour(socket: Socket, pieces: Iterable<string | Buffer>): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return;
    if (!socket.write(piece)) await drained(socket);
  }
}

/** When a provider could last write. */
let flowed = 0;
function* flood(): Generator<string> {
  const piece = event({ content: "x".repeat(10_000) }, null);
  for (;;) {
    flowed = performance.now();
    yield piece;
  }
}

function* largeEvent(): Generator<string | Buffer> {
  yield FIRST;
  yield 'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"';
  const piece = Buffer.alloc(2 ** 20, "x");
  for (let sent = 0; sent < EVENT; sent += piece.length) yield piece;
  yield '"},"finish_reason":null}]}\n\n';
  yield END;
}

function* emptyEvents(): Generator<string> {
  yield FIRST;
  const many = ":\n\n\nevent:\n\n".repeat(500);
  for (let sent = 0; sent < EVENTS; sent += 1000) yield many;
  yield END;
}

/** A gateway, and a provider that does what the model says. */
async function setUp(t: Test): Promise<GatewayProcess> {
  const upstream = await rawUpstream(async (socket, { body }) => {
    const model = /"model":"(\w+)"/.exec(String(await body))?.[1];
    if (model === "whole")
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${WHOLE.length}\r\n\r\n${WHOLE}`,
      );
    else {
      socket.write(HEAD);
      await pour(socket, model === "flood" ? flood() : model === "large" ? largeEvent() : emptyEvents());
      socket.end();
    }
  });
  t.teardown(() => upstream.close());
  const models = ["whole", "flood", "large", "empty"].map((name) => `${name}: { targets: ["up:${name}"] }`);
  return startProcess(
    t,
    `log: { level: warn }
overload: { delay: off }
linger: off
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { ${models.join(", ")} }
`,
    { node: START_FLAGS, env: START_ENV },
  );
}

/** MiB that a gateway has had at most. */
const most = ({ child }: GatewayProcess) =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) / 1024;

/** The slowest but one in a hundred of so many small requests, in milliseconds. */
async function p99({ port }: GatewayProcess, count: number): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const began = performance.now();
    const { status } = await post(port, PATHS.passed, BODY("whole").replace('"stream":true,', ""));
    if (status !== 200) throw new Error(`status ${status}`);
    times.push(performance.now() - began);
    await after(5);
  }
  return times.toSorted((a, b) => a - b)[Math.floor(count * 0.99)] ?? 0;
}

/** What comes of a stream: how many bytes, its last ones, and whether it ended as HTTP says it must. */
function read(port: number, path: string, model: string): Promise<{ bytes: number; last: string; whole: boolean }> {
  return new Promise((resolve, reject) => {
    const options = { port, host: "127.0.0.1", method: "POST", path, headers: asking(), agent: false };
    request(options, (answer) => {
      let bytes = 0;
      let last = "";
      const settle = () => resolve({ bytes, last, whole: answer.complete });
      answer.on("data", (piece: Buffer) => {
        bytes += piece.length;
        last = (last + piece.toString("latin1", Math.max(0, piece.length - 500))).slice(-500);
      });
      answer.on("end", settle).on("error", settle);
    })
      .on("error", reject)
      .end(BODY(model));
  });
}

t.test("clients that stop reading take little memory, and do not slow down others", { timeout: 300_000 }, async (t) => {
  const gateway = await setUp(t);
  const requests = Math.max(20, READERS);
  await p99(gateway, requests);
  const quiet = await p99(gateway, requests);
  const before = most(gateway);
  const sockets = Array.from({ length: READERS }, (_, i) => {
    const socket = connect(gateway.port, "127.0.0.1").on("error", () => {});
    const path = i % 2 ? PATHS.passed : PATHS.translated;
    const body = BODY("flood");
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    return socket.pause();
  });
  await until(() => flowed > 0, "streams");
  while (performance.now() - flowed < 500) await after(50);
  const beside = await p99(gateway, requests);
  const memory = most(gateway);
  t.ok(memory <= MEMORY, `${memory.toFixed(0)} MiB`);
  t.comment(
    `${READERS} readers: memory ${before.toFixed(0)} to ${memory.toFixed(0)} MiB at most; others' p99 ${quiet.toFixed(1)} before, ${beside.toFixed(1)} ms beside them`,
  );
  for (const socket of sockets) socket.destroy();
  t.equal(await gateway.end(), 0);
  t.same(gateway.ledger(), { outcomes: { completed: 3 * requests, aborted: READERS }, twice: 0 }, "one row each");
});

for (const [way, path] of Object.entries(PATHS)) {
  t.test(`${way}: an event without an end is limited, and one row records it`, { timeout: 300_000 }, async (t) => {
    const gateway = await setUp(t);
    const { bytes, last, whole } = await read(gateway.port, path, "large");
    const memory = most(gateway);
    t.comment(
      `${way}: ${EVENT / 2 ** 20} MiB in one event: ${(bytes / 2 ** 20).toFixed(1)} MiB came, ${whole ? "whole" : "cut"}; at most ${memory.toFixed(0)} MiB; ${last.slice(-160)}`,
    );
    t.ok(memory <= MEMORY, `${memory.toFixed(0)} MiB`);
    if (whole) t.match(last, /\[DONE\]|message_stop/);
    else t.match(last, /"error"/);
    t.equal(await gateway.end(), 0);
    t.same(gateway.ledger(), { outcomes: { [whole ? "completed" : "upstream_error"]: 1 }, twice: 0 });
  });

  t.test(`${way}: empty events end as they should`, { timeout: 300_000 }, async (t) => {
    const gateway = await setUp(t);
    const cpu = gateway.cpu();
    const { bytes, last, whole } = await read(gateway.port, path, "empty");
    const memory = most(gateway);
    t.comment(
      `${way}: ${EVENTS} empty events: ${bytes} bytes arrived; ${(gateway.cpu() - cpu).toFixed(2)} s of CPU, at most ${memory.toFixed(0)} MiB`,
    );
    t.ok(whole);
    t.match(last, /\[DONE\]|message_stop/);
    t.ok(memory <= MEMORY, `${memory.toFixed(0)} MiB`);
    t.equal(await gateway.end(), 0);
    t.same(gateway.ledger(), { outcomes: { completed: 1 }, twice: 0 });
  });
}
