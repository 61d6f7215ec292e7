import type { LedgerFailure, LedgerReach, LedgerSearch, LedgerSpan, LedgerSpeed, SpeedGroup } from "./ledger.ts";
import { type LedgerDialect, wholeRow } from "./ledger-sql.ts";
import { Percentiles } from "./percentiles.ts";

// What the console asks of single rows, in words that SQLite and PostgreSQL both have.

/** Rows of a span that percentiles are made of, the newest: what comes before them changes little. */
const MOST = 50_000;
const FOREVER = Number.MAX_SAFE_INTEGER;

/** What is asked, and what is bound to it. */
export interface LedgerQuestion {
  readonly text: string;
  readonly values: readonly (string | number)[];
}

type Condition = [sql: string, ...values: (string | number)[]];

/** The rows that a search is for, newest first. */
export function searchOf(asked: LedgerSearch, dialect: LedgerDialect): LedgerQuestion {
  const { since = 0, until = FOREVER, before, limit, id, group, status, slower, dearer } = asked;
  const conditions: Condition[] = [["time >= ? and time < ?", since, until]];
  // The first one leads to the index of times, which both stores have.
  if (before) conditions.push(["time <= ? and (time, id) < (?, ?)", before.time, before.time, before.id]);
  if (id !== undefined) conditions.push(["time = ? and id = ?", timeOf(id), id]);
  // Rows are held against numbers, which a kind or holder that nobody has had does not even have: no row is read for its texts.
  const kinds: Condition[] = (["key", "model", "target", "outcome"] as const).flatMap((field) => {
    const value = asked[field];
    return value === undefined ? [] : [[`${field} = ?`, value] satisfies Condition];
  });
  if (status) kinds.push(["status between ? and ?", ...status]);
  if (kinds.length > 0) conditions.push(numbered(dialect, "kind", "usage_kind", kinds));
  if (group !== undefined) {
    const inGroup: Condition = ["(group_path = ? or group_path like ? escape '!')", group, below(group)];
    conditions.push(numbered(dialect, "holder", "usage_holder", [inGroup]));
  }
  if (slower !== undefined) conditions.push(["duration > ?", slower]);
  if (dearer !== undefined) conditions.push(["cost > ?", dearer]);
  const where = allOf(conditions);
  const values = conditions.flatMap(([, ...bound]) => bound);
  return {
    text: `${wholeRow(dialect)} where ${where} order by time desc, id desc limit ?`,
    values: [...values, limit],
  };
}

/** When the last of so many rows of a span began, newest first; without a row where there are fewer. */
export function reachOf({ since = 0, until = FOREVER, before }: LedgerReach, rows: number): LedgerQuestion {
  const text = "select time from usage where time >= ? and time < ? order by time desc limit 1 offset ?";
  return { text, values: [since, Math.min(until, before ? before.time + 1 : FOREVER), rows] };
}

/** A condition on the number of a kind or holder that meets others. */
function numbered(
  { among }: LedgerDialect,
  column: string,
  table: string,
  conditions: readonly Condition[],
): Condition {
  const values = conditions.flatMap(([, ...bound]) => bound);
  return [among(`usage.${column}`, `select number from ${table} where ${allOf(conditions)}`), ...values];
}

const allOf = (conditions: readonly Condition[]): string => conditions.map(([sql]) => sql).join(" and ");

/** Rows of how fast answers were in a span, for `speedsOf`. */
export function speedRows(
  { since = 0, until = FOREVER }: LedgerSpan,
  by: SpeedGroup | undefined,
  { join }: LedgerDialect,
): LedgerQuestion {
  const name = by === undefined ? "''" : `k.${by}`;
  const text = `select ${name} as name, streaming, first_byte, duration, tokens_out
    from usage ${join} usage_kind as k on k.number = kind
    where time >= ? and time < ? and outcome = 'completed' order by time desc limit ${MOST}`;
  return { text, values: [since, until] };
}

/** How fast answers were. */
export function speedsOf(rows: Iterable<Record<string, unknown>>): LedgerSpeed[] {
  const found = new Map<string, { requests: number; first: Percentiles; rate: Percentiles; duration: Percentiles }>();
  for (const row of rows) {
    const name = String(row["name"]);
    const one = found.get(name) ?? newSpeed();
    found.set(name, one);
    const first = row["first_byte"] === null ? undefined : Number(row["first_byte"]);
    const [duration, tokens] = [Number(row["duration"]), Number(row["tokens_out"] ?? 0)];
    one.requests++;
    one.duration.add(duration);
    if (first !== undefined) one.first.add(first);
    const time = duration - (first ?? 0);
    if (Number(row["streaming"]) === 1 && tokens > 1 && time > 0) one.rate.add((tokens * 1000) / time);
  }
  return [...found].map(([name, { requests, first, rate, duration }]) => ({
    name,
    requests,
    firstByte: first.figures,
    tokensPerSecond: rate.figures,
    duration: duration.figures,
  }));
}

const newSpeed = () => ({
  requests: 0,
  first: new Percentiles(),
  rate: new Percentiles(),
  duration: new Percentiles(),
});

/** Rows of what did not complete in a span, for `failureOf`. */
export function failureRows({ since = 0, until = FOREVER }: LedgerSpan): LedgerQuestion {
  const text = `select target, model, outcome, status, sum(counted) as requests from (
      select kind, count(*) as counted from usage
      where time >= ? and time < ? and kind in (select number from usage_kind where outcome <> 'completed') group by kind
    ) as found join usage_kind on number = kind group by 1, 2, 3, 4 order by requests desc limit 1000`;
  return { text, values: [since, until] };
}

export const failureOf = (row: Record<string, unknown>): LedgerFailure => ({
  ...{ target: String(row["target"]), model: String(row["model"]), outcome: String(row["outcome"]) },
  ...{ status: Number(row["status"]), requests: Number(row["requests"]) },
});

/** When the exchange came that has this id: a UUIDv7 begins with it; -1 for what is none. */
const timeOf = (id: string): number =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id) ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : -1;

/** What stands below a group: acme/research is below acme. */
const below = (group: string): string => `${group.replaceAll(/[!%_]/g, "!$&")}/%`;
