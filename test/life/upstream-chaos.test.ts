/** A provider that answers in every wrong way over kept connections: what reaches a client is its own answer, or an error. */

import { gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { chunk } from "../support/chunk.ts";
import { dice } from "../support/dice.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream, rawUpstream, type Script } from "../support/upstream.ts";

const REQUESTS = Number(process.env["GATEWAY_TEST_CHAOS"] ?? 600);
/** Requests at a time. */
const CLIENTS = 24;

const OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const SSE = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
const choice = (tag: string, member: string, end: string) =>
  `{"id":"c","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"${member}":{"role":"assistant","content":"${tag}"},"finish_reason":${end}}]}`;
const json = (tag: string) => choice(tag, "message", '"stop"');
const sized = (body: string, head = OK) => `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const chunked = (...pieces: string[]) => `transfer-encoding: chunked\r\n\r\n${pieces.map(chunk).join("")}0\r\n\r\n`;
const frames = (tag: string) => [
  `data: ${choice(tag, "delta", "null")}\n\n`,
  `data: ${choice(tag, "delta", '"stop"')}\n\n`,
  "data: [DONE]\n\n",
];
/** What nobody has asked for; no client may see a byte of it. */
const STRAY = "stray-bytes";

type Act = (socket: Parameters<Script>[0], tag: string, elsewhere: string) => unknown;

const packed = (tag: string, layers: number, coding: string) => {
  let body = Buffer.from(json(tag));
  for (let i = 0; i < layers; i++) body = gzipSync(body);
  return Buffer.concat([
    Buffer.from(`${OK}content-encoding: ${coding}\r\ncontent-length: ${body.length}\r\n\r\n`),
    body,
  ]);
};

/** Each way of answering, by a name. */
const ACTS: Record<string, Act> = {
  "a whole answer": (socket, tag) => socket.write(sized(json(tag))),
  "in chunks": (socket, tag) => socket.write(OK + chunked(json(tag).slice(0, 9), json(tag).slice(9))),
  "a stream": (socket, tag) => socket.write(SSE + chunked(...frames(tag))),
  "a flood of 1xx": (socket, tag) =>
    socket.write(`HTTP/1.1 103 Early Hints\r\nlink: <${STRAY}>\r\n\r\n`.repeat(300) + sized(json(tag))),
  "a 100 with a body": (socket, tag) =>
    socket.write(`HTTP/1.1 100 x\r\ncontent-length: 11\r\n\r\n${STRAY}${sized(json(tag))}`),
  "a 101": (socket, tag) =>
    socket.write(`HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n${STRAY}${sized(json(tag))}`),
  "20 KB of headers": (socket, tag) =>
    socket.write(sized(json(tag), `${OK}${`x-long: ${STRAY.repeat(100)}\r\n`.repeat(20)}`)),
  "NUL in a header": (socket, tag) => socket.write(sized(json(tag), `${OK}x-odd: a\0b\r\n`)),
  "NUL in the body": (socket, tag) => socket.write(sized(`{"tag":"${tag}\0"}`)),
  "a length and chunks": (socket, tag) => socket.write(`${OK}content-length: 5\r\n${chunked(json(tag))}${STRAY}`),
  "two lengths": (socket, tag) => socket.write(`${OK}content-length: 9\r\n${sized(json(tag), "")}`),
  gzip: (socket, tag) => socket.write(packed(tag, 1, "gzip")),
  "gzip within gzip": (socket, tag) => socket.write(packed(tag, 2, "gzip, gzip")),
  "gzip that is none": (socket, tag) => socket.write(sized(json(tag), `${OK}content-encoding: gzip\r\n`)),
  "a page": (socket, tag) =>
    socket.write(sized(`<html>${tag}</html>`, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n")),
  "a stream that is none": (socket, tag) => socket.write(sized(json(tag), SSE)),
  "a second answer at once": (socket, tag) => socket.write(sized(json(tag)) + sized(`{"tag":"${STRAY}"}`)),
  "bytes behind the answer": (socket, tag) => socket.write(`${sized(json(tag))}${STRAY}`),
  "bytes behind a stream": (socket, tag) => socket.write(`${SSE}${chunked(...frames(tag))}data: ${STRAY}\n\n`),
  "a length that is too small": (socket, tag) => {
    const body = json(tag);
    socket.write(`${OK}content-length: ${body.length}\r\n\r\n${body}}${STRAY}`);
  },
  "a length that is too large": (socket, tag) => {
    socket.write(`${OK}content-length: 900\r\n\r\n${json(tag)}`);
    setTimeout(() => socket.destroy(), 3);
  },
  "a redirect": (socket, tag, elsewhere) =>
    socket.write(sized(tag, `HTTP/1.1 302 Found\r\nlocation: ${elsewhere}/${tag}\r\n`)),
  "a 204 with a body": (socket) => socket.write(`HTTP/1.1 204 x\r\ncontent-length: 11\r\n\r\n${STRAY}`),
  "a 304 with a length": (socket) => socket.write("HTTP/1.1 304 x\r\ncontent-length: 900\r\n\r\n"),
  "HTTP/1.0": (socket, tag) => {
    socket.write(`HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n${json(tag)}`);
    socket.end();
  },
  "no HTTP": (socket) => socket.write(`SSH-2.0-${STRAY}\r\n`),
  "a reset": (socket) => socket.resetAndDestroy(),
  "a stream that is cut": (socket, tag) => {
    socket.write(`${SSE}transfer-encoding: chunked\r\n\r\n`);
    for (const frame of frames(tag).slice(0, 2)) socket.write(chunk(frame));
    setTimeout(() => socket.resetAndDestroy(), 3);
  },
  "trailers that frame": (socket, tag) =>
    socket.write(`${OK}${chunked(json(tag)).slice(0, -2)}content-length: 0\r\nx-stray: ${STRAY}\r\n\r\n`),
  "an odd status": (socket, tag) => socket.write(sized(json(tag), "HTTP/1.1 999 x\r\ncontent-type: text/plain\r\n")),
};

const POST = ["/v1/chat/completions", "/v1/messages", "/vendors/up/any"] as const;

/** A gateway before one provider, asked in the provider's own protocol, in another one, and unread. */
const gateway = (t: Test, origin: string) =>
  startGateway(
    t,
    `providers: { up: { url: "${origin}/v1", speaks: [openai-chat], timeouts: { first_byte: 10s, idle: 10s } } }
