/** Who is told that time is up. */
export interface DeadlineListener {
  expired(): void;
}

/** Deadlines that nobody has now. Their timers may still run. */
const spare: Deadline[] = [];
/** How many are kept. */
const SPARE = 256;

/**
 * A time limit that is moved at every piece of a response. Setting a timer for each would cost more than the rest of what is
 * done for a piece: here one is set only when none runs that fires early enough, and one that fires early sets the next.
 * For the same reason one that is given back keeps its timer, for who takes it next.
 */
export class Deadline {
  private listener: DeadlineListener | undefined;
  private at = Number.POSITIVE_INFINITY;
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Number.POSITIVE_INFINITY;

  private constructor() {}

  static acquire(listener: DeadlineListener): Deadline {
    const deadline = spare.pop() ?? new Deadline();
    deadline.listener = listener;
    return deadline;
  }

  /** Expires in so many milliseconds, and not before; 0: never. */
  set(ms: number): void {
    if (!this.listener) return;
    this.at = ms > 0 ? performance.now() + ms : Number.POSITIVE_INFINITY;
    if (this.at < this.timerAt) this.arm(ms);
  }

  /** Expires no more. It belongs to somebody else from now on. */
  release(): void {
    if (!this.listener) return;
    this.listener = undefined;
    this.at = Number.POSITIVE_INFINITY;
    if (spare.length < SPARE) spare.push(this);
    else clearTimeout(this.timer);
  }

  private arm(ms: number): void {
    clearTimeout(this.timer);
    this.timerAt = this.at;
    this.timer = setTimeout(look, ms, this).unref();
  }

  /** Called by the timer only: the deadline may have moved since it was set. */
  look(): void {
    this.timerAt = Number.POSITIVE_INFINITY;
    if (this.at === Number.POSITIVE_INFINITY) return;
    const left = this.at - performance.now();
    // Timers may fire up to a millisecond early.
    if (left > 1) this.arm(left);
    else this.listener?.expired();
  }
}

function look(deadline: Deadline): void {
  deadline.look();
}
