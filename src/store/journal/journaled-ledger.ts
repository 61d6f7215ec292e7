import { setTimeout as sleep } from "node:timers/promises";
import { withTimeout } from "../../core/timeout.ts";
import {
  type JournalEnd,
  Ledger,
  type LedgerBacklog,
  type LedgerEntry,
  type LedgerFailures,
  type LedgerFilter,
  type LedgerQuery,
  type LedgerRows,
  type LedgerSearch,
  type LedgerSpan,
  type LedgerSpeed,
  type LedgerSum,
  type LedgerWarn,
  type PlacedSums,
  type SpeedGroup,
  type UnwrittenLines,
} from "../ledger.ts";
import { mergeEntries, readPages } from "../ledger-pages.ts";
import { entryToRow, isBilledApart, rowToEntry } from "../ledger-row.ts";
import type { RunningReservation } from "../limiter.ts";
import type { CreatedObject } from "../object-rows.ts";
import type { StoreOptions } from "../postgres/place.ts";
import type { SqlLedger } from "../sql-ledger.ts";
import { folderProblem, hasOtherJournals, hasWaitingRows, isOrphaned, listJournals, wasTouched } from "./files.ts";
import { Journal, LOST_LINE, lostFields, unwrittenText } from "./journal.ts";
import type { ObjectJournal } from "./journaled-owners.ts";
import type { LedgerLocation, LedgerMethod, LedgerRequest } from "./ledger-messages.ts";
import { type LedgerListener, LedgerThread } from "./ledger-thread.ts";
import { readJournals } from "./lines.ts";
import { orphanedLine, readOrphaned } from "./orphaned-reservations.ts";

/**
 * Milliseconds until the ledger's thread is notified that the journal has grown: each notification costs a transaction,
 * whatever its size.
 */
const FEED_DELAY = 500;
/** Maximum milliseconds that closing waits for a store that is down. */
const CLOSE_TIMEOUT = 3000;
/**
 * Maximum milliseconds to recover the journals of dead processes, and between checks; those left then belong to processes on
 * other machines.
 */
const RECOVERY_TIMEOUT = 6000;
const POLL_INTERVAL = 50;
/** Maximum milliseconds that a query waits for journaled rows; if the store is down, it returns what is stored. */
const FLUSH_TIMEOUT = 1500;
/** Milliseconds until a new thread is started, or a store that could not be opened is retried. */
const RETRY_DELAY = 10_000;
/** Maximum milliseconds to wait until processes without a primary have recorded what they have reserved. */
const ORPHANED_TIMEOUT = 5000;
/** Number of lost lines logged at once, and milliseconds of pause before the next. */
const LOST_BATCH = 2000;
const LOST_PAUSE = 200;

/**
 * A ledger whose entries are journaled before responses end, and moved from the journal into the store by a separate thread.
 * Nothing is lost with the process, and a slow store never delays requests.
 */
export class JournaledLedger extends Ledger implements ObjectJournal {
  private readonly journal: Journal;
  /** The id of this ledger in the store's thread; undefined until it is needed. */
  private ledgerId: number | undefined;
  private timer: NodeJS.Timeout | undefined;
  private persistImmediate: NodeJS.Immediate | undefined;
  private store: "ok" | "waiting" = "ok";
  /** What the thread is asked to store, and the next such request, which all share who want it meanwhile: an outage may be long. */
  private feeding: Promise<void> | undefined;
  private nextFeed: Promise<void> | undefined;
  private closed = false;
  override lostLines = 0;

  /**
   * @param location where the ledger is stored
   * @param folder of the journals
   * @param warn called when something cannot be written, when entries are lost, and on recovery
   */
  constructor(
    private readonly location: LedgerLocation,
    folder: string,
    private readonly warn: LedgerWarn = () => {},
    private readonly options: StoreOptions = {},
  ) {
    super();
    this.journal = new Journal(folder, warn, undefined, this.durable);
    this.journal.onWritable = (writable) => {
      if (this.ledgerId !== undefined) LedgerThread.shared().send(this.ledgerId, { type: "journal", writable });
      if (writable) this.scheduleFeed();
    };
    if (listJournals(this.journal.folder).length > 0) this.openLedger();
  }

  /** Whether entries reach the disk, and from there the store. */
  override get state(): "ok" | "waiting" {
    return this.journal.writable && this.store === "ok" ? "ok" : "waiting";
  }

  override watch(): void {
    const { folder } = this.journal;
    const problem = folderProblem(folder);
    if (problem !== undefined)
      this.warn(
        `The folder of the ledger's journal, ${folder}, cannot be used: ${problem}. Rows of ended gateways in it are not read, and new ones wait in memory only: let this user read and write it.`,
      );
    const isDatabase = typeof this.location !== "string" && !("inode" in this.location);
    if (isDatabase) this.openLedger();
  }

