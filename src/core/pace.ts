import type { Readable } from "node:stream";
import { Deadline, type DeadlineListener } from "./deadline.ts";
import { GatewayError } from "./errors.ts";

/** The least that a sender owes, unless the limits say otherwise. */
const SLOWEST = 1024;
const PATIENCE = 10_000;

/**
 * Pieces that a body may have whatever its size, and the bytes for each that it may have beyond: a piece costs as much as a
 * kilobyte. A segment of TCP is larger.
 */
const MANY = 10_000;
const EACH = 1024;

/** How slowly a request's body may come. */
export interface PaceLimits {
  /** Milliseconds without a byte; 0: no end. */
  readonly idle: number;
  /** Bytes a second, on average, below which a body is given up; 1 KiB. 0: never. */
  readonly slowest?: number;
  /** Milliseconds before that counts; 10 s. */
  readonly patience?: number;
}

/** Hears that a body comes too slowly, or in too many pieces. */
export interface PaceListener {
  late(error: GatewayError): void;
}

/**
 * Gives up a body whose sender is silent, or so slow that it would hold its connection for hours. Everybody who reads a
 * request's body has one; what the sender cannot help, a reader that takes nothing, does not count.
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
   * Judges a stream that others read, at the speed at which they take it, until it ends or closes.
   * @param late is told once, and ends the stream
   */
  static watch(body: Readable, limits: PaceLimits, late: PaceListener["late"]): Pace {
    const pace = new Pace(limits, { late });
    body.on("data", (piece: Buffer) => pace.came(piece.length));
    body.on("pause", () => pace.pause());
    // Also comes a turn after a stream was asked to flow that has been paused again meanwhile.
    body.on("resume", () => {
      if (!body.isPaused()) pace.resume();
    });
    body.once("end", () => pace.stop()).once("close", () => pace.stop());
    if (body.destroyed || body.readableEnded) pace.stop();
    return pace;
  }

  /** Some bytes have come. @param pieces in which they came */
  came(bytes: number, pieces = 1): void {
    this.received += bytes;
    this.pieces += pieces;
    if (this.over) return;
    if (this.pieces > MANY && this.received < (this.pieces - MANY) * EACH) this.tell(crumbs());
    else if (this.pausedAt === undefined) this.wait();
  }

  /** From now on nobody reads. */
  pause(): void {
    if (this.over) return;
    this.pausedAt ??= performance.now();
    this.deadline.set(0);
  }

  /** Somebody reads again. */
  resume(): void {
    if (this.pausedAt === undefined) return;
    this.started += performance.now() - this.pausedAt;
    this.pausedAt = undefined;
    this.wait();
  }

  /** Nothing more is expected. */
  stop(): void {
    if (this.over) return;
    this.over = true;
    this.deadline.release();
  }

  expired(): void {
    // Timers may be a little early.
    const crawls = this.left() <= 1;
    this.tell(new GatewayError("body_timeout", crawls ? { message: "The request body comes too slowly." } : {}));
  }

  private tell(error: GatewayError): void {
    this.stop();
    this.listener.late(error);
  }

  /** Whichever comes first: too long a silence, or too few bytes for the time. */
  private wait(): void {
    if (this.over) return;
    const { idle } = this.limits;
    const limit = Math.min(idle > 0 ? idle : Infinity, Math.max(this.left(), 1));
    this.deadline.set(limit === Infinity ? 0 : limit);
  }

  /** Milliseconds until what has come is too little. */
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
