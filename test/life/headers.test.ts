import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { each, send, vectors } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";

interface Lists {
  request_never_upstream: string[];
  response_never_downstream: string[];
}

const lists = vectors<Lists>("header-lists.json");

/** One path of each protocol, and of each kind it has. */
const ROUTES = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/v1/embeddings",
  "/v1/images/generations",
  "/v1beta/models/any:generateContent",
  "/v1beta/models/any:streamGenerateContent?alt=sse",
  "/v1beta/models/any:embedContent",
  "/v1/audio/speech",
];
/** The one that passes unread. */
const PASSING = "/v1/audio/speech";
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
const bodyOf = (route: string): string =>
  `{"model":"any","stream":true,"input":"x",${route === "/v1/responses" ? "" : '"prompt":"x",'}"max_tokens":1,"messages":[],"contents":[]}`;

/** A question whose every header is a canary; our key stands in the query, for all its usual places are taken. */
function question(route: string, lines: string): string {
  const body = bodyOf(route);
  const target = `${route}${route.includes("?") ? "&" : "?"}key=${KEY}`;
  return `POST ${target} HTTP/1.1\r\nHost: gw.test\r\ncontent-type: application/json\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`;
}

/** How a provider may answer, with lines that must not cross. */
const ANSWERS: Record<string, (lines: string) => string> = {
  success: (lines) => `HTTP/1.1 200 OK\r\n${lines}content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`,
  "a client's error": (lines) =>
    `HTTP/1.1 401 Unauthorized\r\n${lines}content-type: application/json\r\ncontent-length: 12\r\n\r\n{"error":{}}`,
  "a provider's error": (lines) =>
    `HTTP/1.1 500 Oh\r\n${lines}content-type: application/json\r\ncontent-length: 12\r\n\r\n{"error":{}}`,
  "a page of some proxy": (lines) =>
    `HTTP/1.1 502 Bad\r\n${lines}content-type: text/html\r\ncontent-length: 10\r\n\r\n<b>502</b>`,
  "success behind interim answers": (lines) =>
    `HTTP/1.1 103 Early Hints\r\n${lines}\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`,
  "a redirect": (lines) => `HTTP/1.1 302 Found\r\n${lines}content-length: 0\r\n\r\n`,
  "a stream": (lines) =>
    `HTTP/1.1 200 OK\r\n${lines}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n`,
  "a stream with trailers": (lines) =>
    `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n${lines}\r\n`,
  "compressed success": (lines) => {
    const body = gzipSync("{}").toString("latin1");
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

async function wired(t: Test, way: (typeof WAYS)[number], directives?: string): Promise<Wired | undefined> {
  const wire: Pick<Wired, "seen" | "answer"> = { seen: [], answer: () => {} };
  const upstream = await rawUpstream(async (socket, request) => {
    const at = wire.seen.push(request.head) - 1;
    wire.seen[at] += (await request.body).toString("latin1");
    wire.answer(socket, request);
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [${PROTOCOLS}], websocket: true } }\nmodels: { any: { targets: [up:vendor] } }\npaths: { "/v1/audio/*": { pass: up }, "/v1/live/*": { pass: up, open: true } }\nretry: { attempts: 0 }\n`,
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

/** Numbers below a limit that differ within a run and not between runs. */
function dice(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
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
const AT_A_TIME = 40;

/** A request and how it ends. */
interface Moment {
  name: string;
  bytes(lines: string): string;
  /** What the provider answers; undefined: nothing, and the client leaves. */
  write: ((lines: string, request: RawRequest) => string) | undefined;
}

const FORM = ["model", "prompt"].map((name) => `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\nany\r\n`);
const form = (lines: string): string => {
  const body = `${FORM.join("")}--x--\r\n`;
  return `POST /v1/images/edits?key=${KEY} HTTP/1.1\r\nHost: gw.test\r\ncontent-type: multipart/form-data; boundary=x\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`;
};
const handshake = (path: string) => (lines: string) =>
  `GET ${path}key=${KEY} HTTP/1.1\r\nHost: gw.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${lines}\r\n`;
const switching = (lines: string, { head }: RawRequest): string => {
  const key = /^sec-websocket-key: *(\S+)/im.exec(head)?.[1] ?? "";
  const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
  return `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${accept}\r\n${lines}\r\n`;
};

/** Every route, in every way that it can be asked and can end. */
const MOMENTS: readonly Moment[] = [
  ...[...ROUTES.map((route) => [route, (lines: string) => question(route, lines)] as const), ["a form", form] as const]
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
          t.notMatch(text, /canary/i, `${answer}: no canary`);
          // What passes unread passes as it was packed.
          if (ROUTES[i] !== PASSING) t.notMatch(text, /\r\ncontent-encoding:/i, `${answer}: decompressed`);
          if (answer === "a redirect") t.equal(statuses[0], 502, "a redirect is never passed on");
        }
      }
      t.notMatch(JSON.stringify(wire.running.log.lines), /canary/i, "nor the log");
    },
  );

  gathered(t, `${way}, ${MADE} made-up headers cross in neither direction, wherever and however`, async (t) => {
    const wire = await wired(t, way, UPGRADE);
    if (!wire) return;
    const { port, seen, running } = wire;
    const [asked, answered] = [unheard(MADE, 1), unheard(MADE, 2)];
    for (let at = 0, n = 0; at < MADE; at += AT_A_TIME, n++) {
      const { name, bytes, write } = MOMENTS[(n * STRIDE) % MOMENTS.length] as Moment;
      const lines = (all: readonly string[]) => all.slice(at, at + AT_A_TIME).join("");
      seen.length = 0;
      wire.answer = (socket, request) => socket.write(write?.(lines(answered), request) ?? "", "latin1");
      const talk = write
        ? await send(port, bytes(lines(asked)))
        : await abort(port, bytes(lines(asked)), seen).then(() => undefined);
      t.equal(seen.length, 1, `${name}: it is sent upstream once`);
      t.notMatch(seen.join(""), /canary/i, `${name}: upstream`);
      if (!talk) continue;
      t.equal(talk.statuses.length || Number(talk.text.startsWith("HTTP/1.1 101 ")), 1, `${name}: it is answered`);
      t.notMatch(talk.text, /canary/i, `${name}: to the client`);
    }
    t.notMatch(JSON.stringify(running.log.lines), /canary/i, "nor into the log");
  });
}