  override isBehind(): boolean {
    return super.isBehind() || listJournals(this.journal.folder).some(hasWaitingRows);
  }

  override get unwritten(): UnwrittenLines | undefined {
    return this.journal.unwritten;
  }

  override async written(timeout: number, interrupt?: AbortSignal): Promise<void> {
    this.persist();
    const { unwritten } = this;
    if (!unwritten || timeout <= 0) return;
    const long = timeout === Number.POSITIVE_INFINITY ? "" : ` for ${Math.ceil(timeout / 1000)} s`;
    this.warn(`The stop waits${long} until its journal can be written: ${unwrittenText(unwritten)}`);
    for (const end = performance.now() + timeout; this.unwritten && performance.now() < end && !interrupt?.aborted; ) {
      await sleep(POLL_INTERVAL);
      this.persist();
    }
  }

  override begin(entry: LedgerEntry): void {
    this.journal.begin(entry.id, entryToRow(entry));
    this.persistImmediate ??= setImmediate(this.persistSoon);
  }

  override append(entry: LedgerEntry): void {
    this.journal.end(entry.id, entryToRow(entry));
    this.persistImmediate ??= setImmediate(this.persistSoon);
  }

  addObject(object: CreatedObject): void {
    this.journal.addObject(object);
    this.persistImmediate ??= setImmediate(this.persistSoon);
  }

  override async recordOrphaned(orphaned: readonly RunningReservation[]): Promise<void> {
    if (this.closed) return;
    // What has ended before is then in the sums of whoever reads this.
    await withTimeout(FLUSH_TIMEOUT, this.flush()).catch(() => {});
    if (this.closed || !(this.journal.hasFile || orphaned.length > 0)) return;
    this.journal.recordOrphaned(orphanedLine(orphaned));
    this.persist();
  }

  override async orphanedElsewhere(): Promise<readonly RunningReservation[]> {
    const { folder, owner } = this.journal;
    for (const end = performance.now() + ORPHANED_TIMEOUT; ; await sleep(POLL_INTERVAL)) {
      const { orphaned, complete } = readOrphaned(folder, owner);
      if (complete || performance.now() >= end) return orphaned;
    }
  }

  /** Whether other processes may use the same store: journals of theirs exist, or unread ones of dead processes. */
  get hasOtherWriters(): boolean {
    const { folder, owner } = this.journal;
    return listJournals(folder).some(({ name }) => name !== owner);
  }

  /**
   * Whether a process has died whose journal is not in the store yet: it was not touched since that time, as one that is only
   * invisible from here does every second.
   */
  hasDeadWriter(since: number): boolean {
    const { folder, owner } = this.journal;
    return listJournals(folder).some(
      (journal) => journal.name !== owner && isOrphaned(journal) && !wasTouched(journal, since),
    );
  }

  override isShared(parent?: number): boolean {
    return hasOtherJournals(this.journal.folder, this.journal.owner, parent);
  }

  override persist(): void {
    if (!this.journal.hasPending) return;
    this.journal.write();
    this.scheduleFeed();
  }

  /** @throws Error when the thread has died */
  override async flush(): Promise<void> {
    this.persist();
    if (!this.journal.hasFile) return;
    if (!this.feeding) return this.requestFeed();
    this.nextFeed ??= this.feeding.then(() => {
      this.nextFeed = undefined;
      return this.requestFeed();
    });
    await this.nextFeed;
  }

  private async requestFeed(): Promise<void> {
    this.onFeed();
    const request = LedgerThread.shared().request(this.openLedger(), { type: "feed", ...this.journalPosition() });
    this.feeding = request
      .catch(() => {})
      .then(() => {
        this.feeding = undefined;
      });
    await request;
  }

  override async recovered(): Promise<void> {
    const { folder, owner } = this.journal;
    const left = () => listJournals(folder).some((journal) => journal.name !== owner && isOrphaned(journal));
    if (left()) this.openLedger();
    for (const end = performance.now() + RECOVERY_TIMEOUT; left() && performance.now() < end; )
      await sleep(POLL_INTERVAL);
  }

  override get place(): JournalEnd {
    return { journal: this.journal.owner, position: this.journal.endPosition };
  }

  override placedSums(query: LedgerQuery): Promise<PlacedSums> {
    return this.ask("placedSums", query);
  }

  override sums(query: LedgerQuery): Promise<LedgerSum[]> {
    return this.ask("sums", query);
  }

  override recent(limit: number): Promise<LedgerEntry[]> {
    return this.ask("recent", limit);
  }

  override search(search: LedgerSearch): Promise<LedgerEntry[]> {
    return this.ask("search", search);
  }

  override reach(filter: LedgerFilter, rows: number): Promise<number | undefined> {
    return this.ask("reach", filter, rows);
  }

