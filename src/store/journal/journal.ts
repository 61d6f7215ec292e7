import { randomInt } from "node:crypto";
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from "node:fs";
import { thrownMessage } from "../../core/errors.ts";
import { internalize } from "../../wire/internalize.ts";
import { IdMap } from "../id-map.ts";
import { journalPosition } from "../journal-place.ts";
import type { LedgerWarn, UnwrittenLines } from "../ledger.ts";
import { type Cell, KIND_COLUMNS, USAGE_COLUMNS, type UsageRow } from "../ledger-row.ts";
import { makeFolder } from "../make-folder.ts";
import type { CreatedObject } from "../object-rows.ts";
import { journalFile, partFile, processName, removeFiles, syncPath } from "./files.ts";

/** Bytes written to a file after which the next one is begun. */
const MAX_FILE_BYTES = 8 * 1024 * 1024;
/** Maximum characters buffered in memory while the journal cannot be written; nearly all take one byte. */
const MAX_BUFFERED = 64 * 1024 * 1024;
/** Characters written at once, about: an attempt to write all that is buffered would block for a tenth of a second, each time it fails. */
const MAX_WRITTEN = 1024 * 1024;
/** Milliseconds between retries of a failed write. */
const RETRY_INTERVAL = 250;
/** The prefix of lines of exchanges that have begun. */
export const BEGUN_PREFIX = `["begun",`;
/** Upper bound of the random number in a journal's name; node allows no more. */
const MAX_RANDOM = 2 ** 48 - 1;
/** Milliseconds between checks that the file still has its name. */
const CHECK_INTERVAL = 1000;

/** A line of a journal: a ledger row, or an object that was created. */
export type JournalLine = RowLine | ["made", CreatedObject];
/**
 * The row that the ledger stores if its exchange never ends (`begun`), or the final row. The third member is the name in
 * `Row.once`, the fourth the row to store if that name has been counted.
 */
export type RowLine = [kind: "begun" | "ended", row: JournalRow, once?: string, counted?: JournalRow];
type JournalRow = [kind: UsageRow["kind"], values: UsageRow["values"], attribution?: UsageRow["attribution"]];

/** Lines that are written at once: joined as they come, as V8 then copies them once, when they are written. */
interface LineBatch {
  text: string;
  count: number;
}

/**
 * The files to which a process writes ledger rows before responses are completed. What was written survives the death of the
 * process; another process then puts it into the ledger.
 */
export class Journal {
  /** Prefix of its files' names, which no other journal has: the process's name may recur in another container. */
  readonly owner = `${processName()}-${randomInt(MAX_RANDOM)}`;
  /** The number of the current file, and its size in bytes. */
  number = 0;
  size = 0;
  /** Bytes of the lines with which the current file began. */
  private carried = 0;
  private fd: number | undefined;
  private checkedAt = 0;
  /** Lines to be written, the oldest first, and their characters. */
  private pending: LineBatch[] = [];
  private pendingLength = 0;
  /** First lines of open exchanges, by id: each new file begins with them. */
  private readonly open = new IdMap<string>();
  /** Number of failed writes. */
  failures = 0;
  private failed: { since: number; triedAt: number; lost: number; reason: string } | undefined;
  private retry: NodeJS.Timeout | undefined;

  /**
   * @param folder of the files, created with the first of them
   * @param warn called when the journal cannot be written, for each lost line with its content, and on recovery
   * @param limits bytes of a file, and characters buffered in memory
   * @param durable whether what was written survives a power cut too: each write then waits for the disk
   */
  constructor(
    readonly folder: string,
    private readonly warn: LedgerWarn,
    private readonly limits: { full: number; memory: number } = { full: MAX_FILE_BYTES, memory: MAX_BUFFERED },
    private readonly durable = false,
  ) {}

  /** Called when writing begins to fail, and when buffered lines have been written after that. */
  onWritable: (writable: boolean) => void = () => {};

  /** Whether lines reach the disk. */
  get writable(): boolean {
    return this.failed === undefined;
  }

