import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { thrownMessage } from "../../core/errors.ts";
import { JOURNAL_END, journalPosition, placeOpenRows } from "../journal-place.ts";
import type { LedgerBacklog, LedgerWarn } from "../ledger.ts";
import type { JournalPlace, UsageRow } from "../ledger-row.ts";
import type { CreatedObject } from "../object-rows.ts";
import {
  ABANDONED_AFTER,
  filesToRead,
  isAbandoned,
  isOrphaned,
  journalFile,
  journalFileNumber,
  listJournals,
  type ProcessJournal,
  removeFiles,
  touchJournal,
} from "./files.ts";
import { lineToRow } from "./journal.ts";
import { JournalLineParser, readLines } from "./lines.ts";

/** Milliseconds until the first retry while the ledger cannot be written; they double up to `MAX_RETRY_DELAY`. */
const RETRY_DELAY = 250;
const MAX_RETRY_DELAY = 10_000;
/** Milliseconds by which the clock may be set ahead without consequence: other processes touch their journals every second. */
const MAX_CLOCK_STEP = 1000;

/** The destination of journal lines. */
export interface LineConsumer {
  appendRow(row: UsageRow): void;
  appendObject(object: CreatedObject): void;
  /** @throws Error when the store cannot be written; appended lines are kept and retried. */
  flush(): Promise<void>;
}

/** A position in a journal: the number of its file, and bytes. */
export interface JournalPosition {
  readonly number: number;
  readonly size: number;
}

/** Writes journals into the ledger: that of the running process line by line, and those of dead processes. */
export class JournalFeeder {
  /** How far the running journal has been read. */
  private at = { number: 1, position: 0 };
  private feeding: Promise<void> = Promise.resolve();
  /** The next read, after the current one; all requests for it meanwhile share it. */
  private nextRead: { position: JournalPosition; read: Promise<void> } | undefined;
  private readonly ending = new AbortController();
  private readonly parser = new JournalLineParser();
  /** The time of day minus `performance.now()`, and until when files' times are not trusted, as that has grown. */
  private clockAhead = Date.now() - performance.now();
  private distrustedUntil = 0;
  /** `performance.now()` when the oldest unread line appeared; undefined when all are read. */
  behindSince: number | undefined;
  /** Number of failed writes to the ledger. */
  errors = 0;

  /**
   * @param folder of the journals
   * @param owner prefix of the running journal's file names
   * @param warn called when the running journal cannot be read, and when it can again
   */
  constructor(
    private readonly folder: string,
    private readonly owner: string,
    private readonly store: LineConsumer,
    private readonly warn: LedgerWarn = () => {},
  ) {}

  /** Reads the running journal up to a position, after earlier reads. Waits for a store that is down. */
  feed(position: JournalPosition): Promise<void> {
    if (this.nextRead) {
      this.nextRead.position = position;
      return this.nextRead.read;
    }
    this.behindSince ??= performance.now();
    const next = { position, read: this.feeding.then(() => this.readNext()) };
    this.nextRead = next;
    this.feeding = next.read;
    return next.read;
  }

  /** Returns how far the ledger is behind the journals. */
  backlog(): LedgerBacklog {
    const lag = this.behindSince === undefined ? 0 : (performance.now() - this.behindSince) / 1000;
    let [oldest, bytes] = [lag, 0];
    for (const journal of listJournals(this.folder))
      for (const file of journal.files) {
        const found = statSync(file, { throwIfNoEntry: false });
        bytes += found?.size ?? 0;
        if (found && journal.name !== this.owner && isOrphaned(journal))
          oldest = Math.max(oldest, (Date.now() - found.mtimeMs) / 1000);
      }
    return { lag, oldest, bytes, errors: this.errors };
  }

  /**
   * Shows other processes that the running journal is in use, and how far it is in the ledger.
   * @param unwrittenSince `performance.now()` since which lines are in memory only; undefined: none are
   */
  touch(unwrittenSince = Number.POSITIVE_INFINITY): void {
    const [now, clock] = [Date.now(), performance.now()];
    const lag = clock - Math.min(this.behindSince ?? clock, unwrittenSince, clock);
    touchJournal(journalFile(this.folder, this.owner, this.at.number), now - lag, now);
  }

