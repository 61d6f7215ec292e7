import { FileError, thrownMessage } from "../core/errors.ts";

/** What SQLite reports of a damaged file: a page that is none, and a file that is no database at all. */
const CODES: readonly unknown[] = [11, 26];

/** Reports whether SQLite's file is damaged. */
export function isDamage(error: unknown): boolean {
  if (error instanceof FileError) return isDamage(error.cause);
  return error instanceof Error && "errcode" in error && CODES.includes(Number(error.errcode) & 0xff);
}

/** Returns an error's message, with what to do about a damaged file of the store. */
export function storeErrorMessage(error: unknown): string {
  const message = thrownMessage(error);
  return isDamage(error)
    ? `${message}; the store's file is damaged: stop the gateways that use it, move it away, leave the journals beside it, and restore a backup (store restore FILE)`
    : message;
}
