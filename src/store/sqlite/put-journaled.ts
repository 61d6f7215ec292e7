import type { Journaled } from "../journal/lines.ts";
import type { Database } from "./database.ts";
import { SqliteLedger } from "./ledger.ts";
import { SqliteObjects } from "./objects.ts";

/** Puts what journals hold into a store, with exchanges that have not ended as they stand. @throws Error when it cannot */
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
