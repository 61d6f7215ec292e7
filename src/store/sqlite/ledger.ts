import type { StatementSync } from "node:sqlite";
import {
  Ledger,
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
} from "../ledger.ts";
import { Kinds } from "../ledger-kinds.ts";
import { paged } from "../ledger-pages.ts";
import { COLUMNS, entryOf, HOLDER, type Row, rowOf, size } from "../ledger-row.ts";
import { failureRows, failuresOf, reachOf, searchOf, speedRows, speedsOf } from "../ledger-search.ts";
import {
  inWholeHours,
  type LedgerDialect,
  newestText,
  pageText,
  ranges,
  sumOf,
  sumsText,
  sumUp,
} from "../ledger-sql.ts";
import { DAY, HourSums, SUMMED } from "../ledger-sums.ts";
import { lastUsedOf, lastUsedText } from "../ledger-used.ts";
import type { RowPlace } from "../row-place.ts";
import { type Database, sqliteCode } from "./database.ts";

/** Rows in one transaction: about a millisecond in which nothing else happens. */
const BATCH = 250;
/** Milliseconds that a row waits for others at most. */
const DELAY = 250;
/** Milliseconds between attempts while the store cannot be written. */
const LONGEST_DELAY = 10_000;
/** What may wait in memory: rows, and about as many bytes. */
const ROWS = 100_000;
const BYTES = 64 * 1024 * 1024;

/** SQLite's codes for a row that no other attempt will get in: too big, against a constraint, of a wrong type. */
const BAD_ROW = new Set([18, 19, 20]);

const DIALECT: LedgerDialect = {
  tags: "left join json_each(nullif(h.tags, '')) as tag",
  // By its bytes, which costs less than a function: each row of a span is asked.
  isList: (column) => `${column} >= '['`,
  items: (list) => `json_each(${list})`,
  join: "cross join",
  among: (column, select) => `${column} in (${select})`,
  inOrder: true,
  later: "usage.rowid",
};

const TIME = COLUMNS.indexOf("time");

/** The ledger in SQLite. Entries wait in memory for a quarter of a second at most, or for a store that is down. */
export class SqliteLedger extends Ledger {
  private readonly kinds: Kinds;
  private readonly holders: Kinds;
  private readonly insert: StatementSync;
  private readonly sumUp: StatementSync;
  private readonly sumUpDay: StatementSync;
  private readonly countOnce: StatementSync;
  private readonly pruned: StatementSync;
  private readonly rows: Row[] = [];
  private bytes = 0;
  private lost = 0;
  private timer: NodeJS.Timeout | undefined;
  /** Set while the store cannot be written. */
  private outage: { delay: number; lostBefore: number } | undefined;

  /**
   * @param warn told when the store cannot be written, when entries are lost, and when all is well again
   * @param journaled a journal keeps what is appended until it is written: nothing is lost with this
   */
  constructor(
    private readonly database: Database,
    private readonly warn: LedgerWarn = () => {},
    private readonly journaled = false,
  ) {
    super();
    this.kinds = new Kinds(database);
    this.holders = new Kinds(database, "usage_holder", HOLDER);
    this.pruned = database.prepare("select ifnull(max(before), 0) as before from usage_pruned");
    const places = COLUMNS.map(() => "?").join(", ");
    // Not `or ignore`, which would hide rows that are wrong besides those that are there already.
    this.insert = database.prepare(
      `insert into usage (kind, holder, ${COLUMNS.join(", ")}) values (?, ?, ${places}) on conflict (time, id) do nothing`,
    );
    const values = `values (${["hour", "key", "model", "target", "holder", ...SUMMED].map(() => "?").join(", ")})`;
    this.sumUp = database.prepare(sumUp("usage_hour", values));
    this.sumUpDay = database.prepare(sumUp("usage_day", values));
    this.countOnce = database.prepare("insert into usage_once (name, time) values (?, ?) on conflict do nothing");
  }

  /** Entries lost since the start, because the store was down for too long or refused them. */
  get dropped(): number {
    return this.lost;
  }

  /** Entries that are not on disk yet. */
  get waiting(): number {
    return this.rows.length;
  }

