import { setTimeout as sleep } from "node:timers/promises";
import { inTime } from "../../core/in-time.ts";
import {
  Ledger,
  type LedgerBacklog,
  type LedgerEntry,
  type LedgerFailures,
  type LedgerQuery,
  type LedgerReach,
  type LedgerRows,
  type LedgerSearch,
  type LedgerSpan,
  type LedgerSpeed,
  type LedgerSum,
  type LedgerWarn,
  type SpeedGroup,
  type Unwritten,
} from "../ledger.ts";
import { merged, paged } from "../ledger-pages.ts";
import { entryIn, isBilledApart, rowOf } from "../ledger-row.ts";
import type { MadeObject } from "../object-rows.ts";
import { hasOthers, journals, orphaned } from "./files.ts";
import { Journal, LOST_LINE, lostFields, unwrittenText } from "./journal.ts";
import type { ObjectJournal } from "./journaled-owners.ts";
import type { LedgerAsk, LedgerPlace } from "./ledger-messages.ts";
import { type LedgerListener, LedgerThread } from "./ledger-thread.ts";
import { journaled } from "./lines.ts";

/** Milliseconds until the ledger's thread hears that the journal has grown: each time costs it a transaction, whatever it holds. */
const DELAY = 500;
/** Milliseconds that closing waits for a store that is down. */
const CLOSING = 3000;
/** Milliseconds for the journals of the dead, and between two looks at them; what is left then belongs to who runs elsewhere. */
const RECOVERY = 6000;
const LOOK = 50;
/** Milliseconds that a question waits for rows on their way: what a store that is down has already is told all the same. */
const PATIENCE = 1500;
/** Milliseconds until another thread is asked, or a store that could not be opened is tried again. */
const AGAIN = 10_000;
/** Lost lines that are told at once, and milliseconds until more of them are. */
const TOLD = 2000;
const PAUSE = 200;

/** What is asked of a store besides where it is. */
export interface StoreTerms {
  /** What rows survive once an answer's last byte has left; `process` where it is not told. */
  readonly durability?: "process" | "power";
  /** Milliseconds that rows are kept, whole days; 0, or not told: for good. */
  readonly keep?: number;
}

/**
 * A ledger whose entries are in a journal before the world hears of them, and get from there into the store in a thread of
 * its own. Nothing is lost with the process, and nothing about the store keeps requests waiting.
 */
export class JournaledLedger extends Ledger implements ObjectJournal {
  private readonly journal: Journal;
  /** What the store's thread knows this ledger by; undefined until it is needed. */
  private number: number | undefined;
  private timer: NodeJS.Timeout | undefined;
  private soon: NodeJS.Immediate | undefined;
  private store: "ok" | "waiting" = "ok";
  private closed = false;
  override lostLines = 0;

  /**
   * @param place where the ledger is
   * @param folder of the journals
   * @param warn told when something cannot be written, when entries are lost, and when all is well again
   */
  constructor(
    private readonly place: LedgerPlace,
    folder: string,
    private readonly warn: LedgerWarn = () => {},
    private readonly terms: StoreTerms = {},
  ) {
    super();
    this.journal = new Journal(folder, warn, undefined, this.durable);
    this.journal.recovered = () => this.feedSoon();
    if (journals(this.journal.folder).length > 0) this.opened();
  }

  /** Whether entries get to the disk, and from there into the store. */
  override get state(): "ok" | "waiting" {
    return this.journal.writable && this.store === "ok" ? "ok" : "waiting";
  }

  override get unwritten(): Unwritten | undefined {
    return this.journal.unwritten;
  }

  override async written(patience: number, hurry?: AbortSignal): Promise<void> {
    this.persist();
    const { unwritten } = this;
    if (!unwritten || patience <= 0) return;
    const long = patience === Number.POSITIVE_INFINITY ? "" : ` for ${Math.ceil(patience / 1000)} s`;
    this.warn(`The stop waits${long} until its journal can be written: ${unwrittenText(unwritten)}`);
    for (const end = performance.now() + patience; this.unwritten && performance.now() < end && !hurry?.aborted; ) {
      await sleep(LOOK);
      this.persist();
    }
  }

  override begin(entry: LedgerEntry): void {
    this.journal.begin(entry.id, rowOf(entry));
    this.soon ??= setImmediate(this.persistSoon);
  }

  override append(entry: LedgerEntry): void {
    this.journal.end(entry.id, rowOf(entry));
    this.soon ??= setImmediate(this.persistSoon);
  }

  made(object: MadeObject): void {
    this.journal.made(object);
    this.soon ??= setImmediate(this.persistSoon);
  }

  /** Whether other processes may be using the same store: journals of theirs are there, or of dead ones not read yet. */
  get hasOthers(): boolean {
    const { folder, owner } = this.journal;
    return journals(folder).some(({ name }) => name !== owner);
  }

  override isShared(parent?: number): boolean {
    return hasOthers(this.journal.folder, this.journal.owner, parent);
  }

  override persist(): void {
    if (!this.journal.waiting) return;
    this.journal.write();
    this.feedSoon();
  }

