/** Milliseconds over which requests are counted. */
const WINDOW = 1000;
/** Callers that are told apart; further ones count as one. */
const CALLERS = 10_000;
const OTHERS = "";

/** How much each caller asks lately, and the most that one of them may have where there is too little for all. */
export class Shares {
  /** Requests in a second that a caller may have; Infinity: as many as it likes. */
  level = Number.POSITIVE_INFINITY;

  private before = new Map<string, number>();
  private now = new Map<string, number>();
  private began = 0;
  /** The part of the window before that still counts. */
  private weight = 0;

  /** One has come. @returns the chance that it is within its caller's share; 1 and more: it is */
  take(caller: string): number {
    const { now, before } = this;
    const name = now.size < CALLERS || now.has(caller) ? caller : OTHERS;
    const count = (now.get(name) ?? 0) + 1;
    now.set(name, count);
    return this.level / (count + this.weight * (before.get(name) ?? 0));
  }

  /** What the caller that asks most asks in a second. */
  get highest(): number {
    let highest = 0;
    for (const [caller, count] of this.before)
      highest = Math.max(highest, this.weight * count + (this.now.get(caller) ?? 0));
    for (const [caller, count] of this.now) if (!this.before.has(caller)) highest = Math.max(highest, count);
    return highest;
  }

  /** Time has passed. @param time in milliseconds */
  turn(time: number): void {
    const passed = time - this.began;
    if (passed >= WINDOW) {
      this.before = passed < 2 * WINDOW ? this.now : new Map();
      this.now = new Map();
      this.began = time;
    }
    this.weight = Math.max(0, 1 - (time - this.began) / WINDOW);
  }
}
