import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { FileError } from "../../core/errors.ts";

const MIGRATIONS = new URL("./migrations/", import.meta.url);
/** Milliseconds that opening may wait for other processes. */
const OPENING = 5_000;
/** Milliseconds that one write may block the event loop while another process writes. */
const BLOCKING = 20;
/** Milliseconds for which a write is tried again when another process holds the file. */
const PATIENCE = 5_000;

/**
 * Pages of the journal after which a commit moves them into the file. Few, for nothing else happens meanwhile: 4 ms, where
 * 4,000 pages at once take over 30 ms and, in all, no less work.
 */
const CHECKPOINT = 200;
/** The same of a connection that serves requests, beside which a thread writes to the file: that one is nearly always first. */
export const SERVING_CHECKPOINT = 4000;

const BUSY = 5;
const READ_ONLY = 8;
const IO_ERROR = 10;
const FULL = 13;
const CANNOT_OPEN = 14;

/** SQLite's primary result code of an error that it threw, like 13 for a full disk; undefined for any other error. */
export function sqliteCode(error: unknown): number | undefined {
  if (error instanceof FileError) return sqliteCode(error.cause);
  const code = error instanceof Error && "errcode" in error ? error.errcode : undefined;
  return typeof code === "number" ? code & 0xff : undefined;
}

/**
 * One SQLite file, shared by keys and ledger. WAL with `synchronous=normal`, unless it is asked for more: what was committed
 * survives the death of the process, and a power cut costs at most the last commits, never the file.
 */
export class Database {
  /** Grows with every change of keys made through this connection, which SQLite's own data_version leaves out. */
  keyChanges = 0;
  private readonly sqlite: DatabaseSync;
  /** What usual commits wait for: `normal`, nothing; `full`, the disk. */
  private readonly synchronous: "normal" | "full";
  /** The file itself, whatever has its name later; undefined: it is in memory. */
  readonly inode: number | undefined;

  /**
   * Opens the file, makes it (readable by its owner only) where it does not exist, and brings its schema up to date.
   * @param path a file, or `:memory:`
   * @param durable whether every commit survives a power cut
   * @param checkpoint pages of SQLite's journal after which a commit moves them into the file
   * @param expected the file's inode, where it is opened already: no other one is taken for it, and none made
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
        mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
        // SQLite gives its -wal and -shm files the mode of the file itself.
        const fd = openSync(path, "a", 0o600);
        this.inode = fstatSync(fd).ino;
        closeSync(fd);
      }
      this.sqlite = new DatabaseSync(path, { timeout: OPENING });
    } catch (error) {
      throw unusable(path, error);
    }
    try {
      this.sqlite.exec(`pragma journal_mode = wal; pragma synchronous = ${this.synchronous}`);
      this.sqlite.exec("pragma journal_size_limit = 67108864");
      this.sqlite.exec(`pragma wal_autocheckpoint = ${checkpoint}`);
      this.migrate();
      this.sqlite.exec(`pragma busy_timeout = ${BLOCKING}`);
    } catch (error) {
      this.sqlite.close();
      throw unusable(path, error);
    }
  }

  /**
   * What is written to a file that has lost its name nobody reads again.
   * @throws Error where somebody has removed the file, moved it, or put another in its place
   */
  checkPlace(): void {
    if (this.inode !== undefined) checkPlace(this.path, this.inode);
  }

  prepare(sql: string): StatementSync {
    return this.sqlite.prepare(sql);
  }

  /** Runs `work` in one write transaction: all of it holds, or, when it throws, nothing. Never waits for long. */
  transaction<T>(work: () => T): T {
    this.sqlite.exec("begin immediate");
    try {
      const result = work();
      this.sqlite.exec("commit");
      return result;
    } catch (error) {
      // A full disk has already rolled back by itself.
      if (this.sqlite.isTransaction) this.sqlite.exec("rollback");
      throw error;
    }
  }

