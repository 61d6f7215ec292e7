import { existsSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { FileError, thrownMessage } from "../../core/errors.ts";

/** Milliseconds for which a write is retried while another process has the file locked. */
export const BUSY_TIMEOUT = 5_000;

/** SQLite's primary result codes; the first is that of a file which another process has locked. */
export const BUSY = 5;
const [READ_ONLY, IO_ERROR, CORRUPT, FULL, CANNOT_OPEN, NO_DATABASE] = [8, 10, 11, 13, 14, 26];

/** Returns SQLite's primary result code of an error, like 13 for a full disk; undefined for any other error. */
export function sqliteCode(error: unknown): number | undefined {
  if (error instanceof FileError) return sqliteCode(error.cause);
  const code = error instanceof Error && "errcode" in error ? error.errcode : undefined;
  return typeof code === "number" ? code & 0xff : undefined;
}

/** Reports whether SQLite's file is damaged. */
export const isDamage = (error: unknown): boolean => [CORRUPT, NO_DATABASE].includes(sqliteCode(error) ?? 0);

/** Returns an error's message, with what to do about a damaged file of the store. */
export function storeErrorMessage(error: unknown): string {
  const message = thrownMessage(error);
  return isDamage(error)
    ? `${message}; the store's file is damaged: stop the gateways that use it, move it away, leave the journals beside it, and restore a backup (store restore FILE)`
    : message;
}

/** Reports whether the system does not allow creating or writing that file. */
const isAccessError = (error: unknown): boolean =>
  [READ_ONLY, CANNOT_OPEN].includes(sqliteCode(error) ?? 0) ||
  (error instanceof Error && "syscall" in error && /^(?:mkdir|open)$/.test(String(error.syscall)));

/** Returns an error with advice where a file could not be written because its disk is full; undefined: that was not the reason. */
export const fullDiskError = (path: string, error: unknown): FileError | undefined =>
  isFull(path, error) ? new FileError(`${path}: ${fullText(path)}.`, { cause: error }) : undefined;

/** Adds advice to the error of a file that cannot be written; returns other errors unchanged. */
export function toWriteError(path: string, error: unknown): unknown {
  const code = sqliteCode(error);
  const advice = isFull(path, error)
    ? fullText(path)
    : code === BUSY
      ? `another process has held it for ${BUSY_TIMEOUT / 1000} s; try again`
      : code === READ_ONLY && "it cannot be written; let this user write to it and to its folder";
  return advice ? new FileError(`${path}: ${advice}.`, { cause: error }) : error;
}

const fullText = (path: string): string => `the disk is full; free space in ${dirname(path)} and try again`;

/** Free bytes below which SQLite has no room for its files beside the database. */
const MIN_FREE_BYTES = 64 * 1024;

/** Reports whether the disk is full: if there is no room for SQLite's other files, it reports an I/O error. */
function isFull(path: string, error: unknown): boolean {
  const code = sqliteCode(error);
  if (code === FULL || (error as NodeJS.ErrnoException).code === "ENOSPC") return true;
  if (code !== IO_ERROR || path === ":memory:") return false;
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < MIN_FREE_BYTES;
  } catch {
    return false;
  }
}

/** Returns an error that says why a store cannot be opened, and what to do. */
export function unusableStoreError(path: string, error: unknown): FileError {
  const reason = isFull(path, error) ? fullText(path) : storeErrorMessage(error);
  const hint = isAccessError(error)
    ? existsSync(path) && statSync(path).isFile()
      ? "; let this user read and write it and its folder: another one may have created it"
      : '; store: { ledger: "sqlite:/PATH/gateway.db" } names a folder that can be written'
    : "";
  return new FileError(`The store ${path} cannot be used: ${reason}${hint}.`, { cause: error });
}
