import { statSync } from "node:fs";
import { FileError, StoreUnavailableError } from "../core/errors.ts";
import type { MaybePromise } from "../core/plugin.ts";
import { AlertClaims } from "./alert-claims.ts";
import { Audit } from "./audit.ts";
import type { CachedKeys } from "./cached-keys.ts";
import { journalFolder } from "./journal/files.ts";
import { JournaledLedger } from "./journal/journaled-ledger.ts";
import { JournaledOwners } from "./journal/journaled-owners.ts";
import { KeptValues } from "./kept-values.ts";
import type { FileKey } from "./key-rows.ts";
import type { Ledger, LedgerWarn } from "./ledger.ts";
import type { Maintenance, RestoreOptions, RestoreResult } from "./maintenance.ts";
import { MemoryOwners } from "./memory-owners.ts";
import type { Owners } from "./owners.ts";
import { PostgresClaims } from "./postgres/alert-claims.ts";
import { PostgresDatabase } from "./postgres/database.ts";
import { importSqlite, type StoreImport } from "./postgres/import.ts";
import { type KeySnapshot, PostgresKeys } from "./postgres/keys.ts";
import { copyInstructions, PostgresMaintenance } from "./postgres/maintenance.ts";
import { lacksSchema, migrationCount, openPostgres } from "./postgres/migrations.ts";
import { PostgresObjects } from "./postgres/objects.ts";
import { displayUrl, type StoreLocation, type StoreOptions } from "./postgres/place.ts";
import { PriceVersions } from "./price-versions.ts";
import { RevokedSessions } from "./revoked-sessions.ts";
import { databaseSecret, loadOrCreateSecret } from "./secret.ts";
import type { SqlRunner } from "./sql-runner.ts";
import { SERVING_CHECKPOINT, SqliteDatabase } from "./sqlite/database.ts";
import { SqliteKeys } from "./sqlite/keys.ts";
import { SqliteLedger } from "./sqlite/ledger.ts";
import { SqliteMaintenance } from "./sqlite/maintenance.ts";
import { SqliteObjects } from "./sqlite/objects.ts";
import { restoreSqlite } from "./sqlite/restore.ts";

/** Connections of the serving thread; one more listens for changes of keys. */
const CONNECTIONS = 4;

/** A store that ends with the process. */
const IN_MEMORY = ":memory:";

/** Everything that is stored, in one file or one database. */
export interface Stores {
  keys: CachedKeys;
  ledger: Ledger;
  owners: Owners;
  prices: PriceVersions;
  audit: Audit;
  revokedSessions: RevokedSessions;
  claims: AlertClaims;
  keptValues: KeptValues;
  /** Returns the secret for sealing envelopes if gateway.yaml has none: the same for all gateways with this store. */
  secret(): Promise<Buffer>;
  /**
   * Returns what another process needs to start while the database is down; undefined if nothing is known, or without a
   * database.
   */
  snapshot(): StoreSnapshot | undefined;
  /** Writes what is buffered and closes the store. */
  close(): Promise<void>;
}

/** A process's knowledge of a database, so that another one can start while that is down. Plain JSON. */
export interface StoreSnapshot {
  /** Number of migrations it has seen. */
  readonly schema: number;
  /** The value of `Stores.secret`, in hex; absent if it was never loaded. */
  readonly secret?: string;
  readonly keys: KeySnapshot;
}

/** Everything in one SQLite file, whose keys are found synchronously. */
interface EmbeddedStores extends Stores {
  keys: SqliteKeys;
}

/**
 * Opens the stores, embedded or in a database.
 * @param warn reports problems to operators
 * @param others returns what other processes know, for a database that is down
 * @throws FileError when they cannot be used
 */
export async function connectStores(
  { ledger, postgres, ...options }: StoreLocation & StoreOptions,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
  others?: () => Promise<StoreSnapshot | undefined>,
): Promise<Stores> {
  if (!postgres) return openStores(ledger, fileKeys, warn, options);
  try {
    const { database } = await openPostgres(postgres, CONNECTIONS);
    return postgresStores(database, postgres, fileKeys, warn, options);
  } catch (thrown) {
    if (!(thrown instanceof FileError && thrown.cause instanceof StoreUnavailableError)) throw thrown;
    const known = await others?.();
    // This program has another schema, which no process has created yet.
    if (known?.schema !== migrationCount()) throw thrown;
    return postgresStores(await PostgresDatabase.open(postgres, CONNECTIONS), postgres, fileKeys, warn, options, known);
  }
}

/**
 * Opens the stores for reading: a missing store is not created, but replaced by one in memory.
 * @param warn also reports that
 */
export async function connectToRead(
  location: StoreLocation & StoreOptions,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
): Promise<Stores> {
  const none = await describeMissingStore(location);
  if (none === undefined) return connectStores(location, fileKeys, warn);
  warn(none);
  return openStores(IN_MEMORY, fileKeys, warn);
}

/** Runs `act` with stores that are closed afterwards. */
export async function runWithStores<T>(
  opening: MaybePromise<Stores>,
  act: (stores: Stores) => MaybePromise<T>,
): Promise<T> {
  const stores = await opening;
  try {
    return await act(stores);
  } finally {
    await stores.close();
  }
}

/**
 * Describes a store that does not exist yet; undefined: it exists, or is in memory.
 * @throws FileError when a database cannot be queried
 */
