/** Milliseconds of a counting window; the current and the previous one count. */
const WINDOW = 1000;
/** Maximum callers that are counted separately; further ones count as one. */
const MAX_CALLERS = 10_000;

/** The recent share of each caller. */
export class RecentShares {
  private previous = new Map<string, number>();
  private current = new Map<string, number>();
  private total = 0;
  private previousTotal = 0;
  private windowStart = 0;

  /** Counts a served request of a caller. */
  add(caller: string): void {
    const { current } = this;
    const name = current.size < MAX_CALLERS || current.has(caller) ? caller : "";
    current.set(name, (current.get(name) ?? 0) + 1);
    this.total++;
  }

  /** Returns a caller's share, where 1 is the mean of all callers with any; 0: none. */
  share(caller: string): number {
    const { current, previous } = this;
    const own = (current.get(caller) ?? 0) + (previous.get(caller) ?? 0);
    const callers = Math.max(current.size, previous.size, 1);
    return own === 0 ? 0 : (own * callers) / (this.total + this.previousTotal);
  }

  /**
   * Advances the windows.
   * @param time in milliseconds
   */
  advance(time: number): void {
    if (time - this.windowStart < WINDOW) return;
    const old = time - this.windowStart >= 2 * WINDOW;
    this.previous = old ? new Map() : this.current;
    this.previousTotal = old ? 0 : this.total;
    this.current = new Map();
    this.total = 0;
    this.windowStart = time;
  }
}
