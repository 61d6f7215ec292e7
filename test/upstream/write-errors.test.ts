import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import t from "tap";
import { deferWriteErrors } from "../../src/upstream/write-errors.ts";
import { listen } from "../support/listen.ts";

t.test("what a peer has sent before it closed is read before a failed write closes the socket", async (t) => {
  const server = createServer((peer) => {
    peer.pause().on("error", () => {});
    // What has not been read makes the close a reset.
    peer.once("readable", () => peer.write("answer", () => peer.destroy()));
  });
  const port = await listen(t, server);
  for (let i = 0; i < 20; i++) {
    const socket: Socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    deferWriteErrors(socket);
    deferWriteErrors(socket);
    let text = "";
    socket.on("data", (bytes) => (text += bytes));
    const failed = new Promise((resolve) => socket.once("error", resolve));
    const write = () => {
      if (socket.writable) socket.write(Buffer.alloc(100_000), write);
    };
    write();
    await failed;
    t.equal(text, "answer");
    t.ok(socket.destroyed);
  }
});
