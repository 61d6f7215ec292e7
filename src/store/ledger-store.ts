import type { LedgerPlace } from "./journal/ledger-messages.ts";
import type {
  LedgerEntry,
  LedgerFailures,
  LedgerQuery,
  LedgerReach,
  LedgerRows,
  LedgerSearch,
  LedgerSpan,
  LedgerSpeed,
  LedgerSum,
  LedgerWarn,
  SpeedGroup,
} from "./ledger.ts";
import type { Row } from "./ledger-row.ts";
import type { ObjectRows } from "./object-rows.ts";
import { PostgresDatabase } from "./postgres/database.ts";
import { PostgresLedger } from "./postgres/ledger.ts";
import { PostgresObjects } from "./postgres/objects.ts";
import { agingPostgres } from "./postgres/partitions.ts";
import type { AgingRows } from "./retention.ts";
import type { RowPlace } from "./row-place.ts";
import { Database } from "./sqlite/database.ts";
import { SqliteLedger } from "./sqlite/ledger.ts";
import { SqliteObjects } from "./sqlite/objects.ts";
import { aging } from "./sqlite/pruning.ts";

/** Connections of a thread that feeds: one writes, others answer, so that a question about many rows holds no row up. */
const CONNECTIONS = 3;

/** A ledger as the thread that feeds it knows it, wherever it is. */
export interface LedgerStore extends AgingRows {
  readonly ledger: {
    appendRow(row: Row): void;
    /** @throws Error when the store cannot be written; rows stay and are tried again. */
    flush(): Promise<void>;
    sums(query: LedgerQuery): Promise<LedgerSum[]>;
    recent(limit: number): Promise<LedgerEntry[]>;
    search(search: LedgerSearch): Promise<LedgerEntry[]>;
    reach(search: LedgerReach, rows: number): Promise<number>;
    speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]>;
    failures(span: LedgerSpan): Promise<LedgerFailures>;
    lastUsed(keys: readonly string[]): Promise<Map<string, number>>;
    page(span: LedgerRows, after?: RowPlace): LedgerEntry[] | Promise<LedgerEntry[]>;
    readonly state: "ok" | "waiting";
  };
  readonly objects: ObjectRows;
  close(): Promise<void>;
}

/**
 * Opens a ledger for its thread. A database is not asked for anything yet: it may be away, and rows wait for it.
 * @param durable whether what is written survives a power cut
 * @throws FileError when a file cannot be used, or the package that speaks to a database is missing
 */
export async function openLedgerStore(place: LedgerPlace, durable: boolean, warn: LedgerWarn): Promise<LedgerStore> {
  if (typeof place !== "string" && !("inode" in place)) {
    const database = await PostgresDatabase.open(place, CONNECTIONS, durable);
    const ledger = new PostgresLedger(database, warn);
    const objects = new PostgresObjects(database);
    return { ledger, objects, ...agingPostgres(database), close: () => database.close() };
  }
  // Journals end once their rows are here: these survive what those did.
  const { file, inode } = typeof place === "string" ? { file: place } : place;
  const database = new Database(file, durable, undefined, inode);
  const ledger = new SqliteLedger(database, warn, true);
  const close = async () => {
    await ledger.close();
    database.close();
  };
  return { ledger, objects: new SqliteObjects(database), ...aging(database), close };
}
