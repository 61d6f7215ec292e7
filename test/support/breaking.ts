import { createServer } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import type { Test } from "tap";
import { byteChunk } from "./chunk.ts";
import { listen } from "./listen.ts";

/**
 * Starts a server that responds with these pieces of an event stream, each as a chunk, and then closes the connection without the
 * last chunk. Returns its address.
 */
export async function breaking(t: Test, pieces: readonly (string | Buffer)[], between = 20): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", async () => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n`);
      for (const piece of pieces) {
        if (between > 0) await after(between);
        const bytes = Buffer.from(piece);
        socket.write(byteChunk(bytes));
      }
      socket.destroySoon();
    });
  });
  return `http://127.0.0.1:${await listen(t, server)}`;
}
