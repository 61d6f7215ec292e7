import type { LedgerDialect } from "./ledger-sql.ts";
import { DAY, HOUR, WEEK } from "./ledger-sums.ts";

// The time of keys' last use, from the sums, in SQL common to SQLite and PostgreSQL.

/**
 * Returns the query for the newest hour in which each key has a sum. It goes from the newest week back to the first week with a
 * sum of the key, then through the days of that week and the hours of that day: one index lookup per step, regardless of the
 * number of rows. Each lookup is a subquery with a limit, as PostgreSQL would otherwise join all sums.
 * The bound value is a JSON array of the requested keys.
 */
export const lastUsedSql = ({
  texts,
}: LedgerDialect): string => `with recursive bounds(oldest, newest, newest_day, newest_hour) as (
    select (select min(week) from usage_week), (select max(week) from usage_week),
      (select max(day) from usage_day), (select max(hour) from usage_hour)
  ), weeks(key, week) as (
    select value as key, newest from ${texts} as asked, bounds where newest is not null
    union all
    select key, week - ${WEEK} from weeks, bounds where week >= oldest and ${noRowSql("usage_week", "week", "weeks")}
  ), days(key, day) as (
    select key, ${leastSql(`min(week) + ${WEEK - DAY}`, "newest_day")} from weeks, bounds
    group by key, oldest, newest_day having min(week) >= oldest
    union all
    select key, day - ${DAY} from days where day % ${WEEK} > 0 and ${noRowSql("usage_day", "day", "days")}
  ), hours(key, hour) as (
    select key, ${leastSql(`min(day) + ${DAY - HOUR}`, "newest_hour")} from days, bounds group by key, newest_hour
    union all
    select key, hour - ${HOUR} from hours where hour % ${DAY} > 0 and ${noRowSql("usage_hour", "hour", "hours")}
  ) select key, min(hour) as hour from hours group by key`;

const leastSql = (one: string, other: string): string => `case when ${one} < ${other} then ${one} else ${other} end`;

const noRowSql = (table: string, time: string, steps: string): string =>
  `(select 1 from ${table} as kept where kept.${time} = ${steps}.${time} and kept.key = ${steps}.key limit 1) is null`;

/** Returns keys with the hour of their last use, in Unix milliseconds; keys that were never used are missing. */
export const parseLastUsed = (rows: Iterable<Record<string, unknown>>): Map<string, number> =>
  new Map([...rows].map((row) => [String(row["key"]), Number(row["hour"])]));
