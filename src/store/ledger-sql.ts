import type { LedgerGroup, LedgerQuery, LedgerSpan, LedgerSum } from "./ledger.ts";
import { PAGE_ROWS } from "./ledger-pages.ts";
import { BILLED_APART } from "./ledger-row.ts";
import { DAY, HOUR, SUMMED, WEEK } from "./ledger-sums.ts";

// What the ledger asks, in words that SQLite and PostgreSQL both have. What they say differently is handed in.

/** What a store says in its own way. */
export interface LedgerDialect {
  /** Joins tags of `h.tags`, a row for each, as `tag.key` and `tag.value`; rows without any stay. */
  readonly tags: string;
  /** Whether a text is a JSON list, of those that are one or a number. */
  readonly isList: (column: string) => string;
  /** The items of a JSON list, a row for each as `value`, for a `from`. */
  readonly items: (list: string) => string;
  /** How two tables are joined in the order in which they stand. */
  readonly join: string;
  /** That a row's column is one of a `select`, which is read once; rows are gone through in the order of their times all the same. */
  readonly among: (column: string, select: string) => string;
  /** Whether sums are added up first in the order in which they are kept, where that costs less than to sort all of them. */
  readonly inOrder: boolean;
  /** What tells rows of one millisecond apart, the later one being greater. */
  readonly later: string;
}

/** What a sum is grouped by, of holders by their groups and tags. */
const GROUPS: Record<LedgerGroup, string> = {
  ...{ key: "key", model: "model", target: "target", day: `time / ${DAY}` },
  ...{ group: "group_path", tag: "coalesce(tag.key || '=' || tag.value, '')" },
};
const OF_HOLDERS: readonly LedgerGroup[] = ["group", "tag"];

/** Sums of a query, whose values `ranges` has. */
export function sumsText(query: LedgerQuery, { tags, inOrder }: LedgerDialect): string {
  const { by } = query;
  const parts = partsOf(inOrder ? leading(by) : undefined);
  const byDay = by.indexOf("day");
  const order = `order by ${byDay < 0 ? "" : `g${byDay}, `} cost desc, requests desc`;
  const own = by.flatMap((group, at) => (OF_HOLDERS.includes(group) ? [] : [`${GROUPS[group]} as g${at}`]));
  const names = (all: readonly string[]) => all.map((column) => column.split(" as ")[1]);
  const grouped = (by: readonly unknown[]) => (by.length > 0 ? `group by ${by.join(", ")}` : "");
  if (own.length === by.length)
    return `select ${[...own, ADDED_UP].join(", ")} from (${parts}) as part ${grouped(names(own))} ${order}`;
  // Added up by holder first: there are few of these, and looking one up for each part costs more than the sum.
  const byHolder = `select ${[...own, "holder", ADDED_UP].join(", ")} from (${parts}) as part ${grouped([...names(own), "holder"])}`;
  const columns = by.map((group, at) => (OF_HOLDERS.includes(group) ? `${GROUPS[group]} as g${at}` : `g${at}`));
  return `select ${[...columns, ADDED_UP].join(", ")} from (${byHolder}) as by_holder join usage_holder as h on h.number = holder
    ${by.includes("tag") ? tags : ""} ${grouped(by.map((_, at) => `g${at}`))} ${order}`;
}

/** The columns, as sums are kept in their order, that a question needs; undefined: nearly all of them. */
function leading(by: readonly LedgerGroup[]): readonly string[] | undefined {
  if (by.some((group) => group === "target" || OF_HOLDERS.includes(group))) return undefined;
  return by.includes("model") ? ["key", "model"] : by.includes("key") ? ["key"] : [];
}

/**
 * Whole weeks from their sums, then whole days and whole hours at both ends; what stands out of these row by row.
 * @param columns that sums are added up by first
 */
