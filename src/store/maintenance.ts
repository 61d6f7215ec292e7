import type { MaybePromise } from "../core/plugin.ts";
import type { Audit, Author } from "./audit.ts";

/** Deleted rows between progress messages. */
const PROGRESS_ROWS = 100_000;

/** Receives progress messages of a long operation. */
export type ProgressListener = (message: string) => void;

/** Numbers of migrations: those in a store when it was opened, and those in it now. */
export interface MigrationNumbers {
  readonly from: number;
  readonly to: number;
}

/** How a backup replaces a store. */
export interface RestoreOptions {
  /** Also over a store with exchanges or changes of keys or groups that the backup does not have. */
  readonly force: boolean;
  /** Who restores, for the audit trail. */
  readonly author: Author;
  readonly progress: ProgressListener;
}

export interface RestoreResult {
  /** Rows of the restored store. */
  readonly rows: number;
  /** The path of the previous store; absent if there was none. */
  readonly kept?: string;
  /** Changes of keys that the backup does not have and that were kept: keys that were revoked, disabled or rotated. */
  readonly retained?: readonly string[];
  /** Changes of keys that were undone. */
  readonly undone?: readonly string[];
}

/** Operations on a store besides serving from it; also while gateways run. */
export abstract class Maintenance {
  abstract readonly migrated: MigrationNumbers;
  /**
   * Writes a copy of the store's current content including the journals: as a start would find it if this machine died now.
   * @param file must not exist
   * @returns bytes and rows of the copy
   * @throws Error when it cannot be written, or is damaged
   */
  abstract backup(file: string, progress: ProgressListener): Promise<{ bytes: number; rows: number }>;
  /** Whether rows of gateways on this machine wait for a store whose backup this class makes. */
  isBehind(): boolean {
    return false;
  }
  abstract readonly audit: Audit;
  /** Lists what is wrong with the store; empty: nothing. */
  abstract verify(progress: ProgressListener): Promise<string[]>;
  /**
   * Deletes the rows of exchanges that began earlier; the sums of their hours stay.
   * @param before Unix milliseconds, the start of a day in UTC
   * @returns the number of rows
   */
  async prune(before: number, progress: ProgressListener): Promise<number> {
    let removed = 0;
    for await (const rows of this.removeRows(before)) {
      const next = Math.floor(removed / PROGRESS_ROWS) + 1;
      removed += rows;
      if (removed >= next * PROGRESS_ROWS) progress(`${removed.toLocaleString("en-US")} rows`);
    }
    return removed;
  }

  /** Deletes them in steps. @returns the number of rows in each step */
  protected abstract removeRows(before: number): AsyncIterable<number>;

  abstract close(): MaybePromise<void>;
}
