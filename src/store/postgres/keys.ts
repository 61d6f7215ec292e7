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
  newKey,
  rowToKeyRecord,
  StoredKey,
  updateKeySql,
} from "../key-rows.ts";
import type { IssuedKey, KeyChange, KeyRecord, NewKey } from "../keys.ts";
import type { SqlValue } from "../sql-runner.ts";
import type { PostgresDatabase, PostgresQuery, PostgresRow } from "./database.ts";

/** The channel on which the database announces changes of keys. */
const CHANNEL = "model_gateway_keys";
/** Milliseconds between polls for changes, in case notifications are missed; and the deadline of a poll. */
const POLL_INTERVAL = 2_000;
const POLL_TIMEOUT = 2_500;
/** Deadline of a key lookup in milliseconds: a request waits for it. */
const LOOKUP_TIMEOUT = 1_500;

/** The keys cached by a process. Plain JSON. */
export interface KeySnapshot {
  /** The number of the last change that it has seen. */
  readonly seen: number;
  /** Milliseconds since the database last responded. */
  readonly age: number;
  readonly rows: readonly PostgresRow[];
  /** Disabled groups, each with the Unix milliseconds since when. */
  readonly groups: readonly (readonly [name: string, disabled: number])[];
}

/** How often changes are polled, and whether notifications are used. */
interface KeyPolling {
  poll: number;
  listen: boolean;
}

/**
 * Keys in PostgreSQL, besides those of gateway.yaml. Keys seen before are found at once in memory. The database notifies every
 * instance of changes, and each instance also polls for them, by the number of each change.
 */
export class PostgresKeys extends CachedKeys {
  /** The number of the last change seen; undefined before the first poll. */
  private lastChange: number | undefined;
  /** Ids for the next query, and its result. */
  private nextLookup: { ids: Set<string>; found: Promise<Map<string, StoredKey>> } | undefined;
  private lookups: Promise<unknown> = Promise.resolve();
  /** Ids of the running query: changes of them may be seen before their older rows. */
  private queriedIds: ReadonlySet<string> = new Set();
  private polling: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private unlisten: (() => void) | undefined;

  /** @param clock monotonic milliseconds; injectable for tests */
  constructor(
    private readonly database: PostgresDatabase,
    fileKeys: readonly FileKey[] = [],
    clock: () => number = () => performance.now(),
    private readonly pollOptions: KeyPolling = { poll: POLL_INTERVAL, listen: true },
  ) {
    super(fileKeys, clock);
  }

  override find(presented: string): MaybePromise<KeyRecord | undefined> {
    const recalled = this.lookUpCached(presented, this.clock(), () => this.startPolling());
    if ("record" in recalled) return recalled.record;
    return this.lookUp(recalled.id).then((key) => {
      const found = key?.verify(recalled.digest.bytes);
      this.recordLookup(presented, recalled, found, this.clock());
      return found;
    });
  }

  override watch(listener: (change: KeyChange) => void): () => void {
    this.startPolling();
    return super.watch(listener);
  }

  override async create(wanted: NewKey): Promise<IssuedKey> {
    const issued = await this.change((ask) => this.insert(ask, wanted));
    if (this.timer) await this.poll();
    return issued;
  }

  override async ensureFirstKey(): Promise<string | undefined> {
    if (this.fileRecords.length > 0) return undefined;
    const any = async (ask: PostgresQuery) => (await ask("select 1 from key limit 1")).length > 0;
    if (await any(this.database.query)) return undefined;
    return this.change(async (ask) => ((await any(ask)) ? undefined : (await this.insert(ask, { name: "first" })).key));
  }

  override async list(): Promise<KeyRecord[]> {
    const rows = await this.database.query("select * from key order by number");
    return [...this.fileRecords, ...rows.map(rowToKeyRecord)];
  }

  override async show(idOrName: string): Promise<KeyRecord | undefined> {
    return this.fileRecords.find(({ id }) => id === idOrName) ?? findStored(this.database.query, idOrName);
  }

