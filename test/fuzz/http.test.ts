import { connect, createServer, type Socket } from "node:net";
import t, { type Test } from "tap";
import { dice } from "../support/dice.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { dechunked, type MadeUp, madeUp, strictly } from "../support/http-grammar.ts";
import { listen } from "../support/listen.ts";
import { entrance, KEPT, WAYS } from "../support/nginx.ts";
import { afterHearing } from "../support/patience.ts";
import { each, send } from "../support/raw.ts";

/** Requests that are made up for each way; about two stand on a connection. */
const COUNT = Number(process.env["GATEWAY_TEST_HTTP"] ?? 1500);
const SEED = Number(process.env["GATEWAY_TEST_SEED"] ?? 1);
/**
 * Milliseconds without a byte after which a client gives up: before an answer, and behind one. Most connections end by
 * themselves.
 */
const PATIENCE = 1000;
const QUIET = 100;
/** Lines of a head that a provider may see. */
const FIELDS =
  /^(?:(?:host|content-type|content-length|content-encoding|accept-encoding|connection|authorization|transfer-encoding): [^\r\n]*\r\n)*$/i;
const CHAT = /^POST \/v1\/chat\/completions(?:\?x=1)? HTTP\/1\.1$/;
const PASSED =
  /^(?:POST|GET|HEAD|PUT|PATCH|DELETE|OPTIONS) \/v1\/audio(?:\/a|\/early(?:\/close)?)?(?:\?x=1)? HTTP\/1\.1$/;

interface Question {
  line: string;
  /** Bytes of its head. */
  size: number;
  /** Its body and how many bytes that takes; undefined: not all of it is there. */
  body: { body: string; size: number } | undefined;
}

/** The question at the start of the text; undefined: its head is not whole. @throws Error where it is not well-formed */
function question(text: string): Question | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [, line = "", fields = ""] = /^([^\r\n]*)\r\n([\s\S]*)$/.exec(text.slice(0, end + 2)) ?? [];
  const lengths = [...fields.matchAll(/^content-length: (.*)\r$/gim)].map(([, value]) => value as string);
  const codings = [...fields.matchAll(/^transfer-encoding: (.*)\r$/gim)].map(([, value]) => value as string);
  const passed = PASSED.test(line);
  const framed = lengths.length + codings.length === 1 || (passed && lengths.length + codings.length === 0);
  if (!(passed || CHAT.test(line)) || !FIELDS.test(fields) || !framed) throw new Error("a question in doubt");
  if (!lengths.every((length) => /^\d+$/.test(length)) || !codings.every((coding) => coding === "chunked"))
    throw new Error("framing in doubt");
  const rest = text.slice(end + 4);
  const length = Number(lengths[0] ?? 0);
  if (codings.length > 0) return { line, size: end + 4, body: dechunked(rest) };
  return {
    line,
    size: end + 4,
    body: rest.length < length ? undefined : { body: rest.slice(0, length), size: length },
  };
}

