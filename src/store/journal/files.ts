import { readdirSync, readFileSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";

/** Milliseconds without a sign of life after which a journal is nobody's, once its process is not to be found. */
const SILENT = 2500;

/** The journal of one process: its files in the order in which they were written. */
export interface JournalOwner {
  /** What its files' names begin with: process id and when that process started. */
  readonly name: string;
  readonly files: readonly string[];
}

/** The folder of a store's journals. */
export const journalFolder = (store: string): string => `${store}.journal`;

/** What names the journals of a process: no later one has it, also where each has the same id, as in a container. */
export const processName = (pid: number = process.pid): string => `${pid}-${startOf(pid) ?? "0"}`;

/** The file of a journal with that number. */
export const journalFile = (folder: string, owner: string, number: number): string =>
  join(folder, `${owner}-${String(number).padStart(6, "0")}.jsonl`);

/** All journals in a folder; none where there is no folder. */
export function journals(folder: string): JournalOwner[] {
  let names: string[];
  try {
    names = readdirSync(folder).sort();
  } catch {
    return [];
  }
  const owners = Map.groupBy(
    names.filter((name) => NAME.test(name)),
    (name) => (NAME.exec(name) as RegExpExecArray)[1] as string,
  );
  return [...owners].map(([name, files]) => ({ name, files: files.map((file) => join(folder, file)) }));
}

/** Process id, its start, which ledger of that process, number. */
const NAME = /^(\d+-\d+-\d+)-\d{6}\.jsonl$/;

/**
 * Whether nobody will write to a journal again: its process has ended, and the file has been left alone for a while, as
 * one of a process that cannot be seen from here would not be.
 */
export function abandoned(journal: JournalOwner): boolean {
  const { files } = journal;
  if (!orphaned(journal)) return false;
  try {
    return Date.now() - Math.max(...files.map((file) => statSync(file).mtimeMs)) > SILENT;
  } catch {
    // Somebody else has just taken care of it.
    return false;
  }
}

/**
 * Whether somebody else writes a journal there, or did a moment ago.
 * @param owner ours
 * @param parent of processes that are one gateway with this one; undefined: there are none
 */
export function hasOthers(folder: string, owner: string, parent?: number): boolean {
  const ours = (name: string) => name === owner || (parent !== undefined && parentOf(name) === parent);
  return journals(folder).some((journal) => !ours(journal.name) && !abandoned(journal));
}

/**
 * The same from outside of all of them: whether journals there are of more than one gateway. Of what cannot be seen from here,
 * as in another container, nobody knows what belongs together: all of it counts as one.
 * @param isWorker whether the process of that id is one of several that are one gateway with their parent's others
 */
export function hasSeveral(folder: string, isWorker: (pid: number) => boolean): boolean {
  const seen = journals(folder).find((journal) => !orphaned(journal) && parentOf(journal.name) !== undefined);
  if (!seen) return false;
  return hasOthers(folder, seen.name, isWorker(pidOf(seen.name)) ? parentOf(seen.name) : undefined);
}

/** Whether its process is not to be found: it has ended, or cannot be seen from here. */
export function orphaned({ name }: JournalOwner): boolean {
  const [pid = "", start = ""] = name.split("-");
  return startOf(Number(pid)) !== start && !(start === "0" && runs(Number(pid)));
}

/** Removes files; that others have removed them is as well. */
export function remove(files: readonly string[]): void {
  for (const file of files)
    try {
      unlinkSync(file);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown;
    }
}

/** When a process has started, in ticks since the machine has; undefined where there is none, or no /proc to tell. */
const startOf = (pid: number): string | undefined => statOf(pid)?.[19];

/** The process that began that of a journal. */
function parentOf(name: string): number | undefined {
  const parent = statOf(pidOf(name))?.[1];
  return parent === undefined ? undefined : Number(parent);
}

const pidOf = (name: string): number => Number(name.split("-")[0]);

/** What the system says of a process behind its name. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

function runs(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}
