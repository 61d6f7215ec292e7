import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  unlinkSync,
  utimesSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { thrownMessage } from "../../core/errors.ts";

/** Milliseconds without a write after which a journal counts as abandoned, if its process is not found. */
export const ABANDONED_AFTER = 2500;
/** Milliseconds after which rows that are not in the store yet count as waiting. */
export const MAX_LAG = 5000;

/** The journal of one process: its files in the order of writing. */
export interface ProcessJournal {
  /** Prefix of its files' names: process id, start time of the process, and a random number, so that it is never used again. */
  readonly name: string;
  readonly files: readonly string[];
}

/** Returns the folder of a store's journals. */
export const journalFolder = (store: string): string => `${store}.journal`;

/**
 * Returns why this user cannot use a folder of journals; undefined: it is possible. Of one that does not exist yet the nearest
 * folder above it that does is judged: it must be possible to create the missing ones in that.
 */
export function folderProblem(folder: string): string | undefined {
  try {
    if (existsSync(folder)) readdirSync(folder);
    let nearest = folder;
    while (!existsSync(nearest)) nearest = dirname(nearest);
    // With a slash, so that a file in its place is an error.
    accessSync(`${nearest}/`, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (thrown) {
    return thrownMessage(thrown);
  }
}

/** Returns a name for the process that no later process gets, even where each has the same id, as in a container. */
export const processName = (pid: number = process.pid): string => `${pid}-${processStart(pid) ?? "0"}`;

/** Returns the path of a journal's file with that number. */
export const journalFile = (folder: string, owner: string, number: number): string =>
  join(folder, `${owner}-${String(number).padStart(6, "0")}.jsonl`);

/** Returns the path under which a journal's file is begun: it gets its own name once it is complete. */
export const partFile = (file: string): string => `${file}.part`;

/**
 * Lists all journals in a folder; none if the folder does not exist. A file that a process had begun when it was killed is one of
 * its journal's, as it may be the only copy of its lines.
 */
export function listJournals(folder: string): ProcessJournal[] {
  let names: string[];
  try {
    names = readdirSync(folder).sort();
  } catch {
    return [];
  }
  const journals = new Map<string, string[]>();
  for (const file of names) {
    const [, name, , part] = NAME.exec(file) ?? [];
    if (name === undefined || (part !== undefined && !isOrphaned({ name, files: [] }))) continue;
    journals.set(name, [...(journals.get(name) ?? []), join(folder, file)]);
  }
  return [...journals].map(([name, files]) => ({ name, files }));
}

/** Returns the files of a journal that hold its lines: not those that were begun to replace one that is still there. */
export const filesToRead = ({ files }: ProcessJournal): string[] =>
  files.filter((file) => !files.some((complete) => file === partFile(complete)));

/** Process id, its start, a random number, number of the file. */
const NAME = /^(\d+-\d+-\d+)-(\d{6})\.jsonl(\.part)?$/;

/** Returns the number of a journal's file, from its path. */
export const journalFileNumber = (file: string): number => Number(NAME.exec(basename(file))?.[2]);

/**
 * Reports whether no process will write to a journal again: its process is not found, and its files have not been touched for a
 * while, as a live process that is invisible from here would do.
 */
export const isAbandoned = (journal: ProcessJournal): boolean =>
  isOrphaned(journal) && !wasTouched(journal, Date.now() - ABANDONED_AFTER);

/** Reports whether a journal was written or touched at that time (Unix milliseconds) or later, or has just been removed. */
export function wasTouched({ files }: ProcessJournal, since: number): boolean {
  try {
    return Math.max(...files.map((file) => statSync(file).mtimeMs)) >= since;
  } catch {
    return true;
  }
}

/**
 * Updates the times of a journal's file, by which other processes know it: it is in use now, and everything written before
 * `storedUntil` is in the store. Both are Unix milliseconds.
 */
export function touchJournal(file: string, storedUntil: number, now: number): void {
  try {
    utimesSync(file, new Date(storedUntil), new Date(now));
  } catch {
    // No file exists yet.
  }
}

/** Reports whether rows of a journal wait for the store: its process has ended, or its times say so (see `touchJournal`). */
export function hasWaitingRows(journal: ProcessJournal): boolean {
  return isAbandoned(journal) || journal.files.some(lags);
}

function lags(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found !== undefined && found.mtimeMs - found.atimeMs > MAX_LAG;
}

/**
 * Reports whether another process writes a journal there, or did a moment ago.
 * @param owner our own journal
 * @param parent parent of the processes that form one gateway with this one; undefined: there are none
 */
export function hasOtherJournals(folder: string, owner: string, parent?: number): boolean {
  const ours = (name: string) => name === owner || (parent !== undefined && parentPid(name) === parent);
  return listJournals(folder).some((journal) => !ours(journal.name) && !isAbandoned(journal));
}

/**
 * Reports the same from outside: whether journals of more than one gateway exist. Processes that are invisible from here, as in
 * another container, cannot be assigned to gateways: together they count as one.
 */
export function hasSeveralGateways(folder: string): boolean {
  const seen = listJournals(folder).find((journal) => !isOrphaned(journal) && parentPid(journal.name) !== undefined);
  if (!seen) return false;
  return hasOtherJournals(folder, seen.name, isWorker(pidOf(seen.name)) ? parentPid(seen.name) : undefined);
}

/** Reports whether its process is not found: it has ended, or is invisible from here. */
export function isOrphaned({ name }: ProcessJournal): boolean {
  const [pid = "", start = ""] = name.split("-");
  return processStart(Number(pid)) !== start && !(start === "0" && isRunning(Number(pid)));
}

/** Removes files; those already removed are ignored. */
export function removeFiles(files: readonly string[]): void {
  for (const file of files)
    try {
      unlinkSync(file);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown;
    }
}

/**
 * Returns the start of a process: its ticks since the machine's start, and a number of that start, as services often have the
 * same id and ticks after each. Undefined without such a process, or without /proc.
 */
function processStart(pid: number): string | undefined {
  const ticks = readProcStat(pid)?.[19];
  return ticks === undefined ? undefined : ticks + BOOT;
}

/** A number of the machine's start, always of the same length. */
const BOOT = bootNumber();

function bootNumber(): string {
  try {
    const id = readFileSync("/proc/sys/kernel/random/boot_id", "latin1");
    return String(Number.parseInt(id.slice(0, 8), 16)).padStart(10, "0");
  } catch {
    return "";
  }
}

/** Returns the parent of a journal's process. */
export function parentPid(name: string): number | undefined {
  const parent = readProcStat(pidOf(name))?.[1];
  return parent === undefined ? undefined : Number(parent);
}

/**
 * Reports whether the primary of a journal's process has ended: the parent is then whoever takes over orphaned processes, which is
 * another program. False where that is not visible.
 */
export function lostPrimary({ name }: ProcessJournal): boolean {
  const [pid, parent] = [pidOf(name), parentPid(name)];
  return parent !== undefined && isWorker(pid) && programOf(parent) !== programOf(pid);
}

/** Reports whether a process is a worker, which has a primary; false where the system does not show it. */
function isWorker(pid: number): boolean {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return args.some((arg) => arg.endsWith("/workers/main.ts"));
  } catch {
    return false;
  }
}

function programOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return undefined;
  }
}

const pidOf = (name: string): number => Number(name.split("-")[0]);

/** Returns the fields of /proc/PID/stat after the process's name. */
function readProcStat(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Makes a file's content, or the names in a folder, survive a power cut. */
export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
