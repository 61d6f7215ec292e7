import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { dice } from "../support/dice.ts";
import { KEY } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { each, send, UNTIL_ANSWERED } from "../support/raw.ts";
import { socketUpstream } from "../support/sockets.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

/** Connections that are reset. */
const COUNT = Number(process.env["GATEWAY_TEST_RESETS"] ?? 600);
/** As operators have it: with protection against overload. */
const OWN = "log: { level: error }\noverload: {}\n";
const DEMO = 'providers: { demo: { url: "demo:" } }\nmodels: { any: { targets: [demo:echo] } }\n';

const BODY = '{"model":"any","stream":true,"messages":[{"role":"user","content":"hi"}]}';
const key = `x-api-key: ${KEY}\r\n`;
const upgrade = `connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\n`;
const form = (boundary: string) =>
  `--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\nany\r\n--${boundary}\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n`;

const head = (line: string, more = ""): string => `${line} HTTP/1.1\r\nhost: a\r\n${more}\r\n`;
const posted = (path: string, body: string, more = key): string =>
  head(`POST ${path}`, `${more}content-type: application/json\r\ncontent-length: ${body.length}\r\n`) + body;

/** Everything that a connection can be asked, whole; with and without a key. */
const ASKED: string[] = [
  ...[
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PRI",
    "PURGE",
    "M-SEARCH",
  ].flatMap((method) => [
    head(`${method} /v1/models`),
    head(`${method} /v1/models`, key),
    head(`${method} a:80`),
    head(`${method} *`),
  ]),
  `${head("CONNECT a:80", "content-length: 5\r\n")}hello`,
  head("CONNECT a:80") + head("GET /"),
  head("GET /") + head("CONNECT a:80"),
  posted("/v1/chat/completions", BODY),
  posted("/v1/chat/completions", BODY, ""),
  posted("/v1/chat/completions", BODY) + posted("/v1/chat/completions", BODY) + head("CONNECT a:80"),
  posted("/v1/chat/completions", BODY) + head("GET /v1/realtime?model=any", key + upgrade),
  posted("/v1/chat/completions", "{", "expect: 100-continue\r\n"),
  `${head("POST /v1/chat/completions", `${key}transfer-encoding: chunked\r\n`)}5\r\n{"mod\r\n0\r\n\r\n`,
  `${head("POST /v1/chat/completions", `${key}transfer-encoding: chunked\r\n`)}zz\r\n`,
  head("POST /v1/images/edits", `${key}content-type: multipart/form-data; boundary=xx\r\ncontent-length: 5000\r\n`) +
    form("xx"),
  head("POST /v1/files", `${key}content-length: 5000\r\n`) + "x".repeat(3000),
  head("GET /v1/realtime?model=any", key + upgrade),
  head("GET /v1/realtime?model=any", upgrade),
  `${head("GET /v1/realtime?model=any", `${key}content-length: 10\r\n${upgrade}`)}12345`,
  head("GET /v1/files/socket", key + upgrade),
  head("GET /nowhere", upgrade),
  `${head("POST /v1/chat/completions", `${key}${upgrade}content-length: 9\r\n`)}123`,
  "GARBAGE\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  `GET / HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(20_000)}\r\n\r\n`,
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "\r\n\r\n",
];

/** Sends some of the bytes, waits for some of the answer or for a moment, and goes in a way of its own. */
function provoke(port: number, bytes: string, cast: (limit: number) => number): Promise<void> {
  return new Promise((done) => {
    const stop = cast(3) === 0 ? bytes.length : cast(bytes.length + 1);
    const pause = [0, 0, 1, 3, 10, 30][cast(6)] as number;
    const way = cast(4);
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {}).on("close", () => done());
    const leave = () => {
      if (way === 0) socket.destroy();
      else if (way === 1) socket.end();
      else socket.resetAndDestroy();
      // A gateway that still answers a half-closed connection.
      setTimeout(() => socket.resetAndDestroy(), 200);
    };
    socket.on("connect", () => {
      const half = cast(stop + 1);
      socket.write(bytes.slice(0, half), "latin1");
      if (half < stop) setImmediate(() => socket.write(bytes.slice(half, stop), "latin1"));
      if (cast(4) === 0) socket.pause();
      else socket.resume();
      if (pause === 0 && cast(2) === 0) leave();
      else setTimeout(leave, pause);
    });
  });
}

