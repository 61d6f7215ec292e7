import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from "node:fs";
import type { LedgerWarn, Unwritten } from "../ledger.ts";
import { type Cell, KIND, type Row } from "../ledger-row.ts";
import type { MadeObject } from "../object-rows.ts";
import { journalFile, processName, remove } from "./files.ts";

/** Bytes after which a journal goes on in another file. */
const FULL = 8 * 1024 * 1024;
/** Bytes that wait in memory at most while the journal cannot be written. */
const MEMORY = 64 * 1024 * 1024;
/** Milliseconds between two tries then. */
const AGAIN = 250;
/** What lines of exchanges that have begun begin with. */
export const BEGUN = `["begun",`;
/** Milliseconds between two looks whether the file is still where others find it. */
const LOOK = 1000;

/** A line of a journal: of a row of the ledger, or an object that was made. */
export type JournalLine = RowLine | ["made", MadeObject];
/**
 * A row as the ledger shall have it if nothing more is heard of its exchange, or its last word. The third member is that of
 * `Row.once`, and the row for when that has been counted.
 */
export type RowLine = [kind: "begun" | "ended", row: JournalRow, once?: string, counted?: JournalRow];
type JournalRow = [kind: Row["kind"], values: Row["values"], holder?: Row["holder"]];

/** Journals of this process so far: a process may have several ledgers. */
let made = 0;

/**
 * The files in which a process writes down what its ledger shall hold, before anybody hears of it. What was written
 * survives the death of the process; another one puts it into the ledger then.
 */
export class Journal {
  /** What its files' names begin with. */
  readonly owner = `${processName()}-${++made}`;
  /** The number of the file that is written, and the bytes in it. */
  number = 0;
  size = 0;
  private fd: number | undefined;
  private lookedAt = 0;
  private pending: string[] = [];
  private pendingBytes = 0;
  /** Exchanges that have begun and not ended, by id: each new file begins with their lines. */
  private readonly open = new Map<string, { line: string }>();
  /** Times that it could not be written. */
  failures = 0;
  private failed: { since: number; triedAt: number; lost: number; reason: string } | undefined;
  private retry: NodeJS.Timeout | undefined;

  /**
   * @param folder where its files are, made when the first of them is
   * @param warn told when the journal cannot be written, when lines are lost, each with what it held, and when all is well again
   * @param limits bytes of a file, and bytes that wait in memory
   * @param durable whether what was written survives a power cut too: each write then waits for the disk
   */
  constructor(
    readonly folder: string,
    private readonly warn: LedgerWarn,
    private readonly limits: { full: number; memory: number } = { full: FULL, memory: MEMORY },
    private readonly durable = false,
  ) {}

  /** Told when what could not be written has been, whoever has asked for it. */
  recovered: () => void = () => {};

  /** Whether what is told gets to the disk. */
  get writable(): boolean {
    return this.failed === undefined;
  }

  /** What could not be written: it is in memory, and gone if this process is killed. */
  get unwritten(): Unwritten | undefined {
    if (!this.failed || this.pending.length === 0) return undefined;
    return { lines: this.pending.length, where: `${this.folder} cannot be written (${this.failed.reason})` };
  }

  /** Seconds for which it could not be written. */
  get late(): number {
    return this.failed ? (performance.now() - this.failed.since) / 1000 : 0;
  }

  /** Whether there is a file. */
  get used(): boolean {
    return this.number > 0;
  }

  /** An exchange has begun. @param id the exchange's */
  begin(id: string, row: Row): void {
    const line = lineOf("begun", row);
    this.open.set(id, { line });
    this.add(line);
  }

  /** An exchange has ended. */
  end(id: string, row: Row): void {
    const begun = this.open.get(id);
    // A Map's old tables may live on for long (see `Bag`): not with what is large.
    if (begun) begun.line = "";
    this.open.delete(id);
    this.add(lineOf("ended", row));
  }

