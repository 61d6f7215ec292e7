import type { Socket } from "node:net";
import { PassThrough, Readable, Writable } from "node:stream";
import t from "tap";
import type { HttpRequest } from "../../../src/upstream/http1/http-request.ts";
import { addressingOf } from "../../../src/upstream/http1/request-head.ts";
import { RequestWriter } from "../../../src/upstream/http1/request-writer.ts";
import { until } from "../../support/until.ts";

const HEAD = "POST /p HTTP/1.1\r\nhost: h\r\nconnection: keep-alive\r\naccept-encoding: identity\r\n";

/** A writer to something that stands in for a socket. */
function writing<Taker extends Writable>(socket: Taker) {
  const told: string[] = [];
  const writer = new RequestWriter(socket as Writable as Socket, addressingOf("h"), {
    onBodySent: () => told.push("sent"),
    onBodyError: ({ code }) => told.push(code),
  });
  const write = (body: HttpRequest["body"], length?: number) =>
    writer.write({ method: "POST", path: "/p", fields: [], body, length } as Partial<HttpRequest> as HttpRequest);
  return { socket, writer, write, told };
}

t.test("head and small body are written as one buffer; a large body is not copied", (t) => {
  const writes: Buffer[] = [];
  const socket = new Writable({
    write(bytes, _encoding, next) {
      writes.push(bytes);
      next();
    },
  });
  const { writer, write } = writing(socket);
  write([Buffer.from("x"), Buffer.from("yz")]);
  t.same(writes.map(String), [`${HEAD}content-length: 3\r\n\r\nxyz`]);
  t.notOk(writer.unfinished);
  writes.length = 0;
  const large = Buffer.alloc(70_000);
  write([large]);
  t.equal(String(writes[0]), `${HEAD}content-length: 70000\r\n\r\n`);
  t.equal(writes[1], large);
  t.end();
});

t.test("a body larger than the window waits for what was written before", async (t) => {
  const { socket, writer, write } = writing(new PassThrough());
  write(Array.from({ length: 5 }, () => Buffer.alloc(1 << 20)));
  t.ok(writer.unfinished);
  t.ok(socket.writableLength < 3 << 20, `${socket.writableLength} bytes wait`);
  let received = 0;
  socket.on("data", (bytes: Buffer) => {
    received += bytes.length;
  });
  socket.on("drain", () => writer.onDrain());
  await until(() => received > 5 << 20);
  t.notOk(writer.unfinished);
});

t.test("a streamed body is unfinished until its end, and its failure is reported", async (t) => {
  const { socket, writer, write, told } = writing(new PassThrough());
  socket.resume();
  const body = new Readable({ read() {} });
  write(body, 2);
  body.push("ok");
  await until(() => told.includes("sent"));
  t.ok(writer.unfinished);
  body.push(null);
  await until(() => !writer.unfinished);
  write(Readable.from([Buffer.from("x")], { objectMode: false }), 5);
  await until(() => told.includes("BODY_LENGTH_WRONG"));
});

t.test("stopped, it writes no more", async (t) => {
  const { socket, writer, write } = writing(new PassThrough());
  write(Array.from({ length: 5 }, () => Buffer.alloc(1 << 20)));
  socket.resume();
  await until(() => socket.writableLength === 0);
  t.ok(writer.unfinished, "the rest waits for the socket to tell that it takes more");
  writer.stop();
  writer.onDrain();
  t.equal(socket.writableLength, 0);
});