  /** Lines that could not be written: they are in memory, and lost if this process is killed. */
  get unwritten(): UnwrittenLines | undefined {
    if (!this.failed || this.pending.length === 0) return undefined;
    return { lines: this.pendingCount, where: `${this.folder} cannot be written (${this.failed.reason})` };
  }

  /** Seconds since writes began to fail; 0 if they do not. */
  get failingSeconds(): number {
    return this.failed ? (performance.now() - this.failed.since) / 1000 : 0;
  }

  /** The position at which the lines so far end, written or not. */
  get endPosition(): number {
    const pending = this.pending.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
    return journalPosition(Math.max(1, this.number), this.size + pending);
  }

  /** Whether a file exists. */
  get hasFile(): boolean {
    return this.number > 0;
  }

  /** Records that an exchange has begun. @param id the exchange's */
  begin(id: string, row: UsageRow): void {
    const line = rowLine("begun", row);
    this.open.set(id, line);
    this.add(line);
  }

  /** Records that an exchange has ended. */
  end(id: string, row: UsageRow): void {
    this.open.delete(id);
    this.add(rowLine("ended", row));
  }

  /**
   * Records what running exchanges have reserved, in each file from now on; in none that cannot be written, as it is of no use in
   * the log.
   * @param line of `orphanedLine`
   */
  recordOrphaned(line: string): void {
    this.open.set("", line);
    if (this.writable) this.add(line);
  }

  /** Records an object that was created. */
  addObject(object: CreatedObject): void {
    this.add(`${JSON.stringify(["made", object] satisfies JournalLine)}\n`);
  }

  /** Whether lines are buffered. */
  get hasPending(): boolean {
    return this.pending.length > 0;
  }

  private get pendingCount(): number {
    return this.pending.reduce((sum, { count }) => sum + count, 0);
  }

  /** Writes the buffered lines, usually in one write. Never throws: on failure they stay buffered, or are lost with a warning. */
  write(): void {
    if (this.pending.length === 0 || (this.failed && performance.now() - this.failed.triedAt < RETRY_INTERVAL)) return;
    try {
      this.checkFile(CHECK_INTERVAL);
      while (this.pending.length > 0) this.writeOldest();
    } catch (thrown) {
      this.fail(thrown as Error);
      return;
    }
    if (this.failed) this.recover(this.failed);
    if (this.size >= this.carried + this.limits.full) this.rotate();
  }

  /** Writes the oldest buffered lines. @throws the system's error; they are still buffered then */
  private writeOldest(): void {
    const { text } = this.pending[0] as LineBatch;
    this.append(text);
    // Nearly always it is the only one; `shift` is not compiled into this.
    if (this.pending.length === 1) this.pending.pop();
    else this.pending.shift();
    this.pendingLength -= text.length;
  }

  /** Writes the buffered lines and closes the file. @returns the lines that are lost, as they could not be written */
  close(): string[] {
    if (this.failed) this.failed.triedAt = Number.NEGATIVE_INFINITY;
    this.write();
    clearTimeout(this.retry);
    try {
      this.checkFile(0);
    } catch (thrown) {
      this.warn(`The ledger's journal in ${this.folder} cannot be written: ${thrownMessage(thrown)}.`);
    }
    const lost = this.pending.flatMap(linesOf);
    if (lost.length > 0)
      this.warn(
        `Lines of the ledger's journal that are lost, as ${this.folder} cannot be written: ${lost.length}. What they held follows.`,
      );
    this.pending = [];
    this.pendingLength = 0;
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
    return this.withoutEnded(lost);
  }

  /** Removes the first lines of exchanges that have ended: their last lines replace them. */
  private withoutEnded(lines: readonly string[]): string[] {
    const open = new Set(this.open.entries().map(([, line]) => line));
    return lines.filter((line) => !line.startsWith(BEGUN_PREFIX) || open.has(line));
  }

  private add(line: string): void {
    const last = this.pending.at(-1);
    if (last && last.text.length < MAX_WRITTEN) {
      last.text += line;
      last.count++;
    } else this.pending.push({ text: line, count: 1 });
    this.pendingLength += line.length;
    if (this.pendingLength <= this.limits.memory) return;
    // So much in one turn of the event loop is written before its end.
    this.write();
    while (this.pendingLength > this.limits.memory) this.dropOldest();
  }

