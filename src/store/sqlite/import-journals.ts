import type { JournalContent } from "../journal/lines.ts";
import type { SqliteDatabase } from "./database.ts";
import { SqliteLedger } from "./ledger.ts";
import { SqliteObjects } from "./objects.ts";

/** Writes the content of journals into a store, including the first rows of open exchanges. @throws Error on failure */
export async function importJournals(
  database: SqliteDatabase,
  { ended, open, objects }: JournalContent,
): Promise<void> {
  const ledger = new SqliteLedger(database);
  try {
    for (const row of [...ended, ...open]) ledger.appendRow(row);
    await ledger.flush();
    await new SqliteObjects(database).insert(objects);
  } finally {
    await ledger.close();
  }
}
