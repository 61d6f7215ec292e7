import type { LedgerQuery, LedgerReach, LedgerRows, LedgerSearch, LedgerSpan, SpeedGroup } from "../ledger.ts";
import type { PostgresPlace } from "../postgres/place.ts";
import type { RowPlace } from "../row-place.ts";
import type { JournalPlace } from "./feeder.ts";

/** A SQLite file that is there, whatever has its name later. */
interface SqlitePlace {
  readonly file: string;
  readonly inode: number | undefined;
}

/** Where a ledger is: in a SQLite file, made where there is none if only its path is told, or in a database. */
export type LedgerPlace = string | SqlitePlace | PostgresPlace;

/** What the thread that feeds ledgers is asked. */
export type LedgerAsk =
  | { type: "open"; store: LedgerPlace; folder: string; owner: string; durable: boolean; keep: number }
  /** The journal has grown. */
  | ({ type: "feed" } & JournalPlace)
  | { type: "sums"; query: LedgerQuery }
  | { type: "recent"; limit: number }
  | { type: "search"; search: LedgerSearch }
  | { type: "reach"; search: LedgerReach; rows: number }
  | { type: "speeds"; span: LedgerSpan; by: SpeedGroup | undefined }
  | { type: "failures"; span: LedgerSpan }
  | { type: "lastUsed"; keys: readonly string[] }
  | { type: "page"; span: LedgerRows; after: RowPlace | undefined }
  /** How far it is behind. */
  | { type: "backlog" }
  /** Closes it. What is not in the ledger by then stays in the journal, which the next start reads. */
  | { type: "close"; wait: number };

/** `call` pairs a question with its answer; 0 wants none. */
export type ToLedgerThread = { ledger: number; call: number } & LedgerAsk;

export type FromLedgerThread =
  | { type: "answer"; call: number; value?: unknown; error?: string; away?: boolean }
  | { type: "warning"; ledger: number; message: string; over?: boolean }
  | { type: "state"; ledger: number; state: "ok" | "waiting" };
