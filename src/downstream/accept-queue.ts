import { closeSync, openSync, readSync } from "node:fs";
import { type AddressInfo, connect, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { plainAddress } from "../core/networks.ts";

/** Whether this machine reaches itself over IPv6: where that is off, a socket can still listen on `::`, for IPv4 alone. */
const HAS_IPV6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));

/** Wildcard addresses, each with an address that reaches it. */
const WILDCARDS: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": HAS_IPV6 ? "::1" : "127.0.0.1" };

/** Returns a local address that reaches a listening address. */
export const reachableAddress = ({ address, port }: AddressInfo) => ({ host: WILDCARDS[address] ?? address, port });

/**
 * Reports whether an accepted connection is one that this process has made. The address is compared too: a client elsewhere may use
 * the same port.
 */
export const isAcceptedEnd = (taken: Socket, own: Socket): boolean =>
  taken.remotePort === own.localPort &&
  plainAddress(taken.remoteAddress ?? "") === plainAddress(own.localAddress ?? "");

/** The shortest accept queue that Node can request; Linux allows one connection more, and drops further ones. */
export const MIN_BACKLOG = 1;
/** Number of connections that fill it, plus one to be accepted. */
const OWN_CONNECTIONS = MIN_BACKLOG + 2;
/** Bytes of a table that are read at a time: a few lines. */
const PIECE_BYTES = 600;

/**
 * Fills the system's accept queue with connections of our own. Closing a listening socket resets connections in its queue, whose
 * clients may already have sent a request; while the queue is full no client can enter it, and once it contains only our own it
 * can be closed. A client that connects meanwhile gets no response, retries after a second and is refused.
 */
export class AcceptQueueFiller {
  private readonly own: Socket[];
  private remaining = OWN_CONNECTIONS;
  private readonly done = Promise.withResolvers<boolean>();

  /** The connections are made when the current callback has ended. */
  constructor(private readonly address: AddressInfo) {
    this.own = Array.from({ length: OWN_CONNECTIONS }, () =>
      connect(reachableAddress(address))
        .on("error", () => this.done.resolve(false))
        .unref(),
    );
  }

  /**
   * Resolves once all own connections are accepted, or only own ones are queued, with whether the latter is so. The socket must
   * be closed before anything else happens.
   */
  get settled(): Promise<boolean> {
    return this.done.promise;
  }

  /**
   * Handles an accepted connection.
   * @returns whether it is one of our own; it is closed then
   */
  claim(taken: Socket): boolean {
    const own = this.own.some((socket) => isAcceptedEnd(taken, socket));
    if (own) {
      this.remaining--;
      taken.on("error", () => {}).destroy();
    }
    if (this.remaining > MIN_BACKLOG && (acceptQueueLength(this.address) ?? this.remaining) === this.remaining)
      this.done.resolve(true);
    else if (this.remaining === 0) this.done.resolve(false);
    return own;
  }

  close(): void {
    this.done.resolve(false);
    for (const socket of this.own) socket.destroy();
  }
}

/** Returns the length of the accept queue of an address, as reported by Linux (`proc_net_tcp(5)`); undefined if not available. */
export function acceptQueueLength({ port, family }: Pick<AddressInfo, "port" | "family">): number | undefined {
  const localPort = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  let waiting: number | undefined;
  for (const [, local = "", , , queues = ""] of listeningSockets(`/proc/net/${family === "IPv6" ? "tcp6" : "tcp"}`))
    if (local.endsWith(localPort)) waiting = (waiting ?? 0) + Number.parseInt(queues.slice(9), 16);
  return waiting;
}

/** The state of a listening socket in these tables. */
const LISTEN_STATE = "0A";

/**
 * Yields the columns of the listening sockets, which come first in a table. It is read in small pieces, because the system searches
 * its whole hash table of connections, for milliseconds, to fill a larger one.
 */
function* listeningSockets(table: string): Generator<string[]> {
  let fd: number;
  try {
    fd = openSync(table, "r");
  } catch {
    return;
  }
  try {
    const piece = Buffer.alloc(PIECE_BYTES);
    let text = "";
    // The first line is the head.
    for (let isHead = true; ; ) {
      const read = readSync(fd, piece);
      if (read === 0) return;
      text += piece.toString("latin1", 0, read);
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        const columns = line.trim().split(/\s+/);
        if (!isHead && columns[3] !== LISTEN_STATE) return;
        if (!isHead) yield columns;
        isHead = false;
      }
    }
  } finally {
    closeSync(fd);
  }
}
