import type { LedgerGroup, LedgerQuery, LedgerSpan, LedgerSum, PlacedSums } from "./ledger.ts";
import { PAGE_ROWS } from "./ledger-pages.ts";
import { BILLED_APART } from "./ledger-row.ts";
import { DAY, HOUR, SUM_COLUMNS, WEEK } from "./ledger-sums.ts";

// Queries of the ledger, in SQL common to SQLite and PostgreSQL. Differences are passed in as a dialect.

/** SQL that differs between the stores. */
export interface LedgerDialect {
  /** Joins the tags of `h.tags`, one row each, as `tag.key` and `tag.value`, compared by bytes; rows without tags are kept. */
  readonly tags: string;
  /** Tests whether a text is a JSON array, for texts that are an array or a number. */
  readonly isList: (column: string) => string;
  /** The items of a JSON array for a `from`, one row each, as `value`. */
  readonly items: (list: string) => string;
  /** The texts of a bound JSON array, likewise. */
  readonly texts: string;
  /** A join of two tables in exactly this order. */
  readonly join: string;
  /** Tests that a column is in the result of a `select`, which runs once; rows are still read in order of time. */
  readonly isIn: (column: string, select: string) => string;
  /** Whether sums are first added up in stored order, where that costs less than sorting all of them. */
  readonly preaggregates: boolean;
  /** Collects names and positions as a JSON object, for a `select`. */
  readonly positions: string;
  /** Orders rows of one millisecond: the later row has the greater value. */
  readonly insertOrder: string;
}

/** The expressions to group sums by; those of holders are group and tag. */
const GROUPS: Record<LedgerGroup, string> = {
  ...{ key: "key", model: "model", target: "target", day: `time / ${DAY}` },
  ...{ group: "group_path", tag: "coalesce(tag.key || '=' || tag.value, '')" },
};
const HOLDER_GROUPS: readonly LedgerGroup[] = ["group", "tag"];

/** Returns the query for sums; `sumValues` returns its values. */
export function sumsSql(query: LedgerQuery, dialect: LedgerDialect): string {
  const { by, limit } = query;
  const names = by.map((_, at) => `g${at}`);
  // Total, and the same in both stores: texts are compared by their bytes.
  const byCost = ["cost desc", "requests desc", ...names];
  const byDay = by.indexOf("day");
  const order = (byDay < 0 ? byCost : [`g${byDay}`, ...byCost]).join(", ");
  const allSums = groupedSumsSql(query, dialect);
  const tests = amongGroups(query).map(([at]) => `g${at} in (select value from ${dialect.texts})`);
  const sums = tests.length > 0 ? `select * from (${allSums}) as found where ${tests.join(" and ")}` : allSums;
  if (limit === undefined) return `${sums} order by ${order}`;
  return `select * from (${sums} order by ${byCost.join(", ")} limit ${limit}) as dearest order by ${order}`;
}

/** Returns the groups that are limited to some values, by their place in the query. */
const amongGroups = ({ by, among }: LedgerQuery): (readonly [at: number, values: readonly string[]])[] =>
  by.flatMap((group, at) => {
    const values = group === "day" ? undefined : among?.[group];
    return values ? [[at, values] as const] : [];
  });

/** Returns the query for sums in any order. */
function groupedSumsSql({ by }: LedgerQuery, { tags, preaggregates }: LedgerDialect): string {
  const parts = sumParts(preaggregates ? leadingColumns(by) : undefined);
  const names = by.map((_, at) => `g${at}`);
  const own = by.flatMap((group, at) => (HOLDER_GROUPS.includes(group) ? [] : [`${GROUPS[group]} as g${at}`]));
  const namesOf = (all: readonly string[]) => all.map((column) => column.split(" as ")[1]);
  const grouped = (by: readonly unknown[]) => (by.length > 0 ? `group by ${by.join(", ")}` : "");
  if (own.length === by.length)
    return `select ${[...own, AGGREGATES].join(", ")} from (${parts}) as part ${grouped(namesOf(own))}`;
  // Summed by holder first: there are few holders, and a lookup for each part would cost more than the sum.
  const byHolder = `select ${[...own, "holder", AGGREGATES].join(", ")} from (${parts}) as part ${grouped([...namesOf(own), "holder"])}`;
  const columns = by.map((group, at) => (HOLDER_GROUPS.includes(group) ? `${GROUPS[group]} as g${at}` : `g${at}`));
  return `select ${[...columns, AGGREGATES].join(", ")} from (${byHolder}) as by_holder join usage_holder as h on h.number = holder
    ${by.includes("tag") ? tags : ""} ${grouped(names)}`;
}

