import { thrownMessage } from "../../core/errors.ts";
import { sanitizeText } from "../../wire/utf8.ts";
import { batchLength, type InsertedJournal, insertedJournals, wasDeleted } from "../journal-place.ts";
import type { LedgerEntry, LedgerQuery, LedgerWarn } from "../ledger.ts";
import { entryToRow, rowTime, USAGE_COLUMNS, type UsageRow } from "../ledger-row.ts";
import type { SqlQuery } from "../ledger-search.ts";
import {
  AGGREGATES,
  addToSumsSql,
  inWholeHours,
  type LedgerDialect,
  ROW_AS_SUMS,
  SUM_KEY,
  sumValues,
} from "../ledger-sql.ts";
import { DAY, HOUR, SUM_COLUMNS } from "../ledger-sums.ts";
import { SqlLedger } from "../sql-ledger.ts";
import {
  type PostgresDatabase,
  type PostgresQuery,
  type PostgresRow,
  postgresCode,
  sanitizeValue,
} from "./database.ts";
import { PostgresDictionary } from "./dictionary.ts";
import { Partitions, partitionOf, postgresPrunedBefore } from "./partitions.ts";

/** Rows per statement. */
const BATCH = 1_000;
/** Deadlines in milliseconds: of a batch, at first and at most, and of a query over many rows. */
const WRITE_TIMEOUT = 5_000;
const MAX_WRITE_TIMEOUT = 30_000;
const QUERY_TIMEOUT = 600_000;
/** Shows whether the database responds, before a query whose deadline is long. */
const PROBE = "select 1";
/** Milliseconds without contact after which the database is asked whether it responds. */
const PROBE_INTERVAL = 3_000;
/** Milliseconds between checks that next month's table exists. */
const PARTITION_CHECK_INTERVAL = 3_600_000;

/** Classes of PostgreSQL's codes for a row that can never be inserted: because of its values, constraints or size. */
const BAD_ROW = /^(?:22|23|54)/;
/** Ends a transaction without effect. */
const UNDONE = new Error("undone");
/** The code for a row whose month has no table. */
const NO_MONTH = "23514";

/** Columns of `usage` that are not texts. */
const TYPES: Partial<Record<(typeof USAGE_COLUMNS)[number], "bigint" | "double precision">> = {
  ...{
    time: "bigint",
    cost: "bigint",
    assumed_cost: "bigint",
    tokens_in: "bigint",
    cached: "bigint",
    tokens_out: "bigint",
    reasoning: "bigint",
  },
  ...{ first_byte: "double precision", duration: "double precision" },
};

const DIALECT: LedgerDialect = {
  tags: `left join lateral (select key collate "C", value collate "C" from json_each_text(nullif(h.tags, '')::json)) as tag on true`,
  isList: (column) => `${column} like '[%'`,
  items: (list) => `json_array_elements(${list}::json)`,
  texts: "json_array_elements_text(?::text::json)",
  join: "join",
  // Without coalesce it becomes a join, for which the planner may scan all rows again for each kind.
  isIn: (column, select) => `coalesce(${column} in (${select}), false)`,
  // PostgreSQL aggregates in a hash table, and its sums of sums are not integers.
  preaggregates: false,
  positions: "coalesce(json_object_agg(name, position), '{}')::text",
  insertOrder: "id",
};

/**
 * The ledger in PostgreSQL. Rows wait in memory until a flush: they are also in a journal, which is read again if the process
 * dies before.
 */
export class PostgresLedger extends SqlLedger {
  private readonly kinds = new PostgresDictionary("usage_kind", {
    ...{ key: "text", model: "text", target: "text", protocol: "text", operation: "text", status: "integer" },
    ...{ outcome: "text", streaming: "integer", source: "text", price: "text" },
  });
  private readonly holders = new PostgresDictionary("usage_holder", { group_path: "text", tags: "text" }, "tags");
  private readonly partitions: Partitions;
  private readonly rows: UsageRow[] = [];
  private flushing: Promise<void> = Promise.resolve();
  private outage = false;
  private probing = false;
  /** `performance.now()` of the last attempt to reach the database. */
  private contactedAt = Number.NEGATIVE_INFINITY;
  /** Milliseconds for a batch; increases after each timeout, as a slow database would otherwise never finish one. */
  private deadline = WRITE_TIMEOUT;
  private partitionsCheckedAt = Number.NEGATIVE_INFINITY;

