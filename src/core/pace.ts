import type { Readable } from "node:stream";
import { Deadline, type DeadlineListener } from "./deadline.ts";
import { GatewayError } from "./errors.ts";

/** The default minimum rate of a sender. */
const SLOWEST = 1024;
const PATIENCE = 10_000;

/**
 * Chunks that a body may have whatever its size, and the bytes required for each chunk beyond: a chunk costs as much as a
 * kilobyte. A TCP segment is larger.
 */
const MANY = 10_000;
const EACH = 1024;

/** How slowly a request's body may arrive. */
export interface PaceLimits {
  /** Milliseconds without a byte; 0: no limit. */
  readonly idle: number;
  /** Minimum average bytes per second; default 1 KiB, 0: none. */
  readonly slowest?: number;
  /** Milliseconds before that applies; default 10 s. */
  readonly patience?: number;
}

/** Is notified when a body arrives too slowly, or in too many chunks. */
export interface PaceListener {
  late(error: GatewayError): void;
}

/**
 * Gives up a body whose sender is silent, or so slow that it would hold its connection for hours. Every reader of a request's
 * body uses one; time in which the reader itself is paused does not count against the sender.
 */
export class Pace implements DeadlineListener {
  private readonly deadline = Deadline.acquire(this);
  private started = performance.now();
  private received = 0;
  private pieces = 0;
  /** When the reader paused; undefined while it reads. */
  private pausedAt: number | undefined;
  private over = false;

  constructor(
    private readonly limits: PaceLimits,
    private readonly listener: PaceListener,
  ) {
    this.wait();
  }

  /**
   * Watches a stream that others read, at their reading speed, until it ends or closes.
   * @param late called once; must end the stream
   */
  static watch(body: Readable, limits: PaceLimits, late: PaceListener["late"]): Pace {
    const pace = new Pace(limits, { late });
    body.on("data", (piece: Buffer) => pace.came(piece.length));
    body.on("pause", () => pace.pause());
    // `resume` is emitted a tick after resume(), when the stream may be paused again.
    body.on("resume", () => {
      if (!body.isPaused()) pace.resume();
    });
    body.once("end", () => pace.stop()).once("close", () => pace.stop());
    if (body.destroyed || body.readableEnded) pace.stop();
    return pace;
  }

  /**
   * Counts received bytes.
   * @param pieces the number of chunks that they came in
   */
  came(bytes: number, pieces = 1): void {
    this.received += bytes;
    this.pieces += pieces;
    if (this.over) return;
    if (this.pieces > MANY && this.received < (this.pieces - MANY) * EACH) this.tell(crumbs());
    else if (this.pausedAt === undefined) this.wait();
  }

  /** Stops the clock while nobody reads. */
  pause(): void {
    if (this.over) return;
    this.pausedAt ??= performance.now();
    this.deadline.set(0);
  }

  /** Restarts the clock. */
  resume(): void {
    if (this.pausedAt === undefined) return;
    this.started += performance.now() - this.pausedAt;
    this.pausedAt = undefined;
    this.wait();
  }

  /** Ends the watch. */
  stop(): void {
    if (this.over) return;
    this.over = true;
    this.deadline.release();
  }

  expired(): void {
    // Timers may fire slightly early.
    const crawls = this.left() <= 1;
    this.tell(new GatewayError("body_timeout", crawls ? { message: "The request body comes too slowly." } : {}));
  }

  private tell(error: GatewayError): void {
    this.stop();
    this.listener.late(error);
  }

  /** Sets the deadline to the earlier of the idle limit and the minimum rate. */
  private wait(): void {
    if (this.over) return;
    const { idle } = this.limits;
    const limit = Math.min(idle > 0 ? idle : Infinity, Math.max(this.left(), 1));
    this.deadline.set(limit === Infinity ? 0 : limit);
  }

  /** Returns the milliseconds until the bytes received fall below the minimum rate. */
  private left(): number {
    const { slowest = SLOWEST, patience = PATIENCE } = this.limits;
    if (slowest === 0) return Infinity;
    return this.started + Math.max(patience, (this.received * 1000) / slowest) - performance.now();
  }
}

const crumbs = (): GatewayError =>
  new GatewayError("bad_request", {
    message: `The request body comes in more than ${MANY} pieces, and one more for each ${EACH} bytes.`,
    hint: "Send it in larger chunks, or whole with a content-length.",
  });
