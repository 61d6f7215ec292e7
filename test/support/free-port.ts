import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Ports below those that Linux, macOS and Windows give to whoever asks for any: while a port is not listened on, for the first time
 * or between two servers, no other test is given it.
 */
const [FIRST, LAST] = [15_000, 32_000];
const given = new Set<number>();

/** Returns a port that was free a moment ago, and that nobody gets who does not ask for it. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (given.has(port)) continue;
    given.add(port);
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