function partsOf(columns: readonly string[] | undefined): string {
  const sums = (table: SumTable) => {
    const time = timeIn(table);
    const span = `from ${table} where ${time} >= ? and ${time} < ?`;
    if (!columns) return `select ${time} as time, ${PLACE}, ${SUMS} ${span}`;
    const place = ["key", "model", "target"].map((name) => (columns.includes(name) ? name : `'' as ${name}`));
    return `select ${time} as time, ${place.join(", ")}, 0 as holder, ${ADDED_UP} ${span} group by ${[time, ...columns].join(", ")}`;
  };
  const [week, day, hour] = [sums("usage_week"), sums("usage_day"), sums("usage_hour")];
  return [week, day, day, hour, hour, ONE_ROW, ONE_ROW].join(" union all ");
}

/** The bounds of `sumsText`. */
export function ranges({ since = 0, until = Number.MAX_SAFE_INTEGER, by }: LedgerQuery): number[] {
  const [hours, ...rows] = wholeParts(since, until, HOUR);
  const [days, ...outerHours] = wholeParts(...hours, DAY);
  // A week does not tell its days apart.
  const [weeks, ...outerDays] = by.includes("day") ? [NONE, days, NONE] : wholeParts(...days, WEEK);
  return [weeks, ...outerDays, ...outerHours, ...rows].flat();
}

/** Of hours whose rows have been taken away, up to `before`, only the whole is known. */
export function inWholeHours<T extends LedgerSpan>(span: T, before: number): T {
  const { since = 0, until = Number.MAX_SAFE_INTEGER } = span;
  return {
    ...span,
    since: since < before ? Math.floor(since / HOUR) * HOUR : since,
    until: until < before ? Math.ceil(until / HOUR) * HOUR : until,
  };
}

/** The newest rows, as many as it is asked for. */
export const newestText = (dialect: LedgerDialect): string =>
  // The bound, which all rows pass, leads SQLite to the index of times; without it, it would sort all rows.
  `${wholeRow(dialect)} where time >= 0 order by time desc, ${dialect.later} desc limit ?`;

/** A page of rows: behind a place, twice its time and once its id, and before a time. */
export const pageText = (dialect: LedgerDialect, billedApart = false): string =>
  `${wholeRow(dialect)} where time >= ? and (time, id) > (?, ?) and time < ? ${billedApart ? `and (${BILLED_APART_ROWS})` : ""} order by time, id limit ${PAGE_ROWS}`;

/** Of rows that `isBilledApart` holds for. In texts that stand there too a quote has a backslash before it. */
const BILLED_APART_ROWS = BILLED_APART.map((name) => `detail like '%"${name}":%'`).join(" or ");

/** In this order of tables: the small ones are looked up for each row. */
export const wholeRow = ({ join }: LedgerDialect): string =>
  `select * from usage ${join} usage_kind as k on k.number = kind ${join} usage_holder as h on h.number = holder`;

/** Of usage and its kind: whose row it is, and what it adds to sums. */
export const SINGLE = `key, model, target, holder, 1 as requests, case when outcome <> 'completed' then 1 else 0 end as failed,
  case when source not in ('reported', 'free') or cost is null then 1 else 0 end as unsettled,
  tokens_in, cached, tokens_out, reasoning, cost`;

const PLACE = "key, model, target, holder";
const SUMS = SUMMED.join(", ");
const ADDED_UP = SUMMED.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(", ");
const ONE_ROW = `select time, ${SINGLE} from usage join usage_kind on number = kind where time >= ? and time < ?`;
type SumTable = "usage_hour" | "usage_day" | "usage_week";
/** The column that has the first millisecond of what is summed up. */
const timeIn = (table: SumTable): string => table.slice("usage_".length);

/** Adds to the sums of an hour or a day: its values, or a `select` of them. */
export const sumUp = (
  table: "usage_hour" | "usage_day",
  values: string,
): string => `insert into ${table} (${timeIn(table)}, ${PLACE}, ${SUMS}) ${values}
  on conflict (${timeIn(table)}, ${PLACE}) do update set
  ${SUMMED.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(", ")}`;