  /**
   * Writes the journals of dead processes into the ledger. Exchanges that have begun and not ended are stored as their first
   * line describes them. An unreadable journal does not delay the others.
   * @throws the first system error of a journal that cannot be read or removed; that journal stays
   */
  async adopt(): Promise<void> {
    if (this.hasClockJumped()) return;
    const failures: unknown[] = [];
    for (const journal of listJournals(this.folder)) {
      if (journal.name === this.owner || this.stopped || !isAbandoned(journal)) continue;
      await this.feedAbandoned(journal).catch((thrown: unknown) => failures.push(thrown));
    }
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Reports whether the clock was set ahead, or the machine slept, a moment ago: the journals of live processes seem abandoned
   * until they are touched again.
   */
  private hasClockJumped(): boolean {
    const clock = performance.now();
    const ahead = Date.now() - clock;
    if (ahead - this.clockAhead > MAX_CLOCK_STEP) this.distrustedUntil = clock + ABANDONED_AFTER;
    this.clockAhead = ahead;
    return clock < this.distrustedUntil;
  }

  /** Stops feeding: what is not in the ledger yet stays in the journal. */
  stop(): void {
    this.ending.abort();
  }

  /** Waits for all requested reads; false if feeding was stopped before. */
  async drain(): Promise<boolean> {
    await this.feeding;
    return !this.stopped;
  }

  /** Removes the running journal, all of which is in the ledger. */
  removeJournal(): void {
    removeFiles([journalFile(this.folder, this.owner, this.at.number)]);
  }

  private get stopped(): boolean {
    return this.ending.signal.aborted;
  }

  /** Writes a whole journal into the ledger and removes it; the journal stays if that is interrupted. */
  private async feedAbandoned(journal: ProcessJournal): Promise<void> {
    const open = new Map<unknown, UsageRow>();
    let end = 0;
    for (const file of filesToRead(journal))
      end = journalPosition(
        journalFileNumber(file),
        await this.feedFile(journal.name, file, 0, Number.POSITIVE_INFINITY, open),
      );
    if (this.stopped) return;
    for (const row of placeOpenRows(open.values(), journal.name, end, JOURNAL_END)) this.store.appendRow(row);
    if (await this.flushWithRetry()) removeFiles(journal.files);
  }

  private async readNext(): Promise<void> {
    const { position } = this.nextRead as { position: JournalPosition };
    this.nextRead = undefined;
    await this.readWithRetry(position);
    // What was requested meanwhile is newer.
    this.behindSince = this.nextRead === undefined ? undefined : performance.now();
  }

  /** Reads until it succeeds, also through temporary failures such as a lack of file descriptors. Never throws. */
  private async readWithRetry(position: JournalPosition): Promise<void> {
    for (let wait = RETRY_DELAY; ; wait = nextDelay(wait))
      try {
        await this.read(position);
        if (wait > RETRY_DELAY) this.warn("The ledger's journal can be read again.", undefined, true);
        return;
      } catch (thrown) {
        this.errors++;
        if (wait === RETRY_DELAY)
          this.warn(`The ledger's journal cannot be read: ${thrownMessage(thrown)}. It stays, and is tried again.`);
        await this.pause(wait);
      }
  }

  private async read({ number, size }: JournalPosition): Promise<void> {
    while (!this.stopped && this.at.number <= number) {
      const { at, owner } = this;
      const last = at.number === number;
      const file = journalFile(this.folder, owner, at.number);
      at.position = await this.feedFile(owner, file, at.position, last ? size : Number.POSITIVE_INFINITY);
      if (last || this.stopped) return;
      removeFiles([file]);
      this.at = { number: at.number + 1, position: 0 };
    }
  }

  /**
   * Writes the lines of a journal's file into the ledger.
   * @param open collects exchanges that have begun and not ended; absent: they are skipped
   * @returns the position reached; an incomplete line at the end is not read
   */
  private async feedFile(
    journal: string,
    file: string,
    from: number,
    to: number,
    open?: Map<unknown, UsageRow>,
  ): Promise<number> {
    const number = journalFileNumber(file);
    let position = from;
    // Half of all lines have begun an exchange; they are not needed while their process runs.
    for (const { lines, to: end } of readLines(file, from, to, !open)) {
      if (this.stopped) break;
      for (const line of lines) {
        const place = { journal, from: journalPosition(number, line.from), to: journalPosition(number, line.to) };
        this.line(line.text, place, open);
      }
      if (!(await this.flushWithRetry())) break;
      position = end;
    }
    return position;
  }

  private line(text: string, place: JournalPlace, open: Map<unknown, UsageRow> | undefined): void {
    const line = this.parser.parse(text);
    if (!line) return;
    if (line[0] === "made") {
      this.store.appendObject(line[1]);
      return;
    }
    const row = lineToRow(line);
    const [id] = row.values;
    if (line[0] === "begun") open?.set(id, row);
    else {
      open?.delete(id);
      row.place = place;
      this.store.appendRow(row);
    }
  }

  /** Flushes until the ledger has all rows; false if feeding was stopped. */
  private async flushWithRetry(): Promise<boolean> {
    for (let wait = RETRY_DELAY; ; wait = nextDelay(wait)) {
      try {
        await this.store.flush();
        return true;
      } catch {
        this.errors++;
        if (this.stopped) return false;
        await this.pause(wait);
      }
    }
  }

  /** Waits so many milliseconds, or until feeding is stopped. */
  private pause(wait: number): Promise<void> {
    return sleep(wait, undefined, { signal: this.ending.signal }).catch(() => {});
  }
}

const nextDelay = (wait: number): number => Math.min(wait * 2, MAX_RETRY_DELAY);
