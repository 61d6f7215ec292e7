import { existsSync } from "node:fs";
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { FileError } from "../../core/errors.ts";
import { sanitizeText } from "../../wire/utf8.ts";
import { Audit, type Author } from "../audit.ts";
import type { ProgressListener } from "../maintenance.ts";
import { readSecret } from "../secret.ts";
import { lockStore } from "../sqlite/restore.ts";
import { type PostgresQuery, type PostgresTransaction, SCHEMA } from "./database.ts";
import { openPostgres } from "./migrations.ts";
import { createPartition, partitionOf } from "./partitions.ts";
import type { PostgresSettings } from "./place.ts";

/** Milliseconds for the whole copy. */
const COPY_DEADLINE = 24 * 3_600_000;
/** Maximum rows, and characters, of one statement. */
const BATCH = { rows: 1_000, characters: 4_000_000 };
/** Rows between progress messages. */
const PROGRESS_ROWS = 100_000;

/**
 * The tables of a SQLite store in the order in which they are copied; those of PostgreSQL have the same columns. Sums of weeks
 * follow those of days by themselves.
 */
const TABLES = [
  ...["key", "key_group", "object", "price", "audit", "kept_value", "signed_out", "journal"],
  ...["usage_kind", "usage_holder", "usage", "usage_hour", "usage_day", "usage_once", "usage_pruned"],
] as const;
/** Tables that a gateway fills by its start, before it has served anything: they do not make a database used. */
const FILLED_AT_START: ReadonlySet<string> = new Set(["price", "audit", "signed_out", "usage_holder"]);
/** Columns that number rows by a sequence. */
const NUMBERED = { usage_kind: "number", usage_holder: "number", audit: "id" } as const;

/** The result of an import. */
export interface StoreImport {
  /** Rows of each table. */
  readonly rows: Readonly<Record<(typeof TABLES)[number], number>>;
  /** Whether the store's secret was there, and was copied. */
  readonly secret: boolean;
}

/**
 * Copies a SQLite store, including the journals beside it, into an unused database: everything, or nothing.
 * @param file nothing may use it; it is brought up to date and otherwise stays as it is
 * @throws Error with the reason; the database then has what it had before
 */
export async function importSqlite(
  place: PostgresSettings,
  file: string,
  { author, progress }: { author: Author; progress: ProgressListener },
): Promise<StoreImport> {
  if (!existsSync(file)) throw new Error(`There is no ${file}.`);
  const source = await lockStore(file);
  try {
    const secret = readSecret(file);
    const { database } = await openPostgres(place, 1);
    try {
      const rows = await database.transaction(async (ask) => {
        await claimEmptyTables(ask);
        const audit = new Audit({ query: ask });
        const earlier = await audit.list(2 ** 31 - 1);
        for (const table of FILLED_AT_START) await ask(`delete from ${table}`);
        const rows = await copyTables(source, ask, progress);
        if (secret) await ask(PUT_SECRET, secret.toString("hex"));
        // What the database had recorded before comes after what the store had: ids only increase.
        for (const entry of earlier.reverse()) await audit.add(entry);
        await audit.add({ ...author, time: Date.now(), action: "store.import", subject: "store", detail: { file } });
        return rows;
      }, COPY_DEADLINE);
      return { rows, secret: secret !== undefined };
    } finally {
      await database.close();
    }
  } finally {
    source.close();
  }
}

const PUT_SECRET = `insert into secret values ('envelopes', ?::text)
  on conflict (name) do update set value = excluded.value`;

/** Keeps others from writing until the end of the transaction. @throws FileError if the database has been used */
async function claimEmptyTables(ask: PostgresQuery): Promise<void> {
  await ask(`lock table ${TABLES.join(", ")}, secret in exclusive mode`);
  const used: string[] = [];
  for (const table of TABLES)
    if (!FILLED_AT_START.has(table) && (await ask(`select 1 from ${table} limit 1`)).length > 0) used.push(table);
  if (used.length > 0)
    throw new FileError(
      `The database is in use: it has rows in ${used.join(", ")}, and only an empty one takes a store. Nothing was changed. If its content is not needed: drop schema ${SCHEMA} cascade.`,
    );
}

