import { setTimeout as sleep } from "node:timers/promises";
import { DAY } from "../ledger-sums.ts";
import { type AgingRows, oldestName } from "../retention.ts";
import type { Database } from "./database.ts";

/** About a millisecond in which nothing is written, and a rest in which others may write: some 4,000 rows a second. */
const STEP = { rows: 200, pause: 50 };

/** Before when (Unix milliseconds) rows have been taken away; 0: never. */
export const prunedBefore = (database: Database): number =>
  Number(database.prepare("select ifnull(max(before), 0) as before from usage_pruned").get()?.["before"]);

/** The rows of a ledger in SQLite, for who takes them away by their age. */
export function aging(database: Database): AgingRows {
  const newest = database.prepare("select ifnull(max(time), 0) as newest from usage where time <= ?");
  return {
    age: async (now) => ({ newest: Number(newest.get(now - DAY)?.["newest"]), pruned: prunedBefore(database) }),
    pruned: (before) => pruned(database, before, STEP),
  };
}

/**
 * Takes the rows of exchanges away that began before a moment, some at a time; the sums of their hours and days stay.
 * @param before Unix milliseconds, the first of a day in UTC
 * @param step rows of one transaction, and milliseconds between two
 * @returns how many rows, step by step
 */
export async function* pruned(
  database: Database,
  before: number,
  step: { readonly rows: number; readonly pause: number },
): AsyncGenerator<number> {
  // Told first: sums that are asked for in between are those of whole hours.
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