  /** Whether entries get to the disk. */
  override get state(): "ok" | "waiting" {
    return this.outage ? "waiting" : "ok";
  }

  /** Nothing of a store in memory survives the process. */
  override begin(): void {}
  override persist(): void {}
  override async recovered(): Promise<void> {}

  override append(entry: LedgerEntry): void {
    let row: Row;
    try {
      row = rowOf(entry);
    } catch (error) {
      this.lost++;
      this.warn(`A ledger entry is lost: ${message(error)}.`);
      return;
    }
    this.appendRow(row);
  }

  /** As `append`, of an entry that is a row already. */
  appendRow(row: Row): void {
    this.rows.push(row);
    this.bytes += size(row);
    while (this.rows.length > ROWS || this.bytes > BYTES) this.dropOldest();
    // A whole batch does not wait: what dies young costs the collector nothing.
    if (this.rows.length === BATCH && !this.outage) clearTimeout(this.timer);
    else if (this.timer) return;
    this.timer = this.schedule(this.rows.length < BATCH || this.outage ? DELAY : 0);
  }

  /** @throws Error when the store cannot be written; the entries stay in memory and are tried again. */
  override async flush(): Promise<void> {
    let left = this.rows.length;
    while (left > 0 && this.rows.length > 0) left -= await this.database.patiently(() => this.write());
  }

  override async sums(query: LedgerQuery): Promise<LedgerSum[]> {
    await this.flush().catch(() => {});
    const statement = this.database.prepare(sumsText(query, DIALECT));
    // A sum of nano-dollars passes 2^53 at nine million dollars; from there on it is rounded instead of refused.
    statement.setReadBigInts(true);
    const before = Number(this.pruned.get()?.["before"]);
    return statement.all(...ranges(inWholeHours(query, before))).map((row) => sumOf(row, query));
  }

  override async *entries(span: LedgerRows): AsyncGenerator<LedgerEntry> {
    await this.flush().catch(() => {});
    yield* paged((after) => this.page(span, after));
  }

  /** The oldest rows of a span, so many as make a page, or those behind one. Without what waits. */
  page({ since = 0, until = Number.MAX_SAFE_INTEGER, billedApart }: LedgerRows, after?: RowPlace): LedgerEntry[] {
    const from = after ?? { time: since, id: "" };
    return this.database
      .prepare(billedApart ? BILLED_APART_PAGE : PAGE)
      .all(from.time, from.time, from.id, until)
      .map(entryOf);
  }

  /** Without the vendors' own usage objects, which are not kept. */
  override async recent(limit: number): Promise<LedgerEntry[]> {
    await this.flush().catch(() => {});
    const rows = this.database.prepare(NEWEST).all(limit);
    return rows.map(entryOf);
  }

  override async reach(asked: LedgerReach, rows: number): Promise<number> {
    await this.flush().catch(() => {});
    const { text, values } = reachOf(asked, rows);
    return Number(this.database.prepare(text).get(...values)?.["time"] ?? 0);
  }

  override async search(asked: LedgerSearch): Promise<LedgerEntry[]> {
    await this.flush().catch(() => {});
    const { text, values } = searchOf(asked, DIALECT);
    return this.database
      .prepare(text)
      .all(...values)
      .map(entryOf);
  }

