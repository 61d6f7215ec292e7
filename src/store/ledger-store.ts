import type { LedgerLocation } from "./journal/ledger-messages.ts";
import type { LedgerWarn } from "./ledger.ts";
import type { ObjectRows } from "./object-rows.ts";
import type { PostgresSettings } from "./postgres/place.ts";
import type { PrunableRows } from "./retention.ts";
import type { SqlLedger } from "./sql-ledger.ts";
import { SqliteDatabase } from "./sqlite/database.ts";
import { SqliteLedger } from "./sqlite/ledger.ts";
import { SqliteObjects } from "./sqlite/objects.ts";
import { prunableSqlite } from "./sqlite/pruning.ts";

/** Connections of a feeding thread for sums and other short queries, besides that for writing and those for long queries. */
const CONNECTIONS = 2;

/** A ledger of any store, as the thread that feeds it uses it. */
export interface LedgerStore extends PrunableRows {
  readonly ledger: SqlLedger;
  readonly objects: ObjectRows;
  close(): Promise<void>;
}

/**
 * Opens a ledger for its thread. Does not connect to a database yet: it may be down, and rows wait for it.
 * @param durable whether what is written survives a power cut
 * @throws FileError when a file cannot be used, or the package for a database is missing
 */
export async function openLedgerStore(
  location: LedgerLocation,
  durable: boolean,
  warn: LedgerWarn,
): Promise<LedgerStore> {
  if (typeof location !== "string" && !("inode" in location)) return openPostgresLedger(location, durable, warn);
  // Durable, because journals are deleted once their rows are here, and the rows must survive what the journals would.
  const { file, inode } = typeof location === "string" ? { file: location } : location;
  const database = new SqliteDatabase(file, durable, undefined, inode);
  const ledger = new SqliteLedger(database, warn, true);
  const close = async () => {
    await ledger.close();
    // Otherwise the connection that is closed last does it, which is that of the serving thread, and waits for the disk.
    await database.query("pragma wal_checkpoint").catch(() => {});
    database.close();
  };
  return { ledger, objects: new SqliteObjects(database), ...prunableSqlite(database), close };
}

/** Loads what only PostgreSQL needs, like TLS: a thread that feeds SQLite takes a tenth less memory without it. */
async function openPostgresLedger(
  location: PostgresSettings,
  durable: boolean,
  warn: LedgerWarn,
): Promise<LedgerStore> {
  const [{ PostgresDatabase }, { PostgresLedger }, { PostgresObjects }, { prunablePostgres }] = await Promise.all([
    import("./postgres/database.ts"),
    import("./postgres/ledger.ts"),
    import("./postgres/objects.ts"),
    import("./postgres/partitions.ts"),
  ]);
  const database = await PostgresDatabase.open(location, CONNECTIONS, durable);
  const ledger = new PostgresLedger(database, warn);
  const objects = new PostgresObjects(database);
  return { ledger, objects, ...prunablePostgres(database), close: () => database.close() };
}
