import { hash } from "node:crypto";
import { GatewayError, storeUnavailable } from "../core/errors.ts";
import { idIn, looksLikeKey, validKey } from "./key-format.ts";
import { type FileKey, fileRecord, StoredKey } from "./key-rows.ts";
import { type KeyChange, type KeyRecord, Keys } from "./keys.ts";

/** Milliseconds for which keys already seen go on working while the store cannot answer. */
const STALE = 10 * 60_000;
/** Milliseconds for which an id that nobody has is not asked for again. */
const UNKNOWN = 5_000;
/** Milliseconds for which the digest of a key in use is remembered, and how many. */
const MEMORY = 10_000;
const BUSY = 1000;
/** Ids remembered, of keys that there are and of others; beyond, the oldest of the former are forgotten, and all of the latter. */
const REMEMBERED = 20_000;

interface Digest {
  readonly hex: string;
  readonly bytes: Buffer;
}

/** A key that the store has to be asked for. */
interface UnansweredKey {
  readonly id: string;
  readonly digest: Digest;
  /** The id is somebody's, but this is not the key that was remembered. */
  readonly known: boolean;
}

/**
 * Keys of gateway.yaml and what is remembered of those in a store: a key that was seen before is found without the store,
 * and while that is down. Where the store is, and how it tells of changes, is for each to say.
 */
export abstract class RememberedKeys extends Keys {
  protected readonly known = new Map<string, StoredKey>();
  /** Milliseconds of the clock when the store last said anything. */
  protected answeredAt = Number.NEGATIVE_INFINITY;
  private fileKeys = new Map<string, KeyRecord>();
  /** Until when an id is taken for unknown; and one that is known, for one whose further wrong keys are not looked into. */
  private readonly unknown = new Map<string, number>();
  private readonly wrong = new Map<string, number>();
  private readonly nobody = new StoredKey(NOBODYS);
  /** Digests of keys that are in use, so that a busy key is not hashed a thousand times a second; never kept for long. */
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

  /** Makes a key named `first` where there is none at all, in gateway.yaml or in the store; undefined where there is. */
  abstract ensureFirstKey(): Promise<string | undefined>;

  /** Takes the keys of a newly loaded gateway.yaml in place of those of the last one. */
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

  /** Forgets what it remembered. */
  override close(): void {
    this.listeners.clear();
    this.known.clear();
    this.unknown.clear();
    this.wrong.clear();
    this.digests.clear();
  }

  /** Whether anybody wants to hear of changes. */
  protected get watched(): boolean {
    return this.listeners.size > 0;
  }

  protected get inFile(): readonly KeyRecord[] {
    return [...this.fileKeys.values()];
  }

  /**
   * What memory says of a presented key. Text that cannot be a key, and one that was found wrong a moment ago, is nobody's.
   * @param fresh brings memory up to date, before it is asked about a key of the store
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
    // An id that nobody has takes as long as one that somebody has.
    const opened = (known ?? this.nobody).opened(digest.bytes);
    if (opened || !validKey(presented)) return { record: opened };
    const refused = known ? this.wrong : this.unknown;
    if ((refused.get(id) ?? 0) > now) return { record: undefined };
    return { id, digest, known: known !== undefined };
  }

  /** Remembers what came of a key that was asked for. */
  protected asked(presented: string, { id, digest, known }: UnansweredKey, found: unknown, now: number): void {
    if (found) this.digests.set(presented, digest);
    else if (known || !this.known.has(id)) keepUntil(known ? this.wrong : this.unknown, id, now + UNKNOWN);
  }

  /** A key that was seen before, as long as the store has not been silent for too long. */
  protected remembered(id: string, now: number): StoredKey | undefined {
    return now - this.answeredAt <= STALE ? this.known.get(id) : undefined;
  }

  protected remember(id: string, key: StoredKey): void {
    if (this.known.size >= REMEMBERED)
      for (const oldest of [...this.known.keys()].slice(0, 100)) this.known.delete(oldest);
    this.known.set(id, key);
  }

  /** A key has changed, which is remembered where it was before, and told. */
  protected changed(key: StoredKey): void {
    const { id, revoked, disabled } = key.record;
    this.unknown.delete(id);
    if (this.known.has(id)) this.known.set(id, key);
    this.tell({ id, kind: revoked !== undefined ? "revoked" : disabled !== undefined ? "disabled" : "changed" });
  }

  /** @throws GatewayError invalid_field for a name that is none, or that a key of gateway.yaml has */
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
   * Looking a digest up in a map leaks no useful time: nobody can choose the digest of a text. Nor can anybody choose its
   * hash in V8's maps, which is seeded anew in each process.
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

/** What is said of a name that another key holds. */
export const nameTaken = (name: string): GatewayError =>
  new GatewayError("invalid_field", {
    status: 409,
    param: "name",
    message: `There is a key named ${name} already.`,
    hint: "Choose another name, or revoke that key first.",
  });

/** What is said while nobody knows whether a key is right. */
export const storeSilent = (cause: unknown): GatewayError =>
  storeUnavailable("keys", "Whether the key is right is not known, as the gateway's key store cannot answer.", cause);

function keepUntil(until: Map<string, number>, id: string, time: number): void {
  if (until.size >= REMEMBERED) until.clear();
  until.set(id, time);
}

/** What stands in for a key of an id that nobody has. */
const NOBODYS = {
  ...{ id: "", name: "", hash: "0".repeat(64), created: 0, models: null, paths: null, addresses: null, group: null },
  ...{ owner: null, tags: null, expires: null, disabled: null, revoked: null, old_hash: null, old_until: null },
  changed: 0,
};
