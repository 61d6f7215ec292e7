import { type AddressInfo, createServer } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import type { Test } from "tap";

/**
 * Starts a server that responds with these pieces, each as a chunk, and then closes the connection without the last chunk.
 * Returns its address.
 */
export async function breaking(
  t: Test,
  type: string,
  pieces: readonly (string | Buffer)[],
  between = 20,
): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", async () => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n`);
      for (const piece of pieces) {
        if (between > 0) await after(between);
        const bytes = Buffer.from(piece);
        socket.write(Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]));
      }
      socket.destroySoon();
    });
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