  /** @throws Error when the thread has died */
  override async flush(): Promise<void> {
    this.persist();
    if (this.journal.used) await LedgerThread.shared().ask(this.opened(), { type: "feed", ...this.end() });
  }

  override async recovered(): Promise<void> {
    const { folder, owner } = this.journal;
    const left = () => journals(folder).some((journal) => journal.name !== owner && orphaned(journal));
    if (left()) this.opened();
    for (const end = Date.now() + RECOVERY; left() && Date.now() < end; ) await sleep(LOOK);
  }

  override async sums(query: LedgerQuery): Promise<LedgerSum[]> {
    return (await this.asked({ type: "sums", query })) as LedgerSum[];
  }

  override async recent(limit: number): Promise<LedgerEntry[]> {
    return (await this.asked({ type: "recent", limit })) as LedgerEntry[];
  }

  override async search(search: LedgerSearch): Promise<LedgerEntry[]> {
    return (await this.asked({ type: "search", search })) as LedgerEntry[];
  }

  override async reach(search: LedgerReach, rows: number): Promise<number> {
    return (await this.asked({ type: "reach", search, rows })) as number;
  }

  override async speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]> {
    return (await this.asked({ type: "speeds", span, by })) as LedgerSpeed[];
  }

  override async failures(span: LedgerSpan): Promise<LedgerFailures> {
    return (await this.asked({ type: "failures", span })) as LedgerFailures;
  }

  override async lastUsed(keys: readonly string[]): Promise<Map<string, number>> {
    return (await this.asked({ type: "lastUsed", keys })) as Map<string, number>;
  }

  override async *entries(span: LedgerRows): AsyncGenerator<LedgerEntry> {
    await inTime(PATIENCE, this.flush()).catch(() => {});
    // The journals first: a row may get from there into the store meanwhile, but never back.
    const unfed = journaled(this.journal.folder).ended.map(entryIn);
    const { since = 0, until = Number.MAX_SAFE_INTEGER, billedApart } = span;
    const within = unfed.filter(
      (entry) => entry.time >= since && entry.time < until && (!billedApart || isBilledApart(entry)),
    );
    const stored = paged(
      async (after) => (await LedgerThread.shared().ask(this.opened(), { type: "page", span, after })) as LedgerEntry[],
    );
    yield* merged(stored, within);
  }

  /** Of a thread that has died nobody knows more than that it has. */
  override async backlog(): Promise<LedgerBacklog> {
    const { failures, late } = this.journal;
    if (this.number === undefined) return { lag: late, oldest: late, bytes: 0, errors: failures };
    const found = (await LedgerThread.shared().ask(this.number, { type: "backlog" })) as LedgerBacklog;
    const [lag, oldest] = [Math.max(found.lag, late), Math.max(found.oldest, late)];
    return { ...found, lag, oldest, errors: found.errors + failures };
  }

  override async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
    clearImmediate(this.soon);
    const lost = this.journal.close();
    this.lostLines = lost.length;
    await this.tellLost(lost);
    if (this.number === undefined && !this.journal.used) return;
    const ledger = this.opened();
    const thread = LedgerThread.shared();
    if (this.journal.used) thread.tell(ledger, { type: "feed", ...this.end() });
    await thread.close(ledger, CLOSING).catch((thrown: Error) => this.warn(thrown.message));
  }

  /** What is lost here can be had again from who was told, who has to be given time to write it down. */
  private async tellLost(lines: readonly string[]): Promise<void> {
    for (const [at, line] of lines.entries()) {
      if (at > 0 && at % TOLD === 0) await sleep(PAUSE);
      this.warn(LOST_LINE, lostFields(line));
    }
  }

  /** The answer of the thread, which has read the journal by then if that is to be had soon. */
  private async asked(ask: LedgerAsk): Promise<unknown> {
    await inTime(PATIENCE, this.flush()).catch(() => {});
    return LedgerThread.shared().ask(this.opened(), ask);
  }

  private end(): { number: number; size: number } {
    const { number, size } = this.journal;
    return { number, size };
  }

  private readonly persistSoon = (): void => {
    this.soon = undefined;
    this.persist();
  };

  private feedSoon(): void {
    this.timer ??= setTimeout(this.feed, DELAY).unref();
  }

  private readonly feed = (): void => {
    this.timer = undefined;
    LedgerThread.shared().tell(this.opened(), { type: "feed", ...this.end() });
  };

  private get durable(): boolean {
    return this.terms.durability === "power";
  }

  private opened(): number {
    const { folder, owner } = this.journal;
    const { keep = 0 } = this.terms;
    const listener: LedgerListener = {
      warn: this.warn,
      state: (state) => {
        this.store = state;
      },
      ended: () => {
        this.number = undefined;
        this.store = "waiting";
        clearTimeout(this.timer);
        if (!this.closed) this.timer = setTimeout(this.feed, AGAIN).unref();
      },
    };
    if (this.number === undefined) {
      this.store = "ok";
      const place = { store: this.place, folder, owner, durable: this.durable, keep };
      this.number = LedgerThread.shared().open(place, listener);
    }
    return this.number;
  }
}
