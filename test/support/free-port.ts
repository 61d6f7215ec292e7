import { once } from "node:events";
import { createServer, type Server } from "node:net";

/**
 * Ports below those that Linux, macOS and Windows give to whoever asks for any: while a port is not listened on, for the first time
 * or between two servers, no other test is given it.
 */
const [FIRST, LAST] = [15_000, 32_000];
/** Ports of a range. A process listens on the first one of its range as long as it runs, so that no other one takes any of it. */
const RANGE = 250;

/** A range of this process. */
interface Range {
  first: number;
  /** Number of its ports that were given, or tried. */
  given: number;
}
let range: Promise<Range> | undefined;

/** Returns a port that was free a moment ago, and that nobody gets who does not ask for it. */
export async function freePort(): Promise<number> {
  for (;;) {
    range ??= claimRange();
    const claimed = range;
    const own = await claimed;
    if (++own.given >= RANGE) {
      if (range === claimed) range = undefined;
      continue;
    }
    const port = own.first + own.given;
    const server = await listening(port);
    if (!server) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}

/** Claims a range that no other process has. */
async function claimRange(): Promise<Range> {
  const ranges = Math.floor((LAST - FIRST) / RANGE);
  for (;;) {
    const first = FIRST + RANGE * Math.floor(Math.random() * ranges);
    const claim = await listening(first);
    claim?.unref();
    if (claim) return { first, given: 0 };
  }
}

/** Listens on a port; undefined where another program does. */
async function listening(port: number): Promise<Server | undefined> {
  const server = createServer().listen(port, "127.0.0.1");
  return once(server, "listening").then(
    () => server,
    () => undefined,
  );
}
