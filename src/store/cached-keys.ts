import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { GatewayError, storeUnavailable } from "../core/errors.ts";
import { groupAndParents } from "../core/limits.ts";
import type { MaybePromise } from "../core/plugin.ts";
import { isValidKey, looksLikeKey, parseKeyId } from "./key-format.ts";
import {
  type FileKey,
  fileKeyRecords,
  isEditable,
  type KeyColumns,
  keyColumns,
  keyVersion,
  StoredKey,
  successorOf,
} from "./key-rows.ts";
import { type IssuedKey, type KeyChange, type KeyEdit, type KeyRecord, Keys } from "./keys.ts";

/** Milliseconds for which cached keys keep working while the store does not respond. */
const MAX_STALENESS = 10 * 60_000;
/** Milliseconds for which an unknown id is not looked up again. */
const UNKNOWN_TTL = 5_000;
/** Milliseconds for which digests of keys in use are cached, and their maximum number. */
const DIGEST_TTL = 10_000;
const MAX_DIGESTS = 1000;
/** Milliseconds without a query after the store has failed: each takes time, and in SQLite blocks the event loop. */
const FAILURE_PAUSE = 250;
/** Maximum cached ids, of existing keys and of others; beyond it, the oldest existing ones are removed, or all others. */
const MAX_CACHED = 20_000;

interface Digest {
  readonly hex: string;
  readonly bytes: Buffer;
}

/** A key that must be looked up in the store. */
interface PendingKeyLookup {
  readonly id: string;
  readonly digest: Digest;
  /** Whether the id exists in the cache, with another key. */
  readonly known: boolean;
}

/**
 * Keys of gateway.yaml, and a cache of those in a store: a cached key is found without the store, also while that is down.
 * Subclasses implement the store and how changes are noticed.
 */
export abstract class CachedKeys extends Keys {
  protected readonly cache = new Map<string, StoredKey>();
  /** Milliseconds of the clock when the store last responded. */
  protected answeredAt = Number.NEGATIVE_INFINITY;
  /** Groups that are disabled themselves, each with the Unix milliseconds since when. */
  protected disabledGroups: ReadonlyMap<string, number> = new Map();
  /** The error of the store's last failure. */
  protected failure: unknown;
  private pausedUntil = Number.NEGATIVE_INFINITY;
  private fileKeys = new Map<string, KeyRecord>();
  /** Until when an id counts as unknown; and until when further wrong keys of a known id are not looked up. */
  private readonly unknownUntil = new Map<string, number>();
  private readonly wrongUntil = new Map<string, number>();
  /** As many as there may be keys in use: a single one would be in the processor's cache always, which can be timed. */
  private readonly placeholders = Array.from({ length: 64 }, () => new StoredKey(PLACEHOLDER_ROW));
  /** Digests of keys in use, so that a busy key is not hashed a thousand times per second; kept only briefly. */
  private readonly digests = new Map<string, Digest>();
  private digestsSince = 0;
  private readonly listeners = new Set<(change: KeyChange) => void>();

  /** @param clock monotonic milliseconds */
  protected constructor(
    fileKeys: readonly FileKey[],
    protected readonly clock: () => number,
  ) {
    super();
    this.replaceFileKeys(fileKeys);
  }

  /** Creates a key named `first` if there is no key in gateway.yaml or the store; undefined if there is one. */
  abstract ensureFirstKey(): Promise<string | undefined>;

  /** Replaces the keys of gateway.yaml with those of a newly loaded one. */
  replaceFileKeys(fileKeys: readonly FileKey[]): void {
    const before = this.fileKeys;
    this.fileKeys = new Map(fileKeys.flatMap((entry) => fileKeyRecords(entry)));
    this.digests.clear();
    for (const record of before.values()) {
      const { id, hash } = record;
      const now = this.fileKeys.get(hash);
      if (!now) this.notify({ id, kind: "revoked" });
      else if (!isDeepStrictEqual(now, record))
        this.notify({ id, kind: "changed", secrets: new Map([[hash, now.expires ?? Number.POSITIVE_INFINITY]]) });
    }
  }

