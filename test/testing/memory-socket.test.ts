import { once } from "node:events";
import { createServer, request } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import t from "tap";
import { socketPair } from "../../src/testing/memory-socket.ts";

t.test("what is written at one end is read at the other in the same pieces, and waits until it is read", async (t) => {
  const [one, two] = socketPair();
  const pieces: string[] = [];
  for (const piece of ["a", "bc", "", "def"]) one.write(piece);
  await turn();
  t.ok(one.writableLength > 0, "the other end does not read yet");
  two.on("data", (piece: Buffer) => pieces.push(piece.toString()));
  one.end("g");
  await once(two, "end");
  t.same(pieces, ["a", "bc", "def", "g"]);
  t.notOk(two.destroyed, "the other half stays open");
  two.write("back");
  t.equal(String((await once(one, "data"))[0]), "back");
});

t.test("a destroyed end resets the connection, and one that has ended normally loses nothing", async (t) => {
  const [one, two] = socketPair();
  one.on("error", () => {});
  two.destroy();
  t.match(await once(one, "error").catch((error) => [error]), [{ code: "ECONNRESET" }]);
  const [three, four] = socketPair();
  three.end("last");
  three.once("finish", () => three.destroy());
  t.equal(String((await once(four, "data"))[0]), "last");
  await once(four, "end");
});

t.test("node's own HTTP works over it, in both directions", async (t) => {
  const server = createServer((asked, answer) => asked.pipe(answer));
  const [near, far] = socketPair();
  server.emit("connection", far);
  const outgoing = request({ method: "POST", createConnection: () => near });
  const text = "x".repeat(300_000);
  outgoing.end(text);
  const [answer] = await once(outgoing, "response");
  t.equal(Buffer.concat(await answer.toArray()).toString(), text);
});