  /** Somebody's object was made. */
  made(object: MadeObject): void {
    this.add(`${JSON.stringify(["made", object] satisfies JournalLine)}\n`);
  }

  /** Whether anything waits to be written. */
  get waiting(): boolean {
    return this.pendingBytes > 0;
  }

  /** Writes what waits, in one write. Never throws: what cannot be written waits on, or is lost, and that is told. */
  write(): void {
    if (this.pendingBytes === 0 || (this.failed && performance.now() - this.failed.triedAt < AGAIN)) return;
    const bytes = Buffer.from(this.pending.join(""));
    try {
      this.look(LOOK);
      this.append(bytes);
    } catch (thrown) {
      this.fail(thrown as Error);
      return;
    }
    this.pending = [];
    this.pendingBytes = 0;
    if (this.failed) this.recover(this.failed);
    if (this.size >= this.limits.full) this.next();
  }

  /** Writes what waits and closes the file. @returns the lines that are lost, as they could not be written */
  close(): string[] {
    if (this.failed) this.failed.triedAt = 0;
    this.write();
    clearTimeout(this.retry);
    try {
      this.look(0);
    } catch (thrown) {
      this.warn(`The ledger's journal in ${this.folder} cannot be written: ${(thrown as Error).message}.`);
    }
    const lost = this.pending;
    if (lost.length > 0)
      this.warn(
        `Lines of the ledger's journal that are lost, as ${this.folder} cannot be written: ${lost.length}. What they held follows.`,
      );
    this.pending = [];
    this.pendingBytes = 0;
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
    return this.needed(lost);
  }

  /** Of an exchange that has ended its first line tells nothing. */
  private needed(lines: readonly string[]): string[] {
    const open = new Set([...this.open.values()].map(({ line }) => line));
    return lines.filter((line) => !line.startsWith(BEGUN) || open.has(line));
  }

  private add(line: string): void {
    this.pending.push(line);
    this.pendingBytes += line.length;
    if (this.pendingBytes <= this.limits.memory) return;
    // So much of one turn of the event loop does not wait for its end.
    this.write();
    if (this.pendingBytes > this.limits.memory) this.dropOldest();
  }

  /** @throws what the system says; nothing of it stands in the file then. */
  private append(bytes: Buffer): void {
    const fd = this.fd ?? this.create();
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(fd, bytes, written);
      if (this.durable) fdatasyncSync(fd);
    } catch (thrown) {
      ftruncateSync(fd, this.size);
      throw thrown;
    }
    this.size += written;
  }

  private create(): number {
    mkdirSync(this.folder, { recursive: true, mode: 0o700 });
    const fd = openSync(journalFile(this.folder, this.owner, this.number + 1), "ax+", 0o600);
    this.fd = fd;
    this.number++;
    this.size = 0;
    this.lookedAt = performance.now();
    if (this.durable) syncFolder(this.folder);
    return fd;
  }

  /**
   * Goes on in another file where somebody has removed the one that is written, or moved it: nobody would find what follows.
   * What stands in it is still to be had, and written again; what the ledger has of it already it takes once.
   * @param pause milliseconds from one look to the next
   * @throws what the system says where there can be no other file
   */
  private look(pause: number): void {
    const { fd } = this;
    const now = performance.now();
    if (fd === undefined || now - this.lookedAt < pause) return;
    const file = journalFile(this.folder, this.owner, this.number);
    if (statSync(file, { throwIfNoEntry: false })?.ino !== fstatSync(fd).ino) {
      const bytes = Buffer.allocUnsafe(this.size);
      this.goOn(bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, 0)));
      this.warn(`The ledger's journal ${file} was removed or moved. All of it stands in another file now.`);
    }
    this.lookedAt = now;
  }

  /** Goes on in another file, which tells all that is still open: who has read the one before needs it no more. */
  private next(): void {
    try {
      this.goOn(Buffer.from([...this.open.values()].map(({ line }) => line).join("")));
    } catch {
      // The old one is as good for a while.
    }
  }

  /**
   * @param first what the next file begins with
   * @throws what the system says; all is as it was then
   */
  private goOn(first: Buffer): void {
    const { fd: old, number, size } = this;
    try {
      this.create();
      this.append(first);
    } catch (thrown) {
      if (this.fd !== old) {
        closeSync(this.fd as number);
        remove([journalFile(this.folder, this.owner, this.number)]);
      }
      Object.assign(this, { fd: old, number, size });
      throw thrown;
    }
    try {
      closeSync(old as number);
    } catch {
      // It is closed all the same, and all that was written to it is there.
    }
  }

  private fail(error: Error): void {
    this.failures++;
    if (!this.failed)
      this.warn(
        `The ledger's journal in ${this.folder} cannot be written: ${error.message}. What it shall hold waits in memory only: free room there before the gateway is stopped.`,
      );
    const now = performance.now();
    this.failed ??= { since: now, triedAt: now, lost: 0, reason: error.message };
    Object.assign(this.failed, { triedAt: now, reason: error.message });
    this.retry = setTimeout(() => this.write(), AGAIN + 1).unref();
  }

  private recover({ lost }: { lost: number }): void {
    this.failed = undefined;
    const told = `The ledger's journal is being written again; ${lost === 1 ? "1 line was" : `${lost} lines were`} lost.`;
    this.warn(told, undefined, lost === 0);
    this.recovered();
  }

  private dropOldest(): void {
    const dropped = this.pending.splice(0, Math.ceil(this.pending.length / 100));
    for (const line of dropped) this.pendingBytes -= line.length;
    if (!this.failed) return;
    if (this.failed.lost === 0) this.warn("Memory for the ledger's journal is full: its oldest lines are being lost.");
    this.failed.lost += dropped.length;
    for (const line of this.needed(dropped)) this.warn(LOST_LINE, lostFields(line));
  }
}

