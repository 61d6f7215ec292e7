import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import t, { type Test } from "tap";
import { BufferMemory } from "../../src/core/buffer-memory.ts";
import { readBody } from "../../src/downstream/body.ts";
import { discardRest, linger } from "../../src/downstream/linger.ts";
import { ServerRequest } from "../../src/downstream/server-request.ts";
import { JSON_BODY, requestText } from "../support/connection.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";
import { rawUpstream } from "../support/upstream.ts";

const HEAD = "POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
const YAML = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
const LIST = "GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n";

/** A client without a key that writes all of its body before it reads anything. */
async function refused(t: Test, framing: string, body: string) {
  const { port } = await startGateway(t, YAML);
  return answered(t, port, `${HEAD}${framing}\r\n\r\n${body}`, 401);
}

/** Writes a whole request before it reads its answer. */
async function answered(t: Test, port: number, request: string, status: number) {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  const got = { socket, text: "", ended: false, error: undefined as Error | undefined };
  socket.pause().setEncoding("latin1");
  socket.on("data", (piece: string) => (got.text += piece)).on("end", () => (got.ended = true));
  socket.on("error", (error) => (got.error = error));
  await once(socket, "connect");
  await new Promise((written) => socket.write(request, written));
  socket.resume();
  await until(() => got.text.includes("}"), "the answer");
  t.ok(got.text.startsWith(`HTTP/1.1 ${status} `), got.text);
  return got;
}

const chunks = (count: number, size: number) => `${size.toString(16)}\r\n${"x".repeat(size)}\r\n`.repeat(count);

t.test("a refused body in very many small chunks ends its connection, and the refusal is not lost", async (t) => {
  const got = await refused(t, "transfer-encoding: chunked", chunks(200_000, 20));
  await until(() => got.ended, "the end of what comes");
  t.equal(got.text.split("HTTP/1.1 ").length, 2);
  got.socket.write(`${chunks(100, 20)}0\r\n\r\n${LIST}`);
  got.socket.end();
  await once(got.socket, "close");
  t.equal(got.text.split("HTTP/1.1 ").length, 2, "what follows is not read as a request");
  t.equal(got.error, undefined, "the connection is not reset");
});

t.test("a refused body that goes on in a large chunk after many small ones is read on", async (t) => {
  const got = await refused(t, "transfer-encoding: chunked", chunks(1100, 20) + chunks(1, 8 << 20));
  await until(() => got.ended, "the end of what comes");
  got.socket.end();
  await once(got.socket, "close");
  t.equal(got.error, undefined, "the connection is not reset");
});

for (const [what, framing, body] of [
  ["in few chunks", "transfer-encoding: chunked", `${chunks(900, 20)}0\r\n\r\n`],
  ["in many large chunks", "transfer-encoding: chunked", `${chunks(2000, 5000)}0\r\n\r\n`],
  ["of a known length", `content-length: ${8 << 20}`, "x".repeat(8 << 20)],
] as const)
  t.test(`a refused body ${what} is read to its end, and its connection is reused`, async (t) => {
    const got = await refused(t, framing, body);
    got.socket.write(LIST);
    await until(() => got.text.split("HTTP/1.1 ").length === 3, "the next answer");
    t.equal(got.error, undefined);
    t.equal(got.ended, false);
  });

