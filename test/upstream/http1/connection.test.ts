import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Readable } from "node:stream";
import t, { type Test } from "tap";
import { Connection, type ConnectionOwner, isClosedByPeer } from "../../../src/upstream/http1/connection.ts";
import { Http1Error } from "../../../src/upstream/http1/errors.ts";
import type { HttpRequest, RequestController } from "../../../src/upstream/http1/http-request.ts";
import { addressingOf } from "../../../src/upstream/http1/request-head.ts";
import { until } from "../../support/until.ts";

/** A connection to a provider that the test plays itself. */
async function connected(t: Test, statusError: ConnectionOwner["statusError"] = () => undefined) {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [provider] = (await once(server, "connection")) as [Socket];
  await once(socket, "connect");
  const told: string[] = [];
  const connection = new Connection(socket, {
    addressing: addressingOf("h"),
    onReleased: () => told.push("released"),
    onClosed: () => told.push("closed"),
    statusError,
  });
  socket.on("data", (bytes: Buffer) => connection.receive(bytes));
  let written = "";
  provider.on("data", (bytes: Buffer) => {
    written += bytes.toString("latin1");
  });
  provider.on("error", () => {});
  t.teardown(() => {
    socket.destroy();
    provider.destroy();
    server.close();
  });
  return { connection, provider, told, written: () => written };
}

function request(told: string[], changes: Partial<HttpRequest> = {}): HttpRequest & { controller?: RequestController } {
  const one: HttpRequest & { controller?: RequestController } = {
    ...{ method: "POST", path: "/p", fields: ["a", "b"], body: undefined, length: undefined },
    onStart(controller) {
      one.controller = controller;
      told.push("started");
      return true;
    },
    onBodySent: () => {},
    onHead: ({ status }) => told.push(`head ${status}`),
    onData: (bytes) => told.push(bytes.toString()),
    onEnd: () => told.push("end"),
    onError: (error, stale) => told.push(`failed ${(error as { code?: string }).code}${stale ? ", stale" : ""}`),
    ...changes,
  };
  return one;
}

t.test("one request after another, each receives all of its response and nothing more", async (t) => {
  const { connection, provider, told, written } = await connected(t);
  for (let i = 0; i < 2; i++) {
    told.length = 0;
    t.ok(connection.send(request(told, { body: [Buffer.from("x"), Buffer.from("yz")] })));
    await until(() => written().endsWith("content-length: 3\r\n\r\nxyz"));
    provider.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    await until(() => told.includes("end"));
    t.same(told, ["started", "head 200", "ok", "released", "end"]);
  }
});

