import { setTimeout as sleep } from "node:timers/promises";
import { journalCutoff } from "../journal-place.ts";
import { DAY } from "../ledger-sums.ts";
import { onceNameCutoff, type PrunableRows } from "../retention.ts";
import type { SqliteDatabase } from "./database.ts";

/** Rows per step, which block writers for about a millisecond, and milliseconds of pause: some 4,000 rows a second. */
const STEP = { rows: 200, pause: 50 };

/** Returns the time (Unix milliseconds) before which rows have been deleted; 0: never. */
export const sqlitePrunedBefore = (database: SqliteDatabase): number =>
  Number(database.prepare("select ifnull(max(before), 0) as before from usage_pruned").get()?.["before"]);

/** Returns the rows of a ledger in SQLite for retention. */
export function prunableSqlite(database: SqliteDatabase): PrunableRows {
  const newest = database.prepare("select ifnull(max(time), 0) as newest from usage where time <= ?");
  return {
    age: async (now) => ({ newest: Number(newest.get(now - DAY)?.["newest"]), pruned: sqlitePrunedBefore(database) }),
    prune: (before) => pruneSqlite(database, before, STEP),
  };
}

/**
 * Deletes the rows of exchanges that began before a time, in steps; the sums of their hours and days stay.
 * @param before Unix milliseconds, the start of a day in UTC
 * @param step rows per transaction, and milliseconds between two
 * @returns the number of rows in each step
 */
export async function* pruneSqlite(
  database: SqliteDatabase,
  before: number,
  step: { readonly rows: number; readonly pause: number },
): AsyncGenerator<number> {
  // Recorded first, so that concurrent queries for sums use whole hours.
  await database.durableTransaction(() => {
    if (before <= sqlitePrunedBefore(database)) return;
    database.prepare("delete from usage_pruned").run();
    database.prepare("insert into usage_pruned (before) values (?)").run(before);
  });
  // Those of one time in the order in which they were written: rows that leave a page of SQLite here and there have been moved in it
  // before, and what was moved is not overwritten.
  const remove = database.prepare(
    `delete from usage where rowid in (select rowid from usage where time < ? order by time, rowid limit ${step.rows})`,
  );
  const forget = (table: "usage_once" | "journal") =>
    database.prepare(
      `delete from ${table} where name in (select name from ${table} where time < ? order by time limit ${step.rows})`,
    );
  const deleteSome = async (statement: typeof remove, end: number) =>
    Number((await database.retryWhileBusy(() => database.transaction(() => statement.run(end)))).changes);
  for (;;) {
    const rows = await deleteSome(remove, before);
    yield rows;
    if (rows < step.rows) break;
    await sleep(step.pause);
  }
  const [names, journals] = [forget("usage_once"), forget("journal")];
  while ((await deleteSome(names, onceNameCutoff(before))) === step.rows) await sleep(step.pause);
  while ((await deleteSome(journals, journalCutoff(before))) === step.rows) await sleep(step.pause);
}