  /** @throws the system's error; the file is then unchanged. */
  private append(text: string): void {
    const fd = this.fd ?? this.switchFile(this.number + 1, Buffer.alloc(0));
    const bytes = Buffer.byteLength(text);
    try {
      const written = writeSync(fd, text);
      if (written < bytes) writeAll(fd, Buffer.from(text).subarray(written));
      if (this.durable) fdatasyncSync(fd);
    } catch (thrown) {
      ftruncateSync(fd, this.size);
      throw thrown;
    }
    this.size += bytes;
  }

  /**
   * Writes the current file again if it has been removed or moved, where no reader would find later lines. Its content is still
   * readable through the descriptor. Lines keep their places, which tell the ledger what it has.
   * @param pause minimum milliseconds between checks
   * @throws the system's error if the file cannot be written
   */
  private checkFile(pause: number): void {
    const { fd } = this;
    const now = performance.now();
    if (fd === undefined || now - this.checkedAt < pause) return;
    const file = journalFile(this.folder, this.owner, this.number);
    if (statSync(file, { throwIfNoEntry: false })?.ino !== fstatSync(fd).ino) {
      const bytes = Buffer.allocUnsafe(this.size);
      this.switchFile(this.number, bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, 0)));
      this.warn(`The ledger's journal ${file} was removed or moved. All of it has been written again.`);
    }
    this.checkedAt = now;
  }

  /** Begins a new file with the first lines of all open exchanges, so that a reader no longer needs the previous file. */
  private rotate(): void {
    const lines = this.open.entries().map(([, line]) => line);
    try {
      this.switchFile(this.number + 1, Buffer.from(lines.join("")));
      this.carried = this.size;
    } catch {
      // The old one can be used for a while longer.
    }
  }

  /**
   * Continues in a file with that number, which replaces another one of its name.
   * @param first its first bytes
   * @returns its descriptor
   * @throws the system's error; the journal is then unchanged
   */
  private switchFile(number: number, first: Buffer): number {
    makeFolder(this.folder);
    const file = journalFile(this.folder, this.owner, number);
    const part = partFile(file);
    // Its name is this journal's alone: what is there was left by a failed attempt.
    const fd = openSync(part, constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND, 0o600);
    try {
      writeAll(fd, first);
      if (this.durable && first.length > 0) fdatasyncSync(fd);
      renameSync(part, file);
      if (this.durable) syncPath(this.folder);
    } catch (thrown) {
      closeSync(fd);
      removeFiles(number === this.number ? [part] : [part, file]);
      throw thrown;
    }
    const old = this.fd;
    Object.assign(this, { fd, number, size: first.length, checkedAt: performance.now() });
    try {
      if (old !== undefined) closeSync(old);
    } catch {
      // It is closed nevertheless, and all that was written to it is there.
    }
    return fd;
  }

  private fail(error: Error): void {
    this.failures++;
    if (!this.failed) {
      this.warn(
        `The ledger's journal in ${this.folder} cannot be written: ${error.message}. What it shall hold waits in memory only: free room there, or let this user write to it, before the gateway is stopped.`,
      );
      this.onWritable(false);
    }
    const now = performance.now();
    this.failed ??= { since: now, triedAt: now, lost: 0, reason: error.message };
    Object.assign(this.failed, { triedAt: now, reason: error.message });
    this.retry = setTimeout(() => this.write(), RETRY_INTERVAL + 1).unref();
  }

  private recover({ lost }: { lost: number }): void {
    this.failed = undefined;
    const message = `The ledger's journal is being written again; ${lost === 1 ? "1 line was" : `${lost} lines were`} lost.`;
    this.warn(message, undefined, lost === 0);
    this.onWritable(true);
  }

  private dropOldest(): void {
    const oldest = this.pending[0] as LineBatch;
    const lines = linesOf(oldest);
    const dropped = lines.splice(0, Math.ceil(lines.length / 100));
    this.pendingLength -= oldest.text.length;
    if (lines.length === 0) this.pending.shift();
    else {
      Object.assign(oldest, { text: lines.join(""), count: lines.length } satisfies LineBatch);
      this.pendingLength += oldest.text.length;
    }
    if (!this.failed) return;
    if (this.failed.lost === 0) this.warn("Memory for the ledger's journal is full: its oldest lines are being lost.");
    this.failed.lost += dropped.length;
    for (const line of this.withoutEnded(dropped)) this.warn(LOST_LINE, lostFields(line));
  }
}