  override async speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]> {
    await this.flush().catch(() => {});
    const { text, values } = speedRows(span, by, DIALECT);
    return speedsOf(this.database.prepare(text).iterate(...values));
  }

  override async failures(span: LedgerSpan): Promise<LedgerFailures> {
    await this.flush().catch(() => {});
    const { text, values } = failureRows(span, DIALECT);
    return failuresOf(this.database.prepare(text).all(...values));
  }

  override async lastUsed(keys: readonly string[]): Promise<Map<string, number>> {
    await this.flush().catch(() => {});
    return lastUsedOf(this.database.prepare(LAST_USED).all(JSON.stringify(keys)));
  }

  /** Writes what waits; the database stays open, for the keys share it. */
  override async close(): Promise<void> {
    await this.flush().catch((error: unknown) => {
      const left = `${this.rows.length} ledger entries`;
      if (this.journaled) {
        this.warn(`${left} stay in the journal, until the store can be written: ${message(error)}.`);
        return;
      }
      this.lost += this.rows.length;
      this.warn(`${left} are lost: ${message(error)}.`);
    });
    clearTimeout(this.timer);
  }

  private schedule(delay: number): NodeJS.Timeout {
    return setTimeout(() => this.writeSome(), delay).unref();
  }

  private writeSome(): void {
    try {
      if (this.rows.length > 0) this.write();
    } catch (error) {
      this.outage ??= this.beginOutage(error);
      this.outage.delay = Math.min(this.outage.delay * 2, LONGEST_DELAY);
    }
    // One batch at a time: other work goes between them. A remnant waits for others.
    const delay = this.outage?.delay ?? (this.rows.length < BATCH ? DELAY : 0);
    this.timer = this.rows.length > 0 ? this.schedule(delay) : undefined;
  }

  /** Writes a batch of the oldest rows in one transaction; the answer is how many left the queue. */
  private write(): number {
    this.database.checkPlace();
    const batch = this.rows.slice(0, BATCH);
    let at = -1;
    try {
      this.database.transaction(() => {
        const sums = new HourSums();
        for (at = 0; at < batch.length; at++) {
          const row = this.counting(batch[at] as Row);
          const kind = this.kinds.number(row.kind);
          const holder = row.holder ? this.holders.number(row.holder) : 0;
          // A row that was there already changes nothing, and so counts once.
          if (this.insert.run(kind, holder, ...row.values).changes === 1) sums.add(row, kind, holder);
        }
        for (const sum of sums.rows()) {
          this.sumUp.run(...sum);
          const [hour, ...rest] = sum;
          this.sumUpDay.run(Number(hour) - (Number(hour) % DAY), ...rest);
        }
      });
    } catch (error) {
      this.kinds.forget();
      this.holders.forget();
      const code = sqliteCode(error);
      const bad = at >= 0 && at < batch.length && (code === undefined || BAD_ROW.has(code));
      if (!bad) throw error;
      this.forget(at, 1);
      this.lost++;
      this.warn(`A ledger entry is lost, for the store refuses it: ${message(error)}.`);
      return 1;
    }
    this.forget(0, batch.length);
    if (this.outage) this.endOutage(this.outage);
    return batch.length;
  }

  /** The row to write in this transaction: usage that counts once may have been counted. */
  private counting(row: Row): Row {
    const { once } = row;
    return once && this.countOnce.run(once.name, Number(row.values[TIME])).changes === 0 ? once.counted : row;
  }

  private forget(at: number, count: number): void {
    for (const row of this.rows.splice(at, count)) this.bytes -= size(row);
  }

  /** One in a hundred, so that a full memory does not cost every entry a move of all. */
  private dropOldest(): void {
    const count = Math.ceil(this.rows.length / 100);
    if (this.outage && this.lost === this.outage.lostBefore) {
      this.warn("The ledger still cannot be written and memory for it is full: the oldest entries are being lost.");
    }
    this.forget(0, count);
    this.lost += count;
  }

  private beginOutage(error: unknown): { delay: number; lostBefore: number } {
    const where = this.journaled ? "the journal" : "memory";
    const { path } = this.database;
    const why = message(error).replace(`${path}: `, "").replace(/\.$/, "");
    this.warn(`The ledger ${path} cannot be written: ${why}. Its entries wait in ${where}.`);
    return { delay: DELAY, lostBefore: this.lost };
  }

  private endOutage(outage: { lostBefore: number }): void {
    this.outage = undefined;
    const lost = this.lost - outage.lostBefore;
    const told = `The ledger is being written again; ${lost === 1 ? "1 entry was" : `${lost} entries were`} lost.`;
    this.warn(told, undefined, lost === 0);
  }
}

const LAST_USED = lastUsedText("select value as key from json_each(?)");
const NEWEST = newestText(DIALECT);
const PAGE = pageText(DIALECT);
const BILLED_APART_PAGE = pageText(DIALECT, true);

const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));
