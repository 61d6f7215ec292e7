import type { PostgresSettings } from "../postgres/place.ts";
import type { SqlLedger } from "../sql-ledger.ts";
import type { JournalPosition } from "./feeder.ts";

/** An existing SQLite file, identified by inode in case its name is reused. */
interface SqliteLocation {
  readonly file: string;
  readonly inode: number | undefined;
}

/** Where a ledger is stored: a SQLite file (created if missing when only its path is given), or a database. */
export type LedgerLocation = string | SqliteLocation | PostgresSettings;

/** Methods of the stored ledger that other threads may call. */
export type LedgerMethod =
  | ("sums" | "placedSums" | "recent" | "search" | "reach")
  | ("speeds" | "failures" | "lastUsed" | "countedNames" | "page");

/** A call of such a method. */
type LedgerQuestion = {
  [Method in LedgerMethod]: { type: "ask"; method: Method; args: Parameters<SqlLedger[Method]> };
}[LedgerMethod];

/** A request to the thread that feeds ledgers. */
export type LedgerRequest =
  | { type: "open"; store: LedgerLocation; folder: string; owner: string; durable: boolean; keep: number }
  /** Announces that the journal has grown. */
  | ({ type: "feed" } & JournalPosition)
  /** Tells whether the journal can be written; if not, its lines wait in memory. */
  | { type: "journal"; writable: boolean }
  | LedgerQuestion
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
