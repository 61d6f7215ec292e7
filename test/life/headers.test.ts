import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { dice } from "../support/dice.ts";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { sendByHttp2 } from "../support/http2-talk.ts";
import { ALL_WAYS, entrance, WAYS } from "../support/nginx.ts";
import { each, send, vectors } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";

interface Lists {
  request_never_upstream: string[];
  response_never_downstream: string[];
}

const lists = vectors<Lists>("header-lists.json");

/** Every path that is served and leads to a provider, and of each protocol every kind that it has. */
const OWN = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/responses/input_tokens",
  "/v1/responses/compact",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/v1/embeddings",
  "/v1/images/generations",
  "/v1beta/models/any:generateContent",
  "/v1beta/models/any:streamGenerateContent?alt=sse",
  "/v1beta/models/any:countTokens",
  "/v1beta/models/any:embedContent",
  "/v1/models/any:generateContent",
  "/v1alpha/models/any:generateContent",
  "/v1beta1/publishers/google/models/any:generateContent",
  "/v1beta1/projects/p/locations/l/publishers/google/models/any:generateContent",
  "/v1/audio/speech",
];
/** Paths that are answered without a provider. */
const ANSWERED_HERE = ["/", "/v1/models", "/v1/key", "/v1/requests"];
/** The one that passes unread. */
const PASSING = "/v1/audio/speech";
type Route = readonly [path: string, model: string];
/** Where the provider speaks another protocol than the client: `chat` and `claude` are models of such providers. */
const TRANSLATED: readonly Route[] = [
  ["/v1/chat/completions", "claude"],
  ["/v1/responses", "claude"],
  ["/v1beta/models/claude:generateContent", "claude"],
  ["/v1beta/models/claude:streamGenerateContent?alt=sse", "claude"],
  ["/v1/messages", "chat"],
  ["/v1/completions", "chat"],
];
const ROUTES: readonly Route[] = [...OWN.map((path) => [path, "any"] as const), ...TRANSLATED];
/** What lets WebSockets through. */
const UPGRADE =
  "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;";
const PROTOCOLS =
  "openai-chat, openai-completions, openai-responses, anthropic-messages, openai-embeddings, openai-images, gemini";

/** Headers whose value says something about this connection: a made-up value would only be refused. */
const FRAMING = ["connection", "expect", "transfer-encoding", "content-length", "content-encoding"];

/** `x-amz-* / x-ms-*` → names that begin so; what stands in brackets, or before and behind a name, is explanation. */
function expanded(entries: readonly string[]): string[] {
  const names = entries
    .flatMap((entry) => entry.replaceAll(/\(.*?\)| when .*| \+ .*/g, "").split("/"))
    .map((name) => name.trim().split(" ").at(-1) as string);
  return names.flatMap((name) =>
    name.endsWith("*") ? ["id", "For", "host"].map((end) => name.slice(0, -1) + end) : [name],
  );
}

const canaries = (names: readonly string[]): string =>
  names
    .filter((name) => !FRAMING.includes(name))
    .map((name) => `${name}: canary-${name}\r\n`)
    .join("");

/** What any route takes; a `prompt` of Responses names an object. */
const bodyOf = ([path, model]: Route): string =>
  `{"model":"${model}","stream":true,"input":"x",${path.startsWith("/v1/responses") ? "" : '"prompt":"x",'}"max_tokens":1,"messages":[{"role":"user","content":"x"}],"contents":[{"role":"user","parts":[{"text":"x"}]}]}`;

/** A question whose every header is a canary; our key stands in the query, for all its usual places are taken. */
function question(route: Route, lines: string): string {
  const body = bodyOf(route);
  const [path] = route;
  const target = `${path}${path.includes("?") ? "&" : "?"}key=${KEY}`;
  return `POST ${target} HTTP/1.1\r\nHost: gw.test\r\ncontent-type: application/json\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`;
}

/** Of an answer that the provider keeps. */
const STORED_ID = "resp_1";
/** An answer of Chat and of Messages at once, so that it can be translated from either. */
const WHOLE = JSON.stringify({
  ...{ id: STORED_ID, type: "message", role: "assistant", model: "x", content: [{ type: "text", text: "Hi" }] },
  ...{ stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } },
  ...{ object: "chat.completion", choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }] },
});
const OK = `content-type: application/json\r\ncontent-length: ${WHOLE.length}\r\n\r\n${WHOLE}`;

