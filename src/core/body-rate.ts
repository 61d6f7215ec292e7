import type { Readable } from "node:stream";
import { Deadline, type DeadlineListener } from "./deadline.ts";
import { GatewayError } from "./errors.ts";

/** The default minimum rate of a sender. */
const MIN_RATE = 1024;
const RATE_GRACE = 10_000;

/**
 * Chunks that a body may have whatever its size, and the bytes required for each chunk beyond: a chunk costs as much as a
 * kilobyte. A TCP segment is larger.
 */
const FREE_CHUNKS = 10_000;
const BYTES_PER_CHUNK = 1024;

/** How slowly a request's body may arrive. */
export interface BodyRateLimits {
  /** Milliseconds without a byte; 0: no limit. */
  readonly idle: number;
  /**
   * Minimum average bytes per second; default 1 KiB, 0: none. What has come faster counts for at most as long as silence may last:
   * the longer of `idle` and `patience`.
   */
  readonly slowest?: number;
  /** Milliseconds before that applies; default 10 s. */
  readonly patience?: number;
}

/** Is notified when a body arrives too slowly, or in too many chunks. */
export interface BodyRateListener {
  onTooSlow(error: GatewayError): void;
}

/**
 * Gives up a body whose sender is silent, or so slow that it would hold its connection for hours. Every reader of a request's
 * body uses one; time in which the reader itself is paused does not count against the sender.
 */
export class BodyRateMonitor implements DeadlineListener {
  private readonly deadline = Deadline.acquire(this);
  private started = performance.now();
  /** Until when the received bytes suffice for the minimum rate. */
  private sufficientUntil = this.started;
  private received = 0;
  private pieces = 0;
  /** When the reader paused; undefined while it reads. */
  private pausedAt: number | undefined;
  private stopped = false;

  constructor(
    private readonly limits: BodyRateLimits,
    private readonly listener: BodyRateListener,
  ) {
    this.setDeadline(this.started);
  }

  /**
   * Watches a stream that others read, at their reading speed, until it ends or closes.
   * @param onTooSlow called once; must end the stream
   */
  static watch(body: Readable, limits: BodyRateLimits, onTooSlow: BodyRateListener["onTooSlow"]): BodyRateMonitor {
    const monitor = new BodyRateMonitor(limits, { onTooSlow });
    body.on("data", (piece: Buffer) => monitor.addBytes(piece.length));
    body.on("pause", () => monitor.pause());
    // `resume` is emitted a tick after resume(), when the stream may be paused again.
    body.on("resume", () => {
      if (!body.isPaused()) monitor.resume();
    });
    body.once("end", () => monitor.stop()).once("close", () => monitor.stop());
    if (body.destroyed || body.readableEnded) monitor.stop();
    return monitor;
  }

  /**
   * Counts received bytes.
   * @param pieces the number of chunks that they came in
   */
  addBytes(bytes: number, pieces = 1): void {
    this.received += bytes;
    this.pieces += pieces;
    if (this.stopped) return;
    const now = this.pausedAt ?? performance.now();
    const { slowest = MIN_RATE } = this.limits;
    if (slowest > 0)
      this.sufficientUntil = Math.min(this.sufficientUntil + (bytes * 1000) / slowest, now + this.longestSilence);
    if (this.pieces > FREE_CHUNKS && this.received < (this.pieces - FREE_CHUNKS) * BYTES_PER_CHUNK)
      this.reportError(tooManyChunks());
    else if (this.pausedAt === undefined) this.setDeadline(now);
  }

  /** Stops the clock while nobody reads. */
  pause(): void {
    if (this.stopped) return;
    this.pausedAt ??= performance.now();
    this.deadline.set(0);
  }

  /** Restarts the clock. */
  resume(): void {
    if (this.pausedAt === undefined) return;
    const now = performance.now();
    this.started += now - this.pausedAt;
    this.sufficientUntil += now - this.pausedAt;
    this.pausedAt = undefined;
    this.setDeadline(now);
  }

  /** Ends the watch. */
  stop(): void {
    if (this.stopped) return;
    this.stopped = true;
    this.deadline.release();
  }

  onExpired(): void {
    // Timers may fire slightly early.
    const crawls = this.timeLeft(performance.now()) <= 1;
    this.reportError(new GatewayError("body_timeout", crawls ? { message: "The request body comes too slowly." } : {}));
  }

  private reportError(error: GatewayError): void {
    this.stop();
    this.listener.onTooSlow(error);
  }

  /** Sets the deadline to the earlier of the idle limit and the minimum rate. */
  private setDeadline(now: number): void {
    if (this.stopped) return;
    const { idle } = this.limits;
    const limit = Math.min(idle > 0 ? idle : Infinity, Math.max(this.timeLeft(now), 1));
    this.deadline.set(limit === Infinity ? 0 : limit, now);
  }

  /** Returns the milliseconds until the bytes received fall below the minimum rate. */
  private timeLeft(now: number): number {
    const { slowest = MIN_RATE, patience = RATE_GRACE } = this.limits;
    if (slowest === 0) return Infinity;
    return Math.max(this.started + patience, this.sufficientUntil) - now;
  }

  /** Milliseconds that a sender may be silent, however much it has sent before. */
  private get longestSilence(): number {
    const { idle, patience = RATE_GRACE } = this.limits;
    return idle > 0 ? Math.max(idle, patience) : Infinity;
  }
}

const tooManyChunks = (): GatewayError =>
  new GatewayError("bad_request", {
    message: `The request body comes in more than ${FREE_CHUNKS} pieces, and one more for each ${BYTES_PER_CHUNK} bytes.`,
    hint: "Send it in larger chunks, or whole with a content-length.",
  });