export async function describeMissingStore({ ledger, postgres }: StoreLocation): Promise<string | undefined> {
  const isMissing = postgres ? await lacksSchema(postgres) : ledger !== IN_MEMORY && isAbsent(ledger);
  if (!isMissing) return undefined;
  const text = postgres ? `${displayUrl(postgres)} has no store yet` : `${ledger} is not there yet`;
  return `${text}: a gateway makes it when it starts, or keys create.`;
}

/** Reports whether a path does not exist; false for an invalid path, which opening the store reports. */
function isAbsent(file: string): boolean {
  try {
    statSync(file);
    return false;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "ENOENT";
  }
}

/**
 * Opens a store for maintenance.
 * @throws FileError when it cannot be used, Error for a store in memory
 */
export async function connectMaintenance({ ledger, postgres }: StoreLocation): Promise<Maintenance> {
  return postgres ? PostgresMaintenance.open(postgres) : openMaintenance(ledger);
}

/** Opens a SQLite file for maintenance. */
export function openMaintenance(path: string): Maintenance {
  assertNotInMemory(path);
  return new SqliteMaintenance(path);
}

/**
 * Replaces an unused store with a backup, after verifying that.
 * @throws Error with the reason; the store is then unchanged
 */
export async function restoreStore(
  { ledger, postgres }: StoreLocation,
  file: string,
  options: RestoreOptions,
): Promise<RestoreResult> {
  if (postgres) throw new Error(copyInstructions(postgres));
  assertNotInMemory(ledger);
  return restoreSqlite(ledger, file, options);
}

/**
 * Copies a SQLite store into an unused database.
 * @throws Error with the reason; the database then has what it had before
 */
export async function importStore(
  { postgres }: StoreLocation,
  file: string,
  terms: Omit<RestoreOptions, "force">,
): Promise<StoreImport> {
  if (!postgres)
    throw new Error(
      "store import copies a SQLite file into PostgreSQL, but store: ledger is a SQLite file: store restore puts a backup there.",
    );
  return importSqlite(postgres, file, terms);
}

function assertNotInMemory(path: string): void {
  if (path === IN_MEMORY)
    throw new Error("The store is in memory, and ends with its gateway: there is nothing to care for.");
}

/**
 * Opens the embedded stores and creates folder and file, for their owner only, if they do not exist.
 * @param path the SQLite file, or `:memory:`
 * @param warn reports to operators: a file that others can read, a ledger that cannot be written
 * @param options what rows survive, and how long they are kept; a store in memory survives nothing
 * @throws FileError when the file cannot be used.
 */
export function openStores(
  path: string,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
  options: StoreOptions = {},
): EmbeddedStores {
  const database = new SqliteDatabase(path, false, SERVING_CHECKPOINT);
  if (path !== IN_MEMORY && process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
    warn(`Other users of this machine can read the store ${path}: chmod 600 ${path}`);
  }
  const tables = openTables(database);
  return closable(database, {
    keys: new SqliteKeys(database, fileKeys),
    ...(path === IN_MEMORY ? memoryParts(database, warn) : journaledParts(path, database, warn, options)),
    ...tables,
    claims: new AlertClaims(tables.keptValues),
    secret: async () => loadOrCreateSecret(path, warn),
    snapshot: () => undefined,
  });
}

/** The tables that are used in the same way in both databases. */
const openTables = (database: SqlRunner) => ({
  prices: new PriceVersions(database),
  audit: new Audit(database),
  revokedSessions: new RevokedSessions(database),
  keptValues: new KeptValues(database),
});

/** Adds the function that closes the stores, and then the database, once: after a crash while the gateway stops it is called again. */
function closable<Parts extends Omit<Stores, "close">>(
  database: { close(): MaybePromise<void> },
  parts: Parts,
): Parts & Pick<Stores, "close"> {
  const close = async () => {
    await parts.owners.close();
    await parts.ledger.close();
    parts.keys.close();
    await database.close();
  };
  let closing: Promise<void> | undefined;
  return {
    ...parts,
    close() {
      closing ??= close();
      return closing;
    },
  };
}

const memoryParts = (database: SqliteDatabase, warn: LedgerWarn) => ({
  ledger: new SqliteLedger(database, warn),
  owners: new MemoryOwners(),
});

function journaledParts(path: string, database: SqliteDatabase, warn: LedgerWarn, options: StoreOptions) {
  const file = { file: path, inode: database.inode };
  const ledger = new JournaledLedger(file, journalFolder(path), warn, options);
  return { ledger, owners: new JournaledOwners(new SqliteObjects(database), ledger) };
}

/** @param known what other processes know of it, while it is down */
function postgresStores(
  database: PostgresDatabase,
  { journal, ...place }: NonNullable<StoreLocation["postgres"]>,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
  options: StoreOptions,
  known?: StoreSnapshot,
): Stores {
  const keys = new PostgresKeys(database, fileKeys);
  if (known) keys.loadSnapshot(known.keys);
  const ledger = new JournaledLedger(place, journal, warn, options);
  let secretHex = known?.secret;
  return closable(database, {
    ...{ keys, ledger },
    owners: new JournaledOwners(new PostgresObjects(database), ledger),
    ...openTables(database),
    claims: new PostgresClaims(database),
    async secret() {
      secretHex ??= (await databaseSecret(database)).toString("hex");
      return Buffer.from(secretHex, "hex");
    },
    snapshot() {
      const remembered = keys.snapshot();
      return remembered && { schema: migrationCount(), ...(secretHex && { secret: secretHex }), keys: remembered };
    },
  });
}
