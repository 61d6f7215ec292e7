import { connect } from "node:net";
import t, { type Test } from "tap";
import { CLIENTS, type Client } from "../support/four-clients.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { open, socketUpstream } from "../support/sockets.ts";
import { until } from "../support/until.ts";
import { httpUpstream, rawUpstream, type SeenRequest } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** Has no vendor's shape, and letters that every encoding writes in another way. */
const CREDENTIAL = "Own/credential+0123456789=&<x>";
const OTHER = "sk-proj-aB3dE5gH7jK9mN1pQ3sT5vW7xY9z";
const SPELLINGS: Record<string, (secret: string) => string> = {
  plain: (secret) => secret,
  "in an address": encodeURIComponent,
  "in base64": (secret) => Buffer.from(`user:${secret}`).toString("base64"),
  escaped: (secret) => [...secret].map((letter) => `\\u00${letter.charCodeAt(0).toString(16)}`).join(""),
  "as HTML": (secret) => secret.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
};
/** What none of these texts may hold. */
const LEAKS = [
  ...Object.values(SPELLINGS).map((spelled) => spelled(CREDENTIAL)),
  OTHER,
  "Own/credential",
  "0123456789%3D",
];

const leaks = (text: string): string[] => LEAKS.filter((leak) => text.includes(leak));
/** All that a provider could say of our credential. */
const SAID = Object.values(SPELLINGS)
  .map((spelled) => `Incorrect API key provided: ${spelled(CREDENTIAL)} or ${OTHER}.`)
  .join(" ");
/** The same in JSON, where a backslash would be none of an escape's. */
const quoted = JSON.stringify(SAID).replaceAll("\\\\u", "\\u");
const json = `{"error":{"message":${quoted}}}`;

/** How a provider tells of a failure. */
const FAILURES: Record<string, { status: number; type: string; body: string }> = {
  ...Object.fromEntries(
    [400, 401, 403, 404, 429, 500, 503].map((status) => [
      `${status} in JSON`,
      { status, type: "application/json", body: json },
    ]),
  ),
  "a plain text": { status: 401, type: "text/plain", body: SAID },
  "a page": { status: 502, type: "text/html", body: `<html><b>${SAID}</b></html>` },
  "JSON that breaks off": { status: 401, type: "application/json", body: json.slice(0, -3) },
};

/** A stream that begins well and then reports a failure. */
const STREAMS: Record<ProtocolName, string> = {
  "openai-chat": `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\ndata: {"error":{"message":${quoted},"code":"invalid_api_key"}}\n\n`,
  "openai-responses": `event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","created_at":1,"model":"m","status":"in_progress","output":[]}}\n\nevent: error\ndata: {"type":"error","sequence_number":1,"code":"invalid_api_key","message":${quoted},"param":null}\n\n`,
  "anthropic-messages": `event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\nevent: error\ndata: {"type":"error","error":{"type":"authentication_error","message":${quoted}}}\n\n`,
  gemini: `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"index":0}]}\n\ndata: {"error":{"code":401,"message":${quoted},"status":"UNAUTHENTICATED"}}\n\n`,
};

interface Hostile {
  running: Running;
  /** What the provider answers next. */
  says: { status: number; type: string; body: string; pieces?: number };
  seen: readonly SeenRequest[];
}

async function hostile(t: Test): Promise<Hostile> {
  const wire: Pick<Hostile, "says"> = { says: { status: 200, type: "application/json", body: "{}" } };
  const upstream = await httpUpstream((_, reply) => {
    const { status, type, body, pieces = 1 } = wire.says;
    // Headers that may pass, with what may not.
    reply.writeHead(status, {
      "content-type": type,
      "x-request-id": `req-${CREDENTIAL}`,
      "openai-processing-ms": `12 ${CREDENTIAL}`,
      "openai-version": OTHER,
      "content-disposition": `attachment; filename="${encodeURIComponent(CREDENTIAL)}"`,
    });
    const bytes = Buffer.from(body);
    const size = Math.ceil(bytes.length / pieces);
    for (let at = 0; at < bytes.length; at += size) reply.write(bytes.subarray(at, at + size));
    reply.end();
  });
  t.teardown(() => upstream.close());
  const { origin } = upstream.origin;
  const providers = PROTOCOLS.map(
    (name) => `  ${name}: { url: "${origin}/v1", credential: "${CREDENTIAL}", speaks: [${name}] }`,
  );
  const models = PROTOCOLS.map((name) => `  to-${name}: { targets: ["${name}:x"] }`);
  const running = await startGateway(
    t,
    `providers:\n${providers.join("\n")}\nmodels:\n${models.join("\n")}\npaths:\n  /v1/files/*: { pass: openai-chat }\n  /v1/audio/*: { pass: openai-chat, use: [auth] }\nshare: all\n`,
  );
  return Object.assign(wire, { running, seen: upstream.seen });
}

