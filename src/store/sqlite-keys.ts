import { hash } from "node:crypto";
import type { SQLOutputValue, StatementSync } from "node:sqlite";
import { GatewayError } from "../core/errors.ts";
import { looksLikeKey, newKey, validKey } from "./key-format.ts";
import { type KeyRecord, Keys, type NewKey } from "./keys.ts";
import type { Database } from "./sqlite.ts";

/** A key that gateway.yaml names, by itself or by its SHA-256 in hex. */
export interface FileKey {
  name: string;
  key?: string;
  hash?: string;
  models?: readonly string[];
  /** What it may spend. */
  budget?: object;
  /** Unix milliseconds. */
  expires?: number;
}

/** Milliseconds for which another process's change may stay unseen. */
const POLL = 100;
/** Milliseconds for which keys already seen go on working while the store cannot answer. */
const STALE = 10 * 60_000;
/** Milliseconds for which the digest of a key in use is remembered, and how many. */
const MEMORY = 10_000;
const BUSY = 1000;
/** Keys remembered, known and unknown ones alike, before memory is emptied and starts anew. */
const REMEMBERED = 20_000;

/** What the store said of a hash, and the round of changes in which it said so. */
interface KeyRow {
  record: KeyRecord | undefined;
  round: number;
}

/** Keys in SQLite, beside those of gateway.yaml. `find` is synchronous: about a microsecond for a key seen before. */
export class SqliteKeys extends Keys {
  private fileKeys = new Map<string, KeyRecord>();
  private readonly answers = new Map<string, KeyRow>();
  /** Digests of keys that are in use, so that a busy key is not hashed a thousand times a second; never kept for long. */
  private readonly digests = new Map<string, string>();
  private digestsSince = 0;
  private readonly select: StatementSync;
  private readonly othersChanges: StatementSync;
  private round = 0;
  private version = -1;
  private ownChanges = 0;
  private askedAt = Number.NEGATIVE_INFINITY;
  private answeredAt = Number.NEGATIVE_INFINITY;

  /** @param clock monotonic milliseconds; a test may bring its own */
  constructor(
    private readonly database: Database,
    fileKeys: readonly FileKey[] = [],
    private readonly clock: () => number = () => performance.now(),
  ) {
    super();
    this.select = database.prepare("select * from key where hash = ?");
    this.othersChanges = database.prepare("pragma data_version");
    this.adopt(fileKeys);
  }

  /** Takes the keys of a newly loaded gateway.yaml in place of those of the last one. */
  adopt(fileKeys: readonly FileKey[]): void {
    this.fileKeys = new Map(fileKeys.flatMap((entry) => fileRecord(entry)));
  }

  override find(presented: string): KeyRecord | undefined {
    const now = this.clock();
    const digest = this.digestOf(presented, now);
    const known = this.fileKeys.get(digest);
    if (known) return known;
    if (!this.answers.has(digest) && !validKey(presented)) return undefined;
    if (now - this.askedAt >= POLL || this.ownChanges !== this.database.keyChanges) this.notice(now);
    const answer = this.answers.get(digest);
    if (answer?.round === this.round && now - this.answeredAt <= STALE) return answer.record;
    return this.ask(digest, answer, now);
  }

