import { once } from "node:events";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { gathered } from "../support/gathered.ts";
import { proxied } from "../support/proxied.ts";
import { until } from "../support/until.ts";
import { client, failed, outgoing, whole } from "../support/upstream.ts";

gathered(t, "a reader that does not keep up stops the provider, and loses nothing", async (t) => {
  const size = 48 << 20;
  let written = 0;
  const { upstream, proxy } = await proxied(t, async (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
    const piece = Buffer.alloc(1 << 16, "x");
    while (written < size && !socket.destroyed) {
      written += piece.length;
      if (!socket.write(piece)) await once(socket, "drain").catch(() => {});
    }
  });
  const settled = async () => {
    for (let before = -1; before !== written; ) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
  };
  const answer = await proxy.send(outgoing(upstream.origin), client());
  await settled();
  t.ok(written < size / 2, `unread: the provider stopped at ${written} of ${size}`);

  let read = 0;
  let ended = false;
  let held = false;
  answer.read({
    chunk: (bytes) => {
      t.notOk(held, "nothing arrives while paused");
      read += bytes.length;
      held = read >= 1 << 20 && read < 2 << 20;
      return !held;
    },
    end: () => {
      ended = true;
    },
    fail: (error) => t.fail(error.message),
  });
  await until(() => held);
  await settled();
  t.ok(written < size / 2, `held: the provider stopped at ${written} of ${size}`);
  while (read < 2 << 20) {
    held = false;
    answer.resume();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await until(() => ended);
  t.equal(read, size);
});

t.test("a slow provider pauses the reading of a streamed body", async (t) => {
  const size = 48 << 20;
  let produced = 0;
  const sockets: Socket[] = [];
  const { upstream, proxy } = await proxied(t, (socket) => sockets.push(socket.pause()));
  async function* pieces() {
    for (; produced < size; produced += 1 << 16) yield Buffer.alloc(1 << 16);
  }
  const who = client();
  const sent = proxy.send(outgoing(upstream.origin, { body: pieces(), length: size }), who);
  await until(() => sockets.length === 1);
  for (let before = -1; before !== produced; ) {
    before = produced;
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  t.ok(produced < size / 2, `stopped at ${produced} of ${size}`);
  who.leave();
  t.match(await failed(sent), { code: "client_gone" });
  sockets[0]?.resume();
});

t.test("a streamed body that fails ends the attempt", async (t) => {
  const sockets: Socket[] = [];
  const { upstream, proxy } = await proxied(t, (socket) => sockets.push(socket));
  for (const [thrown, code] of [
    [new GatewayError("body_too_large"), "body_too_large"],
    [new Error("ECONNRESET"), "client_gone"],
  ] as const) {
    async function* pieces() {
      yield Buffer.from("begin");
      await until(() => sockets.length > 0);
      throw thrown;
    }
    t.match(await failed(proxy.send(outgoing(upstream.origin, { body: pieces() }), client())), { code });
    await until(() => sockets.every((socket) => socket.destroyed));
    sockets.length = 0;
  }
  const short = proxy.send(outgoing(upstream.origin, { body: Readable.from([Buffer.from("x")]), length: 5 }), client());
  t.match(await failed(short), { code: "bad_request" });
});

t.test("an early response is accepted although the body was not read to its end", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) =>
    socket.write("HTTP/1.1 413 x\r\ncontent-length: 4\r\n\r\nmuch"),
  );
  const body = new Readable({ read() {} });
  body.push("begin");
  const answer = await proxy.send(outgoing(upstream.origin, { body }), client());
  t.equal(answer.status, 413);
  t.equal((await whole(answer)).body.toString(), "much");
  t.ok(body.destroyed);
});

t.test("an early response is accepted although its provider reads nothing more and closes", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => {
    socket.pause();
    // What has not been read makes the close a reset.
    socket.write("HTTP/1.1 413 x\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmuch", () => socket.destroy());
  });
  for (let nth = 0; nth < 10; nth++) {
    // In a later turn each, as it comes from a client's own connection.
    const body = new Readable({ read: () => void setImmediate(() => body.push(Buffer.alloc(1 << 16))) });
    const answer = await proxy.send(outgoing(upstream.origin, { body }), client());
    t.equal(answer.status, 413);
    t.equal((await whole(answer)).body.toString(), "much");
  }
});