  /** @param warn called when the store cannot be written, when entries are lost, and on recovery */
  constructor(
    private readonly database: PostgresDatabase,
    private readonly warn: LedgerWarn = () => {},
  ) {
    super(DIALECT);
    this.partitions = new Partitions(database);
  }

  override get state(): "ok" | "waiting" {
    return this.outage ? "waiting" : "ok";
  }

  override append(entry: LedgerEntry): void {
    this.appendRow(entryToRow(entry));
  }

  override appendRow(row: UsageRow): void {
    this.rows.push(row);
  }

  /** @throws Error when the store cannot be written; the rows stay in memory for the next flush. */
  override flush(): Promise<void> {
    return this.enqueue(() => this.writeAll());
  }

  /**
   * Asks a database to which nothing was written for some seconds whether it responds, so that an outage and its end are known
   * without rows too. Never throws.
   */
  override probe(): void {
    if (this.probing || performance.now() - this.contactedAt < PROBE_INTERVAL) return;
    this.probing = true;
    this.enqueue(() => this.writeAll(true))
      .catch(() => {})
      .finally(() => {
        this.probing = false;
      });
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.flushing = this.flushing.catch(() => {}).then(work);
    return this.flushing;
  }

  /** Budgets need sums: they do not share connections with queries of rows, which take longer. */
  protected override async querySums(
    text: string,
    query: LedgerQuery,
    ...first: number[]
  ): Promise<readonly PostgresRow[]> {
    await this.database.query(PROBE);
    return this.database.withDeadline(QUERY_TIMEOUT, async (ask) =>
      ask(text, ...first, ...sumValues(inWholeHours(query, await postgresPrunedBefore(ask)))),
    );
  }

  protected override async queryRows({ text, values }: SqlQuery): Promise<readonly PostgresRow[]> {
    await this.database.query(PROBE);
    return this.database.runLong(QUERY_TIMEOUT, (ask) => ask(text, ...values));
  }

  /** Not during an outage: the query would wait for each attempt. */
  protected override async flushBuffered(): Promise<void> {
    if (!this.outage) await this.flush().catch(() => {});
  }

  /** Writes waiting rows; the database stays open. */
  override async close(): Promise<void> {
    await (this.rows.length > 0 ? this.flush() : this.flushing).catch(() => {});
  }

  /** @param probe also asks the database if there are no rows, as in an outage, whose end nothing else would show */
  private async writeAll(probe = this.outage): Promise<void> {
    if (this.rows.length === 0 && !probe) return;
    let wrote = false;
    try {
      // On the connection for transactions, as large queries may hold the others.
      if (this.rows.length === 0) await this.database.transaction(async () => {}, WRITE_TIMEOUT);
      while (this.rows.length > 0) {
        const batch = this.rows.slice(0, batchLength(this.rows, BATCH));
        wrote = true;
        await this.write(batch);
        this.rows.splice(0, batch.length);
      }
    } catch (error) {
      // Closing breaks off what is being asked: that is no outage, and rows that were not written stay in the journal.
      if (!this.outage && !this.database.isClosed)
        this.warn(`The ledger cannot be written: ${thrownMessage(error)}. Its rows wait in the journal.`);
      this.outage = true;
      // A question whether the database responds has a deadline of its own.
      if (wrote) this.deadline = Math.min(this.deadline * 2, MAX_WRITE_TIMEOUT);
      throw error;
    } finally {
      this.contactedAt = performance.now();
    }
    if (this.outage) this.warn("The ledger is being written again; nothing was lost.", undefined, true);
    this.outage = false;
    this.deadline = WRITE_TIMEOUT;
    await this.createNextPartition();
  }