  override speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]> {
    return this.ask("speeds", span, by);
  }

  override failures(span: LedgerSpan): Promise<LedgerFailures> {
    return this.ask("failures", span);
  }

  override lastUsed(keys: readonly string[]): Promise<Map<string, number>> {
    return this.ask("lastUsed", keys);
  }

  override countedNames(limit: number): Promise<readonly string[]> {
    return this.ask("countedNames", limit);
  }

  override async *entries(span: LedgerRows): AsyncGenerator<LedgerEntry> {
    await withTimeout(FLUSH_TIMEOUT, this.flush()).catch(() => {});
    // The journals first: a row may move from there into the store meanwhile, but never back.
    const notStored = (await readJournals(this.journal.folder, span)).ended.map(rowToEntry);
    // A journal is removed after its rows have been stored, and these may have been deleted by then.
    const pruned =
      notStored.length > 0
        ? ((await LedgerThread.shared().request(this.openLedger(), { type: "prunedBefore" })) as number)
        : 0;
    const within = notStored.filter((entry) => entry.time >= pruned && (!span.billedApart || isBilledApart(entry)));
    const stored = readPages((after) => this.askAtOnce("page", span, after));
    yield* mergeEntries(stored, within);
  }

  /** For a dead thread this throws: nothing more is known. */
  override async backlog(): Promise<LedgerBacklog> {
    const { failures, failingSeconds } = this.journal;
    if (this.ledgerId === undefined) return { lag: failingSeconds, oldest: failingSeconds, bytes: 0, errors: failures };
    const found = (await LedgerThread.shared().request(this.ledgerId, { type: "backlog" })) as LedgerBacklog;
    const [lag, oldest] = [Math.max(found.lag, failingSeconds), Math.max(found.oldest, failingSeconds)];
    return { ...found, lag, oldest, errors: found.errors + failures };
  }

  override async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    clearImmediate(this.persistImmediate);
    const lost = this.journal.close();
    this.lostLines = lost.length;
    await this.logLost(lost);
    if (this.ledgerId === undefined && !this.journal.hasFile) return;
    const ledger = this.openLedger();
    const thread = LedgerThread.shared();
    if (this.journal.hasFile) thread.send(ledger, { type: "feed", ...this.journalPosition() });
    await thread.close(ledger, CLOSE_TIMEOUT).catch((thrown: Error) => this.warn(thrown.message));
  }

  /** Logs lost lines in batches, as they can be recovered from the log, and its writer needs time to store them. */
  private async logLost(lines: readonly string[]): Promise<void> {
    for (const [at, line] of lines.entries()) {
      if (at > 0 && at % LOST_BATCH === 0) await sleep(LOST_PAUSE);
      this.warn(LOST_LINE, lostFields(line));
    }
  }

  /** Calls a method of the stored ledger, after the thread has read the journal if that does not take too long. */
  private async ask<Method extends LedgerMethod>(
    method: Method,
    ...args: Parameters<SqlLedger[Method]>
  ): Promise<Awaited<ReturnType<SqlLedger[Method]>>> {
    await withTimeout(FLUSH_TIMEOUT, this.flush()).catch(() => {});
    return await this.askAtOnce(method, ...args);
  }

  private askAtOnce<Method extends LedgerMethod>(method: Method, ...args: Parameters<SqlLedger[Method]>) {
    const question = { type: "ask", method, args } as LedgerRequest;
    return LedgerThread.shared().request(this.openLedger(), question) as ReturnType<SqlLedger[Method]>;
  }

  private journalPosition(): { number: number; size: number } {
    const { number, size } = this.journal;
    return { number, size };
  }

  private readonly persistSoon = (): void => {
    this.persistImmediate = undefined;
    this.persist();
  };

  private scheduleFeed(): void {
    this.timer ??= setTimeout(this.feed, FEED_DELAY).unref();
  }

  private readonly feed = (): void => {
    this.timer = undefined;
    this.onFeed();
    LedgerThread.shared().send(this.openLedger(), { type: "feed", ...this.journalPosition() });
  };

  private get durable(): boolean {
    return this.options.durability === "power";
  }

  private openLedger(): number {
    const { folder, owner } = this.journal;
    const { keep = 0 } = this.options;
    const listener: LedgerListener = {
      warn: this.warn,
      onState: (state) => {
        this.store = state;
      },
      onEnded: () => {
        this.ledgerId = undefined;
        this.store = "waiting";
        clearTimeout(this.timer);
        if (!this.closed) this.timer = setTimeout(this.feed, RETRY_DELAY).unref();
      },
    };
    if (this.ledgerId === undefined) {
      this.store = "ok";
      const options = { store: this.location, folder, owner, durable: this.durable, keep };
      this.ledgerId = LedgerThread.shared().open(options, listener);
    }
    return this.ledgerId;
  }
}
