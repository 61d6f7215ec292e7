import type { StatementSync } from "node:sqlite";
import { thrownMessage } from "../../core/errors.ts";
import { batchLength, insertedJournals, wasDeleted } from "../journal-place.ts";
import type { LedgerEntry, LedgerQuery, LedgerWarn } from "../ledger.ts";
import { entryToRow, estimateRowBytes, HOLDER_COLUMNS, rowTime, USAGE_COLUMNS, type UsageRow } from "../ledger-row.ts";
import type { SqlQuery } from "../ledger-search.ts";
import { addToSumsSql, inWholeHours, type LedgerDialect, sumValues } from "../ledger-sql.ts";
import { DAY, HourSums, SUM_COLUMNS } from "../ledger-sums.ts";
import { SqlLedger } from "../sql-ledger.ts";
import type { SqliteDatabase } from "./database.ts";
import { SqliteDictionary } from "./dictionary.ts";
import { sqliteCode, storeErrorMessage } from "./errors.ts";
import { sqlitePrunedBefore } from "./pruning.ts";
import { MAX_INSERT_ROWS, UsageInserts } from "./usage-inserts.ts";

/** Rows per transaction, which blocks for about two milliseconds: as many as are read from a journal at once. */
const BATCH = 500;
/** Maximum milliseconds that a row waits for others. */
const MAX_ROW_DELAY = 250;
/** Maximum milliseconds between attempts while the store cannot be written. */
const MAX_RETRY_DELAY = 10_000;
/** Maximum buffered in memory: rows, and approximate bytes. */
const MAX_ROWS = 100_000;
const MAX_BYTES = 64 * 1024 * 1024;

/** SQLite's codes for a row that can never be inserted: too big, against a constraint, of a wrong type, with too many values. */
const BAD_ROW = new Set([18, 19, 20, 25]);

/** Whether an error is about a row, not about the store. */
function isRefusal(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === undefined || BAD_ROW.has(code);
}

/** Rows cannot be inserted together: only one by one they show which of them is stored already, or invalid. */
class NotTogetherError extends Error {}

const DIALECT: LedgerDialect = {
  tags: "left join json_each(nullif(h.tags, '')) as tag",
  // A comparison of text is cheaper than a function, and runs for each row of a span.
  isList: (column) => `${column} >= '['`,
  items: (list) => `json_each(${list})`,
  texts: "json_each(?)",
  join: "cross join",
  isIn: (column, select) => `${column} in (${select})`,
  preaggregates: true,
  positions: "json_group_object(name, position)",
  insertOrder: "usage.rowid",
};

/** The ledger in SQLite. Entries are buffered in memory for up to a quarter of a second, or while the store is down. */
export class SqliteLedger extends SqlLedger {
  private readonly kinds: SqliteDictionary;
  private readonly holders: SqliteDictionary;
  private readonly inserts: UsageInserts;
  private readonly sumUp: StatementSync;
  private readonly sumUpDay: StatementSync;
  private readonly countOnce: StatementSync;
  private readonly position: StatementSync;
  private readonly advance: StatementSync;
  private readonly rows: UsageRow[] = [];
  private bytes = 0;
  private lost = 0;
  private timer: NodeJS.Timeout | undefined;
  /** Set while the store cannot be written. */
  private outage: { delay: number; lostBefore: number } | undefined;

  /**
   * @param warn called when the store cannot be written, when entries are lost, and on recovery
   * @param journaled whether a journal keeps entries until they are written: then nothing is lost with this process
   */
  constructor(
    private readonly database: SqliteDatabase,
    private readonly warn: LedgerWarn = () => {},
    private readonly journaled = false,
  ) {
    super(DIALECT);
    this.kinds = new SqliteDictionary(database);
    this.holders = new SqliteDictionary(database, "usage_holder", HOLDER_COLUMNS);
    this.inserts = new UsageInserts(database);
    this.position = database.prepare("select position from journal where name = ?");
    this.advance = database.prepare(
      "insert into journal values (?, ?, ?) on conflict do update set position = max(position, excluded.position), time = max(time, excluded.time)",
    );
    const values = `values (${["hour", "key", "model", "target", "holder", ...SUM_COLUMNS].map(() => "?").join(", ")})`;
    this.sumUp = database.prepare(addToSumsSql("usage_hour", values));
    this.sumUpDay = database.prepare(addToSumsSql("usage_day", values));
    this.countOnce = database.prepare("insert into usage_once (name, time) values (?, ?) on conflict do nothing");
  }

