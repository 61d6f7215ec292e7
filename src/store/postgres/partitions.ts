import { setTimeout as sleep } from "node:timers/promises";
import { journalCutoff } from "../journal-place.ts";
import { DAY } from "../ledger-sums.ts";
import { onceNameCutoff, type PrunableRows } from "../retention.ts";
import {
  type PostgresDatabase,
  type PostgresQuery,
  type PostgresTransaction,
  postgresCode,
  tableExists,
} from "./database.ts";

/** The advisory lock for creating monthly tables: an arbitrary number. */
const PARTITION_LOCK = 7_017_338_212;
/** Milliseconds that dropping a table waits for its readers, as writers queue behind it; and between attempts. */
const LOCK_TIMEOUT = 2_000;
const RETRY_DELAY = 500;
const TRIES = 30;
/** Deadline in milliseconds for reading all rows of a month; rows deleted in one transaction. */
const READ_DEADLINE = 600_000;
const BATCH = 2000;
/** The code of a lock timeout. */
const LOCKED = "55P03";

/** A table with the rows of one month in UTC. */
interface MonthPartition {
  /** Its first millisecond, and the first one after it. */
  readonly from: number;
  readonly to: number;
  readonly table: string;
}

/** Returns the month of a time in Unix milliseconds. @throws RangeError for a time outside of the calendar */
export function partitionOf(time: number): MonthPartition {
  const date = new Date(time);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  if (!(year >= 1970 && year <= 9998)) throw new RangeError(`${time} is no time of a request`);
  const name = `usage_${year}_${String(month + 1).padStart(2, "0")}`;
  return { from: Date.UTC(year, month), to: Date.UTC(year, month + 1), table: name };
}

/** The monthly tables known to this process. */
export class Partitions {
  private readonly known = new Set<string>();

  constructor(private readonly database: PostgresDatabase) {}

  /** Creates the missing tables for some times. */
  async create(times: Iterable<number>): Promise<void> {
    const missing = new Map<string, MonthPartition>();
    for (const time of times) {
      const month = partitionOf(time);
      if (!this.known.has(month.table)) missing.set(month.table, month);
    }
    for (const month of missing.values()) {
      await this.database.transaction((ask) => createPartition(ask, month));
      this.known.add(month.table);
    }
  }

  /** Must be called when a table may have been dropped. */
  clearCache(): void {
    this.known.clear();
  }
}

/** Creates the table of a month, if it is missing. Must be called in a transaction. */
export async function createPartition(ask: PostgresTransaction, { table, from, to }: MonthPartition): Promise<void> {
  if (await tableExists(ask, table)) return;
  await ask("select pg_advisory_xact_lock(?::bigint)", PARTITION_LOCK);
  if (await tableExists(ask, table)) return;
  // Created separately and attached, so that others can write and read meanwhile.
  await ask.script(`create table ${table} (like usage including defaults including constraints including indexes);
    alter table usage attach partition ${table} for values from (${from}) to (${to})`);
}

/** Lists the existing tables, oldest first. */
export async function listPartitions(ask: PostgresQuery): Promise<MonthPartition[]> {
  const rows = await ask(
    "select relname as name from pg_inherits join pg_class on oid = inhrelid where inhparent = 'usage'::regclass order by 1",
  );
  return rows.flatMap(({ name }) => {
    const [, year, month] = /^usage_(\d{4})_(\d\d)$/.exec(String(name)) ?? [];
    return year === undefined ? [] : [partitionOf(Date.UTC(Number(year), Number(month) - 1))];
  });
}

/** Returns the time (Unix milliseconds) before which rows have been deleted; 0: never. */
export async function postgresPrunedBefore(ask: PostgresQuery): Promise<number> {
  return Number((await ask("select coalesce(max(before), 0) as before from usage_pruned"))[0]?.["before"]);
}

/** Returns the rows of a ledger in PostgreSQL for retention. */
export const prunablePostgres = (database: PostgresDatabase): PrunableRows => ({
  age: (now) =>
    database.runLong(READ_DEADLINE, async (ask) => {
      const [row] = await ask("select coalesce(max(time), 0) as newest from usage where time <= ?::bigint", now - DAY);
      return { newest: Number(row?.["newest"]), pruned: await postgresPrunedBefore(ask) };
    }),
  prune: (before) => prunePostgres(database, before),
});

/**
 * Deletes the rows of exchanges that began before a time: whole months by dropping their tables, the rest row by row. The sums
 * of their hours and days stay.
 * @param before Unix milliseconds, the start of a day in UTC
 * @returns the number of rows in each step
 * @throws PostgresError when a month's table is constantly being read
 */
export async function* prunePostgres(database: PostgresDatabase, before: number): AsyncGenerator<number> {
  // Recorded first, so that concurrent queries for sums use whole hours.
  await database.transaction(async (ask) => {
    await ask("lock table usage_pruned");
    if (before <= (await postgresPrunedBefore(ask))) return;
    await ask("delete from usage_pruned");
    await ask("insert into usage_pruned values (?::bigint)", before);
  });
  for (const month of await listPartitions(database.query))
    if (month.to <= before) yield await dropPartition(database, month);
  for (;;) {
    const [gone] = await database.runLong(READ_DEADLINE, (ask) => ask(REMOVE, before, before));
    yield Number(gone?.["rows"]);
    if (Number(gone?.["rows"]) < BATCH) break;
  }
  const end = onceNameCutoff(before);
  while (Number((await database.runLong(READ_DEADLINE, (ask) => ask(FORGET, end)))[0]?.["rows"]) === BATCH);
  await database.runLong(READ_DEADLINE, (ask) => ask(FORGET_JOURNALS, journalCutoff(before)));
}

const COUNT = "select count(*) as rows from usage where time >= ?::bigint and time < ?::bigint";

const FORGET = `with gone as (
    delete from usage_once where name in (select name from usage_once where time < ? order by time limit ${BATCH})
    returning 1
  ) select count(*) as rows from gone`;

/** Without those in use, which a writer has locked, perhaps with others, in another order. */
const FORGET_JOURNALS =
  "delete from journal where name in (select name from journal where time < ? for update skip locked)";

const REMOVE = `with gone as (
    delete from usage where time < ? and (time, id) in (select time, id from usage where time < ? order by time limit ${BATCH})
    returning 1
  ) select count(*) as rows from gone`;

/** Drops the table of a month, safe with concurrent drops: it waits for readers, but not so long that writers queue behind it. */
async function dropPartition(database: PostgresDatabase, { table, from, to }: MonthPartition): Promise<number> {
  // Counted before locking, which blocks all writers; not in the table itself, which may just have been dropped.
  const [counted] = await database.runLong(READ_DEADLINE, (ask) => ask(COUNT, from, to));
  for (let tries = 1; ; tries++)
    try {
      return await database.transaction(async (ask) => {
        await ask.script(`set local lock_timeout = ${LOCK_TIMEOUT}; lock table usage in access exclusive mode`);
        if (!(await tableExists(ask, table))) return 0;
        await ask.script(`drop table ${table}`);
        return Number(counted?.["rows"]);
      });
    } catch (thrown) {
      if (postgresCode(thrown) !== LOCKED || tries === TRIES) throw thrown;
      await sleep(RETRY_DELAY);
    }
}
