import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates a folder that only its owner can use, or others too, and those above it that do not exist. Node's own recursion never ends where a folder
 * that exists says that it does not, as `/proc` does to who makes one in it.
 * @throws Error the system's
 */
export function makeFolder(folder: string, mode = 0o700): void {
  const above = dirname(folder);
  if (above !== folder && !existsSync(above)) makeFolder(above, mode);
  try {
    mkdirSync(folder, { mode });
  } catch (thrown) {
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) throw thrown;
  }
}
