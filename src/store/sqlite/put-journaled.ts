import type { Journaled } from "../journal/lines.ts";
import type { Database } from "./database.ts";
import { SqliteLedger } from "./ledger.ts";
import { SqliteObjects } from "./objects.ts";

/** Writes the content of journals into a store, including the first rows of open exchanges. @throws Error on failure */
export async function putJournaled(database: Database, { ended, open, made }: Journaled): Promise<void> {
  const ledger = new SqliteLedger(database);
  try {
    for (const row of [...ended, ...open]) ledger.appendRow(row);
    await ledger.flush();
    await new SqliteObjects(database).insert(made);
  } finally {
    await ledger.close();
  }
}
