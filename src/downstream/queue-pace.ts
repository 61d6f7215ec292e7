/** The weight of a turn beside those before it. */
const WEIGHT = 0.2;

/** How fast a queue gets shorter, so that who comes can be told at once that it would wait too long. */
export class QueuePace {
  /** Milliseconds between two that are served, as long as others wait; 0: nobody knows. */
  each = 0;
  private count = 0;
  private since = Number.NaN;

  /** One was served. */
  served(): void {
    this.count++;
  }

  /**
   * A turn begins for which some have waited since one before it.
   * @param cpu milliseconds for which this thread had a core: one that was kept from it serves no slower
   */
  turn(cpu: number): void {
    if (this.count > 0 && cpu >= this.since) {
      const mean = (cpu - this.since) / this.count;
      this.each = this.each === 0 ? mean : this.each + (mean - this.each) * WEIGHT;
    }
    this.since = cpu;
    this.count = 0;
  }

  /** Nobody waits any more: what comes next does not come one behind the other. */
  rest(): void {
    this.since = Number.NaN;
  }
}
