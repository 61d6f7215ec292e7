import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import t from "tap";
import { deferWriteErrors } from "../../../src/upstream/http1/write-errors.ts";
import { listen } from "../../support/listen.ts";

t.test("what a peer has sent before it closed is read before a failed write closes the socket", async (t) => {
  const server = createServer();
  const port = await listen(t, server);
  for (const pieces of [1, 2]) {
    const socket: Socket = connect(port, "127.0.0.1").pause();
    const [[peer]] = (await Promise.all([once(server, "connection"), once(socket, "connect")])) as [[Socket], unknown];
    await new Promise((sent) => peer.write("answer", sent));
    deferWriteErrors(socket);
    deferWriteErrors(socket);
    let text = "";
    socket.on("data", (bytes) => (text += bytes));
    const failed = once(socket, "error");
    peer.resetAndDestroy();
    await once(peer, "close");
    socket.resume().cork();
    for (let i = 0; i < pieces; i++) socket.write("more");
    socket.uncork();
    await failed;
    t.equal(text, "answer");
    t.ok(socket.destroyed);
  }
});
