import type { LedgerGroup, LedgerSum } from "./ledger.ts";
import { type Cell, KIND_COLUMNS, rowTime, USAGE_COLUMNS, type UsageRow } from "./ledger-row.ts";

/** Milliseconds. */
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
export const WEEK = 7 * DAY;

/** What sums may be grouped by. */
export const LEDGER_GROUPS: readonly LedgerGroup[] = ["key", "group", "model", "target", "tag", "day"];

/** The columns that `usage_hour` sums: three counts of exchanges, then columns of `usage`. */
export const SUM_COLUMNS = [
  ...["requests", "failed", "unsettled"],
  ...["tokens_in", "cached", "tokens_out", "reasoning", "cost", "assumed_cost"],
] as const;

/** Converts a sum to the fields of the admin API and of the verb `usage`: what is unpriced stays so. */
export const sumFields = ({ tokensIn, tokensOut, assumedCost: _, ...sum }: LedgerSum) => ({
  ...sum,
  tokens_in: tokensIn,
  tokens_out: tokensOut,
});

const COUNT_COLUMNS = 3;
const UNSETTLED = SUM_COLUMNS.indexOf("unsettled");
const ADDED = SUM_COLUMNS.slice(COUNT_COLUMNS).map((column) => (USAGE_COLUMNS as readonly string[]).indexOf(column));
const COST = USAGE_COLUMNS.indexOf("cost");
const OUTCOME = KIND_COLUMNS.indexOf("outcome");
const SOURCE = KIND_COLUMNS.indexOf("source");

/** What one kind of rows adds to the sums of one hour. */
interface KindSum {
  readonly hour: number;
  readonly kind: UsageRow["kind"];
  readonly isSettled: boolean;
  readonly sum: number[];
}

/** The amounts that a batch of rows adds to the sums of its hours. */
export class HourSums {
  /** By the numbers of holders, then by hours and the numbers of kinds. */
  private readonly sums = new Map<number, Map<number, KindSum>>();
  /** That of the last row, which most rows share. */
  private last: { readonly key: number; readonly holder: number; readonly found: KindSum } | undefined;

  /** Adds a row whose kind and holder have these numbers. */
  add({ kind, values }: UsageRow, number: number, holder: number): void {
    const hours = Math.floor(rowTime({ values }) / HOUR);
    // Leaves room for 2^32 kinds in each hour.
    const key = hours * 2 ** 32 + number;
    if (this.last?.key !== key || this.last.holder !== holder)
      this.last = { key, holder, found: this.find(key, holder, hours * HOUR, kind) };
    const { sum, isSettled } = this.last.found;
    sum[0] = (sum[0] as number) + 1;
    if (!isSettled || values[COST] === null) sum[UNSETTLED] = (sum[UNSETTLED] as number) + 1;
    for (let n = 0; n < ADDED.length; n++) {
      const cell = values[ADDED[n] as number];
      if (cell !== null) sum[COUNT_COLUMNS + n] = (sum[COUNT_COLUMNS + n] as number) + Number(cell);
    }
  }

  private find(key: number, holder: number, hour: number, kind: UsageRow["kind"]): KindSum {
    const sums = this.sums.getOrInsertComputed(holder, () => new Map());
    return sums.getOrInsertComputed(key, () => {
      const isSettled = kind[SOURCE] === "reported" || kind[SOURCE] === "free";
      return { hour, kind, isSettled, sum: SUM_COLUMNS.map(() => 0) };
    });
  }

  /** Returns hour, key, model, target and holder, then the columns of `SUM_COLUMNS`. A group has one row for each kind in it. */
  rows(): Cell[][] {
    const all = [...this.sums].flatMap(([holder, sums]) => [...sums.values()].map((sum) => ({ ...sum, holder })));
    return all.map(({ hour, kind, holder, sum: [requests = 0, , unsettled = 0, ...added] }) => {
      const failed = kind[OUTCOME] === "completed" ? 0 : requests;
      return [hour, ...kind.slice(0, 3), holder, requests, failed, unsettled, ...added];
    });
  }
}