/**
 * Returns the query for sums with how far they include each journal that has rows since a time, which is bound first: one
 * statement sees one state of the store. Without any sums it has one row, whose `requests` are null.
 */
export const placedSumsSql = (query: LedgerQuery, dialect: LedgerDialect): string =>
  `select placed.positions, sums.* from (select ${dialect.positions} as positions from journal where time >= ?) as placed
    left join (${sumsSql(query, dialect)}) as sums on true`;

/** Parses its rows. */
export function parsePlacedSums(rows: readonly Record<string, unknown>[], query: LedgerQuery): PlacedSums {
  const positions = JSON.parse(String(rows[0]?.["positions"])) as Record<string, number>;
  const sums = rows.filter(({ requests }) => requests !== null).map((row) => parseSum(row, query));
  return { sums, positions: new Map(Object.entries(positions)) };
}

/** Returns the leading columns of the stored order that a query needs; undefined if it needs nearly all. */
function leadingColumns(by: readonly LedgerGroup[]): readonly string[] | undefined {
  if (by.some((group) => group === "target" || HOLDER_GROUPS.includes(group))) return undefined;
  return by.includes("model") ? ["key", "model"] : by.includes("key") ? ["key"] : [];
}

/**
 * Unites whole weeks, then whole days and whole hours at both ends, and single rows outside of these.
 * @param columns by which sums are added up first
 */
function sumParts(columns: readonly string[] | undefined): string {
  const sums = (table: SumTable) => {
    const time = timeColumn(table);
    const span = `from ${table} where ${time} >= ? and ${time} < ?`;
    if (!columns) return `select ${time} as time, ${SUM_KEY}, ${SUMS} ${span}`;
    const place = ["key", "model", "target"].map((name) => (columns.includes(name) ? name : `'' as ${name}`));
    return `select ${time} as time, ${place.join(", ")}, 0 as holder, ${AGGREGATES} ${span} group by ${[time, ...columns].join(", ")}`;
  };
  const [week, day, hour] = [sums("usage_week"), sums("usage_day"), sums("usage_hour")];
  return [week, day, day, hour, hour, ONE_ROW, ONE_ROW].join(" union all ");
}

/** Returns the values for `sumsSql`. */
export function sumValues(query: LedgerQuery): (number | string)[] {
  const { since = 0, until = Number.MAX_SAFE_INTEGER, by } = query;
  const [hours, ...rows] = wholeParts(since, until, HOUR);
  const [days, ...outerHours] = wholeParts(...hours, DAY);
  // Sums of a week do not distinguish its days.
  const [weeks, ...outerDays] = by.includes("day") ? [NONE, days, NONE] : wholeParts(...days, WEEK);
  const bounds = [weeks, ...outerDays, ...outerHours, ...rows].flat();
  return [...bounds, ...amongGroups(query).map(([, values]) => JSON.stringify(values))];
}

/** Extends a span to whole hours where rows before `before` have been deleted, as only their hourly sums remain. */
export function inWholeHours<T extends LedgerSpan>(span: T, before: number): T {
  const { since = 0, until = Number.MAX_SAFE_INTEGER } = span;
  return {
    ...span,
    since: since < before ? Math.floor(since / HOUR) * HOUR : since,
    until: until < before ? Math.ceil(until / HOUR) * HOUR : until,
  };
}