models: { m: { targets: [up:x] } }
paths: { /vendors/up/*: { pass: up, open: true } }
retry: { wait: 10ms }
`,
  );
const bodyOf = (tag: string) =>
  JSON.stringify({ model: "m", max_tokens: 9, messages: [{ role: "user", content: tag }] });

t.test("no byte of another answer, or outside of any, ever reaches a client", async (t) => {
  const elsewhere = await httpUpstream();
  const names = Object.keys(ACTS);
  let asked = 0;
  const upstream = await rawUpstream(async (socket, request) => {
    const number = asked++;
    const tag = /tag-\d{7}/.exec((await request.body).toString())?.[0] ?? "none";
    const name = names[dice(number)(names.length)] as string;
    if (!socket.destroyed) ACTS[name]?.(socket, tag, elsewhere.origin.origin);
  });
  t.teardown(() => Promise.all([upstream.close(), elsewhere.close()]));
  const { url, log } = await gateway(t, upstream.origin.origin);
  const odd: string[] = [];
  const came: Record<string, number> = {};
  const ask = async (number: number) => {
    const tag = `tag-${String(number).padStart(7, "0")}`;
    const path = POST[number % POST.length] as string;
    const body = bodyOf(tag);
    let text = "";
    let status = 0;
    try {
      const answer = await fetch(url + path, { method: "POST", headers: asking(), body, redirect: "manual" });
      status = answer.status;
      if (answer.headers.has("location")) odd.push(`${path}: a redirect is passed on`);
      if ([...answer.headers.values()].join().includes(STRAY)) odd.push(`${path}: ${STRAY} in a header`);
      const decoder = new TextDecoder();
      for await (const piece of answer.body ?? []) text += decoder.decode(piece, { stream: true });
    } catch {
      status = -status;
    }
    came[status] = (came[status] ?? 0) + 1;
    if (text.includes(STRAY)) odd.push(`${path} ${status}: ${text.slice(0, 200)}`);
    for (const [other] of text.matchAll(/tag-\d{7}/g))
      if (other !== tag) odd.push(`${path} ${status}: ${tag} got ${other}`);
    if (status === 0) odd.push(`${path}: no answer at all`);
  };
  let left = REQUESTS;
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) await ask(left);
    }),
  );
  t.same(odd.slice(0, 10), []);
  t.equal(odd.length, 0, `${REQUESTS} requests`);
  t.equal(elsewhere.connections, 0, "no redirect is followed");
  t.ok((came["200"] ?? 0) > REQUESTS / 5 && (came["502"] ?? 0) > REQUESTS / 10, JSON.stringify(came));
  t.notOk(
    log.lines.some(({ fields }) => fields["outcome"] === "failed"),
    "no failure of the gateway's own",
  );
  t.comment(`${REQUESTS} requests, ${asked} to the provider: ${JSON.stringify(came)}`);
});

t.test("a response on an idle connection belongs to no request: the connection is closed", async (t) => {
  for (const stray of [
    sized(json(STRAY)),
    `${OK}${chunked(STRAY)}`,
    "HTTP/1.1 408 x\r\ncontent-length: 0\r\n\r\n",
    STRAY,
  ]) {
    const connections: number[] = [];
    const upstream = await rawUpstream(async (socket, request) => {
      const tag = /tag-\d{7}/.exec((await request.body).toString())?.[0] ?? "none";
      connections.push(request.connection);
      socket.write(sized(json(tag)), () => setTimeout(() => socket.write(stray), 20));
    });
    t.teardown(() => upstream.close());
    const { url } = await gateway(t, upstream.origin.origin);
    for (const [i, path] of [...POST, ...POST].entries()) {
      const tag = `tag-000000${i}`;
      const answer = await fetch(url + path, { method: "POST", headers: asking(), body: bodyOf(tag) });
      t.match(await answer.text(), tag, path);
      await until(() => upstream.open === 0, "the connection to be closed");
    }
    t.equal(new Set(connections).size, connections.length);
  }
});
