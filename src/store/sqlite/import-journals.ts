import type { JournalContent } from "../journal/lines.ts";
import type { SqliteDatabase } from "./database.ts";
import { SqliteLedger } from "./ledger.ts";
import { SqliteObjects } from "./objects.ts";

/** Rows that are buffered at once: the ledger drops the oldest of too many. */
const BATCH = 1000;

/** Writes the content of journals into a store, including the first rows of open exchanges. @throws Error on failure */
export async function importJournals(
  database: SqliteDatabase,
  { ended, open, objects }: JournalContent,
): Promise<void> {
  const ledger = new SqliteLedger(database);
  try {
    for (let at = 0; at < ended.length; at += BATCH) {
      for (const row of ended.slice(at, at + BATCH)) ledger.appendRow(row);
      await ledger.flush();
    }
    // All of them in one transaction.
    for (const row of open) ledger.appendRow(row);
    await ledger.flush();
    await new SqliteObjects(database).insert(objects);
  } finally {
    await ledger.close();
  }
}