/** A provider that takes nothing but well-formed questions, and says what else came. */
async function strictUpstream(t: Test) {
  const seen: string[] = [];
  const wrong: string[] = [];
  const met = { chat: 0, passed: 0, early: 0 };
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    let rest = "";
    let early = false;
    open.add(socket);
    socket.setEncoding("latin1").on("error", () => {});
    socket.on("close", () => {
      open.delete(socket);
      // A body whose client, or whose early answer, has ended it may be cut.
      if (rest !== "" && !PASSED.test(rest.split("\r\n", 1)[0] as string)) wrong.push(`left over: ${rest}`);
    });
    const take = (): boolean => {
      const asked = question(rest);
      if (!asked) return false;
      const { line, size, body } = asked;
      if (line.includes("/early") && !early) {
        early = true;
        const closing = line.includes("/close") ? "connection: close\r\n" : "";
        socket.write(`HTTP/1.1 413 Too Much\r\n${closing}content-length: 0\r\n\r\n`);
        if (closing) socket.end();
      }
      if (!body) return false;
      rest = rest.slice(size + body.size);
      met[early ? "early" : CHAT.test(line) ? "chat" : "passed"]++;
      // A part of a body that says not whose it is tells nothing.
      if (idIn(body.body) !== "?") seen.push(body.body);
      const answer = body.body === "" ? "{}" : `{"id":"${idIn(body.body)}"}`;
      if (!early)
        socket.write(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n${line.startsWith("HEAD") ? "" : answer}`,
        );
      early = false;
      return true;
    };
    socket.on("data", (piece: string) => {
      rest += piece;
      try {
        while (take());
      } catch (error) {
        wrong.push(`${(error as Error).message}: ${rest}`);
        socket.destroy();
      }
    });
  });
  const port = await listen(t, server);
  t.teardown(() => {
    for (const socket of open) socket.destroy();
  });
  return { port, seen, wrong, met };
}

/** Without spaces, as a length that is one too large can bring one into an id, from the line end before it. */
const idIn = (text: string): string => (/"user":"([^"]*)"/.exec(text)?.[1] ?? "?").replaceAll(/\s/g, "");

/** Sends the bytes in pieces, and answers what came. */
function ask(port: number, bytes: string, cast: (limit: number) => number): Promise<string> {
  return new Promise((done) => {
    let text = "";
    const cuts = Array.from({ length: cast(3) }, () => cast(bytes.length)).sort((a, b) => a - b);
    const pieces = [0, ...cuts].map((from, i) => bytes.slice(from, cuts[i]));
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    const write = () => {
      const piece = pieces.shift();
      if (piece === undefined || socket.destroyed) return;
      socket.write(piece, "latin1");
      setImmediate(write);
    };
    let forget = afterHearing(PATIENCE, () => socket.destroy());
    socket.setEncoding("latin1").on("data", (piece: string) => {
      text += piece;
      forget();
      forget = afterHearing(QUIET, () => socket.destroy());
    });
    socket
      .on("connect", write)
      .on("error", () => {})
      .on("close", () => {
        forget();
        done(text);
      });
  });
}

for (const way of WAYS)
  gathered(t, `made-up requests are read in one way only, ${way}`, { timeout: 1_800_000 }, async (t) => {
    const upstream = await strictUpstream(t);
    const running = await startGateway(
      t,
      `log: { level: silent }
providers: { up: { url: "http://127.0.0.1:${upstream.port}/v1", credential: provider-secret, speaks: [openai-chat] } }
models: { any: { targets: [up:any] } }
paths: { /v1/audio: { pass: up }, "/v1/audio/*": { pass: up } }
`,
    );
    const port = await entrance(t, way, running.port, KEPT);
    if (port === undefined) return;
    // A length that is one too large brings white space into the body, which JSON allows, where nginx takes an odd line's end.
    const read = (body: string) => (way === "directly" ? body : body.replaceAll(/\s/g, ""));
    const numbers = Array.from({ length: Math.ceil(COUNT / 2) }, (_, n) => n);
    let requests = 0;
    let answered = 0;
    await each(
      numbers,
      async (n) => {
        const cast = dice(SEED * 1_000_003 + n);
        const made: MadeUp = madeUp(`r${n}`, cast);
        requests += made.bodies.size;
        const text = await ask(port, made.bytes, cast);
        // Of a body whose start alone was taken as one nobody knows whose it is.
        const own = [...text.matchAll(/\{"id":"([^"?]*)"\}/g)].map(([, id]) => id as string);
        answered += own.length;
        const taken = upstream.seen.filter((body) => made.bodies.has(idIn(body)));
        const about = () => `${SEED}/${n}: ${JSON.stringify(made.bytes)} -> ${JSON.stringify(text)}`;
        if (own.some((id) => !made.bodies.has(id))) t.fail(`a response to another request: ${about()}`);
        if (new Set(own).size < own.length) t.fail(`one answer twice: ${about()}`);
        if (own.length > taken.length) t.fail(`more answers than requests: ${about()}`);
        // nginx reads some things its own way, and says so to the gateway in well-formed words.
        const strict = way === "directly" ? strictly(made.bytes) : [...made.bodies.values(), read(made.bytes)];
        const found = (body: string) =>
          strict.some((one) => one === body || (way !== "directly" && one.includes(body)));
        if (taken.some((body) => !found(read(body)))) t.fail(`more than a strict parser finds: ${about()}`);
        upstream.seen.splice(0, upstream.seen.length, ...upstream.seen.filter((body) => !made.bodies.has(idIn(body))));
      },
      48,
    );
    t.same(upstream.wrong, [], "the provider received nothing else");
    t.ok(answered > requests / 10, `${answered} of ${requests} requests were answered`);
    for (const [kind, count] of Object.entries(upstream.met)) t.ok(count > COUNT / 100, `${count} of ${kind}`);
    const after = `GET /v1/models HTTP/1.1\r\nHost: a\r\nX-Api-Key: ${KEY}\r\n\r\n`;
    t.same((await send(port, after)).statuses, [200], "and the gateway is healthy");
  });
