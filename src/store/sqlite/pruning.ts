import { setTimeout as sleep } from "node:timers/promises";
import { DAY } from "../ledger-sums.ts";
import { type AgingRows, oldestName } from "../retention.ts";
import type { Database } from "./database.ts";

/** Rows per step, which block writers for about a millisecond, and milliseconds of pause: some 4,000 rows a second. */
const STEP = { rows: 200, pause: 50 };

/** Returns the time (Unix milliseconds) before which rows have been deleted; 0: never. */
export const prunedBefore = (database: Database): number =>
  Number(database.prepare("select ifnull(max(before), 0) as before from usage_pruned").get()?.["before"]);

/** Returns the rows of a ledger in SQLite for retention. */
export function aging(database: Database): AgingRows {
  const newest = database.prepare("select ifnull(max(time), 0) as newest from usage where time <= ?");
  return {
    age: async (now) => ({ newest: Number(newest.get(now - DAY)?.["newest"]), pruned: prunedBefore(database) }),
    pruned: (before) => pruned(database, before, STEP),
  };
}

/**
 * Deletes the rows of exchanges that began before a time, in steps; the sums of their hours and days stay.
 * @param before Unix milliseconds, the start of a day in UTC
 * @param step rows per transaction, and milliseconds between two
 * @returns the number of rows in each step
 */
export async function* pruned(
  database: Database,
  before: number,
  step: { readonly rows: number; readonly pause: number },
): AsyncGenerator<number> {
  // Recorded first, so that concurrent queries for sums use whole hours.
  await database.durably(() => {
    if (before <= prunedBefore(database)) return;
    database.prepare("delete from usage_pruned").run();
    database.prepare("insert into usage_pruned (before) values (?)").run(before);
  });
  const remove = database.prepare(
    `delete from usage where rowid in (select rowid from usage where time < ? order by time limit ${step.rows})`,
  );
  const forget = database.prepare(
    `delete from usage_once where name in (select name from usage_once where time < ? order by time limit ${step.rows})`,
  );
  const gone = async (statement: typeof remove, end: number) =>
    Number((await database.patiently(() => database.transaction(() => statement.run(end)))).changes);
  for (;;) {
    const rows = await gone(remove, before);
    yield rows;
    if (rows < step.rows) break;
    await sleep(step.pause);
  }
  while ((await gone(forget, oldestName(before))) === step.rows) await sleep(step.pause);
}
