import type {
  LedgerFailedAttempts,
  LedgerFailure,
  LedgerFailures,
  LedgerReach,
  LedgerSearch,
  LedgerSpan,
  LedgerSpeed,
  SpeedGroup,
} from "./ledger.ts";
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

/** Rows a question about failures has at most, of exchanges and of attempts. */
const MOST_FAILURES = 1000;

/** Whether one of the attempts that a row lists failed, by its text: quotes within other texts have a backslash before them. */
const FAILED = `(attempts like '%"error":"upstream!_%' escape '!' or attempts like '%"status":4%' or attempts like '%"status":5%')`;

/**
 * Rows of what did not complete in a span, and of attempts that failed, for `failuresOf`. Rows of the span are gone through
 * once, and only of those that failed or hold such an attempt more is read.
 */
export function failureRows(
  { since = 0, until = FOREVER }: LedgerSpan,
  { items, isList }: LedgerDialect,
): LedgerQuestion {
  // Where a row lists none, it tells of its only attempt itself.
  const listed = isList("attempts");
  const text = `with found as materialized (
      select target, model, outcome, status, tried, counted from (
        select kind, case when ${listed} then attempts else '' end as tried, count(*) as counted from usage
        where time >= ? and time < ?
          and (kind in (select number from usage_kind where outcome <> 'completed') or (${listed} and ${FAILED}))
        group by 1, 2
      ) as rows_of_kind join usage_kind on number = kind
    ), exchanges as (
      select target, model, outcome, status, sum(counted) as requests from found
      where outcome <> 'completed' group by 1, 2, 3, 4 order by requests desc limit ${MOST_FAILURES}
    ), listed as (
      select outcome, tried, counted from found where tried not in ('', '[]')
    ), tries as (
      select target, status, cast(null as text) as error, outcome, counted from found where tried = '' and status >= 400
      union all
      select one.value ->> 'target', cast(one.value ->> 'status' as integer), one.value ->> 'error', outcome, counted
      from listed, ${items("tried")} as one
    ), attempts as (
      select target, status, error, sum(counted) as requests,
        sum(case when outcome = 'completed' then counted else 0 end) as answered from tries
      where status >= 400 or error like 'upstream!_%' escape '!'
      group by 1, 2, 3 order by requests desc limit ${MOST_FAILURES}
    )
    select target, model, outcome, status, cast(null as text) as error, requests, cast(null as integer) as answered from exchanges
    union all select target, null, null, status, error, requests, answered from attempts`;
  return { text, values: [since, until] };
}

/** Those with most requests or attempts first. */
export function failuresOf(rows: readonly Record<string, unknown>[]): LedgerFailures {
  const exchanges: LedgerFailure[] = [];
  const attempts: LedgerFailedAttempts[] = [];
  for (const { target, model, outcome, status, error, requests, answered } of rows) {
    const [who, count] = [String(target), Number(requests)];
    if (answered === null) {
      const of = { target: who, model: String(model), outcome: String(outcome) };
      exchanges.push({ ...of, status: Number(status), requests: count });
    } else
      attempts.push({
        target: who,
        ...(status !== null && { status: Number(status) }),
        ...(error !== null && { error: String(error) }),
        ...{ attempts: count, answered: Number(answered) },
      });
  }
  exchanges.sort((a, b) => b.requests - a.requests);
  attempts.sort((a, b) => b.attempts - a.attempts);
  return { exchanges, attempts };
}

/** When the exchange came that has this id: a UUIDv7 begins with it; -1 for what is none. */
const timeOf = (id: string): number =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id) ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : -1;

/** What stands below a group: acme/research is below acme. */
const below = (group: string): string => `${group.replaceAll(/[!%_]/g, "!$&")}/%`;