  /** Writes rows, except those that the store refuses: each of these is lost, with a warning. */
  private async write(rows: readonly UsageRow[]): Promise<void> {
    try {
      await this.insert(rows);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // All others in one transaction, as of a journal's open rows all must be stored, or none.
      await this.insert(await this.withoutRefused(rows, error));
    }
  }

  /** Finds the rows that the store refuses by trying parts of them. @param refusal of all of them */
  private async withoutRefused(rows: readonly UsageRow[], refusal: unknown): Promise<readonly UsageRow[]> {
    if (rows.length === 1) {
      this.warn(`A ledger entry is lost, for the store refuses it: ${thrownMessage(refusal)}.`);
      return [];
    }
    const half = Math.ceil(rows.length / 2);
    const accepted: UsageRow[] = [];
    for (const part of [rows.slice(0, half), rows.slice(half)])
      try {
        await this.insert(part, true);
        accepted.push(...part);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        accepted.push(...(await this.withoutRefused(part, error)));
      }
    return accepted;
  }

  /** @param trial whether nothing is stored */
  private async insert(rows: readonly UsageRow[], trial = false): Promise<void> {
    const times = rows.map(rowTime);
    await this.partitions.create(times);
    try {
      await this.put(rows, trial);
    } catch (error) {
      if (postgresCode(error) !== NO_MONTH) throw error;
      // Another process has just removed that month.
      this.partitions.clearCache();
      await this.partitions.create(times);
      await this.put(rows, trial);
    }
  }

  private async put(rows: readonly UsageRow[], trial: boolean): Promise<void> {
    const journals = insertedJournals(rows);
    const written = this.database.transaction(async (ask) => {
      // First, so that concurrent readers of one journal wait for each other.
      const unread = journals.size > 0 ? await withoutPruned(ask, rows, [...journals.keys()]) : rows;
      await this.putCounted(ask, await countOnce(ask, distinct(unread)), journals);
      if (trial) throw UNDONE;
    }, this.deadline);
    await written.catch((thrown: unknown) => {
      if (thrown !== UNDONE) throw thrown;
    });
  }

  private async putCounted(
    ask: PostgresQuery,
    rows: readonly UsageRow[],
    journals: ReadonlyMap<string, InsertedJournal>,
  ): Promise<void> {
    // Not in the transaction of the rows: a number that is rolled back would stay cached here.
    const kinds = await this.kinds.numbersFor(
      this.database.query,
      rows.map(({ kind }) => kind.map(sanitizeValue)),
    );
    const holders = await this.holders.numbersFor(
      this.database.query,
      rows.map(({ attribution: holder = NO_HOLDER }) => holder.map(sanitizeValue)),
    );
    const given = rows.map(({ values }, i) => {
      const row: Record<string, unknown> = { kind: kinds[i], holder: holders[i] };
      for (const [at, name] of USAGE_COLUMNS.entries()) row[name] = sanitizeValue(values[at]);
      return row;
    });
    const ends = [...journals].map(([name, inserted]) => ({ name, ...inserted }));
    await ask(PUT, JSON.stringify(given), JSON.stringify(ends));
  }

  /** Creates next month's table before it is needed. */
  private async createNextPartition(): Promise<void> {
    const now = Date.now();
    if (now - this.partitionsCheckedAt < PARTITION_CHECK_INTERVAL) return;
    await this.partitions.create([now, partitionOf(now).to]);
    this.partitionsCheckedAt = now;
  }
}

const ID = USAGE_COLUMNS.indexOf("id");
const NO_HOLDER = ["", ""] as const;

