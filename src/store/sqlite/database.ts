import { closeSync, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { FileError } from "../../core/errors.ts";
import type { MigrationNumbers } from "../maintenance.ts";
import { makeFolder } from "../make-folder.ts";
import { sleepSync } from "../sleep-sync.ts";
import type { SqlRunner, SqlValue } from "../sql-runner.ts";
import { BUSY, BUSY_TIMEOUT, sqliteCode, toWriteError, unusableStoreError } from "./errors.ts";

const MIGRATIONS = new URL("./migrations/", import.meta.url);
/** Milliseconds that opening may wait for other processes. */
const OPEN_TIMEOUT = 5_000;
/** Milliseconds that one write may block the event loop while another process writes. */
const MAX_BLOCKING = 20;
/**
 * Pages of the WAL after which a commit checkpoints them into the file. With 200, each page took twice as long, and others, who
 * can read and write meanwhile, waited no shorter. So many at once take some 20 ms.
 */
const CHECKPOINT = 1000;
/**
 * The same for a connection that serves requests, beside which a thread writes to the file and nearly always checkpoints first.
 */
export const SERVING_CHECKPOINT = 4000;

/**
 * One SQLite file, shared by keys and ledger. WAL with `synchronous=normal`, unless `durable`: commits survive the death of the
 * process, and a power cut loses at most the last commits, never the file.
 */
export class SqliteDatabase implements SqlRunner {
  /** Increases with every change of keys through this connection, which SQLite's own data_version does not count. */
  keyChanges = 0;
  private readonly sqlite: DatabaseSync;
  private readonly statements = new Map<string, StatementSync>();
  /** What ordinary commits wait for: `normal`, nothing; `full`, the disk. */
  private readonly synchronous: "normal" | "full";
  /** The inode of the open file, in case its name is reused; undefined in memory. */
  readonly inode: number | undefined;
  /** The same of its WAL, which stays while the file is open. */
  private readonly walInode: number | undefined;
  readonly migrated: MigrationNumbers;

  /**
   * Opens the file, creates it (readable by its owner only) if it does not exist, and migrates its schema.
   * @param path a file, or `:memory:`
   * @param durable whether every commit survives a power cut
   * @param checkpoint pages of the WAL after which a commit checkpoints them
   * @param expected the inode of a file opened before: no other file is accepted or created
   * @throws FileError when it cannot be opened, is not ours, or is newer than this program.
   */
  constructor(
    readonly path: string,
    durable = false,
    checkpoint = CHECKPOINT,
    expected?: number,
  ) {
    this.synchronous = durable ? "full" : "normal";
    try {
      if (path !== ":memory:") {
        if (expected !== undefined) checkPlace(path, expected);
        makeFolder(dirname(path));
        createMissing(path);
        this.inode = statSync(path).ino;
      }
      this.sqlite = new DatabaseSync(path, { timeout: OPEN_TIMEOUT });
    } catch (error) {
      throw unusableStoreError(path, error);
    }
    try {
      if (isOfAnotherProgram(this.sqlite)) throw new Error("it belongs to another program; name another file");
      this.enableWal();
      this.sqlite.exec(`pragma synchronous = ${this.synchronous}`);
      // Otherwise SQLite only forgets where a deleted row is: addresses of clients would stay in the file for good.
      this.sqlite.exec("pragma secure_delete = on");
      this.sqlite.exec("pragma journal_size_limit = 67108864");
      this.sqlite.exec(`pragma wal_autocheckpoint = ${checkpoint}`);
      this.migrated = this.migrate();
      this.sqlite.exec(`pragma busy_timeout = ${MAX_BLOCKING}`);
      if (this.inode !== undefined) this.walInode = statSync(walOf(path), { throwIfNoEntry: false })?.ino;
    } catch (error) {
      this.sqlite.close();
      throw unusableStoreError(path, error);
    }
  }

  /**
   * Checks that the file and its WAL still have their names, as nobody would read later writes.
   * @throws FileError if one of them was removed, moved or replaced
   */
  checkFile(): void {
    if (this.inode !== undefined) checkPlace(this.path, this.inode);
    if (this.walInode !== undefined) checkPlace(walOf(this.path), this.walInode);
  }

  prepare(sql: string): StatementSync {
    return this.sqlite.prepare(sql);
  }

  /** Reads at once, also of a file that was removed; waits to write, without blocking, while another process does. */
  async query(text: string, ...values: readonly SqlValue[]): Promise<Record<string, unknown>[]> {
    const statement = this.statements.getOrInsertComputed(text, () => this.prepare(text));
    const run = () => statement.all(...values);
    return text.startsWith("select") ? run() : this.retryWhileBusy(run);
  }

  /** Runs `work` in one write transaction: all of it is committed or, when it throws, nothing. Never waits long. */
  transaction<T>(work: () => T): T {
    this.sqlite.exec("begin immediate");
    try {
      const result = work();
      this.sqlite.exec("commit");
      return result;
    } catch (error) {
      // On a full disk SQLite has already rolled back.
      if (this.sqlite.isTransaction) this.sqlite.exec("rollback");
      throw error;
    }
  }

  /**
   * Runs a transaction like `transaction` that also survives power cuts, and waits, without blocking, while another process
   * writes.
   */
  async durableTransaction<T>(work: () => T): Promise<T> {
    return this.retryWhileBusy(() => {
      this.sqlite.exec("pragma synchronous = full");
      try {
        return this.transaction(work);
      } finally {
        this.sqlite.exec(`pragma synchronous = ${this.synchronous}`);
      }
    });
  }

  /**
   * Retries `work` for some seconds while another process has the file locked.
   * @throws FileError with advice, if the file cannot be written, or was removed, moved or replaced
   */
  async retryWhileBusy<T>(work: () => T): Promise<T> {
    const deadline = performance.now() + BUSY_TIMEOUT;
    for (;;) {
      try {
        this.checkFile();
        return work();
      } catch (error) {
        if (sqliteCode(error) !== BUSY || performance.now() > deadline) throw toWriteError(this.path, error);
      }
      await sleep(MAX_BLOCKING);
    }
  }

  close(): void {
    if (this.sqlite.isOpen) this.sqlite.close();
  }

  /**
   * Switches the file to WAL. Of processes that do so to a new file at once, SQLite refuses all but one without waiting for its
   * timeout, as each of them holds a lock that the others need.
   */
  private enableWal(): void {
    const deadline = performance.now() + OPEN_TIMEOUT;
    for (;;) {
      try {
        this.sqlite.exec("pragma journal_mode = wal");
        return;
      } catch (error) {
        if (sqliteCode(error) !== BUSY || performance.now() > deadline) throw error;
      }
      sleepSync(MAX_BLOCKING);
    }
  }

  /** Runs the new files of `migrations/`, in the order of their numbers. */
  private migrate(): MigrationNumbers {
    const files = migrationFiles();
    const to = files.length;
    if (versionOf(this.sqlite) === to) return { from: to, to };
    return this.transaction(() => {
      // Read again: another process may have migrated while this one waited for the lock.
      const from = versionOf(this.sqlite);
      if (from > to) throw new Error("it was made by a newer version of model-gateway; use that one");
      for (const file of files.slice(from)) this.sqlite.exec(readFileSync(new URL(file, MIGRATIONS), "utf8"));
      this.sqlite.exec(`pragma user_version = ${to}`);
      return { from, to };
    });
  }
}

const migrationFiles = (): string[] =>
  readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith(".sql"))
    .sort();

