import type { Period } from "../core/calendar.ts";
import type { Budget } from "../core/limit-kinds.ts";
import { isRepeated, NEARLY_SPENT } from "./limit-results.ts";
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

/** A budget with the sum that it limits. */
export interface BudgetSum {
  readonly budget: Budget;
  readonly sum: SpentSum;
  /** Whether an earlier budget limits the same sum. */
  readonly isRepeated: boolean;
  /** The sum from which on one of the budgets that limit it is reported. */
  readonly firstMark: number;
}

/** All counts of one scope. */
export class ScopeCounts {
  private requestWindow: RateWindow | undefined;
  private tokenWindow: RateWindow | undefined;
  running = 0;
  /** The number of the exchange that was last settled here. */
  lastSettled = 0;
  readonly sums: SpentSum[] = [];
  /** The budgets that were asked for last, with the sums that there were. */
  private lastBudgets: readonly Budget[] = [];
  private budgetSums: readonly BudgetSum[] = [];
  private sumCount = 0;

  constructor(private readonly windows: UsedWindows) {}

  /** A linear search, as there are rarely two sums. */
  sum(per: Period): SpentSum | undefined {
    const { sums } = this;
    for (let i = 0; i < sums.length; i++) if (sums[i]?.per === per) return sums[i];
    return undefined;
  }

  /** Returns those budgets that have a sum. Nearly always they are the same as before: each request asks for them many times. */
  sumsOf(budgets: readonly Budget[]): readonly BudgetSum[] {
    const { lastBudgets, sums } = this;
    if (this.sumCount === sums.length && (budgets === lastBudgets || areSame(budgets, lastBudgets)))
      return this.budgetSums;
    this.lastBudgets = budgets;
    this.sumCount = sums.length;
    this.budgetSums = budgets.flatMap((budget, at): BudgetSum[] => {
      const sum = this.sum(budget.per);
      const marks = budgets.filter(({ per }) => per === budget.per).map(({ nano }) => nano * NEARLY_SPENT);
      return sum ? [{ budget, sum, isRepeated: isRepeated(budgets, at), firstMark: Math.min(...marks) }] : [];
    });
    return this.budgetSums;
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

/** Reports whether budgets are equal: those of a request from another process are copies. */
const areSame = (some: readonly Budget[], others: readonly Budget[]): boolean =>
  some.length === others.length &&
  some.every(({ nano, per, soft }, at) => {
    const other = others[at] as Budget;
    return nano === other.nano && per === other.per && soft === other.soft;
  });

/** The scopes that have windows. Over time there are many keys, few of which have just been used. */
export class UsedWindows {
  private readonly scopes: ScopeCounts[] = [];
  private next = 0;
  /** Number of scopes to look at for those that were added. */
  private due = 0;

  get size(): number {
    return this.scopes.length;
  }

  add(scope: ScopeCounts): void {
    this.scopes.push(scope);
    this.due += LOOKS_PER_SCOPE;
  }

  /** Frees the empty windows of the next few scopes: more than have been added, in the long run. */
  freeEmpty(now: number): void {
    const { scopes } = this;
    const looks = Math.min(1 + this.due, scopes.length, MAX_LOOKS);
    // A look at each scope is enough, however many were added.
    this.due = Math.min(Math.max(0, this.due - looks), scopes.length);
    for (let left = looks; left > 0; left--) {
      const at = this.next % scopes.length;
      if (!(scopes[at] as ScopeCounts).freeEmptyWindows(now)) this.next = at + 1;
      else {
        const last = scopes.pop() as ScopeCounts;
        if (at < scopes.length) scopes[at] = last;
      }
    }
  }
}

/** Scopes to look at for each that is added. */
const LOOKS_PER_SCOPE = 4;
/** Scopes to look at for one request: those of a ledger are added all at once, and no request is to wait for all of them. */
const MAX_LOOKS = 100;
