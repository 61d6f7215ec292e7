import type { Audit, Author } from "./audit.ts";

/** Told how far something that takes long has come. */
export type ProgressListener = (message: string) => void;

/** How a backup is put in a store's place. */
export interface RestoreTerms {
  /** Also over a store with exchanges or changes of keys that the backup does not have. */
  readonly force: boolean;
  /** Who restores, for the audit trail. */
  readonly author: Author;
  readonly progress: ProgressListener;
}

/** What came of a restore. */
export interface Restored {
  /** Rows of the store as it is now. */
  readonly rows: number;
  /** Where what was there before stands; absent where nothing was. */
  readonly kept?: string;
  /** Changes of keys that were undone; those that were revoked or disabled stay so. */
  readonly undone?: readonly string[];
}

/** What is done to a store besides serving from it; also while gateways run. */
export abstract class Maintenance {
  /** Numbers of migrations: how many there were in the store when it was opened, and how many there are now. */
  abstract readonly migrated: { readonly from: number; readonly to: number };
  /**
   * Writes a copy of all that the store holds now, with what journals hold beside it: as a start would find it if this
   * machine died at this moment.
   * @param file must not exist
   * @returns bytes and rows of the copy
   * @throws Error when it cannot be written, or is not in order
   */
  abstract backup(file: string, progress: ProgressListener): Promise<{ bytes: number; rows: number }>;
  /** Who changed what. */
  abstract readonly audit: Pick<Audit, "list">;
  /** What is wrong with the store: nothing, in a list that is empty. */
  abstract verify(progress: ProgressListener): Promise<string[]>;
  /**
   * Takes the rows of exchanges away that began earlier; the sums of their hours stay.
   * @param before Unix milliseconds, the first of a day in UTC
   * @returns how many
   */
  abstract prune(before: number, progress: ProgressListener): Promise<number>;
  abstract close(): void | Promise<void>;
}
