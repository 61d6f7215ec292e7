import { type AddressInfo, connect, type Socket } from "node:net";
import { reachable } from "./plug.ts";

/** Milliseconds in which the last result decays by a tenth. */
const AGE = 50;

/**
 * Measures how long a new connection waits to be accepted, by making one: Node accepts one in each turn of the event loop, so
 * that others may wait in the system's queue although no turn is long.
 */
export class Newcomer {
  private socket: Socket | undefined;
  private since = 0;
  private last = 0;

  /** @param address where connections are accepted */
  constructor(private readonly address: AddressInfo) {}

  /** Milliseconds that the last probe waited, decaying with its age, or that the current one has waited so far. */
  get waited(): number {
    if (!this.socket) return this.last;
    const passed = performance.now() - this.since;
    return Math.max(passed, this.last * 0.9 ** (passed / AGE));
  }

  /** Sends a probe, unless one is pending. */
  send(): void {
    if (this.socket) return;
    this.since = performance.now();
    this.socket = connect(reachable(this.address));
    // Where the process cannot connect to itself, nothing can be measured.
    this.socket.on("error", () => this.over(0)).unref();
  }

  /** Drops the last result. */
  forget(): void {
    this.last = 0;
  }

  /** Reports whether an accepted connection is the probe; it is closed then. */
  is(taken: Socket): boolean {
    // Read for every connection: node caches the value in a property, and so all sockets have one shape for V8.
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
