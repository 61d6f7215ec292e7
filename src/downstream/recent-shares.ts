/** Milliseconds over which is counted, and as many again. */
const WINDOW = 1000;
/** Callers that are told apart; further ones count as one. */
const CALLERS = 10_000;

/** How much each caller has had lately, beside the others. */
export class RecentShares {
  private before = new Map<string, number>();
  private now = new Map<string, number>();
  private total = 0;
  private totalBefore = 0;
  private began = 0;

  /** A caller was given something. */
  add(caller: string): void {
    const { now } = this;
    const name = now.size < CALLERS || now.has(caller) ? caller : "";
    now.set(name, (now.get(name) ?? 0) + 1);
    this.total++;
  }

  /** What a caller has had, where 1 is the mean of all who had something; 0: nothing. */
  share(caller: string): number {
    const { now, before } = this;
    const own = (now.get(caller) ?? 0) + (before.get(caller) ?? 0);
    const callers = Math.max(now.size, before.size, 1);
    return own === 0 ? 0 : (own * callers) / (this.total + this.totalBefore);
  }

  /** Time has passed. @param time in milliseconds */
  turn(time: number): void {
    if (time - this.began < WINDOW) return;
    const old = time - this.began >= 2 * WINDOW;
    this.before = old ? new Map() : this.now;
    this.totalBefore = old ? 0 : this.total;
    this.now = new Map();
    this.total = 0;
    this.began = time;
  }
}