  override async create(wanted: NewKey): Promise<{ key: string; record: KeyRecord }> {
    checkName(wanted.name);
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

  /** A name stands for the key that holds it now; an id also for a key revoked before, whose time then stays as it was. */
  override async revoke(idOrName: string): Promise<boolean> {
    return this.change(() => {
      const byId = this.database.prepare("update key set revoked = ifnull(revoked, ?) where id = ?");
      if (byId.run(Date.now(), idOrName).changes > 0) return true;
      const byName = this.database.prepare("update key set revoked = ? where name = ? and revoked is null");
      return byName.run(Date.now(), idOrName).changes > 0;
    });
  }

  /** Forgets what it remembered. The database stays open: the ledger shares it. */
  override close(): void {
    this.answers.clear();
    this.digests.clear();
  }

  /** Changes keys so that a power cut cannot bring a revoked one back, and every SqliteKeys of this process sees it. */
  private change<T>(work: () => T): Promise<T> {
    return this.database.durably(work).finally(() => this.database.keyChanges++);
  }

  private insert({ name, models, expires }: NewKey): { key: string; record: KeyRecord } {
    const taken = this.database.prepare("select 1 from key where name = ? and revoked is null").get(name);
    if (taken || [...this.fileKeys.values()].some((record) => record.name === name)) {
      throw new GatewayError("invalid_field", {
        status: 409,
        param: "name",
        message: `There is a key named ${name} already.`,
        hint: "Choose another name, or revoke that key first.",
      });
    }
    const { key, id } = newKey();
    const created = Date.now();
    const digest = hash("sha256", key);
    this.database
      .prepare("insert into key (hash, id, name, models, created, expires) values (?, ?, ?, ?, ?, ?)")
      .run(digest, id, name, models ? JSON.stringify(models) : null, created, expires ?? null);
    const record: KeyRecord = { id, name, hash: digest, source: "store", created };
    if (models) record.models = models;
    if (expires !== undefined) record.expires = expires;
    return { key, record };
  }

  /**
   * Looking a digest up in a map leaks no useful time: nobody can choose the digest of a text. Nor can anybody choose its
   * hash in V8's maps, which is seeded anew in each process.
   */
  private digestOf(presented: string, now: number): string {
    if (now - this.digestsSince > MEMORY || this.digests.size >= BUSY) {
      this.digests.clear();
      this.digestsSince = now;
    }
    let digest = this.digests.get(presented);
    if (digest === undefined) {
      digest = hash("sha256", presented);
      if (this.fileKeys.has(digest) || this.answers.get(digest)?.record) this.digests.set(presented, digest);
    }
    return digest;
  }

  /** Begins a new round when keys may have changed; answers of earlier rounds are then asked again. */
  private notice(now: number): void {
    this.askedAt = now;
    if (this.ownChanges !== this.database.keyChanges) {
      this.ownChanges = this.database.keyChanges;
      // Forgotten, not only asked again: what was revoked here stays revoked even if the store goes down now.
      this.answers.clear();
      this.round++;
    }
    try {
      const version = Number(this.othersChanges.get()?.["data_version"]);
      if (version !== this.version) this.round++;
      this.version = version;
      this.answeredAt = now;
    } catch {
      // The store is down. Answers of this round go on until they are too old.
    }
  }

  /** The one place where a presented key meets SQL: as the hash of a well-formed key, in a bound parameter. */
  private ask(digest: string, last: KeyRow | undefined, now: number): KeyRecord | undefined {
    let record: KeyRecord | undefined;
    try {
      const row = this.select.get(digest);
      record = row && storedRecord(row);
    } catch (cause) {
      if (last?.record && now - this.answeredAt <= STALE) return last.record;
      throw new GatewayError("internal", {
        status: 503,
        message: "The key store cannot answer at the moment.",
        retryAfter: 5,
        cause,
      });
    }
    this.answeredAt = now;
    if (this.answers.size >= REMEMBERED) this.answers.clear();
    this.answers.set(digest, { record, round: this.round });
    return record;
  }
}

/** A key of gateway.yaml goes by its name; one without key and hash, as when its variable is not set, lets nobody in. */
function fileRecord(entry: FileKey): [string, KeyRecord][] {
  const hex = entry.hash?.toLowerCase() ?? (entry.key ? hash("sha256", entry.key) : undefined);
  if (!hex) return [];
  const record: KeyRecord = { id: entry.name, name: entry.name, hash: hex, source: "file", created: 0 };
  if (entry.models) record.models = entry.models;
  if (entry.budget) record.budgeted = true;
  if (entry.expires !== undefined) record.expires = entry.expires;
  return [[hex, record]];
}

function storedRecord(row: Record<string, SQLOutputValue>): KeyRecord {
  const record: KeyRecord = {
    id: String(row["id"]),
    name: String(row["name"]),
    hash: String(row["hash"]),
    source: "store",
    created: Number(row["created"]),
  };
  if (row["models"] !== null) record.models = JSON.parse(String(row["models"])) as string[];
  if (row["expires"] !== null) record.expires = Number(row["expires"]);
  if (row["revoked"] !== null) record.revoked = Number(row["revoked"]);
  return record;
}

function checkName(name: string): void {
  if (/^[^\p{C}\s]([^\p{C}]{0,98}[^\p{C}\s])?$/u.test(name) && !looksLikeKey(name)) return;
  throw new GatewayError("invalid_field", {
    param: "name",
    message: "This is no name for a key.",
    hint: "Use 1 to 100 characters without control characters, that are not a key themselves.",
  });
}