/** Removes rows that may have been deleted, and were inserted before: these journals are read again. */
async function withoutPruned(
  ask: PostgresQuery,
  rows: readonly UsageRow[],
  journals: readonly string[],
): Promise<UsageRow[]> {
  const found = await ask(LOCK_JOURNALS, JSON.stringify(journals));
  const before = Number(found[0]?.["before"]);
  const positions = new Map(found.map(({ name, position }) => [name, Number(position)]));
  return rows.filter((row) => !wasDeleted(row, positions.get(row.place?.journal ?? "") ?? 0, before));
}

/** Returns the rows to write: usage counted before, in another row or earlier in this batch, does not count again. */
async function countOnce(ask: PostgresQuery, rows: readonly UsageRow[]): Promise<readonly UsageRow[]> {
  const names = rows.flatMap(({ once, values }) =>
    once ? { name: sanitizeText(once.name), time: rowTime({ values }) } : [],
  );
  if (names.length === 0) return rows;
  const added = await ask(COUNT_ONCE, JSON.stringify(names));
  const fresh = new Set(added.map(({ name }) => String(name)));
  return rows.map(({ once, ...row }) => (once && !fresh.delete(sanitizeText(once.name)) ? once.duplicate : row));
}

/** Removes duplicates; the first row of an id is kept. */
function distinct(rows: readonly UsageRow[]): UsageRow[] {
  const found = new Map<string, UsageRow>();
  for (const row of rows) {
    const key = `${rowTime(row)} ${row.values[ID]}`;
    if (!found.has(key)) found.set(key, row);
  }
  return [...found.values()];
}

/**
 * Locks how far journals have been inserted, and returns it. It also locks `usage_pruned`: what is not deleted by now stays until
 * the transaction ends, or begins to be deleted after it.
 */
const LOCK_JOURNALS = `insert into journal (name, position, time)
  select name, 0, 0 from json_array_elements_text(?::text::json) as given (name) order by name
  on conflict (name) do update set position = journal.position
  returning name, position, (select coalesce(max(before), 0) from usage_pruned) as before`;

const COUNT_ONCE = `insert into usage_once (name, time)
  select name, min(time) from json_to_recordset(?::text::json) as shape (name text, time bigint)
  group by name order by name on conflict do nothing returning name`;

const LIST = USAGE_COLUMNS.join(", ");
const SHAPE = USAGE_COLUMNS.map((name) => `${name} ${TYPES[name] ?? "text"}`).join(", ");

/**
 * Inserts rows, adds the new ones to the sums of their hours and days, and stores how far their journals have been inserted.
 * Ordered, so that concurrent writers cannot deadlock.
 */
const PUT = `with given as (
    select * from json_to_recordset(?::text::json) as shape (kind integer, holder integer, ${SHAPE})
  ), fresh as (
    insert into usage (kind, holder, ${LIST}) select kind, holder, ${LIST} from given order by time, id
    on conflict do nothing
    returning time, kind, holder, tokens_in, cached, tokens_out, reasoning, cost, assumed_cost
  ), one as (
    select time, ${ROW_AS_SUMS} from fresh join usage_kind on number = kind
  ), hours as (
    select time - time % ${HOUR} as hour, ${SUM_KEY}, ${AGGREGATES} from one group by 1, 2, 3, 4, 5
  ), by_hour as (
    ${addToSumsSql("usage_hour", `select hour, ${SUM_KEY}, ${SUM_COLUMNS.join(", ")} from hours order by 1, 2, 3, 4, 5`)}
  ), advanced as (
    update journal set position = greatest(journal.position, ends.position), time = greatest(journal.time, ends.time)
    from json_to_recordset(?::text::json) as ends (name text, position bigint, time bigint) where journal.name = ends.name
  )
  ${addToSumsSql(
    "usage_day",
    `select hour - hour % ${DAY}, ${SUM_KEY}, ${AGGREGATES} from hours group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5`,
  )}`;

/** Reports whether the store refuses a row for what it is. */
const isRefusal = (error: unknown): boolean => error instanceof RangeError || BAD_ROW.test(postgresCode(error) ?? "");
