/** A minute's seconds plus the current one, so that no 60-second span, wherever it begins, exceeds the limit. */
const SECONDS = 61;
/** The same in milliseconds. */
export const RATE_SPAN = SECONDS * 1000;

/** Sums amounts of the last minute, to the second, without a timer. */
export class RateWindow {
  private readonly seconds = new Float64Array(SECONDS);
  /** The current second, since 1970. */
  private current = 0;
  /** The last second in which anything was added. */
  private last = 0;
  private total = 0;

  /** @param now Unix milliseconds @returns the sum */
  add(now: number, amount: number): number {
    this.advance(now);
    const at = this.current % SECONDS;
    this.seconds[at] = (this.seconds[at] as number) + amount;
    this.total += amount;
    this.last = this.current;
    return this.total;
  }

  /** Corrects an amount added earlier; the correction expires with it. @param more may be negative */
  correct(now: number, time: number, more: number): void {
    this.advance(now);
    const second = Math.min(Math.floor(time / 1000), this.current);
    if (this.current - second >= SECONDS) return;
    const at = second % SECONDS;
    this.seconds[at] = (this.seconds[at] as number) + more;
    this.total += more;
    this.last = Math.max(this.last, second);
  }

  sum(now: number): number {
    this.advance(now);
    return this.total;
  }

  /** Returns the milliseconds until an amount fits below a limit; undefined: it never does. */
  timeUntilRoom(now: number, amount: number, limit: number): number | undefined {
    this.advance(now);
    if (amount > limit) return undefined;
    let remaining = this.total;
    for (let second = this.current - SECONDS + 1; second <= this.current && remaining + amount > limit; second++) {
      remaining -= this.seconds[second % SECONDS] as number;
      if (remaining + amount <= limit) return (second + SECONDS) * 1000 - now;
    }
    return 0;
  }

  /** Returns the milliseconds until all amounts have expired. */
  timeUntilEmpty(now: number): number {
    this.advance(now);
    return this.total > 0 ? (this.last + SECONDS) * 1000 - now : 0;
  }

  /** Handles a clock set back by more than the window: the amounts keep their age. */
  private handleSetBack(second: number): void {
    const before = this.seconds.slice();
    for (let age = 0; age < SECONDS; age++) {
      const at = (this.current - age + SECONDS) % SECONDS;
      this.seconds[(second - age + SECONDS) % SECONDS] = before[at] as number;
    }
    this.last += second - this.current;
    this.current = second;
  }

  private advance(now: number): void {
    const passed = now - this.current * 1000;
    // Nearly always: each request asks this many times.
    if (passed >= 0 && passed < 1000) return;
    const second = Math.floor(now / 1000);
    if (this.current - second > SECONDS) this.handleSetBack(second);
    // After a smaller step back, the window's clock stands still until the time is reached again.
    if (second <= this.current) return;
    const behind = Math.min(second - this.current, SECONDS);
    for (let i = 0; i < behind; i++) {
      const at = (second - i) % SECONDS;
      this.total -= this.seconds[at] as number;
      this.seconds[at] = 0;
    }
    if (behind === SECONDS) this.total = 0;
    this.current = second;
  }
}
