import type { SQLInputValue, SQLOutputValue } from "node:sqlite";
import type { Outcome } from "../exchange.ts";
import type { Usage } from "../usage.ts";
import type { LedgerEntry } from "./ledger.ts";

/** Columns of the table `usage`, in the order of a row's values. */
export const COLUMNS = [
  ...["id", "time", "key", "model", "target", "protocol", "operation", "status", "outcome", "streaming", "attempts"],
  ...["first_byte", "duration", "source", "cost", "tokens_in", "cached", "tokens_out", "reasoning", "detail"],
] as const;

/** What is bound to an insert, in the order of `COLUMNS`. */
export type Row = readonly SQLInputValue[];

const ATTEMPTS = 10;
const DETAIL = 19;

/** A row of an entry as it is now. Numbers that are none become null, so that no entry is refused for one of them. */
export function rowOf(entry: LedgerEntry): Row {
  const { usage } = entry;
  return [
    entry.id,
    whole(entry.time),
    entry.key,
    entry.model,
    entry.target,
    entry.protocol,
    entry.operation,
    whole(entry.status),
    entry.outcome,
    entry.streaming ? 1 : 0,
    JSON.stringify(entry.attempts),
    tenth(entry.firstByte),
    tenth(entry.duration) ?? 0,
    entry.source,
    whole(entry.cost),
    whole(usage?.in.total),
    whole(usage?.in.cached),
    whole(usage?.out.total),
    whole(usage?.out.reasoning),
    usage ? detailOf(usage) : null,
  ];
}

/** About the bytes that a waiting row takes. */
export function size(row: Row): number {
  return 500 + String(row[ATTEMPTS]).length + (typeof row[DETAIL] === "string" ? row[DETAIL].length : 0);
}

/** The entry that a row was made of, except for the vendor's own usage object. */
export function entryOf(row: Record<string, SQLOutputValue>): LedgerEntry {
  const text = (column: (typeof COLUMNS)[number]) => String(row[column]);
  const number = (column: (typeof COLUMNS)[number]) => (row[column] === null ? undefined : Number(row[column]));
  const entry: LedgerEntry = {
    id: text("id"),
    time: Number(row["time"]),
    key: text("key"),
    model: text("model"),
    target: text("target"),
    protocol: text("protocol"),
    operation: text("operation"),
    status: Number(row["status"]),
    outcome: text("outcome") as Outcome,
    streaming: row["streaming"] === 1,
    attempts: JSON.parse(text("attempts")) as LedgerEntry["attempts"],
    duration: Number(row["duration"]),
    source: text("source") as LedgerEntry["source"],
  };
  const firstByte = number("first_byte");
  if (firstByte !== undefined) entry.firstByte = firstByte;
  const cost = number("cost");
  if (cost !== undefined) entry.cost = cost;
  if (row["detail"] === null) return entry;
  const detail = JSON.parse(text("detail")) as Partial<Usage>;
  entry.usage = {
    ...detail,
    in: present({ total: number("tokens_in"), cached: number("cached"), ...detail.in }),
    out: present({ total: number("tokens_out"), reasoning: number("reasoning"), ...detail.out }),
    raw: undefined,
  };
  return entry;
}

/** The counts without a column of their own, as JSON. */
function detailOf({ in: input, out: output, serverTools, tier }: Usage): string {
  const { total, cached, ...restIn } = input;
  const { total: out, reasoning, ...restOut } = output;
  const rest: Record<string, unknown> = {};
  for (const _ in restIn) rest["in"] = restIn;
  for (const _ in restOut) rest["out"] = restOut;
  if (serverTools) rest["serverTools"] = serverTools;
  if (tier !== undefined) rest["tier"] = tier;
  return JSON.stringify(rest);
}

/** The members that are there. */
function present<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function whole(number: number | undefined): number | null {
  if (number === undefined || !Number.isFinite(number)) return null;
  return Math.round(Math.min(Math.max(number, Number.MIN_SAFE_INTEGER), Number.MAX_SAFE_INTEGER));
}

/** Milliseconds with one decimal. */
function tenth(number: number | undefined): number | null {
  return number === undefined || !Number.isFinite(number) ? null : Math.round(number * 10) / 10;
}
