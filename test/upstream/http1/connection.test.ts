import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Readable } from "node:stream";
import t, { type Test } from "tap";
import { Connection, ConnectionError } from "../../../src/upstream/http1/connection.ts";
import type { HttpRequest, RequestController } from "../../../src/upstream/http1/http-request.ts";
import { until } from "../../support/upstream.ts";

/** A line to a provider that the test plays itself. */
async function lined(t: Test, trip = 0) {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [provider] = (await once(server, "connection")) as [Socket];
  await once(socket, "connect");
  const told: string[] = [];
  const line = new Connection(socket, trip, {
    host: "h",
    released: () => told.push("free"),
    closed: () => told.push("gone"),
  });
  socket.on("data", (bytes: Buffer) => line.receive(bytes));
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
  return { line, provider, told, written: () => written };
}

function call(told: string[], changes: Partial<HttpRequest> = {}): HttpRequest & { carrier?: RequestController } {
  const one: HttpRequest & { carrier?: RequestController } = {
    ...{ method: "POST", path: "/p", fields: ["a", "b"], body: undefined, length: undefined },
    onStart(carrier) {
      one.carrier = carrier;
      told.push("started");
      return true;
    },
    onBodySent: () => {},
    onHead: ({ status }) => told.push(`head ${status}`),
    onData: (bytes) => told.push(bytes.toString()),
    onEnd: () => told.push("end"),
    onError: (error, unseen) => told.push(`failed ${(error as { code?: string }).code}${unseen ? ", unseen" : ""}`),
    ...changes,
  };
  return one;
}

t.test("one call after another, each told all of its answer and nothing more", async (t) => {
  const { line, provider, told, written } = await lined(t);
  for (let i = 0; i < 2; i++) {
    told.length = 0;
    t.ok(line.send(call(told, { body: [Buffer.from("x"), Buffer.from("yz")] })));
    await until(() => written().endsWith("content-length: 3\r\n\r\nxyz"));
    provider.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    await until(() => told.includes("end"));
    t.same(told, ["started", "head 200", "ok", "free", "end"]);
  }
});

t.test("a call that nobody wants leaves the line as it was", async (t) => {
  const { line, told, written } = await lined(t);
  t.notOk(line.send(call(told, { onStart: () => false })));
  t.same([told, written()], [[], ""]);
});

t.test("bytes that nobody asked for, and bytes behind an answer, close the line", async (t) => {
  for (const early of [true, false]) {
    const { line, provider, told } = await lined(t);
    if (!early) line.send(call(told));
    provider.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    await until(() => told.includes("gone"));
    t.equal(told.includes("end"), !early);
  }
});

t.test("aborted, a call hears no more; failed, it hears why once", async (t) => {
  const one = await lined(t);
  const aborted = call(one.told);
  one.line.send(aborted);
  aborted.carrier?.abort();
  await once(one.provider, "close");
  t.same(one.told, ["started", "gone"]);
  const other = await lined(t);
  other.line.send(call(other.told));
  other.provider.destroy();
  await until(() => other.told.length > 2);
  t.match(other.told, ["started", "gone", /^failed (CONNECTION_CLOSED|ECONNRESET)$/]);
});

t.test("a body larger than what the system takes at once leaves in order, and is told of on its way", async (t) => {
  const { line, provider, told } = await lined(t);
  let received = 0;
  provider.on("data", (bytes: Buffer) => {
    received += bytes.length;
  });
  const body = Array.from({ length: 90 }, (_, i) => Buffer.alloc(100_000, i));
  let sent = 0;
  line.send(call(told, { body, onBodySent: () => sent++ }));
  await until(() => received > 9_000_000);
  t.ok(sent > 1, `${sent} times`);
});

t.test("an answer before the whole request ends the line with it", async (t) => {
  const { line, provider, told } = await lined(t);
  const body = new Readable({ read() {} });
  body.push("begin");
  line.send(call(told, { body }));
  await once(provider, "data");
  provider.write("HTTP/1.1 413 x\r\ncontent-length: 0\r\n\r\n");
  await until(() => told.includes("end"));
  t.ok(told.includes("gone"));
  t.notOk(told.includes("free"));
});

t.test("paused, nothing comes; resumed, all of it", async (t) => {
  const { line, provider, told } = await lined(t);
  const one = call(told);
  line.send(one);
  one.carrier?.pause();
  one.carrier?.pause();
  t.ok(one.carrier?.paused);
  provider.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
  await new Promise((resolve) => setTimeout(resolve, 30));
  t.same(told, ["started"]);
  one.carrier?.resume();
  await until(() => told.includes("end"));
});

t.test("a line is not used again while bytes of its last request still wait", async (t) => {
  const { line, provider, told } = await lined(t);
  provider.removeAllListeners("data");
  provider.pause();
  line.send(call(told, { body: [Buffer.alloc(20 << 20)] }));
  provider.write("HTTP/1.1 413 x\r\ncontent-length: 0\r\n\r\n");
  await until(() => told.includes("end"));
  t.same(told, ["started", "head 413", "gone", "end"]);
});

t.test("a provider that closes a kept connection as a call comes to it has not seen that call", async (t) => {
  for (const [trip, unseen] of [
    [100, ", unseen"],
    [90, ""],
  ] as const) {
    const { line, provider, told } = await lined(t, trip);
    line.send(call([]));
    provider.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    await until(() => told.includes("free"));
    let now = 1000;
    t.intercept(performance, "now", { value: () => now });
    line.send(call(told));
    now += 145;
    line.fail(new ConnectionError("CONNECTION_CLOSED"));
    t.equal(told.at(-1), `failed CONNECTION_CLOSED${unseen}`);
  }
});

t.test(
  "what a provider took after a first part, answered in part, or had as the first call, it may have worked on",
  async (t) => {
    t.intercept(performance, "now", { value: () => 1000 });
    const first = await lined(t);
    first.line.send(call(first.told));
    first.provider.destroy();
    await until(() => first.told.includes("gone"));
    t.notMatch(first.told.at(-1), /unseen/);
    for (const answered of [true, false]) {
      const { line, provider, told } = await lined(t);
      line.send(call([]));
      provider.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
      await until(() => told.includes("free"));
      let sent = 0;
      const body = answered ? undefined : Array.from({ length: 90 }, () => Buffer.alloc(100_000));
      line.send(call(told, { body, onBodySent: () => sent++ }));
      if (answered) {
        provider.write("H");
        await new Promise((resolve) => setTimeout(resolve, 30));
      } else await until(() => sent > 0);
      provider.destroy();
      await until(() => told.includes("gone"));
      t.notMatch(told.at(-1), /unseen/);
    }
  },
);
