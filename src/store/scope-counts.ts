import type { Period } from "../core/calendar.ts";
import { RateWindow } from "./rate-window.ts";

/** Money of one scope in one kind of period. */
export interface SpentSum {
  readonly per: Period;
  start: number;
  end: number;
  /** The end of the latest period that was counted: later than `end` while a clock is set back. */
  latest: number;
  spent: number;
  /** The worst-case cost of running exchanges. */
  pending: number;
  /** The highest amount spent for which marks were reported. */
  reported: number;
  /** The money spent or pending here when this process began to count, and the money pending elsewhere. */
  known: number;
  elsewhere: number;
}

/** All counts of one scope. */
export class ScopeCounts {
  private requestWindow: RateWindow | undefined;
  private tokenWindow: RateWindow | undefined;
  running = 0;
  /** The number of the exchange that was last settled here. */
  lastSettled = 0;
  readonly sums: SpentSum[] = [];

  constructor(private readonly windows: UsedWindows) {}

  /** A linear search, as there are rarely two sums. */
  sum(per: Period): SpentSum | undefined {
    const { sums } = this;
    for (let i = 0; i < sums.length; i++) if (sums[i]?.per === per) return sums[i];
    return undefined;
  }

  // Created on first use: there may be many keys, most of which have budgets only.

  get requests(): RateWindow {
    this.requestWindow ??= this.createWindow();
    return this.requestWindow;
  }

  get tokens(): RateWindow {
    this.tokenWindow ??= this.createWindow();
    return this.tokenWindow;
  }

  private createWindow(): RateWindow {
    if (!this.requestWindow && !this.tokenWindow) this.windows.add(this);
    return new RateWindow();
  }

  /** Frees its windows if there is nothing in them. Returns whether it has none now. */
  freeEmptyWindows(now: number): boolean {
    if (this.requestWindow?.sum(now) === 0) this.requestWindow = undefined;
    if (this.tokenWindow?.sum(now) === 0) this.tokenWindow = undefined;
    return !this.requestWindow && !this.tokenWindow;
  }
}

/** The scopes that have windows. Over time there are many keys, few of which have just been used. */
export class UsedWindows {
  private readonly scopes: ScopeCounts[] = [];
  private next = 0;

  get size(): number {
    return this.scopes.length;
  }

  add(scope: ScopeCounts): void {
    this.scopes.push(scope);
  }

  /** Frees the empty windows of the next few scopes: more than one request adds. */
  freeEmpty(now: number): void {
    const { scopes } = this;
    for (let left = Math.min(SCOPES_AT_ONCE, scopes.length); left > 0; left--) {
      const at = this.next % scopes.length;
      if (!(scopes[at] as ScopeCounts).freeEmptyWindows(now)) this.next = at + 1;
      else {
        const last = scopes.pop() as ScopeCounts;
        if (at < scopes.length) scopes[at] = last;
      }
    }
  }
}

/** A request has at most about six levels. */
const SCOPES_AT_ONCE = 8;
