import type { MaybePromise } from "../core/plugin.ts";
import { AGGREGATES, ONE_ROW, SUM_KEY, SUMS } from "./ledger-sql.ts";
import { DAY, HOUR, WEEK } from "./ledger-sums.ts";

/** Maximum number of differences that are listed, of hours, days and weeks each. */
const MAX_LISTED = 20;

/**
 * Returns a query for the periods whose stored sums differ from what they sum up, missing on either side; a limit is bound last.
 * @param found selects the right sums
 * @param columns of the result
 */
const differingSql = (period: string, found: string, columns = period, where = ""): string =>
  `with found as (${found} group by 1, 2, 3, 4, 5), kept as (select ${period}, ${SUM_KEY}, ${SUMS} from usage_${period} ${where})
  select ${columns} from (select * from found except select * from kept) as more
  union select ${columns} from (select * from kept except select * from found) as less
  order by ${period} limit ?`;

/** Values: from, to, from, limit. */
const HOURS = differingSql(
  "hour",
  `select time - time % ${HOUR} as hour, ${SUM_KEY}, ${AGGREGATES} from (${ONE_ROW}) as one`,
  `hour, ${SUM_KEY}`,
  "where hour >= ?",
);
const DAYS = differingSql("day", `select hour - hour % ${DAY} as day, ${SUM_KEY}, ${AGGREGATES} from usage_hour`);
const WEEKS = differingSql("week", `select day - day % ${WEEK} as week, ${SUM_KEY}, ${AGGREGATES} from usage_day`);

/**
 * Describes for operators which stored sums are wrong.
 * @param ask runs a query
 * @param prunedBefore the time (Unix milliseconds) before which rows have been deleted
 */
export async function describeDifferingSums(
  ask: (text: string, ...values: number[]) => MaybePromise<readonly Record<string, unknown>[]>,
  prunedBefore: number,
): Promise<string[]> {
  const from = Math.ceil(prunedBefore / HOUR) * HOUR;
  const hours = await ask(HOURS, from, Number.MAX_SAFE_INTEGER, from, MAX_LISTED + 1);
  const hourTexts = hours.slice(0, MAX_LISTED).map(({ hour, key, model, target }) => {
    const at = new Date(Number(hour)).toISOString().slice(0, 13).replace("T", " ");
    return `the sums of ${at}h UTC, key ${key || "-"}, model ${model || "-"}, target ${target || "-"} are not those of their rows`;
  });
  const days = await ask(DAYS, MAX_LISTED);
  const weeks = await ask(WEEKS, MAX_LISTED);
  return [
    ...hourTexts,
    ...(hours.length > MAX_LISTED ? ["and more of the same kind"] : []),
    ...days.map(({ day }) => `the sums of the day ${dayAt(day)} UTC are not those of its hours`),
    ...weeks.map(({ week }) => `the sums of the week from ${dayAt(week)} UTC are not those of its days`),
  ];
}

const dayAt = (time: unknown): string => new Date(Number(time)).toISOString().slice(0, 10);