  override disabledGroup(group: string): MaybePromise<string | undefined> {
    this.startPolling();
    if (this.lastChange !== undefined) return super.disabledGroup(group);
    // Keys of gateway.yaml are found before the first poll.
    return this.poll().then(() => super.disabledGroup(group));
  }

  override async listDisabledGroups(): Promise<ReadonlyMap<string, number>> {
    return disabledGroupsOf(await this.database.query(DISABLED_GROUPS));
  }

  override async disableGroup(group: string): Promise<void> {
    const now = Date.now();
    await this.changeGroup(DISABLE_GROUP, group, now, now);
  }

  override async enableGroup(group: string): Promise<void> {
    await this.changeGroup(ENABLE_GROUP, Date.now(), group);
  }

  /**
   * Returns the cached keys, for a process that starts while the database is down; undefined before the database's first
   * response.
   */
  snapshot(): KeySnapshot | undefined {
    if (this.lastChange === undefined) return undefined;
    const rows = [...this.cache.values()].map(({ row }) => row);
    return { seen: this.lastChange, age: this.clock() - this.answeredAt, rows, groups: [...this.disabledGroups] };
  }

  /** Starts with the keys cached by another process, for the rest of their allowed age. */
  loadSnapshot({ seen, age, rows, groups }: KeySnapshot): void {
    this.lastChange = seen;
    this.disabledGroups = new Map(groups);
    this.answeredAt = this.clock() - age;
    for (const row of rows) this.cacheNewest(row);
  }

  /** Clears the cache. The database stays open, as others use it. */
  override close(): void {
    super.close();
    clearInterval(this.timer);
    this.unlisten?.();
  }

  /** Starts notifications and polling with the first key lookup. */
  private startPolling(): void {
    if (this.timer) return;
    this.timer = setInterval(() => void this.poll(), this.pollOptions.poll).unref();
    const look = () => void this.poll();
    if (this.pollOptions.listen) this.unlisten = this.database.listen(CHANNEL, look, look);
    look();
  }

  private async changeGroup(text: string, ...values: readonly SqlValue[]): Promise<void> {
    await this.database.query(text, ...values);
    if (this.timer) await this.poll();
  }

  protected override async changeKey(
    idOrName: string,
    columnsOf: (found: KeyRecord) => KeyColumns | undefined,
    deliver?: (changed: KeyRecord) => void,
  ): Promise<KeyRecord | undefined> {
    let id: string | undefined;
    try {
      return await this.change(async (ask) => {
        const found = await findStored(ask, idOrName);
        id = found?.id;
        const columns = found && columnsOf(found);
        if (!columns) return undefined;
        const changed = await this.update(ask, found, columns);
        deliver?.(changed);
        return changed;
      });
    } finally {
      // Removed from the cache, not only reloaded: a key revoked here stays revoked even if the store goes down now.
      if (id !== undefined) this.cache.delete(id);
      if (this.timer) await this.poll();
    }
  }

  /** Runs changes of keys one at a time, across processes. */
  private change<T>(work: (ask: PostgresQuery) => Promise<T>): Promise<T> {
    return this.database.transaction(async (ask) => {
      await ask("select last from key_change for update");
      return work(ask);
    });
  }

  private async update(ask: PostgresQuery, found: KeyRecord, columns: KeyColumns): Promise<KeyRecord> {
    const { id, name } = found;
    if (Object.keys(columns).length === 0) return found;
    if (typeof columns["name"] === "string" && columns["name"] !== name) await this.checkFree(ask, columns["name"]);
    const [row] = await ask(updateKeySql(columns), ...Object.values(columns), id);
    return rowToKeyRecord(row as PostgresRow);
  }

  private async insert(ask: PostgresQuery, wanted: NewKey): Promise<IssuedKey> {
    await this.checkFree(ask, wanted.name);
    const { key, columns } = newKey(wanted);
    const [row] = await ask(insertKeySql(columns), ...Object.values(columns));
    return { key, record: rowToKeyRecord(row as PostgresRow) };
  }

