import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { connect, type Socket } from "node:net";
import t, { type Test } from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { send } from "../support/raw.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

const BODY = '{"model":"any","stream":true}';
const STREAM =
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
const LIST = `GET /v1/models HTTP/1.1\r\nHost: gw.test\r\nX-Api-Key: ${KEY}\r\n\r\n`;
const head = (more: string, key = KEY): string =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: gw.test\r\nX-Api-Key: ${key}\r\n${more}\r\n`;
const question = (length = BODY.length): string => head(`Content-Length: ${length}\r\n`) + BODY;

/** A gateway whose provider answers with nothing but this, and never ends. */
async function behind(t: Test, answer: string): Promise<{ running: Running; asked: () => number }> {
  let asked = 0;
  const upstream = await rawUpstream((socket: Socket) => {
    asked++;
    socket.write(answer);
  });
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }\nmodels: { any: { targets: [up:any] } }\n`,
  );
  return { running, asked: () => asked };
}

/** Sends the first bytes, the next ones once what has come says so, and answers what came until the end, or how it failed. */
async function inTurn(port: number, first: string, ready: (text: string) => boolean, next: string): Promise<string> {
  let text = "";
  let closed = false;
  const socket = connect(port, "127.0.0.1", () => socket.write(first));
  socket.setEncoding("latin1").on("data", (piece: string) => (text += piece));
  socket.on("error", ({ message }) => (text = message)).on("close", () => (closed = true));
  await until(() => ready(text), "the moment for the next bytes");
  socket.write(next);
  await until(() => closed, "the connection's end");
  return text;
}

const answers = (text: string): number => text.split("HTTP/1.1 ").length - 1;

t.test("a stream is closed, with nothing written into it, when its client then sends malformed data", async (t) => {
  const { running } = await behind(t, STREAM);
  const text = await inTurn(running.port, question(), (got) => got.includes("data: 1"), "GARBAGE\r\n\r\n");
  t.equal(answers(text), 1);
  t.ok(text.endsWith("9\r\ndata: 1\n\n\r\n"), text);
});

t.test("a request that was answered gets no second response when the rest of its body is malformed", async (t) => {
  const { running } = await behind(t, STREAM);
  const open = head("Transfer-Encoding: chunked\r\n", "unknown-key-0123456789");
  const text = await inTurn(running.port, open, (got) => got.includes("invalid_api_key"), "zz\r\n");
  t.equal(answers(text), 1);
});

t.test("malformed data after two requests is not taken for the first one's response", async (t) => {
  const { running } = await behind(t, "");
  // In one packet: behind a request that waits for its turn nothing more is read.
  const text = await inTurn(running.port, `${question()}${question()}GARBAGE\r\n\r\n`, () => true, "");
  t.equal(text, "");
});

t.test("after a response that has ended, malformed data is refused", async (t) => {
  const { running } = await behind(t, STREAM);
  const text = await inTurn(running.port, LIST, (got) => got.includes('"any"'), "GARBAGE\r\n\r\n");
  t.match(text, /^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 400 Bad Request\r\n[\s\S]*"code":"bad_request"/);
  const id = /x-request-id: (\S+)\r\n/.exec(text.slice(text.lastIndexOf("HTTP/1.1 ")))?.[1];
  t.match(
    running.log.lines.find(({ message }) => message === "refused"),
    { fields: { id, status: 400, error: { code: "bad_request", cause: /^HPE_/ } } },
    "and has its line in the log",
  );
});

/** Sends everything before it reads anything, as clients do that write their whole request first. */
function deaf(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(port, "127.0.0.1");
    socket.pause().setEncoding("latin1");
    socket.on("data", (piece: string) => (text += piece));
    socket.on("error", ({ message }) => (text = message)).on("close", () => resolve(text));
    socket.write(bytes, () => socket.resume());
  });
}

t.test("a refusal reaches a client that still sends its body", async (t) => {
  const { running } = await behind(t, STREAM);
  const body = "x".repeat(2 ** 23);
  const last = LIST.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
  for (const more of ["", "Connection: close\r\n", "Expect: 100-continue\r\n"]) {
    const open = head(`${more}Content-Length: ${body.length}\r\n`, "unknown-key-0123456789");
    const text = await deaf(running.port, open + body + (more === "" ? last : ""));
    t.match(text, /^HTTP\/1\.1 401 /, `${more}: the connection is not reset`);
    if (more === "") t.match(text, /HTTP\/1\.1 200 OK/, "and stays open");
    else t.match(text, /\r\nconnection: close\r\n/i, `${more}: and is closed`);
  }
});

t.test("a body longer than its length is refused with advice", async (t) => {
  const { running } = await behind(t, "");
  const { statuses, text } = await send(running.port, question(BODY.length - 1));
  t.same(statuses, [400]);
  t.match(text, "longer than content-length says: count bytes, not characters");
});

t.test("a connection is not reused after an upgrade: node's parser loses what arrived with it", async (t) => {
  const { running } = await behind(t, STREAM);
  const upgrade = LIST.replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  const { statuses, text } = await send(running.port, upgrade + LIST);
  t.same(statuses, [200]);
  t.match(text, /\r\nconnection: close\r\n/i);
});

t.test("data after a response that closes the connection is not read as a request", async (t) => {
  const { running, asked } = await behind(t, "");
  // Puts off the moment between the answer and the end of its connection, in which node still reads.
  const slowEnd = (message: unknown) => {
    const { socket } = message as { socket: Socket };
    const { _final } = socket;
    socket._final = (done) => void setTimeout(() => _final.call(socket, done), 300);
  };
  subscribe("net.server.socket", slowEnd);
  t.teardown(() => unsubscribe("net.server.socket", slowEnd));
  const doubtful = `${head("Transfer-Encoding: gzip, chunked\r\n")}0\r\n\r\n`;
  const upgrade = LIST.replace("\r\n\r\n", "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  for (const next of [question(), upgrade, LIST]) {
    const text = await inTurn(running.port, doubtful, (got) => got.includes("bad_request"), next);
    t.equal(answers(text), 1);
  }
  t.equal(asked(), 0, "no provider is called");
  t.same(
    running.log.lines.filter(({ message }) => message === "exchange"),
    [],
  );
});
