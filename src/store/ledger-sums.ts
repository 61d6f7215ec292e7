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

/** The amounts that a batch of rows adds to the sums of its hours. */
export class HourSums {
  /** By the numbers of holders. */
  private readonly sums = new Map<number, Map<number, { hour: number; kind: UsageRow["kind"]; sum: number[] }>>();

  /** Adds a row whose kind and holder have these numbers. */
  add({ kind, values }: UsageRow, number: number, holder: number): void {
    const sums = this.sums.getOrInsertComputed(holder, () => new Map());
    const hours = Math.floor(rowTime({ values }) / HOUR);
    // Leaves room for 2^32 kinds in each hour.
    const key = hours * 2 ** 32 + number;
    const { sum } = sums.getOrInsertComputed(key, () => ({
      hour: hours * HOUR,
      kind,
      sum: SUM_COLUMNS.map(() => 0),
    }));
    sum[0] = (sum[0] as number) + 1;
    if (!isSettled(kind) || values[COST] === null) sum[UNSETTLED] = (sum[UNSETTLED] as number) + 1;
    for (let n = 0; n < ADDED.length; n++) {
      sum[COUNT_COLUMNS + n] = (sum[COUNT_COLUMNS + n] as number) + Number(values[ADDED[n] as number]);
    }
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

const isSettled = (kind: UsageRow["kind"]): boolean => kind[SOURCE] === "reported" || kind[SOURCE] === "free";