  /** Number of entries lost since the start, because the store was down for too long or refused them. */
  get dropped(): number {
    return this.lost;
  }

  /** Number of entries that are not on disk yet. */
  get waiting(): number {
    return this.rows.length;
  }

  /** Whether entries reach the disk. */
  override get state(): "ok" | "waiting" {
    return this.outage ? "waiting" : "ok";
  }

  override append(entry: LedgerEntry): void {
    let row: UsageRow;
    try {
      row = entryToRow(entry);
    } catch (error) {
      this.lost++;
      this.warn(`A ledger entry is lost: ${thrownMessage(error)}.`);
      return;
    }
    this.appendRow(row);
  }

  override appendRow(row: UsageRow): void {
    this.rows.push(row);
    this.bytes += estimateRowBytes(row);
    while (this.rows.length > MAX_ROWS || this.bytes > MAX_BYTES) this.dropOldest();
    // A full batch is written at once: short-lived objects cost the garbage collector nothing.
    if (this.rows.length === BATCH && !this.outage) clearTimeout(this.timer);
    else if (this.timer) return;
    this.timer = this.schedule(this.rows.length < BATCH || this.outage ? MAX_ROW_DELAY : 0);
  }

  /** @throws Error when the store cannot be written; the entries stay in memory and are retried. */
  override async flush(): Promise<void> {
    let left = this.rows.length;
    while (left > 0 && this.rows.length > 0) left -= await this.database.retryWhileBusy(() => this.write());
  }

  protected override async querySums(
    text: string,
    query: LedgerQuery,
    ...first: number[]
  ): Promise<readonly Record<string, unknown>[]> {
    const statement = this.database.prepare(text);
    // A sum of nano-dollars exceeds 2^53 at nine million dollars; beyond it is rounded instead of refused.
    statement.setReadBigInts(true);
    return statement.all(...first, ...sumValues(inWholeHours(query, sqlitePrunedBefore(this.database))));
  }

  protected override async queryRows({ text, values }: SqlQuery): Promise<readonly Record<string, unknown>[]> {
    // Not `iterate`, with which it takes twice as long.
    return this.database.prepare(text).all(...values);
  }

  protected override async flushBuffered(): Promise<void> {
    await this.flush().catch(() => {});
  }

