/** The least weight of a turn relative to the turns before it. */
const WEIGHT = 0.2;
/** Turns from which on the measurement is reliable. */
const MIN_TURNS = 3;

/** Measures how fast a queue is served, so that a new request that would wait too long can be refused at once. */
export class QueuePace {
  /** Milliseconds between two served requests while others wait; 0: unknown. */
  each = 0;
  private count = 0;
  private since = Number.NaN;
  /** Turns measured since the queue was last empty. */
  private turns = 0;

  /** Whether enough has been measured since the queue was last empty. */
  get isKnown(): boolean {
    return this.turns >= MIN_TURNS;
  }

  /** Counts a served request. */
  countServed(): void {
    this.count++;
  }

  /**
   * Begins a turn in which requests from an earlier turn are waiting.
   * @param cpu milliseconds of CPU time of this thread: one that was not scheduled does not serve more slowly
   */
  beginTurn(cpu: number): void {
    if (this.count > 0 && cpu >= this.since) {
      const mean = (cpu - this.since) / this.count;
      // What was served before the queue was last empty may have cost something else.
      this.each += (mean - this.each) * Math.max(WEIGHT, 1 / ++this.turns);
    }
    this.since = cpu;
    this.count = 0;
  }

  /** Ends the measurement: the queue is empty, and later requests are not served back to back. */
  reset(): void {
    this.since = Number.NaN;
    this.turns = 0;
  }
}
