import { statSync } from "node:fs";
import { FileError, StoreAway } from "../core/errors.ts";
import { AlertClaims } from "./alert-claims.ts";
import type { Audit } from "./audit.ts";
import { journalFolder } from "./journal/files.ts";
import { JournaledLedger, type StoreTerms } from "./journal/journaled-ledger.ts";
import { JournaledOwners } from "./journal/journaled-owners.ts";
import type { KeptValues } from "./kept-values.ts";
import type { FileKey } from "./key-rows.ts";
import type { Ledger, LedgerWarn } from "./ledger.ts";
import type { Maintenance, Restored, RestoreTerms } from "./maintenance.ts";
import { MemoryOwners } from "./memory-owners.ts";
import type { Owners } from "./owners.ts";
import { PostgresClaims } from "./postgres/alert-claims.ts";
import { PostgresAudit } from "./postgres/audit.ts";
import { PostgresDatabase } from "./postgres/database.ts";
import { PostgresKeptValues } from "./postgres/kept-values.ts";
import { type KnownKeys, PostgresKeys } from "./postgres/keys.ts";
import { copiesOf, PostgresMaintenance } from "./postgres/maintenance.ts";
import { isUnmade, migrationCount, openPostgres } from "./postgres/migrations.ts";
import { PostgresObjects } from "./postgres/objects.ts";
import { type StorePlace, shownPlace } from "./postgres/place.ts";
import { PostgresPrices } from "./postgres/prices.ts";
import { PostgresSignedOut } from "./postgres/signed-out.ts";
import type { PriceVersions } from "./price-versions.ts";
import type { RememberedKeys } from "./remembered-keys.ts";
import { keptSecret, sharedSecret } from "./secret.ts";
import type { SignedOut } from "./signed-out.ts";
import { SqliteAudit } from "./sqlite/audit.ts";
import { Database, SERVING_CHECKPOINT } from "./sqlite/database.ts";
import { SqliteKeptValues } from "./sqlite/kept-values.ts";
import { SqliteKeys } from "./sqlite/keys.ts";
import { SqliteLedger } from "./sqlite/ledger.ts";
import { SqliteMaintenance } from "./sqlite/maintenance.ts";
import { SqliteObjects } from "./sqlite/objects.ts";
import { SqlitePrices } from "./sqlite/prices.ts";
import { restoreSqlite } from "./sqlite/restore.ts";
import { SqliteSignedOut } from "./sqlite/signed-out.ts";

/** Connections of the serving thread; one more listens for changes of keys. */
const CONNECTIONS = 4;

/** A store that ends with the process. */
const IN_MEMORY = ":memory:";

/** Everything that is stored, in one file or one database. */
export interface Stores {
  keys: RememberedKeys;
  ledger: Ledger;
  owners: Owners;
  prices: PriceVersions;
  audit: Audit;
  signedOut: SignedOut;
  claims: AlertClaims;
  values: KeptValues;
  /** Returns the secret for sealing envelopes if gateway.yaml has none: the same for all gateways with this store. */
  secret(): Promise<Buffer>;
  /**
   * Returns what another process needs to start while the database is down; undefined if nothing is known, or without a
   * database.
   */
  known(): KnownStore | undefined;
  /** Writes what is buffered and closes the store. */
  close(): Promise<void>;
}

/** A process's knowledge of a database, so that another one can start while that is down. Plain JSON. */
export interface KnownStore {
  /** Number of migrations it has seen. */
  readonly schema: number;
  /** The value of `Stores.secret`, in hex; absent if it was never loaded. */
  readonly secret?: string;
  readonly keys: KnownKeys;
}

/** Everything in one SQLite file, whose keys are found synchronously. */
export interface EmbeddedStores extends Stores {
  keys: SqliteKeys;
}

/**
 * Opens the stores, embedded or in a database.
 * @param warn reports problems to operators
 * @param others returns what other processes know, for a database that is down
 * @throws FileError when they cannot be used
 */
export async function connectStores(
  { ledger, postgres, ...terms }: StorePlace & StoreTerms,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
  others?: () => Promise<KnownStore | undefined>,
): Promise<Stores> {
  if (!postgres) return openStores(ledger, fileKeys, warn, terms);
  try {
    const { database } = await openPostgres(postgres, CONNECTIONS);
    return storesIn(database, postgres, fileKeys, warn, terms);
  } catch (thrown) {
    if (!(thrown instanceof FileError && thrown.cause instanceof StoreAway)) throw thrown;
    const known = await others?.();
    // This program has another schema, which no process has created yet.
    if (known?.schema !== migrationCount()) throw thrown;
    return storesIn(await PostgresDatabase.open(postgres, CONNECTIONS), postgres, fileKeys, warn, terms, known);
  }
}

/**
 * Opens the stores for reading: a missing store is not created, but replaced by one in memory.
 * @param warn also reports that
 */
