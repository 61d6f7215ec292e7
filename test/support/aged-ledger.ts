import { join } from "node:path";
import type { Test } from "tap";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../src/store/sqlite/ledger.ts";
import { plainEntry } from "./plain-entry.ts";

export const DAY = 86_400_000;
export const TODAY = Math.floor(Date.now() / DAY) * DAY;

/** Creates a store in a new file with rows on each of the last ten days, and returns a function that appends one more. */
export async function agedLedger(t: Test, each: number) {
  const database = new SqliteDatabase(join(t.testdir(), "gateway.db"));
  const ledger = new SqliteLedger(database);
  const append = (time: number, once?: string) =>
    ledger.append(plainEntry(time, { cost: 1, ...(once === undefined ? {} : { once }) }));
  for (let day = 0; day < 10; day++) for (let i = 0; i < each; i++) append(TODAY - day * DAY);
  await ledger.flush();
  t.teardown(async () => {
    await ledger.close();
    database.close();
  });
  const rows = (table = "usage") => Number(database.prepare(`select count(*) as rows from ${table}`).get()?.["rows"]);
  return { database, ledger, append, rows };
}