async function asked({ running }: Hostile, from: ProtocolName, to: ProtocolName, stream: boolean): Promise<string> {
  const client = CLIENTS[from] as Client;
  const body = client.with(client.ask("Hi", "f"), `to-${to}`, stream);
  const response = await fetch(running.url + client.path(`to-${to}`, stream), {
    method: "POST",
    headers: asking(),
    body: JSON.stringify(body),
  });
  return `${response.status} ${JSON.stringify([...response.headers])} ${await received(response)}`;
}

/** What came of a body, also where it was cut. */
async function received({ body }: Response): Promise<string> {
  let text = "";
  try {
    for await (const piece of body ?? []) text += Buffer.from(piece).toString("latin1");
  } catch {
    // A stream that reports an error ends with a cut.
  }
  return text;
}

t.test("a provider's errors reach no client with the gateway's credential, in any protocol and form", async (t) => {
  const wire = await hostile(t);
  const { running } = wire;
  for (const from of PROTOCOLS)
    for (const to of PROTOCOLS) {
      for (const [how, says] of Object.entries(FAILURES)) {
        wire.says = { ...says, pieces: 3 };
        const said = await asked(wire, from, to, false);
        t.same(leaks(said), [], `${from} to ${to}: ${how}: ${said}`);
        t.match(said, new RegExp(`^(?:${says.status}|529) `), `${from} to ${to}: ${how} keeps its status`);
        if (from === to && how.endsWith("in JSON")) t.match(said, "Incorrect API key provided: ***", "and its message");
      }
      wire.says = { status: 200, type: "text/event-stream", body: STREAMS[to] };
      for (const pieces of [1, 2, 7, 50]) {
        wire.says = { ...wire.says, pieces };
        const said = await asked(wire, from, to, true);
        t.same(leaks(said), [], `${from} to ${to}: a stream in ${pieces} pieces: ${said}`);
        t.match(said, /error/, "which is still an error");
      }
    }
  await running.gateway.stores.ledger.flush();
  t.same(leaks(JSON.stringify(running.log.lines)), [], "nor does the log");
  t.same(leaks(JSON.stringify(await running.gateway.stores.ledger.recent(1000))), [], "nor the ledger");
  t.ok(wire.seen.length >= 16 * 14, `${wire.seen.length} requests`);
  t.ok(JSON.stringify(wire.seen[0]?.rawHeaders).includes(CREDENTIAL), "though the provider knows it");
});

