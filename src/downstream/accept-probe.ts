import { type AddressInfo, connect, type Socket } from "node:net";
import { isAcceptedEnd, reachableAddress } from "./accept-queue.ts";

/** Milliseconds in which the last result decays by a tenth. */
const DECAY_TIME = 50;

/**
 * Measures how long a new connection waits to be accepted, by making one: Node accepts one in each turn of the event loop, so
 * that others may wait in the system's queue although no turn is long.
 */
export class AcceptProbe {
  private socket: Socket | undefined;
  private sentAt = 0;
  private last = 0;

  /** @param address where connections are accepted */
  constructor(private readonly address: AddressInfo) {}

  /** Milliseconds that the last probe waited, decaying with its age, or that the current one has waited so far. */
  get waitTime(): number {
    if (!this.socket) return this.last;
    const passed = performance.now() - this.sentAt;
    return Math.max(passed, this.last * 0.9 ** (passed / DECAY_TIME));
  }

  /** Sends a probe, unless one is pending. */
  send(): void {
    if (this.socket) return;
    this.sentAt = performance.now();
    this.socket = connect(reachableAddress(this.address));
    // Where the process cannot connect to itself, nothing can be measured.
    this.socket.on("error", () => this.finish(0)).unref();
  }

  /** Drops the last result. */
  reset(): void {
    this.last = 0;
  }

  /** Reports whether an accepted connection is the probe; it is closed then. */
  claim(taken: Socket): boolean {
    // Read for every connection: node caches the value in a property, and so all sockets have one shape for V8.
    void taken.remotePort;
    if (this.socket === undefined || !isAcceptedEnd(taken, this.socket)) return false;
    taken.on("error", () => {}).destroy();
    this.finish(performance.now() - this.sentAt);
    return true;
  }

  close(): void {
    this.finish(0);
  }

  private finish(waited: number): void {
    this.last = waited;
    this.socket?.destroy();
    this.socket = undefined;
  }
}
