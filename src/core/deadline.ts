/** Is called when a deadline expires. */
export interface DeadlineListener {
  onExpired(): void;
}

/** Deadlines without an owner. Their timers may still run. */
const pool: Deadline[] = [];
/** Maximum number of pooled deadlines. */
const MAX_POOLED = 256;

/**
 * A time limit that is moved at every chunk of a response. Setting a timer for each chunk would cost more than all other work for
 * it: here one is set only when none runs that fires early enough, and one that fires early sets the next. For the same reason a
 * released deadline keeps its timer for its next owner.
 */
export class Deadline {
  private listener: DeadlineListener | undefined;
  private at = Number.POSITIVE_INFINITY;
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Number.POSITIVE_INFINITY;

  private constructor() {}

  static acquire(listener: DeadlineListener): Deadline {
    const deadline = pool.pop() ?? new Deadline();
    deadline.listener = listener;
    return deadline;
  }

  /**
   * Expires after so many milliseconds, not earlier; 0: never.
   * @param now `performance.now()`, if it is known
   */
  set(ms: number, now?: number): void {
    if (!this.listener) return;
    this.at = ms > 0 ? (now ?? performance.now()) + ms : Number.POSITIVE_INFINITY;
    if (this.at < this.timerAt) this.arm(ms);
  }

  /** Gives the deadline back to the pool. It must not be used any more. */
  release(): void {
    if (!this.listener) return;
    this.listener = undefined;
    this.at = Number.POSITIVE_INFINITY;
    if (pool.length < MAX_POOLED) pool.push(this);
    else clearTimeout(this.timer);
  }

  private arm(ms: number): void {
    clearTimeout(this.timer);
    this.timerAt = this.at;
    this.timer = setTimeout(runTimer, ms, this).unref();
  }

  /** Called by the timer only: the deadline may have been moved meanwhile. */
  onTimer(): void {
    this.timerAt = Number.POSITIVE_INFINITY;
    if (this.at === Number.POSITIVE_INFINITY) return;
    const left = this.at - performance.now();
    // Timers may fire up to a millisecond early.
    if (left > 1) this.arm(left);
    else this.listener?.onExpired();
  }
}

function runTimer(deadline: Deadline): void {
  deadline.onTimer();
}