const versionOf = (sqlite: DatabaseSync): number =>
  Number(sqlite.prepare("pragma user_version").get()?.["user_version"]);

/**
 * Whether a file has tables, but none of this program, which numbers their versions. The tables first: another process may create a
 * store at the same moment, with its version.
 */
const isOfAnotherProgram = (sqlite: DatabaseSync): boolean =>
  sqlite.prepare("select 1 from sqlite_schema limit 1").get() !== undefined && versionOf(sqlite) === 0;

/** Whether a store was made by a newer version of this program, so that this one cannot use it. */
export const isNewer = (sqlite: DatabaseSync): boolean => versionOf(sqlite) > migrationFiles().length;

/**
 * Creates a file for its owner only, if there is none: SQLite gives its -wal and -shm files the same mode. An existing file is never
 * opened: closing it would release the locks of this process's other connections (POSIX advisory locks), whereupon the next
 * process that closes the database would remove the WAL they write to.
 */
function createMissing(path: string): void {
  try {
    closeSync(openSync(path, "ax", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

const walOf = (path: string): string => `${path}-wal`;

/** @throws FileError if a path leads to another file, or to none */
function checkPlace(path: string, inode: number): void {
  if (statSync(path, { throwIfNoEntry: false })?.ino === inode) return;
  throw new FileError(`${path} was removed, moved or replaced; a restart goes on with what is there then`);
}
