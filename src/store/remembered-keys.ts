import { hash } from "node:crypto";
import { GatewayError, storeUnavailable } from "../core/errors.ts";
import { idIn, looksLikeKey, validKey } from "./key-format.ts";
import { type FileKey, fileRecord, StoredKey } from "./key-rows.ts";
import { type KeyChange, type KeyRecord, Keys } from "./keys.ts";

/** Milliseconds for which cached keys keep working while the store does not respond. */
const STALE = 10 * 60_000;
/** Milliseconds for which an unknown id is not looked up again. */
const UNKNOWN = 5_000;
/** Milliseconds for which digests of keys in use are cached, and their maximum number. */
const MEMORY = 10_000;
const BUSY = 1000;
/** Maximum cached ids, of existing keys and of others; beyond it, the oldest existing ones are removed, or all others. */
const REMEMBERED = 20_000;

interface Digest {
  readonly hex: string;
  readonly bytes: Buffer;
}

/** A key that must be looked up in the store. */
interface UnansweredKey {
  readonly id: string;
  readonly digest: Digest;
  /** Whether the id exists in the cache, with another key. */
  readonly known: boolean;
}

/**
 * Keys of gateway.yaml, and a cache of those in a store: a cached key is found without the store, also while that is down.
 * Subclasses implement the store and how changes are noticed.
 */
export abstract class RememberedKeys extends Keys {
  protected readonly known = new Map<string, StoredKey>();
  /** Milliseconds of the clock when the store last responded. */
  protected answeredAt = Number.NEGATIVE_INFINITY;
  private fileKeys = new Map<string, KeyRecord>();
  /** Until when an id counts as unknown; and until when further wrong keys of a known id are not looked up. */
  private readonly unknown = new Map<string, number>();
  private readonly wrong = new Map<string, number>();
  private readonly nobody = new StoredKey(NOBODYS);
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
    this.adopt(fileKeys);
  }

  /** Creates a key named `first` if there is no key in gateway.yaml or the store; undefined if there is one. */
  abstract ensureFirstKey(): Promise<string | undefined>;

  /** Replaces the keys of gateway.yaml with those of a newly loaded one. */
  adopt(fileKeys: readonly FileKey[]): void {
    const before = this.fileKeys;
    this.fileKeys = new Map(fileKeys.flatMap((entry) => fileRecord(entry)));
    this.digests.clear();
    for (const { id, hash } of before.values()) if (!this.fileKeys.has(hash)) this.tell({ id, kind: "revoked" });
  }

  override watch(listener: (change: KeyChange) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Clears the cache. */
  override close(): void {
    this.listeners.clear();
    this.known.clear();
    this.unknown.clear();
    this.wrong.clear();
    this.digests.clear();
  }

  /** Whether there are listeners for changes. */
  protected get watched(): boolean {
    return this.listeners.size > 0;
  }

  protected get inFile(): readonly KeyRecord[] {
    return [...this.fileKeys.values()];
  }

  /**
   * Looks a presented key up in memory. Text that cannot be a key, or was found wrong recently, gives no record.
   * @param fresh updates the cache, before it is used for a key of the store
   */
  protected recall(
    presented: string,
    now: number,
    fresh: () => void,
  ): { record: KeyRecord | undefined } | UnansweredKey {
    const digest = this.digestOf(presented, now);
    const record = this.fileKeys.get(digest.hex);
    const id = idIn(presented);
    if (record || id === undefined) return { record };
    fresh();
    const known = this.remembered(id, now);
    // Takes as long for an unknown id as for a known one.
    const opened = (known ?? this.nobody).opened(digest.bytes);
    if (opened || !validKey(presented)) return { record: opened };
    const refused = known ? this.wrong : this.unknown;
    if ((refused.get(id) ?? 0) > now) return { record: undefined };
    return { id, digest, known: known !== undefined };
  }

  /** Records the result of a lookup. */
  protected asked(presented: string, { id, digest, known }: UnansweredKey, found: unknown, now: number): void {
    if (found) this.digests.set(presented, digest);
    else if (known || !this.known.has(id)) keepUntil(known ? this.wrong : this.unknown, id, now + UNKNOWN);
  }

  /** Returns a cached key, unless the store has not responded for too long. */
  protected remembered(id: string, now: number): StoredKey | undefined {
    return now - this.answeredAt <= STALE ? this.known.get(id) : undefined;
  }

  protected remember(id: string, key: StoredKey): void {
    if (this.known.size >= REMEMBERED)
      for (const oldest of [...this.known.keys()].slice(0, 100)) this.known.delete(oldest);
    this.known.set(id, key);
  }

  /** Updates a changed key in the cache, and notifies listeners. */
  protected changed(key: StoredKey): void {
    const { id, revoked, disabled } = key.record;
    this.unknown.delete(id);
    if (this.known.has(id)) this.known.set(id, key);
    this.tell({ id, kind: revoked !== undefined ? "revoked" : disabled !== undefined ? "disabled" : "changed" });
  }

  /** @throws GatewayError invalid_field for a name that is invalid, or used by a key of gateway.yaml */
  protected checkName(name: string): void {
    if (!/^[^\p{C}\s]([^\p{C}]{0,98}[^\p{C}\s])?$/u.test(name) || looksLikeKey(name))
      throw new GatewayError("invalid_field", {
        param: "name",
        message: "This is no name for a key.",
        hint: "Use 1 to 100 characters without control characters, that are not a key themselves.",
      });
    if (this.inFile.some((record) => record.name === name)) throw nameTaken(name);
  }

  /**
   * Looking a digest up in a map leaks no useful timing: nobody can choose the digest of a text, nor its hash in V8's maps,
   * which have a random seed in each process.
   */
  private digestOf(presented: string, now: number): Digest {
    if (now - this.digestsSince > MEMORY || this.digests.size >= BUSY) {
      this.digests.clear();
      this.digestsSince = now;
    }
    let digest = this.digests.get(presented);
    if (digest === undefined) {
      const bytes = hash("sha256", presented, "buffer");
      digest = { hex: bytes.toString("hex"), bytes };
      const id = idIn(presented);
      if (this.fileKeys.has(digest.hex) || (id !== undefined && this.known.get(id)?.opened(bytes)))
        this.digests.set(presented, digest);
    }
    return digest;
  }

  private tell(change: KeyChange): void {
    for (const listener of this.listeners) listener(change);
  }
}

/** The error for a name used by another key. */
export const nameTaken = (name: string): GatewayError =>
  new GatewayError("invalid_field", {
    status: 409,
    param: "name",
    message: `There is a key named ${name} already.`,
    hint: "Choose another name, or revoke that key first.",
  });

/** The error while keys cannot be verified. */
export const storeSilent = (cause: unknown): GatewayError =>
  storeUnavailable("keys", "Whether the key is right is not known, as the gateway's key store cannot answer.", cause);

function keepUntil(until: Map<string, number>, id: string, time: number): void {
  if (until.size >= REMEMBERED) until.clear();
  until.set(id, time);
}

/** Placeholder for the key of an unknown id. */
const NOBODYS = {
  ...{ id: "", name: "", hash: "0".repeat(64), created: 0, models: null, paths: null, addresses: null, group: null },
  ...{ owner: null, tags: null, expires: null, disabled: null, revoked: null, old_hash: null, old_until: null },
  changed: 0,
};
