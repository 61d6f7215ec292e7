import { statSync } from "node:fs";
import { Database } from "./sqlite.ts";
import { type FileKey, SqliteKeys } from "./sqlite-keys.ts";
import { SqliteLedger } from "./sqlite-ledger.ts";

/** The embedded stores, in one file. */
export interface Stores {
  keys: SqliteKeys;
  ledger: SqliteLedger;
  /** Writes what waits and closes the file. */
  close(): Promise<void>;
}

/**
 * Opens the embedded stores and makes folder and file, for their owner only, where they do not exist.
 * @param path the SQLite file, or `:memory:`
 * @param warn told what an operator should know: a file that others can read, a ledger that cannot be written
 * @throws FileError when the file cannot be used.
 */
export function openStores(path: string, fileKeys: readonly FileKey[], warn: (message: string) => void): Stores {
  const database = new Database(path);
  if (path !== ":memory:" && process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
    warn(`Other users of this machine can read the store ${path}: chmod 600 ${path}`);
  }
  const keys = new SqliteKeys(database, fileKeys);
  const ledger = new SqliteLedger(database, warn);
  const close = async () => {
    await ledger.close();
    keys.close();
    database.close();
  };
  return { keys, ledger, close };
}
