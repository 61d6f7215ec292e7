import type { StatementSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { MaybePromise } from "../../core/plugin.ts";
import {
  CachedKeys,
  DISABLE_GROUP,
  DISABLED_GROUPS,
  disabledGroupsOf,
  ENABLE_GROUP,
  keyStoreUnavailable,
  NAMED,
  nameTaken,
} from "../cached-keys.ts";
import {
  type FileKey,
  insertKeySql,
  type KeyColumns,
  type KeyRow,
  newKey,
  rowToKeyRecord,
  StoredKey,
  updateKeySql,
} from "../key-rows.ts";
import type { IssuedKey, KeyChange, KeyRecord, NewKey } from "../keys.ts";
import type { SqliteDatabase } from "./database.ts";

/** Milliseconds between polls for other processes' changes: on key lookups, and by a timer. */
const POLL_INTERVAL = 100;
const WATCH_INTERVAL = 250;
/** Keys that are read in one turn. */
const KEYS_A_TURN = 1000;

/**
 * Keys in SQLite, besides those of gateway.yaml. `find` is synchronous: about a microsecond for a cached key. Changes by other
 * processes are found by the number of each change.
 */
export class SqliteKeys extends CachedKeys {
  private timer: NodeJS.Timeout | undefined;
  private readonly select: StatementSync;
  private readonly selectChanged: StatementSync;
  private readonly selectDisabledGroups: StatementSync;
  private readonly dataVersion: StatementSync;
  private version = -1;
  private ownChanges: number;
  /** The number of the last change seen. */
  private lastChange: number;
  private polledAt = Number.NEGATIVE_INFINITY;

  /** @param clock monotonic milliseconds; injectable for tests */
  constructor(
    private readonly database: SqliteDatabase,
    fileKeys: readonly FileKey[] = [],
    clock: () => number = () => performance.now(),
  ) {
    super(fileKeys, clock);
    this.select = database.prepare("select * from key where id = ?");
    this.selectChanged = database.prepare("select * from key where changed > ? order by changed");
    this.selectDisabledGroups = database.prepare(DISABLED_GROUPS);
    this.disabledGroups = disabledGroupsOf(this.selectDisabledGroups.all());
    this.dataVersion = database.prepare("pragma data_version");
    this.lastChange = Number(database.prepare("select ifnull(max(changed), 0) as last from key").get()?.["last"]);
    this.ownChanges = database.keyChanges;
  }

  override find(presented: string): KeyRecord | undefined {
    const now = this.clock();
    const recalled = this.lookUpCached(presented, now, () => this.refresh(now));
    if ("record" in recalled) return recalled.record;
    const { id, digest, known } = recalled;
    // It may have been rotated a moment ago.
    this.poll(now);
    const found =
      this.cachedKey(id, now)?.verify(digest.bytes) ?? this.queryKey(known ? NO_ID : id, now)?.verify(digest.bytes);
    this.recordLookup(presented, recalled, found, now);
    return found;
  }

  override watch(listener: (change: KeyChange) => void): () => void {
    const unsubscribe = super.watch(listener);
    this.timer ??= setInterval(() => this.poll(this.clock()), WATCH_INTERVAL).unref();
    return () => {
      unsubscribe();
      if (!this.hasListeners) this.stopPolling();
    };
  }

  override async create(wanted: NewKey): Promise<IssuedKey> {
    return this.change(() => this.insert(wanted));
  }

  override async ensureFirstKey(): Promise<string | undefined> {
    if (this.fileRecords.length > 0) return undefined;
    const any = this.database.prepare("select 1 from key limit 1");
    if (any.get()) return undefined;
    return this.change(() => (any.get() ? undefined : this.insert({ name: "first" }).key));
  }

  /** Reads many keys in several turns of the event loop. */
  override async list(): Promise<KeyRecord[]> {
    const records = [...this.fileRecords];
    const page = this.database.prepare("select rowid as place, * from key where rowid > ? order by rowid limit ?");
    for (let after = 0; ; await nextTurn()) {
      const rows = page.all(after, KEYS_A_TURN);
      for (const row of rows) records.push(rowToKeyRecord(row));
      if (rows.length < KEYS_A_TURN) return records;
      after = Number(rows.at(-1)?.["place"]);
    }
  }

  override async show(idOrName: string): Promise<KeyRecord | undefined> {
    return this.fileRecords.find(({ id }) => id === idOrName) ?? this.findStored(idOrName);
  }

  override disabledGroup(group: string): MaybePromise<string | undefined> {
    this.refresh(this.clock());
    return super.disabledGroup(group);
  }

  override async listDisabledGroups(): Promise<ReadonlyMap<string, number>> {
    return disabledGroupsOf(this.selectDisabledGroups.all());
  }

  override async disableGroup(group: string): Promise<void> {
    const now = Date.now();
    await this.change(() => this.database.prepare(DISABLE_GROUP).run(group, now, now));
  }

  override async enableGroup(group: string): Promise<void> {
    await this.change(() => this.database.prepare(ENABLE_GROUP).run(Date.now(), group));
  }

  /** Clears the cache. The database stays open: the ledger shares it. */
  override close(): void {
    super.close();
    this.stopPolling();
  }

  private stopPolling(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** Finds a key by id, even if revoked, or by its current name. */
  private findStored(idOrName: string): KeyRecord | undefined {
    const row =
      this.select.get(idOrName) ??
      this.database.prepare("select * from key where name = ? and revoked is null").get(idOrName);
    return row && rowToKeyRecord(row);
  }

  protected override changeKey(
    idOrName: string,
    columnsOf: (found: KeyRecord) => KeyColumns | undefined,
    deliver?: (changed: KeyRecord) => void,
  ): Promise<KeyRecord | undefined> {
    return this.change(() => {
      const found = this.findStored(idOrName);
      const columns = found && columnsOf(found);
      if (!columns) return undefined;
      const changed = this.update(found, columns);
      deliver?.(changed);
      return changed;
    });
  }

  /** Changes keys so that a power cut cannot restore a revoked one, and every SqliteKeys of this process sees it. */
  private async change<T>(work: () => T): Promise<T> {
    try {
      return await this.database.durableTransaction(work);
    } finally {
      this.database.keyChanges++;
      if (this.hasListeners) this.poll(this.clock());
    }
  }

  private update(found: KeyRecord, columns: KeyColumns): KeyRecord {
    const { id, name } = found;
    if (Object.keys(columns).length === 0) return found;
    if (typeof columns["name"] === "string" && columns["name"] !== name) this.checkName(columns["name"]);
    const statement = this.database.prepare(updateKeySql(columns, { changed: NEXT }));
    return rowToKeyRecord(statement.get(...Object.values(columns), id) as KeyRow);
  }

  private insert(wanted: NewKey): IssuedKey {
    this.checkName(wanted.name);
    const { key, columns } = newKey(wanted);
    const statement = this.database.prepare(insertKeySql(columns, { changed: NEXT }));
    const row = statement.get(...Object.values(columns));
    return { key, record: rowToKeyRecord(row as KeyRow) };
  }

  /** @throws GatewayError invalid_field for a name that is invalid or taken */
  protected override checkName(name: string): void {
    super.checkName(name);
    if (this.database.prepare(NAMED).get(name, name)) throw nameTaken(name);
  }

  /** Polls, unless that was a moment ago. */
  private refresh(now: number): void {
    if (now - this.polledAt >= POLL_INTERVAL || this.ownChanges !== this.database.keyChanges) this.poll(now);
  }

  /** Polls for changed keys and reloads the cached ones. */
  private poll(now: number): void {
    this.polledAt = now;
    const own = this.ownChanges !== this.database.keyChanges;
    if (own) {
      this.ownChanges = this.database.keyChanges;
      // Removed from the cache, not only reloaded: a key revoked here stays revoked even if the store goes down now.
      this.cache.clear();
    } else if (this.isPaused(now)) return;
    try {
      const version = Number(this.dataVersion.get()?.["data_version"]);
      if (own || version !== this.version) this.readChanges();
      this.version = version;
      this.answeredAt = now;
    } catch (cause) {
      // The store is down. Cached keys work until they are too old.
      this.pause(cause, now);
    }
  }

  private readChanges(): void {
    for (const row of this.selectChanged.all(this.lastChange)) {
      this.lastChange = Number(row["changed"]);
      this.applyChange(new StoredKey(row));
    }
    this.applyDisabledGroups(this.selectDisabledGroups.all());
  }

  /** The one place where a presented key reaches SQL: the id of a well-formed key, in a bound parameter. */
  private queryKey(id: string, now: number): StoredKey | undefined {
    let found: StoredKey | undefined;
    this.checkNotPaused(now);
    try {
      const row = this.select.get(id);
      found = row && new StoredKey(row);
    } catch (cause) {
      this.pause(cause, now);
      throw keyStoreUnavailable(cause);
    }
    this.answeredAt = now;
    if (found) this.cacheKey(id, found);
    return found;
  }
}

/** An id that no key has. */
const NO_ID = "";

/** The number of the next change. Writers are serialized. */
const NEXT = "(select ifnull(max(changed), 0) + 1 from key)";