t.test("a body that is not an error passes byte for byte, whatever in it looks like a key", async (t) => {
  const wire = await hostile(t);
  const words = `${CREDENTIAL} ${OTHER} error`;
  const whole = JSON.stringify({ id: "c", choices: [{ index: 0, message: { role: "assistant", content: words } }] });
  const stream = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: words }, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`;
  wire.says = { status: 200, type: "application/json", body: whole };
  t.ok((await asked(wire, "openai-chat", "openai-chat", false)).endsWith(whole));
  wire.says = { status: 200, type: "text/event-stream", body: stream, pieces: 5 };
  t.ok((await asked(wire, "openai-chat", "openai-chat", true)).endsWith(stream));
  wire.says = { status: 200, type: "application/octet-stream", body: whole };
  const file = await fetch(`${wire.running.url}/v1/files/f/content`, { headers: asking() });
  t.equal(await file.text(), whole);
});

t.test("pass-through paths clean errors too, and send their length", async (t) => {
  const wire = await hostile(t);
  for (const path of ["/v1/files/f", "/v1/audio/speech"])
    for (const [how, says] of Object.entries(FAILURES)) {
      wire.says = { ...says, pieces: 4 };
      const response = await fetch(wire.running.url + path, { headers: asking() });
      const text = await response.text();
      t.equal(response.status, says.status, how);
      t.same(leaks(JSON.stringify([...response.headers]) + text), [], `${path}: ${how}`);
      t.match(text, "Incorrect API key provided: ***", `${path}: ${how}`);
      t.equal(response.headers.get("content-length"), String(Buffer.byteLength(text)));
    }
  const head = await fetch(`${wire.running.url}/v1/files/f`, { method: "HEAD", headers: asking() });
  t.equal(head.status, wire.says.status, "a HEAD has no body to clean");
  const lines = wire.running.log.lines.filter(({ message }) => message === "exchange");
  t.same(leaks(JSON.stringify(lines)), []);
  t.same(new Set(lines.map(({ fields }) => fields["outcome"])), new Set(["upstream_error"]));
});

t.test(
  "an error that is interrupted, too large or cannot be decompressed is replaced by the gateway's own",
  async (t) => {
    const answers: Record<string, [lines: string, body: string, expected: RegExp]> = {
      "breaks off": ["content-length: 900\r\n", json.slice(0, 500), /^HTTP\/1.1 (?:502|401)/],
      "is too large": ["content-length: 300000\r\n", "x".repeat(300_000), /^HTTP\/1.1 401.*more than 262144 bytes/s],
      "cannot be unpacked": ["content-encoding: gzip\r\ncontent-length: 9\r\n", "not gzip!", /^HTTP\/1.1 (?:502|401)/],
    };
    let next = "";
    const upstream = await rawUpstream((socket) => void socket.end(next, "latin1"));
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", credential: "${CREDENTIAL}", speaks: [openai-chat] } }
models: { m: { targets: [up:x] } }\npaths: { /v1/chat/completions: { protocol: openai-chat }, /v1/files/*: { pass: up } }\nshare: all\n`,
    );
    const body = '{"model":"m"}';
    for (const [how, [lines, said, expected]] of Object.entries(answers))
      for (const path of ["/v1/chat/completions", "/v1/files"]) {
        next = `HTTP/1.1 401 x\r\ncontent-type: application/json\r\n${lines}connection: close\r\n\r\n${said}`;
        const text = await new Promise<string>((resolve) => {
          let got = "";
          const socket = connect(running.port, "127.0.0.1", () =>
            socket.write(
              `POST ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
            ),
          );
          socket.setEncoding("latin1").on("data", (piece: string) => (got += piece));
          socket.on("error", () => {}).on("close", () => resolve(got));
        });
        t.match(text, expected, `${path} ${how}`);
        t.same(leaks(text), [], `${path} ${how}`);
      }
  },
);

t.test("a WebSocket's refusal and the reason of its close frame are cleaned, all other bytes stay", async (t) => {
  const long = `bye ${OTHER} ${CREDENTIAL}`;
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(401, { "content-type": "application/json" }).end(json),
  );
  t.teardown(() => upstream.close());
  const { port } = await socketUpstream(t, (message, socket) => {
    socket.send(message);
    socket.close(4001, message === "long" ? long : "fare well");
    return undefined;
  });
  const running = await startGateway(
    t,
    `providers:
  shut: { url: "${upstream.origin.origin}/v1", credential: "${CREDENTIAL}", speaks: [openai-responses], websocket: true }
  fine: { url: "http://127.0.0.1:${port}/v1", credential: "${CREDENTIAL}", speaks: [openai-responses], websocket: true }
models: { shut: { targets: [shut:x] }, fine: { targets: [fine:x] } }
paths: { /v1/realtime: { protocol: openai-realtime }, /shut/*: { pass: shut, open: true } }\n`,
  );
  const bearer = { authorization: `Bearer ${KEY}` };
  for (const path of ["/v1/realtime?model=shut", "/shut/realtime"]) {
    const refusal: Error = await open(`ws://127.0.0.1:${running.port}${path}`, [], bearer).then(
      () => new Error("open"),
      (error: Error) => error,
    );
    t.match(refusal.message, /^401 .*Incorrect API key provided: \*\*\*/, path);
    t.same(leaks(refusal.message), [], path);
  }
  for (const [message, reason] of [
    ["long", "bye *** ***"],
    ["short", "fare well"],
  ] as const) {
    const { socket, messages } = await open(`ws://127.0.0.1:${running.port}/v1/realtime?model=fine`, [], bearer);
    const closed = new Promise<string>((told) => socket.on("close", (code, words) => told(`${code} ${words}`)));
    socket.send(message);
    t.equal(await closed, `4001 ${reason}`);
    t.same(messages, [message]);
  }
  await until(() => running.log.lines.filter(({ message }) => message === "exchange").length === 4, "log lines");
  const lines = running.log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields);
  t.same(
    lines.map(({ outcome, close }) => [outcome, close]),
    [
      ["upstream_error", undefined],
      ["upstream_error", undefined],
      ["completed", 4001],
      ["completed", 4001],
    ],
  );
  t.same(leaks(JSON.stringify(lines)), []);
});

t.test("a provider's refusal is recorded as the provider's, whether it passes or is translated", async (t) => {
  const wire = await hostile(t);
  for (const body of ['{"error":{"message":"no","code":"x"}}', '{"error":{"message":"prompt is too long"}}'])
    for (const status of [400, 401, 404, 429, 500, 503])
      for (const to of ["openai-chat", "anthropic-messages"] as const) {
        wire.says = { status, type: "application/json", body };
        await asked(wire, "openai-chat", to, false);
        t.match(wire.running.log.lines.at(-1)?.fields, { outcome: "upstream_error" }, `${to} ${status} ${body}`);
      }
});
