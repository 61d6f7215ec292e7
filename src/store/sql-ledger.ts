import { placedSince } from "./journal-place.ts";
import {
  Ledger,
  type LedgerEntry,
  type LedgerFailures,
  type LedgerFilter,
  type LedgerQuery,
  type LedgerRows,
  type LedgerSearch,
  type LedgerSpan,
  type LedgerSpeed,
  type LedgerSum,
  type PlacedSums,
  type RowCursor,
  type SpeedGroup,
} from "./ledger.ts";
import { readPages } from "./ledger-pages.ts";
import { sqlRowToEntry, type UsageRow } from "./ledger-row.ts";
import {
  computeSpeeds,
  failureQuery,
  parseFailures,
  parseReach,
  reachQuery,
  type SqlQuery,
  searchQuery,
  speedQuery,
} from "./ledger-search.ts";
import {
  type LedgerDialect,
  newestRowsSql,
  pageSql,
  parsePlacedSums,
  parseSum,
  placedSumsSql,
  sumsSql,
} from "./ledger-sql.ts";
import { lastUsedSql, parseLastUsed } from "./ledger-used.ts";

/** A ledger in a database. Rows are buffered in memory before they are written; queries write them first. */
export abstract class SqlLedger extends Ledger {
  private readonly newest: string;
  private readonly allPages: string;
  private readonly billedApartPages: string;

  constructor(private readonly dialect: LedgerDialect) {
    super();
    this.newest = newestRowsSql(dialect);
    this.allPages = pageSql(dialect);
    this.billedApartPages = pageSql(dialect, true);
  }

  /** Appends an entry that has already been converted to a row. */
  abstract appendRow(row: UsageRow): void;
  protected abstract queryRows(query: SqlQuery): Promise<readonly Record<string, unknown>[]>;
  /**
   * Returns all rows of a query for sums.
   * @param first the values that are bound before those of `sumValues`
   */
  protected abstract querySums(
    text: string,
    query: LedgerQuery,
    ...first: number[]
  ): Promise<readonly Record<string, unknown>[]>;
  /** Writes buffered rows before a query, if that is possible now. */
  protected abstract flushBuffered(): Promise<void>;

  /** Asks a database that is not being written whether it responds, for `state`; to be called regularly. Files always do. */
  probe(): void {}

  /** Only a journal outlives the process. */
  override begin(): void {}
  override persist(): void {}
  override async recovered(): Promise<void> {}

  override async sums(query: LedgerQuery): Promise<LedgerSum[]> {
    await this.flushBuffered();
    return (await this.querySums(sumsSql(query, this.dialect), query)).map((row) => parseSum(row, query));
  }

  override async placedSums(query: LedgerQuery): Promise<PlacedSums> {
    await this.flushBuffered();
    return parsePlacedSums(await this.querySums(placedSumsSql(query, this.dialect), query, placedSince()), query);
  }

  override async *entries(rows: LedgerRows): AsyncGenerator<LedgerEntry> {
    await this.flushBuffered();
    yield* readPages((after) => this.page(rows, after));
  }

  /** Returns a page of the oldest rows of a span, or of those after a place. Without buffered rows. */
  async page(
    { since = 0, until = Number.MAX_SAFE_INTEGER, billedApart }: LedgerRows,
    after: RowCursor = { time: since, id: "" },
  ): Promise<LedgerEntry[]> {
    const text = billedApart ? this.billedApartPages : this.allPages;
    return (await this.queryRows({ text, values: [after.time, after.time, after.id, until] })).map(sqlRowToEntry);
  }

  /** Without the vendors' own usage objects, which are not stored. */
  override async recent(limit: number): Promise<LedgerEntry[]> {
    return (await this.ask({ text: this.newest, values: [limit] })).map(sqlRowToEntry);
  }

  override async search(search: LedgerSearch): Promise<LedgerEntry[]> {
    return (await this.ask(searchQuery(search, this.dialect))).map(sqlRowToEntry);
  }

  override async reach(filter: LedgerFilter, rows: number): Promise<number | undefined> {
    return parseReach(await this.ask(reachQuery(filter, rows)));
  }

  override async speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]> {
    return computeSpeeds(await this.ask(speedQuery(span, by, this.dialect)));
  }

  override async failures(span: LedgerSpan): Promise<LedgerFailures> {
    return parseFailures(await this.ask(failureQuery(span, this.dialect)));
  }

  override async lastUsed(keys: readonly string[]): Promise<Map<string, number>> {
    return parseLastUsed(await this.ask({ text: lastUsedSql(this.dialect), values: [JSON.stringify(keys)] }));
  }

  override async countedNames(limit: number): Promise<readonly string[]> {
    const rows = await this.ask({ text: "select name from usage_once order by time desc limit ?", values: [limit] });
    return rows.map(({ name }) => String(name)).reverse();
  }

  private async ask(query: SqlQuery): Promise<readonly Record<string, unknown>[]> {
    await this.flushBuffered();
    return this.queryRows(query);
  }
}