/** Selects the newest rows, up to a limit. */
export const newestRowsSql = (dialect: LedgerDialect): string =>
  // The condition, which all rows meet, makes SQLite use the index on time; without it, SQLite would sort all rows.
  `${selectRowsSql(dialect)} where time >= 0 order by time desc, ${dialect.insertOrder} desc limit ?`;

/** Selects a page of rows: after a place (bound as time, time, id) and before a time. */
export const pageSql = (dialect: LedgerDialect, billedApart = false): string =>
  `${selectRowsSql(dialect)} where time >= ? and (time, id) > (?, ?) and time < ? ${billedApart ? `and (${BILLED_APART_ROWS})` : ""} order by time, id limit ${PAGE_ROWS}`;

/** Matches rows for which `isBilledApart` holds. Within other texts, quotes are escaped by a backslash. */
const BILLED_APART_ROWS = BILLED_APART.map((name) => `detail like '%"${name}":%'`).join(" or ");

/** In this join order the small tables are looked up for each row. */
export const selectRowsSql = ({ join }: LedgerDialect): string =>
  `select * from usage ${join} usage_kind as k on k.number = kind ${join} usage_holder as h on h.number = holder`;

/** Columns of usage and its kind: whose row it is, and what it adds to sums. */
export const ROW_AS_SUMS = `key, model, target, holder, 1 as requests, case when outcome <> 'completed' then 1 else 0 end as failed,
  case when source not in ('reported', 'free') or cost is null then 1 else 0 end as unsettled,
  tokens_in, cached, tokens_out, reasoning, cost, assumed_cost`;

/** The columns by which rows are summed. */
export const SUM_KEY = "key, model, target, holder";
export const SUMS = SUM_COLUMNS.join(", ");
/** The sums of all columns, for a `select`. */
export const AGGREGATES = SUM_COLUMNS.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(", ");
/** The rows of a span, as sums of one each. Values: from, to. */
export const ONE_ROW = `select time, ${ROW_AS_SUMS} from usage join usage_kind on number = kind where time >= ? and time < ?`;
type SumTable = "usage_hour" | "usage_day" | "usage_week";
/** Returns the column with the first millisecond of the summed period. */
const timeColumn = (table: SumTable): string => table.slice("usage_".length);

/** Adds to the sums of an hour or a day: values, or a `select` of them. */
export const addToSumsSql = (
  table: "usage_hour" | "usage_day",
  values: string,
): string => `insert into ${table} (${timeColumn(table)}, ${SUM_KEY}, ${SUMS}) ${values}
  on conflict (${timeColumn(table)}, ${SUM_KEY}) do update set
  ${SUM_COLUMNS.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(", ")}`;

type Bounds = [from: number, to: number];
const NONE: Bounds = [0, 0];

/** Splits a span into its whole parts and the partial ones before and after. */
function wholeParts(from: number, to: number, part: number): [whole: Bounds, before: Bounds, behind: Bounds] {
  const first = Math.ceil(from / part) * part;
  const last = Math.floor(to / part) * part;
  if (first >= last) return [NONE, [from, to], NONE];
  return [
    [first, last],
    [from, first],
    [last, to],
  ];
}

/** Returns a day in UTC, like 2026-11-20, from the number of days since 1970. */
const dayOf = (days: number): string => new Date(days * DAY).toISOString().slice(0, 10);

/** Converts a row of sums, with any representation of numbers; beyond 2^53 they are rounded. */
export function parseSum(row: Record<string, unknown>, { by }: LedgerQuery): LedgerSum {
  return {
    group: by.map((group, at) => (group === "day" ? dayOf(Number(row[`g${at}`])) : String(row[`g${at}`]))),
    requests: Number(row["requests"]),
    failed: Number(row["failed"]),
    tokensIn: Number(row["tokens_in"]),
    cached: Number(row["cached"]),
    tokensOut: Number(row["tokens_out"]),
    reasoning: Number(row["reasoning"]),
    cost: Number(row["cost"]),
    assumedCost: Number(row["assumed_cost"]),
    unsettled: Number(row["unsettled"]),
  };
}