  /** @throws GatewayError invalid_field for a name that is invalid or taken */
  private async checkFree(ask: PostgresQuery, name: string): Promise<void> {
    this.checkName(name);
    if ((await ask(NAMED, name, name)).length > 0) throw nameTaken(name);
  }

  /**
   * Polls for changed keys and reloads the cached ones. A poll that runs does not suffice, as it may have begun before a change that
   * is known by now; all who wait for its end share the next one. Never throws.
   */
  private async poll(): Promise<void> {
    await this.polling;
    this.polling ??= this.readChanges().finally(() => {
      this.polling = undefined;
    });
    await this.polling;
  }

  private async readChanges(): Promise<void> {
    const now = this.clock();
    try {
      await this.database.withDeadline(this.lastChange === undefined ? LOOKUP_TIMEOUT : POLL_TIMEOUT, async (ask) => {
        this.applyDisabledGroups(await ask(DISABLED_GROUPS));
        const [row] = await ask("select last from key_change");
        const last = Number(row?.["last"]);
        // A standby that was promoted may lack the last changes, and further ones have their numbers: all keys are read again.
        if (this.lastChange !== undefined && last < this.lastChange) this.cache.clear();
        if (this.lastChange === undefined || last < this.lastChange) {
          this.lastChange = last;
          return;
        }
        for (const row of await ask("select * from key where changed > ?::bigint order by changed", this.lastChange)) {
          const key = new StoredKey(row);
          const { id } = key.record;
          this.lastChange = Number(row["changed"]);
          if (this.queriedIds.has(id)) this.cacheKey(id, key);
          this.applyChange(key);
        }
      });
      this.answeredAt = now;
    } catch (cause) {
      // The store is down. Cached keys work until they are too old.
      this.pause(cause, this.clock());
    }
  }

  /** Returns the key of an id, as it is in the database now. @throws GatewayError 503 when that does not respond */
  private async lookUp(id: string): Promise<StoredKey | undefined> {
    if (!this.nextLookup) {
      const ids = new Set<string>();
      // One query at a time: ids requested meanwhile go into the next one.
      const found = this.lookups.then(() => {
        this.nextLookup = undefined;
        return this.queryKeys(ids);
      });
      this.lookups = found.catch(() => {});
      this.nextLookup = { ids, found };
    }
    const { ids, found } = this.nextLookup;
    ids.add(id);
    return (await found).get(id);
  }

  /** The one place where a presented key reaches SQL: only the ids of well-formed keys, which are letters and digits. */
  private async queryKeys(ids: ReadonlySet<string>): Promise<Map<string, StoredKey>> {
    const now = this.clock();
    this.checkNotPaused(now);
    try {
      // The first poll must precede reads: rows read earlier would be taken for newer than they are.
      if (this.lastChange === undefined) await (this.polling ?? this.poll());
      if (this.lastChange === undefined) throw this.failure ?? new Error("it does not answer");
      this.queriedIds = ids;
      const rows = await this.database.withDeadline(LOOKUP_TIMEOUT, (ask) => ask(SELECT, [...ids].join(",")));
      this.answeredAt = now;
      return new Map(rows.map((row) => this.cacheNewest(row)));
    } catch (cause) {
      this.pause(cause, this.clock());
      throw keyStoreUnavailable(cause);
    } finally {
      this.queriedIds = new Set();
    }
  }

  /** Caches a row, unless a later one was seen while it was read. */
  private cacheNewest(row: PostgresRow): [string, StoredKey] {
    const key = new StoredKey(row);
    const { id } = key.record;
    const known = this.cache.get(id);
    if (known && known.changed >= key.changed) return [id, known];
    this.cacheKey(id, key);
    return [id, key];
  }
}

const SELECT = "select * from key where id = any(string_to_array(?::text, ','))";

/** Finds a key by id, even if revoked, or by its current name. */
async function findStored(ask: PostgresQuery, idOrName: string): Promise<KeyRecord | undefined> {
  const [row] = await ask(
    "select * from key where id = ?::text or (name = ?::text and revoked is null) order by id = ?::text desc limit 1",
    ...[idOrName, idOrName, idOrName],
  );
  return row && rowToKeyRecord(row);
}
