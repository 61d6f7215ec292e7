import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import t, { type Test } from "tap";
import type { BodyLimits } from "../../src/downstream/body.ts";
import { BodyPieces } from "../../src/downstream/body-pieces.ts";
import { until } from "../support/until.ts";

/**
 * The pieces of a request, of 100 bytes unless told, and the connection that brings them.
 * @param first what comes together with the head
 */
async function asked(t: Test, limits: Partial<BodyLimits> = {}, framing = "content-length: 100", first = "") {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").on("error", () => {});
  t.teardown(() => {
    socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  socket.write(`POST / HTTP/1.1\r\nhost: a\r\n${framing}\r\n\r\n${first}`);
  const [request] = (await once(server, "request")) as [IncomingMessage];
  return { socket, request, pieces: new BodyPieces(request, { maxBytes: 1000, idle: 0, ...limits }) };
}

t.test("pieces are delivered on request, then the end, as often as requested", async (t) => {
  const { socket, pieces } = await asked(t);
  const first = pieces.next();
  socket.write("a".repeat(60));
  t.equal((await first)?.toString(), "a".repeat(60));
  t.notOk(pieces.complete);
  socket.write("b".repeat(40));
  t.equal((await pieces.next())?.toString(), "b".repeat(40));
  t.equal(await pieces.next(), undefined);
  t.equal(await pieces.next(), undefined);
  t.ok(pieces.complete);
});

t.test("pieces that arrived meanwhile are delivered together", async (t) => {
  const { socket, request, pieces } = await asked(t);
  socket.write("a");
  t.equal((await pieces.next())?.toString(), "a");
  for (let i = 1; i < 100; i++) {
    socket.write("b");
    while (request.readableLength < i) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  t.equal((await pieces.next())?.toString(), "b".repeat(99));
  t.equal(await pieces.next(), undefined);
});

t.test("small chunks of one read of the socket are delivered together", async (t) => {
  const { socket, pieces } = await asked(t, {}, "transfer-encoding: chunked");
  const chunks = Array.from({ length: 500 }, (_, i) => `4\r\n${String(i).padStart(4, "0")}\r\n`);
  const came: Buffer[] = [];
  const reading = (async () => {
    for (let piece = await pieces.next(); piece; piece = await pieces.next()) came.push(piece);
  })();
  socket.write(`${chunks.join("")}0\r\n\r\n`);
  await reading;
  t.equal(Buffer.concat(came).toString(), Array.from({ length: 500 }, (_, i) => String(i).padStart(4, "0")).join(""));
  t.ok(came.length < 50, `${came.length} chunks`);
});

t.test("a client that disconnects, before or during a read, is reported as gone", async (t) => {
  const { socket, pieces } = await asked(t);
  const waiting = pieces.next();
  socket.destroy();
  await t.rejects(waiting, { code: "client_gone" });
  await t.rejects(pieces.next(), { code: "client_gone" });
});

t.test("silence, and a trickle, end the body", async (t) => {
  const silent = await asked(t, { idle: 30 });
  await t.rejects(silent.pieces.next(), { code: "body_timeout" });
  const slow = await asked(t, { slowest: 1e6, patience: 30 }, undefined, "a");
  t.equal((await slow.pieces.next())?.length, 1);
  await t.rejects(slow.pieces.next(), { code: "body_timeout", message: /too slowly/ });
});

t.test("time in which nobody reads is not counted", async (t) => {
  const { socket, request, pieces } = await asked(t, { slowest: 1e6, patience: 500 });
  socket.write("a");
  await until(() => request.readableLength > 0);
  await new Promise((resolve) => setTimeout(resolve, 600));
  t.equal((await pieces.next())?.toString(), "a");
});
