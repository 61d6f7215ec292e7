import { accessSync, closeSync, constants, existsSync, openSync, readSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** How a SQLite file begins; an empty one is new. */
const SIGNATURE = "SQLite format 3\0";

/**
 * Returns why a store cannot be in a file, whoever opens it; undefined: it can, or this user cannot see why not. Only for a process
 * that does not have the file open as a database: closing it would release that one's locks.
 */
export function sqliteFileProblem(file: string): string | undefined {
  const above = nearestFolder(file);
  if (!statSync(above).isDirectory()) return `${file} cannot be created: ${above} is no folder`;
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory()) return `${file} is a folder: name a file in it`;
  const isOther = found?.isFile() && found.size > 0 && (beginningOf(file) ?? SIGNATURE) !== SIGNATURE;
  return isOther ? `${file} is no SQLite database: name another file` : undefined;
}

/** Returns why this user cannot open a store; undefined: it can write its file, or create it and its folders. */
export function sqliteAccessProblem(file: string): string | undefined {
  try {
    const needed = existsSync(file) ? [file, dirname(file)] : [nearestFolder(file)];
    for (const each of needed) accessSync(each, constants.R_OK | constants.W_OK);
    return undefined;
  } catch (thrown) {
    return `${file} cannot be written by this user (${(thrown as NodeJS.ErrnoException).code})`;
  }
}

/** Returns the folder of a file, or the nearest existing one above. */
export function nearestFolder(file: string): string {
  let folder = dirname(file);
  while (!existsSync(folder)) folder = dirname(folder);
  return folder;
}

/** Returns as much of a file's beginning as the signature is long; undefined: it cannot be read. */
function beginningOf(file: string): string | undefined {
  const bytes = Buffer.alloc(SIGNATURE.length);
  try {
    const opened = openSync(file, "r");
    try {
      return bytes.toString("latin1", 0, readSync(opened, bytes));
    } finally {
      closeSync(opened);
    }
  } catch {
    return undefined;
  }
}
