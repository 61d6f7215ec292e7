import { hash } from "node:crypto";
import type { SQLInputValue, StatementSync } from "node:sqlite";
import { GatewayError } from "../core/errors.ts";
import { idIn, looksLikeKey, newKey, validKey } from "./key-format.ts";
import { columnsOf, type FileKey, fileRecord, StoredKey, storedRecord } from "./key-rows.ts";
import { type IssuedKey, type KeyChange, type KeyEdit, type KeyRecord, Keys, type NewKey } from "./keys.ts";
import type { Database } from "./sqlite.ts";

/** Milliseconds for which another process's change may stay unseen, while keys come and while none do. */
const POLL = 100;
const WATCH = 250;
/** Milliseconds for which keys already seen go on working while the store cannot answer. */
const STALE = 10 * 60_000;
/** Milliseconds for which an id that nobody has is not asked for again. */
const UNKNOWN = 5_000;
/** Milliseconds without a question to a store that could not answer: each may keep the event loop waiting. */
const PAUSE = 250;
/** Milliseconds for which the digest of a key in use is remembered, and how many. */
const MEMORY = 10_000;
const BUSY = 1000;
/** Ids remembered, of keys that there are and of others; beyond, the oldest of the former are forgotten, and all of the latter. */
const REMEMBERED = 20_000;

interface Digest {
  readonly hex: string;
  readonly bytes: Buffer;
}

/**
 * Keys in SQLite, beside those of gateway.yaml. `find` is synchronous: about a microsecond for a key seen before. What
 * other processes change is found by the number that each change of a key bears.
 */
export class SqliteKeys extends Keys {
  private fileKeys = new Map<string, KeyRecord>();
  private readonly known = new Map<string, StoredKey>();
  /** Until when an id is taken for unknown; and one that is known, for one whose further wrong keys are not looked into. */
  private readonly unknown = new Map<string, number>();
  private readonly wrong = new Map<string, number>();
  private readonly nobody = new StoredKey(NOBODYS);
  /** Digests of keys that are in use, so that a busy key is not hashed a thousand times a second; never kept for long. */
  private readonly digests = new Map<string, Digest>();
  private digestsSince = 0;
  private readonly listeners = new Set<(change: KeyChange) => void>();
  private timer: NodeJS.Timeout | undefined;
  private readonly select: StatementSync;
  private readonly later: StatementSync;
  private readonly othersChanges: StatementSync;
  private version = -1;
  private ownChanges: number;
  /** The number of the last change that was seen. */
  private seen: number;
  private askedAt = Number.NEGATIVE_INFINITY;
  private answeredAt = Number.NEGATIVE_INFINITY;
  private pausedUntil = Number.NEGATIVE_INFINITY;

  /** @param clock monotonic milliseconds; a test may bring its own */
  constructor(
    private readonly database: Database,
    fileKeys: readonly FileKey[] = [],
    private readonly clock: () => number = () => performance.now(),
  ) {
    super();
    this.select = database.prepare("select * from key where id = ?");
    this.later = database.prepare("select * from key where changed > ? order by changed");
    this.othersChanges = database.prepare("pragma data_version");
    this.seen = Number(database.prepare("select ifnull(max(changed), 0) as last from key").get()?.["last"]);
    this.ownChanges = database.keyChanges;
    this.adopt(fileKeys);
  }

  /** Takes the keys of a newly loaded gateway.yaml in place of those of the last one. */
  adopt(fileKeys: readonly FileKey[]): void {
    const before = this.fileKeys;
    this.fileKeys = new Map(fileKeys.flatMap((entry) => fileRecord(entry)));
    this.digests.clear();
    for (const { id, hash } of before.values()) if (!this.fileKeys.has(hash)) this.tell({ id, kind: "revoked" });
  }

  override find(presented: string): KeyRecord | undefined {
    const now = this.clock();
    const digest = this.digestOf(presented, now);
    const inFile = this.fileKeys.get(digest.hex);
    if (inFile) return inFile;
    const id = idIn(presented);
    if (id === undefined) return undefined;
    if (now - this.askedAt >= POLL || this.ownChanges !== this.database.keyChanges) this.look(now);
    const known = this.remembered(id, now);
    const opened = known ? known.opened(digest.bytes) : this.nobody.opened(digest.bytes);
    if (opened || !validKey(presented)) return opened;
    // Of an id that somebody has, a wrong key takes as long as one of an id that nobody has.
    const refused = known ? this.wrong : this.unknown;
    if ((refused.get(id) ?? 0) > now) return undefined;
    // It may have been rotated a moment ago.
    this.look(now);
    const found =
      this.remembered(id, now)?.opened(digest.bytes) ?? this.ask(known ? NOBODY : id, now)?.opened(digest.bytes);
    if (found) this.digests.set(presented, digest);
    else if (known || !this.known.has(id)) keepUntil(refused, id, now + UNKNOWN);
    return found;
  }

