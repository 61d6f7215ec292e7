import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { MigrationNumbers } from "../maintenance.ts";
import {
  checkDatabase,
  mayBeRestarting,
  PostgresDatabase,
  type PostgresQuery,
  SCHEMA,
  tableExists,
  unusableDatabase,
} from "./database.ts";
import type { PostgresSettings } from "./place.ts";

const MIGRATIONS = new URL("./migrations/", import.meta.url);
/** The advisory lock for schema changes: an arbitrary number. */
const MIGRATION_LOCK = 7_017_338_211;
/** Milliseconds for migrations, and to wait for those of other processes. */
const MIGRATION_TIMEOUT = 600_000;
/** Milliseconds to wait for a database that is restarting, and between attempts. */
const START_TIMEOUT = 5_000;
const RETRY_DELAY = 250;

/**
 * Opens a database and migrates its schema; safe with concurrent processes.
 * @throws FileError when it cannot be reached or used, or is newer than this program; no connection is left open then
 */
export async function openPostgres(
  settings: PostgresSettings,
  maxConnections: number,
): Promise<{ database: PostgresDatabase; migrated: MigrationNumbers }> {
  const { database, result } = await openWith(settings, maxConnections, migrate);
  return { database, migrated: result };
}

/** Returns the number of migrations in this program: programs with the same number have the same schema. */
export const migrationCount = (): number => readdirSync(MIGRATIONS).length;

/**
 * Reports whether a database lacks our schema; does not create it.
 * @throws FileError when it cannot be reached or used
 */
export async function lacksSchema(settings: PostgresSettings): Promise<boolean> {
  const { database, result } = await openWith(settings, 1, (database) =>
    database.withDeadline(MIGRATION_TIMEOUT, migrationsIn),
  );
  await database.close();
  return result === 0;
}

/** Opens a database and runs a first operation, with retries while the database may be restarting. */
async function openWith<T>(
  settings: PostgresSettings,
  maxConnections: number,
  first: (database: PostgresDatabase) => Promise<T>,
): Promise<{ database: PostgresDatabase; result: T }> {
  const database = await PostgresDatabase.open(settings, maxConnections);
  const deadline = performance.now() + START_TIMEOUT;
  for (;;)
    try {
      return { database, result: await first(database) };
    } catch (thrown) {
      if (mayBeRestarting(thrown) && performance.now() < deadline) {
        await sleep(RETRY_DELAY);
        continue;
      }
      await database.close();
      throw unusableDatabase(settings, thrown);
    }
}

async function migrate(database: PostgresDatabase): Promise<MigrationNumbers> {
  const files = readdirSync(MIGRATIONS).sort();
  const before = await database.withDeadline(MIGRATION_TIMEOUT, async (ask) => {
    await checkDatabase(ask);
    return migrationsIn(ask);
  });
  if (before === files.length) return { from: before, to: before };
  return database.transaction(async (ask) => {
    await ask("select pg_advisory_xact_lock(?::bigint)", MIGRATION_LOCK);
    // Read again: another process may have migrated while this one waited for the lock.
    const from = await migrationsIn(ask);
    if (from > files.length) throw new Error("it was made by a newer version of model-gateway; use that one");
    if (from === 0) {
      const found = await ask("select 1 from pg_namespace where nspname = ?::text", SCHEMA);
      if (found.length === 0) await ask.script(`create schema ${SCHEMA}`);
      await ask.script(
        "create table migration (number integer primary key, file text not null, time timestamptz not null)",
      );
    }
    for (const [i, file] of files.entries()) {
      if (i < from) continue;
      await ask.script(readFileSync(new URL(file, MIGRATIONS), "utf8"));
      await ask("insert into migration values (?::integer, ?::text, now())", i + 1, file);
    }
    return { from, to: files.length };
  }, MIGRATION_TIMEOUT);
}

async function migrationsIn(ask: PostgresQuery): Promise<number> {
  if (!(await tableExists(ask, "migration"))) return 0;
  const [row] = await ask(`select coalesce(max(number), 0) as number from ${SCHEMA}.migration`);
  return Number(row?.["number"]);
}