const FROM_ROWS = `select time - time % ${HOUR} as hour, ${PLACE}, ${ADDED_UP} from (${ONE_ROW}) as one group by 1, 2, 3, 4, 5`;
const KEPT = `select hour, ${PLACE}, ${SUMS} from usage_hour where hour >= ?`;
const DAYS = `select day, ${PLACE}, ${SUMS} from usage_day`;
const FROM_HOURS = `select hour - hour % ${DAY} as day, ${PLACE}, ${ADDED_UP} from usage_hour group by 1, 2, 3, 4, 5`;

/** Hours whose sums are kept otherwise than their rows add up to, whichever of the two is missing: from, to, from, how many. */
export const DIFFERING = `with found as (${FROM_ROWS}), kept as (${KEPT})
  select hour, ${PLACE} from (select * from found except select * from kept) as more
  union select hour, ${PLACE} from (select * from kept except select * from found) as less
  order by hour limit ?`;

/** Days whose sums are not those of their hours: how many. */
export const DIFFERING_DAYS = `with kept as (${DAYS}), found as (${FROM_HOURS})
  select day from (select * from kept except select * from found) as more
  union select day from (select * from found except select * from kept) as less
  order by day limit ?`;

const WEEKS = `select week, ${PLACE}, ${SUMS} from usage_week`;
const FROM_DAYS = `select day - day % ${WEEK} as week, ${PLACE}, ${ADDED_UP} from usage_day group by 1, 2, 3, 4, 5`;

/** Weeks whose sums are not those of their days: how many. */
export const DIFFERING_WEEKS = `with kept as (${WEEKS}), found as (${FROM_DAYS})
  select week from (select * from kept except select * from found) as more
  union select week from (select * from found except select * from kept) as less
  order by week limit ?`;

/** What differs, as a store finds it. */
interface Differing {
  readonly hours: readonly Record<string, unknown>[];
  readonly days: readonly Record<string, unknown>[];
  readonly weeks: readonly Record<string, unknown>[];
}

/** What an operator is told of places that differ. */
export function differences({ hours, days, weeks }: Differing, most: number): string[] {
  const told = hours.slice(0, most).map(({ hour, key, model, target }) => {
    const at = new Date(Number(hour)).toISOString().slice(0, 13).replace("T", " ");
    return `the sums of ${at}h UTC, key ${key || "-"}, model ${model || "-"}, target ${target || "-"} are not those of their rows`;
  });
  const more = hours.length > most ? ["and more of the same kind"] : [];
  const ofDays = days.map(({ day }) => `the sums of the day ${dayAt(day)} UTC are not those of its hours`);
  const ofWeeks = weeks.map(({ week }) => `the sums of the week from ${dayAt(week)} UTC are not those of its days`);
  return [...told, ...more, ...ofDays, ...ofWeeks];
}

const dayAt = (time: unknown): string => new Date(Number(time)).toISOString().slice(0, 10);

type Bounds = [from: number, to: number];
const NONE: Bounds = [0, 0];

/** The whole parts of a span of time, and what is left before and behind them. */
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

/** A day in UTC, as 2026-11-20, of how many came before it since 1970. */
const dayOf = (days: number): string => new Date(days * DAY).toISOString().slice(0, 10);

/** A row of sums, however the store hands numbers over; beyond 2^53 they are rounded. */
export function sumOf(row: Record<string, unknown>, { by }: LedgerQuery): LedgerSum {
  return {
    group: by.map((group, at) => (group === "day" ? dayOf(Number(row[`g${at}`])) : String(row[`g${at}`]))),
    requests: Number(row["requests"]),
    failed: Number(row["failed"]),
    tokensIn: Number(row["tokens_in"]),
    cached: Number(row["cached"]),
    tokensOut: Number(row["tokens_out"]),
    reasoning: Number(row["reasoning"]),
    cost: Number(row["cost"]),
    unsettled: Number(row["unsettled"]),
  };
}
