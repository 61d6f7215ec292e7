import { randomRetryAfter } from "./admission.ts";
import { GatewayError } from "./errors.ts";

/**
 * Bytes of each account that are not counted, so that requests and messages of the usual size are accepted while others have taken
 * all of the memory. 500 accounts need 32 MB for them.
 */
export const UNCOUNTED_BYTES = 64 * 1024;

/** How many bytes may be buffered at the same time. */
export interface BufferLimits {
  readonly perCaller: number;
  /** Bytes of all callers together. */
  readonly total: number;
}

/** Counts the bytes that are buffered of incomplete input, in a process and for each caller. */
export class BufferMemory {
  private used = 0;
  private readonly usedByCaller = new Map<string, number>();

  /** Bytes that are counted now. */
  get size(): number {
    return this.used;
  }

  /** Opens the account of one request or socket. @param caller the id of a key, or a network */
  account(caller: string, limits: BufferLimits): BufferAccount {
    return new BufferAccount(this, caller, limits);
  }

  /**
   * Counts more bytes, or fewer. @param caller undefined: they are no caller's share
   * @returns the limit that forbids them, where there is no room; nothing has changed then
   */
  add(bytes: number, caller: string | undefined, limits: BufferLimits): keyof BufferLimits | undefined {
    const ofCaller = caller === undefined ? 0 : (this.usedByCaller.get(caller) ?? 0) + bytes;
    if (bytes > 0 && ofCaller > limits.perCaller) return "perCaller";
    if (bytes > 0 && this.used + bytes > limits.total) return "total";
    this.used += bytes;
    if (caller !== undefined) this.release(-bytes, caller);
    return undefined;
  }

  /** Counts bytes for all callers together only, and no longer for one of them. */
  release(bytes: number, caller: string): void {
    const ofCaller = (this.usedByCaller.get(caller) ?? 0) - bytes;
    if (ofCaller > 0) this.usedByCaller.set(caller, ofCaller);
    else this.usedByCaller.delete(caller);
  }
}

/** What one request or socket uses of a {@link BufferMemory}. */
export class BufferAccount {
  private counted = 0;
  private closed = false;
  /** The caller for whom they count; undefined: they count for all together only. */
  private caller: string | undefined;

  constructor(
    private readonly memory: BufferMemory,
    caller: string,
    private readonly limits: BufferLimits,
  ) {
    this.caller = caller;
  }

  /**
   * Changes the bytes in use.
   * @returns the limit that forbids them, where there is no room; nothing has changed then
   */
  set(bytes: number): keyof BufferLimits | undefined {
    const more = Math.max(0, bytes - UNCOUNTED_BYTES) - this.counted;
    if (more === 0 || this.closed) return undefined;
    const exceeded = this.memory.add(more, this.caller, this.limits);
    if (exceeded === undefined) this.counted += more;
    return exceeded;
  }

  /** Leaves the caller's share: what the account has counts for all callers together only. */
  releaseShare(): void {
    if (this.caller !== undefined) this.memory.release(this.counted, this.caller);
    this.caller = undefined;
  }

  /** Releases all of them; nothing is counted from now on. */
  close(): void {
    this.set(0);
    this.closed = true;
  }
}

/**
 * Returns the error for a request whose body is given up.
 * @param exceeded the limit that it would exceed with the bytes that have arrived
 */
export const noRoomError = (exceeded: keyof BufferLimits): GatewayError =>
  exceeded === "perCaller"
    ? new GatewayError("rate_limit_exceeded", {
        message:
          "The requests that arrive at the same time with this key, or from this network, are too large together.",
        hint: "Send fewer large requests at the same time.",
        ...{ limit: "memory", retryAfter: randomRetryAfter() },
      })
    : new GatewayError("overloaded", {
        message: "The requests that arrive at the same time are too large together.",
        retryAfter: randomRetryAfter(),
      });