async function copyTables(
  source: DatabaseSync,
  ask: PostgresTransaction,
  progress: ProgressListener,
): Promise<StoreImport["rows"]> {
  const counts = new Map<string, number>();
  for (const table of TABLES) {
    if (table === "usage") await createPartitions(source, ask);
    const count = await copyTable(source, ask, table, progress);
    counts.set(table, count);
    const [found] = await ask(`select count(*) as rows from ${table}`);
    if (Number(found?.["rows"]) !== count)
      throw new Error(`${table}: ${found?.["rows"]} of ${count} rows arrived. Nothing was changed.`);
  }
  for (const [table, column] of Object.entries(NUMBERED))
    await ask(
      `select setval(pg_get_serial_sequence('${table}', '${column}'), coalesce(max(${column}), 0) + 1, false) from ${table}`,
    );
  return Object.fromEntries(counts) as StoreImport["rows"];
}

/** Creates the tables of the months of all rows. */
async function createPartitions(source: DatabaseSync, ask: PostgresTransaction): Promise<void> {
  const next = source.prepare("select min(time) as time from usage where time >= ?");
  for (let from = Number.MIN_SAFE_INTEGER; ; ) {
    const time = next.get(from)?.["time"];
    if (typeof time !== "number") return;
    const month = partitionOf(time);
    await createPartition(ask, month);
    from = month.to;
  }
}

/** Copies all rows of a table. @returns their number */
async function copyTable(
  source: DatabaseSync,
  ask: PostgresQuery,
  table: string,
  progress: ProgressListener,
): Promise<number> {
  const names = source
    .prepare(`pragma table_info(${table})`)
    .all()
    .map(({ name }) => `"${String(name)}"`);
  const list = names.join(", ");
  const insert = `insert into ${table} (${list}) overriding system value
    select ${list} from json_to_recordset(?::text::json) as shape (${await columnTypes(ask, table, names)})`;
  const all = Number(source.prepare(`select count(*) as rows from ${table}`).get()?.["rows"]);
  if (all > 0) progress(`${table}: ${all.toLocaleString("en-US")} rows`);
  // Keys keep the order in which they were made; other tables have no order.
  const select = source.prepare(`select ${list} from ${table}${table === "key" ? " order by rowid" : ""}`);
  select.setReadBigInts(true);
  let done = 0;
  for (const batch of batches(select.iterate())) {
    await ask(insert, `[${batch.join(",")}]`);
    const before = done;
    done += batch.length;
    if (Math.floor(before / PROGRESS_ROWS) < Math.floor(done / PROGRESS_ROWS) && done < all)
      progress(`${table}: ${done.toLocaleString("en-US")} of ${all.toLocaleString("en-US")} rows`);
  }
  return done;
}

/** Returns the columns of a table with their types in PostgreSQL, in the given order. */
async function columnTypes(ask: PostgresQuery, table: string, names: readonly string[]): Promise<string> {
  const rows = await ask(
    "select column_name as name, data_type as type from information_schema.columns where table_schema = ?::text and table_name = ?::text",
    ...[SCHEMA, table],
  );
  const types = new Map(rows.map(({ name, type }) => [`"${String(name)}"`, String(type)]));
  return names.map((name) => `${name} ${types.get(name)}`).join(", ");
}

/** Yields rows as JSON, as many as one statement takes. */
function* batches(rows: Iterable<Record<string, SQLOutputValue>>): Generator<string[]> {
  let batch: string[] = [];
  let characters = 0;
  for (const row of rows) {
    const text = JSON.stringify(row, toPostgres);
    batch.push(text);
    characters += text.length;
    if (batch.length < BATCH.rows && characters < BATCH.characters) continue;
    yield batch;
    batch = [];
    characters = 0;
  }
  if (batch.length > 0) yield batch;
}

/** Converts a value of SQLite to one that PostgreSQL reads from JSON: integers as texts, as some exceed a number's precision. */
function toPostgres(_name: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "string") return sanitizeText(value);
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : value;
}
