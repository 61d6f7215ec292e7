import type { Socket } from "node:net";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { each, send, vectors } from "../support/raw.ts";
import { type RawRequest, rawUpstream, until } from "../support/upstream.ts";

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
];
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

const BODY = '{"model":"any","stream":true,"input":"x","prompt":"x","max_tokens":1,"messages":[],"contents":[]}';

/** A question whose every header is a canary; our key stands in the query, for all its usual places are taken. */
function question(route: string, lines: string): string {
  const target = `${route}${route.includes("?") ? "&" : "?"}key=${KEY}`;
  return `POST ${target} HTTP/1.1\r\nHost: gw.test\r\ncontent-type: application/json\r\n${lines}Content-Length: ${BODY.length}\r\n\r\n${BODY}`;
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
  "a redirect": (lines) => `HTTP/1.1 302 Found\r\n${lines}content-length: 0\r\n\r\n`,
  "a stream": (lines) =>
    `HTTP/1.1 200 OK\r\n${lines}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n`,
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

async function wired(t: Test, way: (typeof WAYS)[number]): Promise<Wired | undefined> {
  const wire: Pick<Wired, "seen" | "answer"> = { seen: [], answer: () => {} };
  const upstream = await rawUpstream(async (socket, request) => {
    const at = wire.seen.push(request.head) - 1;
    wire.seen[at] += (await request.body).toString("latin1");
    wire.answer(socket, request);
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [${PROTOCOLS}] } }\nmodels: { any: { targets: [up:vendor] } }\n`,
  );
  const port = await entrance(t, way, running.port);
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
  t.equal(seen.length, ROUTES.length, `${when}: every route goes upstream once`);
  for (const text of seen) {
    const line = text.split("\r\n", 1)[0];
    t.notMatch(text, new RegExp(`canary|${KEY}`, "i"), `${when}, ${line}: no canary`);
    t.match(text, /\r\nuser-agent: harmless\r\n/i, `${when}, ${line}: what may pass passes`);
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
        for (const { statuses, text } of await each(ROUTES, (route) => send(wire.port, question(route, "")))) {
          t.equal(statuses.length, 1, `${answer}: an answer`);
          t.notMatch(text, /canary|\r\ncontent-encoding:/i, `${answer}: no canary`);
          if (answer === "a redirect") t.equal(statuses[0], 502, "a redirect is never passed on");
        }
      }
      t.notMatch(JSON.stringify(wire.running.log.lines), /canary/i, "nor the log");
    },
  );

  t.test(`${way}, two thousand made-up headers cross in neither direction`, async (t) => {
    const wire = await wired(t, way);
    if (!wire) return;
    const { port, seen } = wire;
    const asked = unheard(2000, 1);
    const answered = unheard(2000, 2);
    const parts = Array.from({ length: 40 }, (_, i) => i * 50);
    wire.answer = (socket) => {
      const at = parts[seen.length - 1] as number;
      const { success } = ANSWERS;
      socket.write(success?.(answered.slice(at, at + 50).join("")) ?? "", "latin1");
    };
    const talks = await each(parts, (at) => send(port, question("/v1/messages", asked.slice(at, at + 50).join(""))), 1);
    t.same(new Set(talks.flatMap(({ statuses }) => statuses)), new Set([200]));
    t.equal(seen.length, parts.length);
    t.notMatch(seen.join(""), /canary/);
    t.notMatch(talks.map(({ text }) => text).join(""), /canary/);
  });
}
