import { closeSync, openSync, readSync } from "node:fs";
import { type AddressInfo, connect, type Socket } from "node:net";

/** Addresses that mean all of a machine's own, and one to reach them by. */
const ANY: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** A local address for one at which is listened. */
export const reachable = ({ address, port }: AddressInfo) => ({ host: ANY[address] ?? address, port });

/** The shortest queue that Node asks the system for; Linux lets one more than that wait, and drops who comes then. */
export const SHORTEST = 1;
/** Connections that keep it full, and one to be taken. */
const OWN = SHORTEST + 2;
/** How much of a table is read: those who listen stand first. */
const HEAD = 64 * 1024;

/**
 * Fills the queue in which the system keeps connections until they are taken with some of our own. A socket that is closed
 * resets what waits there, after somebody has sent a request perhaps; while it is full nobody comes, and once all that
 * waits is ours it can be closed. Who comes meanwhile hears nothing, tries again after a second and is refused.
 */
export class Plug {
  private readonly own: Socket[];
  private left = OWN;
  private readonly done = Promise.withResolvers<boolean>();

  /** The connections are made when the current callback has ended. */
  constructor(private readonly address: AddressInfo) {
    this.own = Array.from({ length: OWN }, () =>
      connect(reachable(address))
        .on("error", () => this.done.resolve(false))
        .unref(),
    );
  }

  /**
   * Settles once all of them are taken, or all that waits is ours, with whether the latter is so. The socket is to be
   * closed before anything else happens.
   */
  get settled(): Promise<boolean> {
    return this.done.promise;
  }

  /** A connection was taken. @returns whether it is one of ours; it is closed then */
  took(taken: Socket): boolean {
    const own = this.own.some(({ localPort }) => localPort === taken.remotePort);
    if (own) {
      this.left--;
      taken.on("error", () => {}).destroy();
    }
    if (this.left > SHORTEST && (waitingAt(this.address.port) ?? this.left) === this.left) this.done.resolve(true);
    else if (this.left === 0) this.done.resolve(false);
    return own;
  }

  close(): void {
    this.done.resolve(false);
    for (const socket of this.own) socket.destroy();
  }
}

/** How many connections wait to be taken at a port, as Linux tells (`proc_net_tcp(5)`); undefined where nobody does. */
export function waitingAt(port: number): number | undefined {
  const place = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  let waiting: number | undefined;
  for (const line of [...head("/proc/net/tcp"), ...head("/proc/net/tcp6")]) {
    const [, local = "", , state, queues = ""] = line.trim().split(/\s+/);
    if (state === LISTENS && local.endsWith(place)) waiting = (waiting ?? 0) + Number.parseInt(queues.slice(9), 16);
  }
  return waiting;
}

/** A socket's state in these tables. */
const LISTENS = "0A";

function head(file: string): string[] {
  try {
    const fd = openSync(file, "r");
    try {
      const bytes = Buffer.alloc(HEAD);
      let length = 0;
      // The system gives a page of it at a time.
      for (let read = -1; read !== 0 && length < HEAD; length += read) read = readSync(fd, bytes, { offset: length });
      return bytes.toString("latin1", 0, length).split("\n");
    } finally {
      closeSync(fd);
    }
  } catch {
    return [];
  }
}