  override watch(listener: (change: KeyChange) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  override disable(idOrName: string): Promise<KeyRecord | undefined> {
    return this.setDisabled(idOrName, Date.now());
  }

  override enable(idOrName: string): Promise<KeyRecord | undefined> {
    return this.setDisabled(idOrName, null);
  }

  /** Sets the time since which a key is disabled; null: it is not. A key that is disabled already keeps its time. */
  private setDisabled(idOrName: string, disabled: number | null): Promise<KeyRecord | undefined> {
    return this.changeKey(idOrName, (found) => {
      if (found.revoked !== undefined) return undefined;
      return (found.disabled === undefined) === (disabled === null) ? {} : { disabled };
    });
  }

  override edit(idOrName: string, edit: KeyEdit, version?: string): Promise<KeyRecord | undefined> {
    return this.changeKey(idOrName, (found) => {
      if (!isEditable(found, edit)) return undefined;
      if (version !== undefined && version !== keyVersion(found)) throw changedMeanwhile(found.name);
      return keyColumns(edit);
    });
  }

  override async rotate(
    idOrName: string,
    overlap: number,
    deliver?: (issued: IssuedKey) => void,
  ): Promise<IssuedKey | undefined> {
    let key = "";
    const columnsOf = (found: KeyRecord) => {
      if (found.revoked !== undefined) return undefined;
      const successor = successorOf(found, overlap);
      key = successor.key;
      return successor.columns;
    };
    const record = await this.changeKey(idOrName, columnsOf, (record) => deliver?.({ key, record }));
    return record && { key, record };
  }

  /** A key that was revoked before keeps the time of that. */
  override async revoke(idOrName: string): Promise<boolean> {
    const revoked = await this.changeKey(idOrName, ({ revoked }) =>
      revoked === undefined ? { revoked: Date.now() } : {},
    );
    return revoked !== undefined;
  }

  /**
   * Changes a key of the store, and returns it; undefined if there is none.
   * @param columnsOf returns what changes; undefined: the key may not be changed
   * @param deliver is called before the change is committed
   */
  protected abstract changeKey(
    idOrName: string,
    columnsOf: (found: KeyRecord) => KeyColumns | undefined,
    deliver?: (changed: KeyRecord) => void,
  ): Promise<KeyRecord | undefined>;

  override disabledGroup(group: string): MaybePromise<string | undefined> {
    if (this.disabledGroups.size === 0) return undefined;
    return groupAndParents(group).find((each) => this.disabledGroups.has(each));
  }

  /** Clears the cache. */
  override close(): void {
    this.listeners.clear();
    this.cache.clear();
    this.unknownUntil.clear();
    this.wrongUntil.clear();
    this.digests.clear();
  }

  /** Whether there are listeners for changes. */
  protected get hasListeners(): boolean {
    return this.listeners.size > 0;
  }

  protected get fileRecords(): readonly KeyRecord[] {
    return [...this.fileKeys.values()];
  }

  /**
   * Looks a presented key up in memory. Text that cannot be a key, or was found wrong recently, gives no record.
   * @param refresh updates the cache, before it is used for a key of the store
   */
  protected lookUpCached(
    presented: string,
    now: number,
    refresh: () => void,
  ): { record: KeyRecord | undefined } | PendingKeyLookup {
    const kept = this.digestOf(presented, now);
    const digest = kept ?? newDigest(presented);
    const record = this.fileKeys.get(digest.hex);
    if (record && !kept) this.digests.set(presented, digest);
    const id = parseKeyId(presented);
    if (record || id === undefined) return { record };
    refresh();
    const known = this.cachedKey(id, now);
    // Takes as long for an unknown id as for a known one: both are looked up and compared once.
    const placeholder = this.placeholderFor(id);
    const opened = (known ?? placeholder).verify(digest.bytes);
    if (opened && !kept) this.digests.set(presented, digest);
    if (opened || !isValidKey(presented)) return { record: opened };
    const refused = known ? this.wrongUntil : this.unknownUntil;
    if ((refused.get(id) ?? 0) > now) return { record: undefined };
    return { id, digest, known: known !== undefined };
  }

  /** Records the result of a lookup. */
  protected recordLookup(
    presented: string,
    { id, digest, known }: PendingKeyLookup,
    found: unknown,
    now: number,
  ): void {
    if (found) this.digests.set(presented, digest);
    else if (known || !this.cache.has(id))
      setExpiry(known ? this.wrongUntil : this.unknownUntil, id, now + UNKNOWN_TTL);
  }

  /** Makes no query for a moment, as the store has failed. */
  protected pause(cause: unknown, now: number): void {
    this.failure = cause;
    this.pausedUntil = now + FAILURE_PAUSE;
  }

  protected isPaused(now: number): boolean {
    return now < this.pausedUntil;
  }

  /** @throws GatewayError 503 during that pause, which lookups do not extend */
  protected checkNotPaused(now: number): void {
    if (this.isPaused(now)) throw keyStoreUnavailable(this.failure);
  }

  /** Returns a cached key, unless the store has not responded for too long. */
  protected cachedKey(id: string, now: number): StoredKey | undefined {
    return now - this.answeredAt <= MAX_STALENESS ? this.cache.get(id) : undefined;
  }

  protected cacheKey(id: string, key: StoredKey): void {
    if (this.cache.size >= MAX_CACHED)
      for (const oldest of [...this.cache.keys()].slice(0, 100)) this.cache.delete(oldest);
    this.cache.set(id, key);
  }

  /** Updates a changed key in the cache, and notifies listeners. */
  protected applyChange(key: StoredKey): void {
    const { id, revoked, disabled } = key.record;
    this.unknownUntil.delete(id);
    const cached = this.cache.get(id);
    // A look-up has found a later change, which will be reported too.
    if (cached && cached.changed > key.changed) return;
    if (cached) this.cache.set(id, key);
    if (revoked !== undefined) this.notify({ id, kind: "revoked" });
    else this.notify(disabled !== undefined ? { id, kind: "disabled" } : { id, kind: "changed", secrets: key.secrets });
  }

  /** Replaces the disabled groups, and notifies listeners of further ones. */
  protected applyDisabledGroups(rows: readonly Record<string, unknown>[]): void {
    const before = this.disabledGroups;
    this.disabledGroups = disabledGroupsOf(rows);
    for (const group of this.disabledGroups.keys()) if (!before.has(group)) this.notify({ group });
  }

  /** @throws GatewayError invalid_field for a name that is invalid, or used by a key of gateway.yaml */
  protected checkName(name: string): void {
    if (!/^[^\p{C}\s]([^\p{C}]{0,98}[^\p{C}\s])?$/u.test(name) || looksLikeKey(name))
      throw new GatewayError("invalid_field", {
        param: "name",
        message: "This is no name for a key.",
        hint: "Use 1 to 100 characters without control characters, that are not a key themselves.",
      });
    if (this.fileRecords.some((record) => record.name === name)) throw nameTaken(name);
  }

  /**
   * Returns the digest of a text that was a key before.
   * Looking a digest up in a map leaks no useful timing: nobody can choose the digest of a text, nor its hash in V8's maps,
   * which have a random seed in each process.
   */
  private digestOf(presented: string, now: number): Digest | undefined {
    if (now - this.digestsSince > DIGEST_TTL || this.digests.size >= MAX_DIGESTS) {
      this.digests.clear();
      this.digestsSince = now;
    }
    return this.digests.get(presented);
  }

  /** Returns the same one for the same id, as a key is the same for its id. */
  private placeholderFor(id: string): StoredKey {
    const sum = id.charCodeAt(0) + 7 * id.charCodeAt(1);
    return this.placeholders[sum % this.placeholders.length] as StoredKey;
  }

  private notify(change: KeyChange): void {
    for (const listener of this.listeners) listener(change);
  }
}

/** The query for groups that are disabled. */
export const DISABLED_GROUPS = "select name, disabled from key_group where disabled is not null order by name";

/** Returns the groups of rows of that query, each with the Unix milliseconds since when. */
export const disabledGroupsOf = (rows: readonly Record<string, unknown>[]): ReadonlyMap<string, number> =>
  new Map(rows.map(({ name, disabled }) => [String(name), Number(disabled)]));

/** Disables a group, which keeps the time of that if it was disabled before. */
export const DISABLE_GROUP = `insert into key_group (name, disabled, changed) values (?, ?, ?)
  on conflict (name) do update set disabled = excluded.disabled, changed = excluded.changed where key_group.disabled is null`;
export const ENABLE_GROUP = "update key_group set disabled = null, changed = ? where name = ? and disabled is not null";

/** Finds a key that a name means already, as its name or as its id: whatever changes keys takes both. */
export const NAMED = "select 1 from key where (name = ? and revoked is null) or id = ?";

/** The error for a name that another key has, or has as its id. */
export const nameTaken = (name: string): GatewayError =>
  new GatewayError("invalid_field", {
    status: 409,
    param: "name",
    message: `There is a key named ${name} already, or with that id.`,
    hint: "Choose another name, or revoke that key first.",
  });

const changedMeanwhile = (name: string): GatewayError =>
  new GatewayError("invalid_field", {
    status: 409,
    param: "version",
    message: `The key ${name} was changed by somebody else meanwhile.`,
    hint: "Load it again, and repeat the change.",
  });

/** The error while keys cannot be verified. */
export const keyStoreUnavailable = (cause: unknown): GatewayError =>
  storeUnavailable("keys", "Whether the key is right is not known, as the gateway's key store cannot answer.", cause);

function newDigest(presented: string): Digest {
  const bytes = hash("sha256", presented, "buffer");
  return { hex: bytes.toString("hex"), bytes };
}

function setExpiry(until: Map<string, number>, id: string, time: number): void {
  if (until.size >= MAX_CACHED) until.clear();
  until.set(id, time);
}

/** Placeholder for the key of an unknown id. */
const PLACEHOLDER_ROW = {
  ...{ id: "", name: "", hash: "0".repeat(64), created: 0, models: null, paths: null, addresses: null, group: null },
  ...{ owner: null, tags: null, expires: null, disabled: null, revoked: null, old_hash: null, old_until: null },
  changed: 0,
};