t.test("body bytes of one read arrive at once, before the end, and before an error after them", async (t) => {
  for (const [rest, end] of [
    ["0\r\n\r\n", ["released", "end"]],
    ["zz\r\n", ["closed", "failed RESPONSE_CHUNK_INVALID"]],
  ] as const) {
    const { connection, provider, told } = await connected(t);
    connection.send(request(told));
    provider.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n3\r\ndef\r\n${rest}`);
    await until(() => told.length > 4);
    t.same(told, ["started", "head 200", "abcdef", ...end]);
  }
});

t.test("a request that was cancelled leaves the connection as it was", async (t) => {
  const { connection, told, written } = await connected(t);
  t.notOk(connection.send(request(told, { onStart: () => false })));
  t.same([told, written()], [[], ""]);
});

t.test("bytes without a request, and bytes after a response, close the connection", async (t) => {
  for (const early of [true, false]) {
    const { connection, provider, told } = await connected(t);
    if (!early) connection.send(request(told));
    provider.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    await until(() => told.includes("closed"));
    t.equal(told.includes("end"), !early);
  }
});

t.test("aborted, a request receives nothing more; failed, it receives the reason once", async (t) => {
  const one = await connected(t);
  const aborted = request(one.told);
  one.connection.send(aborted);
  aborted.controller?.abort();
  await once(one.provider, "close");
  t.same(one.told, ["started", "closed"]);
  const other = await connected(t);
  other.connection.send(request(other.told));
  other.provider.destroy();
  await until(() => other.told.length > 2);
  t.match(other.told, ["started", "closed", /^failed (CONNECTION_CLOSED|ECONNRESET)$/]);
});

t.test("a body larger than the system's buffer is written in order, with notifications on its way", async (t) => {
  const { connection, provider, told } = await connected(t);
  let received = 0;
  provider.on("data", (bytes: Buffer) => {
    received += bytes.length;
  });
  const body = Array.from({ length: 90 }, (_, i) => Buffer.alloc(100_000, i));
  let sent = 0;
  connection.send(request(told, { body, onBodySent: () => sent++ }));
  await until(() => received > 9_000_000);
  t.ok(sent > 1, `${sent} times`);
});

t.test("a response before the end of the request closes the connection after it", async (t) => {
  const { connection, provider, told } = await connected(t);
  const body = new Readable({ read() {} });
  body.push("begin");
  connection.send(request(told, { body }));
  await once(provider, "data");
  provider.write("HTTP/1.1 413 x\r\ncontent-length: 0\r\n\r\n");
  await until(() => told.includes("end"));
  t.ok(told.includes("closed"));
  t.notOk(told.includes("released"));
});

t.test("paused, nothing arrives; resumed, everything does", async (t) => {
  const { connection, provider, told } = await connected(t);
  const one = request(told);
  connection.send(one);
  one.controller?.pause();
  one.controller?.pause();
  t.ok(one.controller?.paused);
  provider.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await new Promise((resolve) => setTimeout(resolve, 30));
  t.same(told, ["started"]);
  one.controller?.resume();
  await until(() => told.includes("end"));
});

t.test("a connection is not reused while bytes of its last request still wait", async (t) => {
  const { connection, provider, told } = await connected(t);
  provider.removeAllListeners("data");
  provider.pause();
  connection.send(request(told, { body: [Buffer.alloc(20 << 20)] }));
  provider.write("HTTP/1.1 413 x\r\ncontent-length: 0\r\n\r\n");
  await until(() => told.includes("closed"));
  t.same(told, ["started", "head 413", "end", "closed"]);
});

t.test("a reused connection that is closed before a byte of a response is stale; no other is", async (t) => {
  const first = await connected(t);
  first.connection.send(request(first.told));
  first.provider.destroy();
  await until(() => first.told.includes("closed"));
  t.match(first.told.at(-1), /^failed \w+$/);
  for (const begun of [false, true]) {
    const { connection, provider, told } = await connected(t);
    connection.send(request([]));
    provider.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    await until(() => told.includes("released"));
    connection.send(request(told));
    if (begun) {
      provider.write("H");
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    provider.end();
    await until(() => told.includes("closed"));
    t.equal(told.at(-1), `failed CONNECTION_CLOSED${begun ? "" : ", stale"}`);
  }
});

t.test("a response that its owner rejects is an error, and closes the connection", async (t) => {
  const { connection, provider, told } = await connected(t, (status) =>
    status === 407 ? new Http1Error("PROXY_STATUS_407") : undefined,
  );
  connection.send(request(told));
  provider.write("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
  await until(() => told.includes("closed"));
  t.same(told, ["started", "closed", "failed PROXY_STATUS_407"]);
});

const coded = (code: string) => Object.assign(new Error("x"), { code });

t.test("only a closed connection counts as closed", (t) => {
  for (const code of ["ECONNRESET", "EPIPE", "CONNECTION_CLOSED"]) t.ok(isClosedByPeer(coded(code)), code);
  for (const error of [coded("ECONNREFUSED"), coded("RESPONSE_NOT_HTTP"), new Error("ECONNRESET")])
    t.notOk(isClosedByPeer(error), error.message);
  t.end();
});
