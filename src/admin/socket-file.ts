import { existsSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname } from "node:path";
import { FileError } from "../core/errors.ts";

/** Returns why no socket can be at a path, whoever creates it; undefined: it can, or this user cannot see why not. */
export function socketFileProblem(path: string): string | undefined {
  const folder = dirname(path);
  if (existsSync(folder) && !statSync(folder).isDirectory()) return `${path} cannot be created: ${folder} is no folder`;
  if (!existsSync(path)) return undefined;
  const found = statSync(path);
  if (found.isDirectory()) return `${path} is a folder: name a file in it`;
  return found.isSocket() ? undefined : `${path} is no socket: remove it, or name another file`;
}

/**
 * Makes a path free to listen on: removes the file of a socket on which no process listens any more, left behind by one that died.
 * @throws FileError where no socket can be there
 */
export async function freeSocketFile(path: string): Promise<void> {
  const folder = dirname(path);
  const missing = isMissing(folder)
    ? `the folder ${folder} does not exist: create it, or name another file`
    : undefined;
  const problem = socketFileProblem(path) ?? missing;
  if (problem !== undefined) throw new FileError(`admin: ${problem}`);
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (!found) return;
  const isRefused = await new Promise<boolean>((answer) => {
    const socket = connect(path, () => answer(false));
    // A process that is too busy to accept connections gives another error (EAGAIN).
    socket.on("error", ({ code }: NodeJS.ErrnoException) => answer(code === "ECONNREFUSED"));
    socket.once("connect", () => socket.destroy());
  });
  // Another process may have removed it and listen there now. Its file may have the same inode again, but not the same time.
  const now = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (isRefused && now?.ino === found.ino && now.ctimeNs === found.ctimeNs) rmSync(path, { force: true });
}

/** Reports whether nothing is at a path; false where this user may not see that. */
function isMissing(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}
