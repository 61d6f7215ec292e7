import { statSync } from "node:fs";
import { JournaledLedger, type StoreTerms } from "./journaled-ledger.ts";
import type { FileKey } from "./key-rows.ts";
import type { Ledger } from "./ledger.ts";
import type { Maintenance, Restored, RestoreTerms } from "./maintenance.ts";
import { Database } from "./sqlite.ts";
import { SqliteKeys } from "./sqlite-keys.ts";
import { SqliteLedger } from "./sqlite-ledger.ts";
import { SqliteMaintenance } from "./sqlite-maintenance.ts";
import { SqliteOwners } from "./sqlite-owners.ts";
import { SqlitePrices } from "./sqlite-prices.ts";
import { restoreSqlite } from "./sqlite-restore.ts";

/** The embedded stores, in one file. */
export interface Stores {
  keys: SqliteKeys;
  ledger: Ledger;
  owners: SqliteOwners;
  prices: SqlitePrices;
  /** Writes what waits and closes the file. */
  close(): Promise<void>;
}

/**
 * Opens a store for what is done besides serving from it.
 * @throws FileError when the file cannot be used, Error for a store in memory
 */
export function openMaintenance(path: string): Maintenance {
  notInMemory(path);
  return new SqliteMaintenance(path);
}

/**
 * Puts a backup in the place of a store that nothing uses, once it has been found in order.
 * @throws Error that says why not; the store is as it was then
 */
export async function restoreStore(path: string, file: string, terms: RestoreTerms): Promise<Restored> {
  notInMemory(path);
  return restoreSqlite(path, file, terms);
}

function notInMemory(path: string): void {
  if (path === ":memory:")
    throw new Error("The store is in memory, and ends with its gateway: there is nothing to care for.");
}

/**
 * Opens the embedded stores and makes folder and file, for their owner only, where they do not exist.
 * @param path the SQLite file, or `:memory:`
 * @param warn told what an operator should know: a file that others can read, a ledger that cannot be written
 * @param terms what rows survive, and how long they are kept; nothing of a store in memory survives anything
 * @throws FileError when the file cannot be used.
 */
export function openStores(
  path: string,
  fileKeys: readonly FileKey[],
  warn: (message: string) => void,
  terms: StoreTerms = {},
): Stores {
  const database = new Database(path);
  if (path !== ":memory:" && process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
    warn(`Other users of this machine can read the store ${path}: chmod 600 ${path}`);
  }
  const keys = new SqliteKeys(database, fileKeys);
  const ledger = path === ":memory:" ? new SqliteLedger(database, warn) : new JournaledLedger(path, warn, terms);
  const owners = new SqliteOwners(database, warn);
  const close = async () => {
    await ledger.close();
    await owners.close();
    keys.close();
    database.close();
  };
  return { keys, ledger, owners, prices: new SqlitePrices(database), close };
}
