import type { LedgerFilter, LedgerQuery, LedgerRows, LedgerSearch, LedgerSpan, SpeedGroup } from "../ledger.ts";
import type { PostgresSettings } from "../postgres/place.ts";
import type { RowCursor } from "../row-cursor.ts";
import type { JournalPosition } from "./feeder.ts";

/** An existing SQLite file, identified by inode in case its name is reused. */
interface SqliteLocation {
  readonly file: string;
  readonly inode: number | undefined;
}

/** Where a ledger is stored: a SQLite file (created if missing when only its path is given), or a database. */
export type LedgerLocation = string | SqliteLocation | PostgresSettings;

/** A request to the thread that feeds ledgers. */
export type LedgerRequest =
  | { type: "open"; store: LedgerLocation; folder: string; owner: string; durable: boolean; keep: number }
  /** Announces that the journal has grown. */
  | ({ type: "feed" } & JournalPosition)
  /** Tells whether the journal can be written; if not, its lines wait in memory. */
  | { type: "journal"; writable: boolean }
  | { type: "sums"; query: LedgerQuery }
  | { type: "placedSums"; query: LedgerQuery }
  | { type: "recent"; limit: number }
  | { type: "search"; search: LedgerSearch }
  | { type: "reach"; filter: LedgerFilter; rows: number }
  | { type: "speeds"; span: LedgerSpan; by: SpeedGroup | undefined }
  | { type: "failures"; span: LedgerSpan }
  | { type: "lastUsed"; keys: readonly string[] }
  | { type: "countedNames"; limit: number }
  | { type: "page"; span: LedgerRows; after: RowCursor | undefined }
  /** Asks for the time (Unix milliseconds) before which rows have been deleted; 0: never. */
  | { type: "prunedBefore" }
  /** Asks how far the ledger is behind. */
  | { type: "backlog" }
  /** Closes the ledger. What is not in it by then stays in the journal, which the next start reads. */
  | { type: "close"; wait: number };

/** `call` pairs a request with its answer; 0: no answer is expected. */
export type ToLedgerThread = { ledger: number; call: number } & LedgerRequest;

/** The thread's answers (`away`: the store cannot be reached), and the events of its ledgers. */
export type FromLedgerThread =
  | { type: "answer"; call: number; value?: unknown; error?: string; away?: boolean }
  | { type: "warning"; ledger: number; message: string; over?: boolean }
  | { type: "state"; ledger: number; state: "ok" | "waiting" };
