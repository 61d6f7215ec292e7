import { type AddressInfo, connect, type Socket } from "node:net";
import { reachable } from "./plug.ts";

/** Milliseconds in which what the last one found loses a tenth. */
const AGE = 50;

/**
 * Finds out how long a new connection waits until it is taken, by making one: Node takes one in each turn of the event loop,
 * so that others may wait in the system's queue although no turn is long.
 */
export class Newcomer {
  private socket: Socket | undefined;
  private since = 0;
  private last = 0;

  /** @param address where connections are taken */
  constructor(private readonly address: AddressInfo) {}

  /** Milliseconds for which the last one waited, which counts for less as it ages, or this one waits already. */
  get waited(): number {
    if (!this.socket) return this.last;
    const passed = performance.now() - this.since;
    return Math.max(passed, this.last * 0.9 ** (passed / AGE));
  }

  /** Sends one, unless one is under way. */
  send(): void {
    if (this.socket) return;
    this.since = performance.now();
    this.socket = connect(reachable(this.address));
    // Where it cannot connect to itself there is nothing to be learnt.
    this.socket.on("error", () => this.over(0)).unref();
  }

  /** Nobody asks any more. */
  forget(): void {
    this.last = 0;
  }

  /** Whether a connection that was taken is the one that was sent; it is closed then. */
  is(taken: Socket): boolean {
    // Asked of each: node remembers the answer in a member, and so all connections have one shape for V8.
    const { remotePort } = taken;
    if (this.socket === undefined || this.socket.localPort !== remotePort) return false;
    taken.on("error", () => {}).destroy();
    this.over(performance.now() - this.since);
    return true;
  }

  close(): void {
    this.over(0);
  }

  private over(waited: number): void {
    this.last = waited;
    this.socket?.destroy();
    this.socket = undefined;
  }
}