/** How a provider may answer, with lines that must not cross. */
const ANSWERS: Record<string, (lines: string) => string> = {
  success: (lines) => `HTTP/1.1 200 OK\r\n${lines}${OK}`,
  "a client's error": (lines) =>
    `HTTP/1.1 401 Unauthorized\r\n${lines}content-type: application/json\r\ncontent-length: 12\r\n\r\n{"error":{}}`,
  "a provider's error": (lines) =>
    `HTTP/1.1 500 Oh\r\n${lines}content-type: application/json\r\ncontent-length: 12\r\n\r\n{"error":{}}`,
  "a page of some proxy": (lines) =>
    `HTTP/1.1 502 Bad\r\n${lines}content-type: text/html\r\ncontent-length: 10\r\n\r\n<b>502</b>`,
  "success behind interim answers": (lines) => `HTTP/1.1 103 Early Hints\r\n${lines}\r\nHTTP/1.1 200 OK\r\n${OK}`,
  "a redirect": (lines) => `HTTP/1.1 302 Found\r\n${lines}content-length: 0\r\n\r\n`,
  "a stream": (lines) =>
    `HTTP/1.1 200 OK\r\n${lines}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n`,
  "a stream with trailers": (lines) =>
    `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n${lines}\r\n`,
  "compressed success": (lines) => {
    const body = gzipSync(WHOLE).toString("latin1");
    return `HTTP/1.1 200 OK\r\n${lines}content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  },
};

interface Wired {
  running: Running;
  /** Where it is asked. */
  port: number;
  /** Heads and bodies that went upstream, latin1. */
  seen: string[];
  /** What the provider does with a request. */
  answer(socket: Socket, request: RawRequest): unknown;
}

async function wired(t: Test, way: (typeof ALL_WAYS)[number], directives?: string): Promise<Wired | undefined> {
  const wire: Pick<Wired, "seen" | "answer"> = { seen: [], answer: () => {} };
  const upstream = await rawUpstream(async (socket, request) => {
    const at = wire.seen.push(request.head) - 1;
    wire.seen[at] += (await request.body).toString("latin1");
    wire.answer(socket, request);
  });
  t.teardown(() => upstream.close());
  const { origin } = upstream.origin;
  const running = await startGateway(
    t,
    `providers:
  up: { url: "${origin}/v1", credential: provider-secret, speaks: [${PROTOCOLS}], websocket: true }
  chat: { url: "${origin}/v1", credential: provider-secret, speaks: [openai-chat] }
  claude: { url: "${origin}/v1", credential: provider-secret, speaks: [anthropic-messages] }
models: { any: { targets: [up:vendor] }, chat: { targets: [chat:vendor] }, claude: { targets: [claude:vendor] } }
paths: { "/v1/audio/*": { pass: up }, "/v1/live/*": { pass: up, open: true } }
retry: { attempts: 0 }
health: { failures: 1000000, errors: off }
share: all
`,
  );
  const port = await entrance(t, way, running.port, directives);
  return port === undefined ? undefined : Object.assign(wire, { running, port });
}

/** Asks and leaves once one more request has gone upstream. */
async function abort(port: number, bytes: string, seen: readonly string[]): Promise<void> {
  const count = seen.length;
  const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
  await until(() => seen.length > count, "a question to go upstream");
  socket.destroy();
}

function judge(t: Test, seen: readonly string[], when: string): void {
  t.equal(seen.length, ROUTES.length, `${when}: every route is sent upstream once`);
  for (const text of seen) {
    const line = text.split("\r\n", 1)[0];
    t.notMatch(text, new RegExp(`canary|${KEY}`, "i"), `${when}, ${line}: no canary`);
    t.match(text, /\r\nuser-agent: harmless\r\n/i, `${when}, ${line}: an allowed header passes`);
    t.notMatch(
      text,
      /\r\n(?:cookie|forwarded|via|referer|origin|proxy|upgrade|expect|te|trailer|keep-alive|x-forwarded-)[^:\r\n]*:/i,
      `${when}, ${line}: nor an empty one`,
    );
  }
}

/** Header lines nobody has heard of, or nearly somebody. */
function unheard(count: number, seed: number): string[] {
  const roll = dice(seed);
  const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_!#$%&'*+.^`|~";
  const starts = [
    "",
    "",
    "x-",
    "X-",
    "openai-",
    "anthropic-",
    "x-goog-",
    "cf-",
    "authorization-",
    "x-request-",
    "Set-Cookie",
  ];
  return Array.from({ length: count }, (_, i) => {
    const name = Array.from({ length: 3 + roll(18) }, () => letters[roll(letters.length)]).join("");
    const value = Array.from({ length: roll(30) }, () => String.fromCharCode(33 + roll(94))).join("");
    return `${starts[roll(starts.length)]}${name}-${i}: canary ${value}\r\n`;
  });
}

/** Made-up header lines in each direction, and how many of them at a time. */
const MADE = Number(process.env["GATEWAY_TEST_HEADERS"] ?? 1000);
const AT_A_TIME = 20;

/** A request and how it ends. */
interface Moment {
  name: string;
  bytes(lines: string): string;
  /** What the provider answers; undefined: nothing, and the client leaves. */
  write: ((lines: string, request: RawRequest) => string) | undefined;
}

const FORM = ["model", "prompt"].map((name) => `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\nany\r\n`);
const form = (path: string) => (lines: string) => {
  const body = `${FORM.join("")}--x--\r\n`;
  return `POST ${path}?key=${KEY} HTTP/1.1\r\nHost: gw.test\r\ncontent-type: multipart/form-data; boundary=x\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`;
};
const FORMS = ["/v1/images/edits", "/v1/images/variations"];
/** What is asked of a response that the provider keeps. */
const STORED = ["GET ", "DELETE ", "GET /input_items", "POST /cancel"].map((line) =>
  line.replace(" ", ` /v1/responses/${STORED_ID}`),
);
const stored = (line: string) => (lines: string) => `${line}?key=${KEY} HTTP/1.1\r\nHost: gw.test\r\n${lines}\r\n`;
const handshake = (path: string) => (lines: string) =>
  `GET ${path}key=${KEY} HTTP/1.1\r\nHost: gw.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${lines}\r\n`;
const switching = (lines: string, { head }: RawRequest): string => {
  const key = /^sec-websocket-key: *(\S+)/im.exec(head)?.[1] ?? "";
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  return `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${accept}\r\n${lines}\r\n`;
};

/** Every route, in every way that it can be asked and can end. */
const MOMENTS: readonly Moment[] = [
  ...[
    ...ROUTES.map((route) => [route.join(" for "), (lines: string) => question(route, lines)] as const),
    ...FORMS.map((path) => [path, form(path)] as const),
    ...STORED.map((line) => [line, stored(line)] as const),
  ]
    .flatMap(([route, bytes]) =>
      ["", "Expect: 100-continue\r\n", "Connection: Upgrade\r\nUpgrade: h2c\r\n"].map(
        (more) => [`${route} ${more.trim()}`, (lines: string) => bytes(more + lines)] as const,
      ),
    )
    .flatMap(([name, bytes]) => [
      ...Object.entries(ANSWERS).map(([answer, write]) => ({ name: `${name}, ${answer}`, bytes, write })),
      { name: `${name}, a client that leaves`, bytes, write: undefined },
    ]),
  ...["/v1/realtime?model=any&", "/v1/live/x?"].flatMap((path) => [
    { name: `a socket on ${path}`, bytes: handshake(path), write: switching },
    { name: `a refused socket on ${path}`, bytes: handshake(path), write: ANSWERS["a client's error"] },
  ]),
];
/** What HTTP/2 has no word for, or another one. */
const HTTP1_ONLY = /socket|Upgrade|Expect|leaves/;
/** Has no divisor in common with the number of moments, so that a few headers meet many of them, and many all. */
const STRIDE = 97;

for (const way of WAYS) {
  gathered(
    t,
    `${way}, no header of a client that must stay here goes upstream`,
    { skip: !lists && "vectors are absent" },
    async (t) => {
      const names = expanded((lists as Lists).request_never_upstream);
      t.ok(names.length > 35 && names.includes("cf-For") && names.includes("x-gw-id"), names.join(" "));
      const wire = await wired(t, way);
      if (!wire) return;
      const { running, port, seen } = wire;
      const asked = [...OWN, ...FORMS, "/v1/realtime", "/v1/live/x"].map((path) => path.split("?", 1)[0] as string);
      const served = running.gateway.generation.paths
        .servedPaths()
        .filter((pattern) => !ANSWERED_HERE.includes(pattern));
      t.same(
        served.filter(
          (pattern) => !asked.some((path) => path === pattern || path.startsWith(pattern.replace(/\*$/, ""))),
        ),
        [],
        "every path that leads to a provider is asked",
      );
      const lines = `${canaries(names)}X-Nominated: canary-nominated\r\nuser-agent: harmless\r\n`;
      const named = "keep-alive, X-Nominated, http2-settings";
      const kinds: Record<string, string> = {
        "": `Connection: ${named}\r\n`,
        "with Expect: 100-continue": `Connection: ${named}\r\nExpect: 100-continue\r\n`,
        "with an upgrade": `Connection: ${named}, Upgrade\r\n`,
      };
      for (const [answer, write] of Object.entries(ANSWERS)) {
        wire.answer = (socket) => socket.write(write(""), "latin1");
        for (const [kind, more] of Object.entries(kinds)) {
          seen.length = 0;
          const talks = await each(ROUTES, (route) => send(port, question(route, lines + more)));
          t.ok(
            talks.every(({ statuses }) => statuses.length === 1),
            `every route answers once ${kind}`,
          );
          judge(t, seen, `${answer} ${kind}`);
        }
      }
      seen.length = 0;
      wire.answer = () => {};
      await each(ROUTES, (route) => abort(port, question(route, lines + kinds[""]), seen), 1);
      judge(t, seen, "a client that leaves");
      t.notMatch(JSON.stringify(running.log.lines), /canary/i, "nor into the log");
    },
  );

  gathered(
    t,
    `${way}, no header of a provider that must stay here reaches a client`,
    { skip: !lists && "vectors are absent" },
    async (t) => {
      const names = expanded((lists as Lists).response_never_downstream);
      t.ok(names.length > 28 && names.includes("x-envoy-id") && names.includes("content-encoding"), names.join(" "));
      const wire = await wired(t, way);
      if (!wire) return;
      const lines = `${canaries(names)}connection: keep-alive, x-nominated\r\nx-nominated: canary-nominated\r\n`;
      for (const [answer, write] of Object.entries(ANSWERS)) {
        wire.answer = (socket) => socket.write(write(lines), "latin1");
        const talks = await each(ROUTES, (route) => send(wire.port, question(route, "")));
        for (const [i, { statuses, text }] of talks.entries()) {
          t.equal(statuses.length, 1, `${answer}: an answer`);
          if (/success/.test(answer)) t.equal(statuses[0], 200, `${answer}: ${ROUTES[i]}`);
          t.notMatch(text, /canary/i, `${answer}: no canary`);
          // What passes unread passes as it was packed.
          if (ROUTES[i]?.[0] !== PASSING) t.notMatch(text, /\r\ncontent-encoding:/i, `${answer}: decompressed`);
          if (answer === "a redirect") t.equal(statuses[0], 502, "a redirect is never passed on");
        }
      }
      t.notMatch(JSON.stringify(wire.running.log.lines), /canary/i, "nor the log");
    },
  );
}

for (const way of ALL_WAYS)
  gathered(
    t,
    `${way}, ${MADE} made-up headers cross in neither direction, wherever and however`,
    { timeout: 600_000 },
    async (t) => {
      const wire = await wired(t, way, UPGRADE);
      if (!wire) return;
      const { port, seen, running } = wire;
      const byHttp2 = way === "by HTTP/2 behind nginx";
      const moments = byHttp2 ? MOMENTS.filter(({ name }) => !HTTP1_ONLY.test(name)) : MOMENTS;
      const ask = byHttp2 ? sendByHttp2 : send;
      const [asked, answered] = [unheard(MADE, 1), unheard(MADE, 2)];
      const met = new Set<Moment>();
      for (let at = 0, n = 0; at < MADE; at += AT_A_TIME, n++) {
        const moment = moments[(n * STRIDE) % moments.length] as Moment;
        const { name, bytes, write } = moment;
        met.add(moment);
        if (name.includes(STORED_ID)) {
          // It is asked for after it was made, and may have been deleted since.
          wire.answer = (socket) => socket.write(ANSWERS["success"]?.("") ?? "");
          await send(running.port, question(["/v1/responses", "any"], ""));
        }
        const lines = (all: readonly string[]) => all.slice(at, at + AT_A_TIME).join("");
        seen.length = 0;
        wire.answer = (socket, request) => socket.write(write?.(lines(answered), request) ?? "", "latin1");
        const talk = write
          ? await ask(port, bytes(lines(asked)))
          : await abort(port, bytes(lines(asked)), seen).then(() => undefined);
        t.equal(seen.length, 1, `${name}: it is sent upstream once`);
        t.notMatch(seen.join(""), /canary/i, `${name}: upstream`);
        if (!talk) continue;
        t.equal(talk.statuses.length || Number(talk.text.startsWith("HTTP/1.1 101 ")), 1, `${name}: it is answered`);
        t.notMatch(talk.text, /canary/i, `${name}: to the client`);
      }
      t.equal(met.size, Math.min(moments.length, Math.ceil(MADE / AT_A_TIME)), "different moments");
      t.notMatch(JSON.stringify(running.log.lines), /canary/i, "nor into the log");
    },
  );
