import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** How a SQLite file begins; an empty one is new. */
const SIGNATURE = "SQLite format 3\0";

/**
 * Returns why a store cannot be in a file, whoever opens it; undefined: it can, or this user cannot see why not. Only for a process
 * that does not have the file open as a database: closing it would release that one's locks.
 */
export function sqliteFileProblem(file: string): string | undefined {
  let above = dirname(file);
  while (!existsSync(above)) above = dirname(above);
  if (!statSync(above).isDirectory()) return `${file} cannot be created: ${above} is no folder`;
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory()) return `${file} is a folder: name a file in it`;
  const isOther = found?.isFile() && found.size > 0 && (beginningOf(file) ?? SIGNATURE) !== SIGNATURE;
  return isOther ? `${file} is no SQLite database: name another file` : undefined;
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
