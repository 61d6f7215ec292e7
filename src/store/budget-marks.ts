import type { Period } from "../core/calendar.ts";
import type { LimitLevel } from "../core/limits.ts";

/** A share of a budget that has been reached, or a refusal because the budget is exhausted. */
export interface BudgetMark extends Pick<LimitLevel, "kind" | "name" | "label"> {
  readonly per: Period;
  /** Nano-dollars. */
  readonly limit: number;
  /** Nano-dollars, without what running requests have reserved. */
  readonly spent: number;
  readonly soft: boolean;
  /** 0.8 or 1; 1 for a refusal. */
  readonly share: number;
  readonly refused: boolean;
}

/** A mark with the time at which it was reached. */
export interface TimedBudgetMark extends BudgetMark {
  /** Unix milliseconds. */
  readonly time: number;
}

/** Maximum number of budgets with marks; the first ones stay. */
const MAX_MARKS = 1000;

/** Milliseconds after which a mark is too old to report. */
const MAX_AGE = 60_000;

/** Keeps marks until they are taken: the highest of each budget. */
export class BudgetMarks {
  private marks = new Map<string, { readonly mark: TimedBudgetMark; readonly at: number }>();

  /** @param clock milliseconds */
  constructor(private readonly clock: () => number = () => performance.now()) {}

  readonly add = (mark: BudgetMark): void => {
    const { kind, name, per, limit, share } = mark;
    const key = `${kind} ${name} ${per} ${limit}`;
    const known = this.marks.get(key);
    if (known ? known.mark.share < share : this.marks.size < MAX_MARKS)
      this.marks.set(key, { mark: { ...mark, time: Date.now() }, at: this.clock() });
  };

  /** Returns the recent marks and removes all: older ones are no longer worth a report. */
  drain(): TimedBudgetMark[] {
    if (this.marks.size === 0) return [];
    const since = this.clock() - MAX_AGE;
    const taken = [...this.marks.values()].flatMap(({ mark, at }) => (at >= since ? [mark] : []));
    this.marks = new Map();
    return taken;
  }
}
