import { readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { isOrphaned, processName } from "../journal/files.ts";

/** Suffixes of the files that SQLite keeps beside a database. */
export const SIDE_FILES = ["-wal", "-shm", "-journal"] as const;

let created = 0;

/**
 * Returns the path at which a database file is prepared before it is renamed to `file`. No other process or call gets the same
 * one: it could replace or remove a file that is about to be renamed. Files of processes that were killed are removed.
 */
export function newPartFile(file: string): string {
  const [folder, prefix] = [dirname(file), `${basename(file)}.`];
  for (const name of namesIn(folder)) {
    const owner = name.startsWith(prefix) ? OWNER.exec(name.slice(prefix.length))?.[1] : undefined;
    if (owner !== undefined && isOrphaned({ name: owner, files: [] })) rmSync(join(folder, name), { force: true });
  }
  return `${file}.${processName()}-${created++}.part`;
}

/** Removes the file and those beside it. */
export function removePartFile(part: string): void {
  for (const rest of ["", ...SIDE_FILES]) rmSync(part + rest, { force: true });
}

/** Process id and its start, number of the file in that process. */
const OWNER = /^(\d+-\d+)-\d+\.part(?:-wal|-shm|-journal)?$/;

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Whoever writes there reports what is wrong with it.
    return [];
  }
}