  /** Writes buffered entries; the database stays open, as the keys share it. */
  override async close(): Promise<void> {
    await this.flush().catch((error: unknown) => {
      const left = `${this.rows.length} ledger entries`;
      if (this.journaled) {
        this.warn(`${left} stay in the journal, until the store can be written: ${storeErrorMessage(error)}.`);
        return;
      }
      this.lost += this.rows.length;
      this.warn(`${left} are lost: ${storeErrorMessage(error)}.`);
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
      this.outage.delay = Math.min(this.outage.delay * 2, MAX_RETRY_DELAY);
    }
    // One batch at a time, with other work in between. An incomplete batch waits for more rows.
    const delay = this.outage?.delay ?? (this.rows.length < BATCH ? MAX_ROW_DELAY : 0);
    this.timer = this.rows.length > 0 ? this.schedule(delay) : undefined;
  }

  /** Writes a batch of the oldest rows in one transaction. Returns how many left the queue. */
  private write(): number {
    this.database.checkFile();
    const batch = this.rows.slice(0, batchLength(this.rows, BATCH));
    try {
      this.writeBatch(batch, (rows, sums) => this.insertNew(rows, sums));
    } catch (error) {
      if (!(error instanceof NotTogetherError || isRefusal(error))) throw error;
      const refused = this.writeSingly(batch);
      if (refused) {
        this.removeRows(refused.at, 1);
        this.lost++;
        this.warn(`A ledger entry is lost, for the store refuses it: ${thrownMessage(refused.error)}.`);
        return 1;
      }
    }
    this.removeRows(0, batch.length);
    if (this.outage) this.endOutage(this.outage);
    return batch.length;
  }

  /**
   * Writes a batch in which some rows may be stored already, or be refused by the store.
   * @returns the first row that is refused, and why: then nothing has been written
   */
  private writeSingly(batch: readonly UsageRow[]): { at: number; error: unknown } | undefined {
    let row: UsageRow | undefined;
    try {
      this.writeBatch(batch, (rows, sums) => {
        for (row of rows) this.insertOne(row, sums);
        row = undefined;
      });
    } catch (error) {
      if (!row || !isRefusal(error)) throw error;
      return { at: batch.indexOf(row), error };
    }
    return undefined;
  }

  /**
   * Writes rows, what they add to sums, and their places, in one transaction.
   * @param insert inserts those that have not been deleted before, and adds those that were new to the sums
   */
  private writeBatch(batch: readonly UsageRow[], insert: (rows: readonly UsageRow[], sums: HourSums) => void): void {
    try {
      this.database.transaction(() => {
        const sums = new HourSums();
        const before = sqlitePrunedBefore(this.database);
        insert(
          batch.filter((row) => !this.wasPruned(row, before)),
          sums,
        );
        for (const sum of sums.rows()) {
          this.sumUp.run(...sum);
          const [hour, ...rest] = sum;
          this.sumUpDay.run(Number(hour) - (Number(hour) % DAY), ...rest);
        }
        for (const [name, { position, time }] of insertedJournals(batch)) this.advance.run(name, position, time);
      });
    } catch (error) {
      this.kinds.clearCache();
      this.holders.clearCache();
      throw error;
    }
  }

  /** Inserts many rows at a time. @throws NotTogetherError if not all of them are new, or one has other columns */
  private insertNew(rows: readonly UsageRow[], sums: HourSums): void {
    for (let at = 0; at < rows.length; at += MAX_INSERT_ROWS) {
      const some = rows.slice(at, at + MAX_INSERT_ROWS);
      const cells = some.map((read) => {
        const row = this.rowToWrite(read);
        const [kind, holder] = [this.kinds.numberFor(row.kind), this.holderOf(row)];
        sums.add(row, kind, holder);
        // Otherwise cells of other columns would become this one's.
        if (row.values.length !== USAGE_COLUMNS.length) throw new NotTogetherError();
        return [kind, holder, ...row.values];
      });
      if (this.inserts.insert(cells) !== some.length) throw new NotTogetherError();
    }
  }

  private insertOne(read: UsageRow, sums: HourSums): void {
    const row = this.rowToWrite(read);
    if (row.values.length !== USAGE_COLUMNS.length) throw new Error("it has not as many values as columns");
    const [kind, holder] = [this.kinds.numberFor(row.kind), this.holderOf(row)];
    // A duplicate row changes nothing, and so counts once.
    if (this.inserts.insert([[kind, holder, ...row.values]]) === 1) sums.add(row, kind, holder);
  }

  private holderOf({ attribution }: UsageRow): number {
    return attribution ? this.holders.numberFor(attribution) : 0;
  }

  private wasPruned(row: UsageRow, before: number): boolean {
    if (!row.place || rowTime(row) >= before) return false;
    return wasDeleted(row, Number(this.position.get(row.place.journal)?.["position"] ?? 0), before);
  }

  /** Returns the row to write in this transaction: usage that counts once may have been counted already. */
  private rowToWrite(row: UsageRow): UsageRow {
    const { once } = row;
    return once && this.countOnce.run(once.name, rowTime(row)).changes === 0 ? once.duplicate : row;
  }

  private removeRows(at: number, count: number): void {
    for (const row of this.rows.splice(at, count)) this.bytes -= estimateRowBytes(row);
  }

  /** Drops one in a hundred, so that with full memory not every entry moves the whole array. */
  private dropOldest(): void {
    const count = Math.ceil(this.rows.length / 100);
    if (this.outage && this.lost === this.outage.lostBefore) {
      this.warn("The ledger still cannot be written and memory for it is full: the oldest entries are being lost.");
    }
    this.removeRows(0, count);
    this.lost += count;
  }

  private beginOutage(error: unknown): { delay: number; lostBefore: number } {
    const where = this.journaled ? "the journal" : "memory";
    const { path } = this.database;
    const why = storeErrorMessage(error).replace(`${path}: `, "").replace(/\.$/, "");
    this.warn(`The ledger ${path} cannot be written: ${why}. Its entries wait in ${where}.`);
    return { delay: MAX_ROW_DELAY, lostBefore: this.lost };
  }

  private endOutage(outage: { lostBefore: number }): void {
    this.outage = undefined;
    const lost = this.lost - outage.lostBefore;
    const message = `The ledger is being written again; ${lost === 1 ? "1 entry was" : `${lost} entries were`} lost.`;
    this.warn(message, undefined, lost === 0);
  }
}
