import type {
  LedgerFailedAttempts,
  LedgerFailure,
  LedgerFailures,
  LedgerFilter,
  LedgerSearch,
  LedgerSpan,
  LedgerSpeed,
  SpeedGroup,
} from "./ledger.ts";
import { type LedgerDialect, selectRowsSql } from "./ledger-sql.ts";
import { Percentiles } from "./percentiles.ts";

// Queries of the console for single rows, in SQL common to SQLite and PostgreSQL.

/** Maximum rows of a span from which percentiles are computed, the newest: older ones change little. */
const MAX_SPEED_ROWS = 20_000;
const FOREVER = Number.MAX_SAFE_INTEGER;

/** A query and its bound values. */
export interface SqlQuery {
  readonly text: string;
  readonly values: readonly (string | number)[];
}

type Condition = [sql: string, ...values: (string | number)[]];

/** Returns the query for a search's rows, newest first. */
export function searchQuery(search: LedgerSearch, dialect: LedgerDialect): SqlQuery {
  const { since = 0, until = FOREVER, before, limit, id, durationAbove, costAbove } = search;
  const conditions: Condition[] = [["time >= ? and time < ?", since, until]];
  // The first condition makes both stores use the index on time.
  if (before) conditions.push(["time <= ? and (time, id) < (?, ?)", before.time, before.time, before.id]);
  if (id !== undefined) conditions.push(["time = ? and id = ?", uuidTime(id), id]);
  // Conditions compare numbers; an unknown kind or holder has none. No row is read for its texts.
  for (const { column, table, where, values } of numberedConditions(search))
    conditions.push([dialect.isIn(`usage.${column}`, `select number from ${table} where ${where}`), ...values]);
  if (durationAbove !== undefined) conditions.push(["duration > ?", durationAbove]);
  if (costAbove !== undefined) conditions.push(["cost > ?", costAbove]);
  return {
    text: `${selectRowsSql(dialect)} where ${joinConditions(conditions)} order by time desc, id desc limit ?`,
    values: [...boundValues(conditions), limit],
  };
}

/**
 * Returns the query for the time of the last of so many rows within a filter's bounds, newest first: 0 if there are fewer, null
 * if no kind or holder matches.
 */
export function reachQuery(filter: LedgerFilter, rows: number): SqlQuery {
  const { since = 0, until = FOREVER, before } = filter;
  const matching = numberedConditions(filter);
  const exist = matching.map(({ table, where }) => `exists (select 1 from ${table} where ${where})`);
  return {
    text: `select case when ${exist.join(" and ") || "1 = 1"} then
      coalesce((select time from usage where time >= ? and time < ? order by time desc limit 1 offset ?), 0) end as time`,
    values: [
      ...matching.flatMap(({ values }) => values),
      ...[since, Math.min(until, before ? before.time + 1 : FOREVER), rows],
    ],
  };
}

/** Returns what the query of `reachQuery` has found. */
export function parseReach([row]: readonly Record<string, unknown>[]): number | undefined {
  const time = row?.["time"];
  return time === null || time === undefined ? undefined : Number(time);
}

/** Conditions on the kinds or holders of rows, which rows have by their numbers. */
interface NumberedConditions {
  readonly column: "kind" | "holder";
  readonly table: "usage_kind" | "usage_holder";
  readonly where: string;
  readonly values: readonly (string | number)[];
}

function numberedConditions({ group, status, ...filter }: LedgerFilter): NumberedConditions[] {
  const kinds: Condition[] = (["key", "model", "target", "outcome"] as const).flatMap((field) => {
    const value = filter[field];
    return value === undefined ? [] : [[`${field} = ?`, value] satisfies Condition];
  });
  if (status) kinds.push(["status between ? and ?", ...status]);
  const holders: Condition[] =
    group === undefined ? [] : [["(group_path = ? or group_path like ? escape '!')", group, subgroupPattern(group)]];
  const numbered = (column: "kind" | "holder", conditions: readonly Condition[]): NumberedConditions[] =>
    conditions.length === 0
      ? []
      : [{ column, table: `usage_${column}`, where: joinConditions(conditions), values: boundValues(conditions) }];
  return [...numbered("kind", kinds), ...numbered("holder", holders)];
}

const joinConditions = (conditions: readonly Condition[]): string => conditions.map(([sql]) => sql).join(" and ");
const boundValues = (conditions: readonly Condition[]): (string | number)[] =>
  conditions.flatMap(([, ...bound]) => bound);

/** Returns the query for response speeds in a span; its rows are for `computeSpeeds`. */
export function speedQuery(
  { since = 0, until = FOREVER }: LedgerSpan,
  by: SpeedGroup | undefined,
  { join }: LedgerDialect,
): SqlQuery {
  const name = by === undefined ? "''" : `k.${by}`;
  const text = `select ${name} as name, streaming, first_byte, duration, tokens_out
    from usage ${join} usage_kind as k on k.number = kind
    where time >= ? and time < ? and outcome = 'completed' order by time desc limit ${MAX_SPEED_ROWS}`;
  return { text, values: [since, until] };
}

/** Computes response speeds from rows. */
export function computeSpeeds(rows: Iterable<Record<string, unknown>>): LedgerSpeed[] {
  const found = new Map<string, { requests: number; first: Percentiles; rate: Percentiles; duration: Percentiles }>();
  for (const row of rows) {
    const name = String(row["name"]);
    const one = found.getOrInsertComputed(name, newSpeed);
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

/** Maximum rows of a query for failures, of exchanges and of attempts each. */
const MAX_FAILURE_ROWS = 1000;

/** Matches the JSON of attempts if one of them failed: within texts, quotes are escaped by a backslash. */
const FAILED = `(attempts like '%"error":"upstream!_%' escape '!' or attempts like '%"status":4%' or attempts like '%"status":5%')`;

/**
 * Returns the query for incomplete exchanges of a span and for failed attempts, for `parseFailures`. The span's rows are scanned
 * once, and only failed ones or those with a failed attempt are read further.
 */
export function failureQuery({ since = 0, until = FOREVER }: LedgerSpan, { items, isList }: LedgerDialect): SqlQuery {
  // A row without a list describes its only attempt itself.
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
      where outcome <> 'completed' group by 1, 2, 3, 4 order by requests desc limit ${MAX_FAILURE_ROWS}
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
      group by 1, 2, 3 order by requests desc limit ${MAX_FAILURE_ROWS}
    )
    select target, model, outcome, status, cast(null as text) as error, requests, cast(null as integer) as answered from exchanges
    union all select target, null, null, status, error, requests, answered from attempts`;
  return { text, values: [since, until] };
}

/** Sorted by number of requests or attempts, descending. */
export function parseFailures(rows: readonly Record<string, unknown>[]): LedgerFailures {
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

/** Returns the time of an exchange from its id, as a UUIDv7 begins with it; -1 for other ids. */
const uuidTime = (id: string): number =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(id) ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : -1;

/** Returns the `like` pattern of a group's subgroups: acme/research is below acme. */
const subgroupPattern = (group: string): string => `${group.replaceAll(/[!%_]/g, "!$&")}/%`;