/** Returns lines one by one, each with its end: JSON has none in it. */
const linesOf = ({ text }: LineBatch): string[] => text.match(/[^\n]*\n/g) ?? [];

/** @throws the system's error; some of the bytes may then have been written */
function writeAll(fd: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length; ) written += writeSync(fd, bytes, written);
}

/** Describes lines that are in memory only, for operators. */
export const unwrittenText = ({ lines, where }: UnwrittenLines): string =>
  `${lines === 1 ? "1 line of the journal is" : `${lines} lines of the journal are`} in memory only, as ${where}: free room before it is stopped.`;

/** The log message of a lost line; its fields contain the line itself, which can be added to a journal by hand. */
export const LOST_LINE = "a line of the ledger's journal is lost";
export const lostFields = (line: string): object => ({ journal: JSON.parse(line) });

/** Serializes a `RowLine`; parts that many rows share are serialized once, and joined with what is around them. */
function rowLine(kind: RowLine[0], row: UsageRow): string {
  const { kind: common, values, attribution, once } = row;
  const start = (kind === "begun" ? BEGUN_STARTS : ENDED_STARTS).of(common);
  const cells = JSON.stringify(values);
  const end = attribution ? HOLDER_ENDS.of(attribution) : ROW_END;
  if (!once) return start + cells + end;
  const { duplicate } = once;
  const counted = `[${KINDS.of(duplicate.kind)},${JSON.stringify(duplicate.values)}${end}`;
  return `${start}${cells}${end.slice(0, -LINE_END.length)},${JSON.stringify(once.name)},${counted}`;
}

/** What follows the cells of a row in its line, and the end of each line. */
const ROW_END = "]]\n";
const LINE_END = "]\n";

/** Texts made of cells that many rows share, each made once. */
class SharedTexts {
  private readonly known = new WeakMap<readonly Cell[], string>();
  private readonly make: (cells: readonly Cell[]) => string;

  constructor(toText: (json: string) => string) {
    // V8 copies the parts of a joined text at each use; it keeps an internalized one as a whole.
    this.make = (cells) => internalize(toText(JSON.stringify(cells)));
  }

  of(cells: readonly Cell[]): string {
    return this.known.getOrInsertComputed(cells, this.make);
  }
}

const KINDS = new SharedTexts((json) => json);
const BEGUN_STARTS = new SharedTexts((json) => `["begun",[${json},`);
const ENDED_STARTS = new SharedTexts((json) => `["ended",[${json},`);
const HOLDER_ENDS = new SharedTexts((json) => `,${json}${ROW_END}`);

/** Converts a journal's line to a row. */
export function lineToRow([, [kind, values, attribution], name, counted]: RowLine): UsageRow {
  const row: UsageRow = { kind: upgradeKind(kind), values: upgradeValues(values) };
  if (attribution) row.attribution = attribution;
  if (name === undefined || !counted) return row;
  return {
    ...row,
    once: { name, duplicate: { ...row, kind: upgradeKind(counted[0]), values: upgradeValues(counted[1]) } },
  };
}

/** Lines from before rows had an assumed cost lack that column; those of later versions may have more. */
const upgradeValues = (values: UsageRow["values"]): UsageRow["values"] => fit(values, USAGE_COLUMNS.length, null);

/** Lines from before prices had names lack that column; those of later versions may have more. */
const upgradeKind = (kind: UsageRow["kind"]): UsageRow["kind"] => fit(kind, KIND_COLUMNS.length, "");

/** Returns cells without further ones, or with the last one if only that is missing. */
function fit(cells: readonly Cell[], length: number, last: Cell): readonly Cell[] {
  if (cells.length > length) return cells.slice(0, length);
  return cells.length === length - 1 ? [...cells, last] : cells;
}