for (const [connection, after] of [
  ["keep-alive", "is reused"],
  ["close", "then ends"],
] as const)
  t.test(`a form that its provider answers early is read to its end, and its connection ${after}`, async (t) => {
    const upstream = await rawUpstream((socket) =>
      socket.write("HTTP/1.1 400 No\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"),
    );
    t.teardown(() => upstream.close());
    const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", credential: provider-secret, speaks: [openai-images] } }
models: { any: { targets: [up:vendor] } }
paths: { /pass/*: { pass: up } }
`;
    const { port } = await startGateway(t, yaml);
    const field = (name: string, value: string) =>
      `--b\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
    const form = `${field("model", "any")}${field("image", "x".repeat(16 << 20))}--b--\r\n`;
    const headers = [`x-api-key: ${KEY}`, `connection: ${connection}`, "content-type: multipart/form-data; boundary=b"];
    for (const path of ["/v1/images/edits", "/pass/images/edits"]) {
      const head = [`POST ${path} HTTP/1.1`, "host: a", ...headers, `content-length: ${form.length}`, "", ""];
      const got = await answered(t, port, head.join("\r\n") + form, 400);
      if (connection === "keep-alive") {
        got.socket.write(LIST);
        await until(() => got.text.split("HTTP/1.1 ").length === 3, "the next answer");
      } else await until(() => got.ended, "the end");
      t.equal(got.error, undefined, "the connection is not reset");
    }
  });

t.test("the rest of a request that came too slowly is not waited for", async (t) => {
  const { port } = await startGateway(t, `${YAML}body: { idle: 100ms }\n`);
  const head = requestText("POST /v1/messages", [...JSON_BODY, `content-length: ${32 << 20}`]);
  const { socket } = await answered(t, port, head, 408);
  const piece = Buffer.alloc(64 * 1024);
  while (socket.bytesWritten < 24 << 20 && !socket.closed) {
    await new Promise((written) => socket.write(piece, written));
    await setImmediate();
  }
  t.ok(socket.closed, `${socket.bytesWritten} bytes`);
});

t.test("the rest of a request that a plugin has answered is not read whatever it costs", async (t) => {
  const plugin = "export default class P { access(exchange) { exchange.answer = { body: '{}' }; } }";
  const yaml = `${YAML}plugins: { p: { from: ./p.js } }\nchains: { llm: [p, models] }\n`;
  const { port } = await startGateway(t, yaml, { "p.js": plugin });
  const request = `${HEAD}transfer-encoding: chunked\r\n\r\n${chunks(200_000, 20)}`;
  const got = await answered(t, port, request, 200);
  await until(() => got.ended, "the end of what comes");
});

t.test("the rest of a request is not waited for once its client has left", async (t) => {
  const server = createServer({ IncomingMessage: ServerRequest });
  const port = await listen(t, server);
  const client = connect(port, "127.0.0.1");
  client.write(`${HEAD}content-length: 100\r\n\r\n`);
  const [request, response] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  const { socket } = request;
  response.end("no");
  await once(response, "close");
  discardRest(request);
  client.destroy();
  await new Promise((closed) => socket.once("close", closed));
  t.ok(request.destroyed);
});

/** Sends bodies to a server that refuses them, and counts turns of the event loop until all are read, and the most bytes of one. */
async function turns(t: Test, clients: number, [framing, body]: readonly [string, string], maxBytes: number) {
  const refused: IncomingMessage[] = [];
  const server = createServer({ IncomingMessage: ServerRequest }, async (request: ServerRequest, response) => {
    refused.push(request);
    const account = new BufferMemory().account("", { perCaller: 1e9, total: 1e9 });
    const options = { headers: request.headerList, openAccount: () => account };
    if (maxBytes > 0) await t.rejects(Promise.try(() => readBody(request, { maxBytes, idle: 5000 }, options)));
    linger(request, response, Buffer.from("no"));
  });
  const port = await listen(t, server);
  const bytes = Buffer.from(body);
  for (let i = 0; i < clients; i++) {
    const socket = connect(port, "127.0.0.1");
    t.teardown(() => socket.destroy());
    socket.resume().write(`${HEAD}${framing}\r\n\r\n`);
    socket.write(bytes);
  }
  const bytesRead = () => refused.reduce((sum, { socket }) => sum + socket.bytesRead, 0);
  let [count, most, before] = [0, 0, 0];
  for (; refused.length < clients || !refused.every(({ complete, destroyed }) => complete || destroyed); count++) {
    await setImmediate();
    most = Math.max(most, bytesRead() - before);
    before = bytesRead();
  }
  t.ok(before > clients * body.length);
  return { count, most };
}

const KNOWN = (size: number) => [`content-length: ${size}`, "x".repeat(size)] as const;

for (const [what, when, body, maxBytes] of [
  ["of a known length", "at once", KNOWN(4 << 20), 0],
  ["of a known length", "as too large", KNOWN(4 << 20), 1000],
  ["of a known length", "while it is read", KNOWN(4 << 20), 64 << 20],
  ["in large chunks", "at once", ["transfer-encoding: chunked", `${chunks(64, 65_536)}0\r\n\r\n`], 0],
  ["in large chunks", "as too large", ["transfer-encoding: chunked", `${chunks(64, 65_536)}0\r\n\r\n`], 1000],
  ["in small chunks", "at once", ["transfer-encoding: chunked", chunks(160_000, 20)], 0],
] as const)
  t.test(
    `little of a body ${what}, refused ${when}, is read in a turn of the event loop: others need not wait`,
    async (t) => {
      const { most } = await turns(t, 8, body, maxBytes);
      t.ok(most <= 768 * 1024, `${most} bytes at most`);
    },
  );

t.test("of very many refused bodies an eighth is read in a turn, which may be long: none takes minutes", async (t) => {
  const { count } = await turns(t, 128, KNOWN(2 << 20), 0);
  t.ok(count < 700, `${count} turns`);
});

t.test("the refusal of a HEAD request comes before the body that it announces", async (t) => {
  const { port } = await startGateway(t, YAML);
  const socket = connect({ port, host: "127.0.0.1" });
  t.teardown(() => socket.destroy());
  let text = "";
  socket.setEncoding("latin1").on("data", (piece: string) => (text += piece));
  socket.write("HEAD /v1/models HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n");
  await until(() => text.includes("\r\n\r\n"), "the refusal");
  t.match(text, /^HTTP\/1\.1 401 .*\r\n\r\n$/s);
  text = "";
  socket.write(`0123456789${LIST}`);
  await until(() => text.includes("}"), "the next answer");
  t.match(text, /^HTTP\/1\.1 401 /, "the body is read to its end, and its connection is reused");
});