  /** As `transaction`, but safe from power cuts too, and patient, without blocking, while another process writes. */
  async durably<T>(work: () => T): Promise<T> {
    return this.patiently(() => {
      this.sqlite.exec("pragma synchronous = full");
      try {
        return this.transaction(work);
      } finally {
        this.sqlite.exec(`pragma synchronous = ${this.synchronous}`);
      }
    });
  }

  /**
   * Tries `work` again for some seconds while another process holds the file.
   * @throws FileError with what to do, where the file cannot be written
   */
  async patiently<T>(work: () => T): Promise<T> {
    const deadline = performance.now() + PATIENCE;
    for (;;) {
      try {
        return work();
      } catch (error) {
        if (sqliteCode(error) !== BUSY || performance.now() > deadline) throw unwritable(this.path, error);
      }
      await sleep(BLOCKING);
    }
  }

  close(): void {
    if (this.sqlite.isOpen) this.sqlite.close();
  }

  /** Runs the files of `migrations/` that this database has not seen, in the order of their numbers. */
  private migrate(): void {
    const files = readdirSync(MIGRATIONS)
      .filter((name) => name.endsWith(".sql"))
      .sort();
    const version = () => Number(this.sqlite.prepare("pragma user_version").get()?.["user_version"]);
    if (version() === files.length) return;
    this.transaction(() => {
      // Asked again: another process may have migrated while this one waited for the lock.
      const seen = version();
      if (seen > files.length) throw new Error("it was made by a newer version of model-gateway; use that one");
      for (const file of files.slice(seen)) this.sqlite.exec(readFileSync(new URL(file, MIGRATIONS), "utf8"));
      this.sqlite.exec(`pragma user_version = ${files.length}`);
    });
  }
}

/** Whether the system lets nobody make or write that file. */
const isRefused = (error: unknown): boolean =>
  [READ_ONLY, CANNOT_OPEN].includes(sqliteCode(error) ?? 0) ||
  (error instanceof Error && "syscall" in error && /^(?:mkdir|open)$/.test(String(error.syscall)));

/** @throws Error where a path leads to another file than it did, or to none */
function checkPlace(path: string, inode: number): void {
  if (statSync(path, { throwIfNoEntry: false })?.ino === inode) return;
  throw new Error(`${path} was removed, moved or replaced; a restart goes on with what is there then`);
}

/** What to do about a file that cannot be written; any other error as it is. */
function unwritable(path: string, error: unknown): unknown {
  const code = sqliteCode(error);
  if (isFull(path, error)) return new FileError(`${path}: ${fullText(path)}.`, { cause: error });
  if (code === BUSY)
    return new FileError(`${path}: another process has held it for ${PATIENCE / 1000} s; try again.`, { cause: error });
  if (code === READ_ONLY)
    return new FileError(`${path}: it cannot be written; let this user write to it and to its folder.`, {
      cause: error,
    });
  return error;
}

const fullText = (path: string): string => `the disk is full; free room on ${dirname(path)} and try again`;

/** Bytes below which there is no room for what SQLite keeps beside a file. */
const ROOM = 64 * 1024;

/** Whether there is no room: what is kept beside a file and finds none is an error of reading or writing to SQLite. */
function isFull(path: string, error: unknown): boolean {
  const code = sqliteCode(error);
  if (code === FULL || (error as NodeJS.ErrnoException).code === "ENOSPC") return true;
  if (code !== IO_ERROR || path === ":memory:") return false;
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return bavail * bsize < ROOM;
  } catch {
    return false;
  }
}

function unusable(path: string, error: unknown): FileError {
  const own = error instanceof Error ? error.message : String(error);
  const reason = isFull(path, error) ? fullText(path) : own;
  const hint = isRefused(error)
    ? '; store: { ledger: "sqlite:/PATH/gateway.db" } names a folder that can be written'
    : "";
  return new FileError(`The store ${path} cannot be used: ${reason}${hint}.`, { cause: error });
}