export async function connectToRead(
  place: StorePlace & StoreTerms,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
): Promise<Stores> {
  const none = await missingStore(place);
  if (none === undefined) return connectStores(place, fileKeys, warn);
  warn(none);
  return openStores(IN_MEMORY, fileKeys, warn);
}

/**
 * Describes a store that does not exist yet; undefined: it exists, or is in memory.
 * @throws FileError when a database cannot be queried
 */
export async function missingStore({ ledger, postgres }: StorePlace): Promise<string | undefined> {
  const isMissing = postgres ? await isUnmade(postgres) : ledger !== IN_MEMORY && isAbsent(ledger);
  if (!isMissing) return undefined;
  const text = postgres ? `${shownPlace(postgres)} has no store yet` : `${ledger} is not there yet`;
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
export async function connectMaintenance({ ledger, postgres }: StorePlace): Promise<Maintenance> {
  return postgres ? PostgresMaintenance.open(postgres) : openMaintenance(ledger);
}

/** Opens a SQLite file for maintenance. */
export function openMaintenance(path: string): Maintenance {
  notInMemory(path);
  return new SqliteMaintenance(path);
}

/**
 * Replaces an unused store with a backup, after verifying that.
 * @throws Error with the reason; the store is then unchanged
 */
export async function restoreStore(
  { ledger, postgres }: StorePlace,
  file: string,
  terms: RestoreTerms,
): Promise<Restored> {
  if (postgres) throw new Error(copiesOf(postgres));
  notInMemory(ledger);
  return restoreSqlite(ledger, file, terms);
}

function notInMemory(path: string): void {
  if (path === IN_MEMORY)
    throw new Error("The store is in memory, and ends with its gateway: there is nothing to care for.");
}

/**
 * Opens the embedded stores and creates folder and file, for their owner only, if they do not exist.
 * @param path the SQLite file, or `:memory:`
 * @param warn reports to operators: a file that others can read, a ledger that cannot be written
 * @param terms what rows survive, and how long they are kept; a store in memory survives nothing
 * @throws FileError when the file cannot be used.
 */
export function openStores(
  path: string,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
  terms: StoreTerms = {},
): EmbeddedStores {
  const database = new Database(path, false, SERVING_CHECKPOINT);
  if (path !== IN_MEMORY && process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
    warn(`Other users of this machine can read the store ${path}: chmod 600 ${path}`);
  }
  const keys = new SqliteKeys(database, fileKeys);
  const { ledger, owners } = path === IN_MEMORY ? inMemory(database, warn) : journaledIn(path, database, warn, terms);
  const close = async () => {
    await owners.close();
    await ledger.close();
    keys.close();
    database.close();
  };
  const secret = async () => keptSecret(path, warn);
  const [audit, signedOut] = [new SqliteAudit(database), new SqliteSignedOut(database)];
  const [prices, values] = [new SqlitePrices(database), new SqliteKeptValues(database)];
  const known = () => undefined;
  return { keys, ledger, owners, prices, audit, signedOut, values, claims: new AlertClaims(), secret, known, close };
}

const inMemory = (database: Database, warn: LedgerWarn) => ({
  ledger: new SqliteLedger(database, warn),
  owners: new MemoryOwners(),
});

function journaledIn(path: string, database: Database, warn: LedgerWarn, terms: StoreTerms) {
  const place = { file: path, inode: database.inode };
  const ledger = new JournaledLedger(place, journalFolder(path), warn, terms);
  return { ledger, owners: new JournaledOwners(new SqliteObjects(database), ledger, () => ledger.hasOthers) };
}

/** @param known what other processes know of it, while it is down */
function storesIn(
  database: PostgresDatabase,
  { journal, ...place }: NonNullable<StorePlace["postgres"]>,
  fileKeys: readonly FileKey[],
  warn: LedgerWarn,
  terms: StoreTerms,
  known?: KnownStore,
): Stores {
  const keys = new PostgresKeys(database, fileKeys);
  if (known) keys.takeOver(known.keys);
  const ledger = new JournaledLedger(place, journal, warn, terms);
  const owners = new JournaledOwners(new PostgresObjects(database), ledger, () => true);
  const close = async () => {
    await owners.close();
    await ledger.close();
    keys.close();
    await database.close();
  };
  let sealing = known?.secret;
  const secret = async () => {
    sealing ??= (await sharedSecret(database)).toString("hex");
    return Buffer.from(sealing, "hex");
  };
  const told = () => {
    const remembered = keys.told();
    return remembered && { schema: migrationCount(), ...(sealing && { secret: sealing }), keys: remembered };
  };
  const [audit, signedOut] = [new PostgresAudit(database), new PostgresSignedOut(database)];
  const values = new PostgresKeptValues(database);
  const [prices, claims] = [new PostgresPrices(database), new PostgresClaims(database)];
  return { keys, ledger, owners, prices, audit, signedOut, values, claims, secret, known: told, close };
}