/** What an operator is told of lines that are in memory only. */
export const unwrittenText = ({ lines, where }: Unwritten): string =>
  `${lines === 1 ? "1 line of the journal is" : `${lines} lines of the journal are`} in memory only, as ${where}: free room before it is stopped.`;

/** What is said of a line that is lost, beside the line itself, which a journal that is made by hand may hold. */
export const LOST_LINE = "a line of the ledger's journal is lost";
export const lostFields = (line: string): object => ({ journal: JSON.parse(line) });

/** Makes the names in a folder survive a power cut; what is in the files is their own concern. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** A `RowLine` as JSON; what many rows share is made to text once. */
function lineOf(kind: RowLine[0], { kind: common, values, holder, once }: Row): string {
  const row = rowText(common, values, holder);
  if (!once) return `["${kind}",${row}]\n`;
  return `["${kind}",${row},${JSON.stringify(once.name)},${rowText(once.counted.kind, once.counted.values, holder)}]\n`;
}

function rowText(kind: Row["kind"], values: Row["values"], holder: Row["holder"]): string {
  const row = `${sharedText(kind)},${JSON.stringify(values)}`;
  return holder ? `[${row},${sharedText(holder)}]` : `[${row}]`;
}

/** JSON of kinds and holders, which many rows share. */
const sharedTexts = new WeakMap<readonly Cell[], string>();

function sharedText(shared: readonly Cell[]): string {
  let text = sharedTexts.get(shared);
  if (text === undefined) {
    text = JSON.stringify(shared);
    sharedTexts.set(shared, text);
  }
  return text;
}

/** The row of a journal's line. */
export function rowIn([, [kind, values, holder], name, counted]: RowLine): Row {
  const row: Row = { kind: kindIn(kind), values };
  if (holder) row.holder = holder;
  if (name === undefined || !counted) return row;
  return { ...row, once: { name, counted: { ...row, kind: kindIn(counted[0]), values: counted[1] } } };
}

/** Those that were written before prices had names lack that. */
const kindIn = (kind: Row["kind"]): Row["kind"] => (kind.length === KIND.length - 1 ? [...kind, ""] : kind);