t.test(
  `connections that are reset at every stage of every method end only themselves`,
  { timeout: 600_000 },
  async (t) => {
    const sockets = await socketUpstream(t);
    const upstream = await rawUpstream(async (socket, request) => {
      // Now and then the provider goes first, in the middle.
      const cast = dice(request.connection * 100 + request.nth);
      const start =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
      socket.write(start.slice(0, cast(3) === 0 ? cast(start.length) : start.length));
      if (cast(3) === 0) socket.resetAndDestroy();
      else if (cast(2) === 0) socket.destroy();
    });
    t.teardown(() => upstream.close());
    const gateway = await startProcess(
      t,
      `${OWN}providers:
  up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-images] }
  live: { url: "http://127.0.0.1:${sockets.port}/v1", speaks: [openai-chat], websocket: true }
models:
  any: { targets: [up:any, { to: live:any, weight: 0.01 }] }
paths: { "/v1/files/*": { pass: live }, "/v1/files": { pass: up } }
`,
    );
    const { port } = gateway;
    const numbers = Array.from({ length: COUNT }, (_, n) => n);
    await each(numbers, (n) => provoke(port, ASKED[n % ASKED.length] as string, dice(n + 1)), 24);
    await sleep(300);
    t.notOk(gateway.hasEnded, `the process is alive: ${gateway.text.slice(-2000)}`);
    t.notMatch(gateway.text, /the gateway failed/);
    // On a busy machine it may still have to read what they left behind.
    for (const request of [head("GET /"), head("GET /v1/models", key)])
      await until(async () => (await send(port, request)).statuses[0] === 200, "an answer");
  },
);

t.test("the same on the admin side, and with workers", { timeout: 600_000 }, async (t) => {
  const gateway = await startProcess(t, `${OWN}workers: 2\n${DEMO}`);
  const { port } = gateway;
  const admin = Number(new URL(gateway.admin).port);
  const paths = ["/livez", "/metrics", "/api/now", "/api/live/events", "/api/keys", "/nowhere", "/"];
  const own = [
    ...paths.map((path) => head(`GET ${path}`)),
    posted("/api/keys", '{"name":"made-here"}', ""),
    posted("/api/keys", "{", "expect: 100-continue\r\n"),
  ];
  const asked = [...own, ...ASKED].map((bytes) => bytes.replaceAll("host: a\r\n", "host: localhost\r\n"));
  const numbers = Array.from({ length: COUNT / 2 }, (_, n) => n);
  await Promise.all([
    each(numbers, (n) => provoke(admin, asked[n % asked.length] as string, dice(n + 1)), 12),
    each(numbers, (n) => provoke(port, ASKED[n % ASKED.length] as string, dice(n + 1)), 12),
  ]);
  await sleep(300);
  t.notOk(gateway.hasEnded, `the process is alive: ${gateway.text.slice(-2000)}`);
  t.notMatch(gateway.text, /the gateway failed|a worker has died/);
  await until(async () => (await send(port, head("GET /v1/models", key))).statuses[0] === 200, "an answer");
  const ready = head("GET /readyz").replace("host: a", "host: localhost");
  await until(async () => (await send(admin, ready)).statuses[0] === 200, "an answer of the admin side");
});

t.test("a reader of the gateway's output cannot end it by closing the pipe", async (t) => {
  const gateway = await startProcess(t, OWN + DEMO);
  gateway.child.stdout?.destroy();
  gateway.child.stderr?.destroy();
  const asked = posted("/v1/chat/completions", "{");
  for (let i = 0; i < 20; i++) t.same((await send(gateway.port, asked, UNTIL_ANSWERED)).statuses, [400]);
  t.notOk(gateway.hasEnded);
});
