import type { SQLInputValue } from "node:sqlite";
import { COLUMNS, KIND, type Row } from "./ledger-row.ts";

/** Milliseconds. */
export const HOUR = 3_600_000;

/** What `usage_hour` sums: three counts of exchanges, then columns of `usage`. */
export const SUMMED = [
  ...["requests", "failed", "unsettled"],
  ...["tokens_in", "cached", "tokens_out", "reasoning", "cost"],
] as const;

const COUNTS = 3;
const ADDED = SUMMED.slice(COUNTS).map((column) => (COLUMNS as readonly string[]).indexOf(column));
const TIME = COLUMNS.indexOf("time");
const OUTCOME = KIND.indexOf("outcome");
const SOURCE = KIND.indexOf("source");

/** What the rows of a batch add to the sums of their hours. */
export class HourSums {
  private readonly sums = new Map<number, { hour: number; kind: Row["kind"]; sum: number[] }>();

  /** Counts a row whose kind has that number. */
  add({ kind, values }: Row, number: number): void {
    const hours = Math.floor(Number(values[TIME]) / HOUR);
    // Room for four thousand million kinds in each hour.
    const place = hours * 2 ** 32 + number;
    let found = this.sums.get(place);
    if (!found) {
      found = { hour: hours * HOUR, kind, sum: SUMMED.map(() => 0) };
      this.sums.set(place, found);
    }
    const { sum } = found;
    sum[0] = (sum[0] as number) + 1;
    for (let n = 0; n < ADDED.length; n++) {
      sum[COUNTS + n] = (sum[COUNTS + n] as number) + Number(values[ADDED[n] as number]);
    }
  }

  /** Hour, key, model and target, and then what is `SUMMED`. A group comes once for each kind in it. */
  rows(): SQLInputValue[][] {
    return Array.from(this.sums.values(), ({ hour, kind, sum: [requests = 0, , , ...added] }) => {
      const failed = kind[OUTCOME] === "completed" ? 0 : requests;
      const settled = kind[SOURCE] === "reported" || kind[SOURCE] === "free";
      const unsettled = settled ? 0 : requests;
      return [hour, ...kind.slice(0, 3), requests, failed, unsettled, ...added];
    });
  }
}