  override watch(listener: (change: KeyChange) => void): () => void {
    this.listeners.add(listener);
    this.timer ??= setInterval(() => this.look(this.clock()), WATCH).unref();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.rest();
    };
  }

  override async create(wanted: NewKey): Promise<IssuedKey> {
    return this.change(() => this.insert(wanted));
  }

  /** Makes a key named `first` where there is none at all, in gateway.yaml or here; undefined where there is. */
  async ensureFirstKey(): Promise<string | undefined> {
    if (this.fileKeys.size > 0) return undefined;
    const any = this.database.prepare("select 1 from key limit 1");
    if (any.get()) return undefined;
    return this.change(() => (any.get() ? undefined : this.insert({ name: "first" }).key));
  }

  override async list(): Promise<KeyRecord[]> {
    const rows = this.database.prepare("select * from key order by rowid").all();
    return [...this.fileKeys.values(), ...rows.map(storedRecord)];
  }

  override async show(idOrName: string): Promise<KeyRecord | undefined> {
    return [...this.fileKeys.values()].find(({ id }) => id === idOrName) ?? this.stored(idOrName);
  }

  override async edit(idOrName: string, edit: KeyEdit): Promise<KeyRecord | undefined> {
    return this.change(() => {
      const found = this.stored(idOrName);
      if (!found || found.revoked !== undefined) return undefined;
      if (typeof edit.name === "string" && edit.name !== found.name) this.checkName(edit.name);
      const { columns, values } = columnsOf(edit);
      return this.update(found.id, columns, values);
    });
  }

  override async rotate(idOrName: string, overlap: number): Promise<IssuedKey | undefined> {
    return this.change(() => {
      const found = this.stored(idOrName);
      if (!found || found.revoked !== undefined) return undefined;
      const { key } = newKey(found.id);
      const old = overlap > 0 ? [found.hash, Date.now() + overlap] : [null, null];
      const record = this.update(found.id, ["hash", "old_hash", "old_until"], [hash("sha256", key), ...old]);
      return record && { key, record };
    });
  }

  override async disable(idOrName: string): Promise<KeyRecord | undefined> {
    return this.switch(idOrName, Date.now());
  }

  override async enable(idOrName: string): Promise<KeyRecord | undefined> {
    return this.switch(idOrName, null);
  }

  /** One that was revoked before keeps its time. */
  override async revoke(idOrName: string): Promise<boolean> {
    return this.change(() => {
      const found = this.stored(idOrName);
      if (!found) return false;
      if (found.revoked === undefined) this.update(found.id, ["revoked"], [Date.now()]);
      return true;
    });
  }

  /** Forgets what it remembered. The database stays open: the ledger shares it. */
  override close(): void {
    this.listeners.clear();
    this.rest();
    this.known.clear();
    this.unknown.clear();
    this.wrong.clear();
    this.digests.clear();
  }

  private rest(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private switch(idOrName: string, disabled: number | null): Promise<KeyRecord | undefined> {
    return this.change(() => {
      const found = this.stored(idOrName);
      if (!found || found.revoked !== undefined) return undefined;
      // One that is switched off stays so since then.
      if ((found.disabled === undefined) === (disabled === null)) return found;
      return this.update(found.id, ["disabled"], [disabled]);
    });
  }

  /** By id, a revoked one too, or by the name that it holds now. */
  private stored(idOrName: string): KeyRecord | undefined {
    const row =
      this.select.get(idOrName) ??
      this.database.prepare("select * from key where name = ? and revoked is null").get(idOrName);
    return row && storedRecord(row);
  }

  /** Changes keys so that a power cut cannot bring a revoked one back, and every SqliteKeys of this process sees it. */
  private async change<T>(work: () => T): Promise<T> {
    try {
      return await this.database.durably(work);
    } finally {
      this.database.keyChanges++;
      if (this.listeners.size > 0) this.look(this.clock());
    }
  }

  private update(id: string, columns: readonly string[], values: readonly SQLInputValue[]): KeyRecord | undefined {
    const sets = [...columns.map((column) => `${column} = ?`), `changed = ${NEXT}`].join(", ");
    this.database.prepare(`update key set ${sets} where id = ?`).run(...values, id);
    return this.stored(id);
  }

  private insert(wanted: NewKey): IssuedKey {
    this.checkName(wanted.name);
    const { key, id } = newKey();
    const { columns, values } = columnsOf(wanted);
    const all = ["hash", "id", "created", ...columns];
    this.database
      .prepare(`insert into key (${all.join(", ")}, changed) values (${all.map(() => "?").join(", ")}, ${NEXT})`)
      .run(hash("sha256", key), id, Date.now(), ...values);
    return { key, record: this.stored(id) as KeyRecord };
  }

  /** @throws GatewayError invalid_field for a name that is none, or somebody else's */
  private checkName(name: string): void {
    if (!/^[^\p{C}\s]([^\p{C}]{0,98}[^\p{C}\s])?$/u.test(name) || looksLikeKey(name))
      throw new GatewayError("invalid_field", {
        param: "name",
        message: "This is no name for a key.",
        hint: "Use 1 to 100 characters without control characters, that are not a key themselves.",
      });
    const taken = this.database.prepare("select 1 from key where name = ? and revoked is null").get(name);
    if (taken || [...this.fileKeys.values()].some((record) => record.name === name))
      throw new GatewayError("invalid_field", {
        status: 409,
        param: "name",
        message: `There is a key named ${name} already.`,
        hint: "Choose another name, or revoke that key first.",
      });
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

  /** Finds out whether keys have changed, and what those that are remembered are now. */
  private look(now: number): void {
    this.askedAt = now;
    const own = this.ownChanges !== this.database.keyChanges;
    if (own) {
      this.ownChanges = this.database.keyChanges;
      // Forgotten, not only asked again: what was revoked here stays revoked even if the store goes down now.
      this.known.clear();
    } else if (now < this.pausedUntil) return;
    try {
      const version = Number(this.othersChanges.get()?.["data_version"]);
      if (own || version !== this.version) this.readChanges();
      this.version = version;
      this.answeredAt = now;
    } catch {
      // The store is down. What is known goes on until it is too old.
      this.pausedUntil = now + PAUSE;
    }
  }

  private readChanges(): void {
    for (const row of this.later.all(this.seen)) {
      const key = new StoredKey(row);
      const { id, revoked, disabled } = key.record;
      this.unknown.delete(id);
      if (this.known.has(id)) this.known.set(id, key);
      this.seen = Number(row["changed"]);
      this.tell({ id, kind: revoked !== undefined ? "revoked" : disabled !== undefined ? "disabled" : "changed" });
    }
  }

  private tell(change: KeyChange): void {
    for (const listener of this.listeners) listener(change);
  }

  /** The one place where a presented key meets SQL: by the id of a well-formed key, in a bound parameter. */
  private ask(id: string, now: number): StoredKey | undefined {
    let found: StoredKey | undefined;
    try {
      if (now < this.pausedUntil) throw new Error("it could not a moment ago");
      const row = this.select.get(id);
      found = row && new StoredKey(row);
    } catch (cause) {
      this.pausedUntil = Math.max(this.pausedUntil, now + PAUSE);
      const message = "The key store cannot answer at the moment.";
      throw new GatewayError("internal", { status: 503, message, retryAfter: 5, cause });
    }
    this.answeredAt = now;
    if (found) this.remember(id, found);
    return found;
  }

  /** A key that was seen before, as long as the store has not been silent for too long. */
  private remembered(id: string, now: number): StoredKey | undefined {
    return now - this.answeredAt <= STALE ? this.known.get(id) : undefined;
  }

  private remember(id: string, key: StoredKey): void {
    if (this.known.size >= REMEMBERED)
      for (const oldest of [...this.known.keys()].slice(0, 100)) this.known.delete(oldest);
    this.known.set(id, key);
  }
}

function keepUntil(until: Map<string, number>, id: string, time: number): void {
  if (until.size >= REMEMBERED) until.clear();
  until.set(id, time);
}

/** An id that nobody has, and what stands in for a key of it. */
const NOBODY = "";
const NOBODYS = {
  ...{
    id: NOBODY,
    name: "",
    hash: "0".repeat(64),
    created: 0,
    models: null,
    paths: null,
    addresses: null,
    group: null,
  },
  ...{ owner: null, tags: null, expires: null, disabled: null, revoked: null, old_hash: null, old_until: null },
};

/** The number of the next change. Writers come one after the other. */
const NEXT = "(select ifnull(max(changed), 0) + 1 from key)";
