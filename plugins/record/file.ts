import { closeSync, existsSync, mkdirSync, openSync, readSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { gunzipSync, gzipSync } from "node:zlib";
import type { RecordedExchange } from "model-gateway";
import type { RecordFileOptions } from "./messages.ts";

/** SQLite's application id of the recordings' file: `mgrc`. */
const APPLICATION_ID = 0x6d677263;
/** Milliseconds to wait for other processes' writes. */
const BUSY_TIMEOUT = 5000;
/**
 * Maximum milliseconds between two prunings, while little is written; fewer if recordings are kept for a shorter time, down to
 * `MIN_PRUNE_INTERVAL`.
 */
const MAX_PRUNE_INTERVAL = 60_000;
const MIN_PRUNE_INTERVAL = 1000;
/** Attempts to set the journal mode, and milliseconds between them. */
const TRIES = 100;
const RETRY_DELAY = 50;

/** Returns the milliseconds between two prunings. */
export const pruneInterval = ({ milliseconds }: RecordFileOptions): number =>
  Math.min(MAX_PRUNE_INTERVAL, Math.max(MIN_PRUNE_INTERVAL, milliseconds));

/** Reports whether the disk is full: SQLITE_FULL, or the file system's error. */
export const isDiskFull = (error: unknown): boolean => {
  const { code, errcode } = error as { code?: string; errcode?: number };
  return code === "ENOSPC" || code === "EDQUOT" || errcode === SQLITE_FULL;
};
const SQLITE_FULL = 13;

/** Node's own recursion never ends where a folder that exists says that it does not, as `/proc` does to who makes one in it. */
function makeFolders(folder: string): void {
  const above = dirname(folder);
  if (above !== folder && !existsSync(above)) makeFolders(above);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (thrown) {
    if (!existsSync(folder)) throw thrown;
  }
}

/** Recordings in a SQLite file of their own, readable by its owner only; several processes may write to it. */
export class RecordFile {
  private readonly database: DatabaseSync;
  private readonly insert: StatementSync;
  private addedBytes: number;
  private prunedAt = 0;
  private readonly pruneInterval: number;

  /** Creates the file if it does not exist. @throws Error where it cannot be used, or belongs to another program */
  constructor(private readonly options: RecordFileOptions) {
    const { file } = options;
    this.pruneInterval = pruneInterval(options);
    makeFolders(dirname(file));
    // An existing file is never opened here: closing it would release the locks of a former generation's connection.
    if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
    this.database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT });
    try {
      this.prepare(file);
      this.insert = this.database.prepare("insert or replace into recorded values (?, ?, ?, ?)");
    } catch (thrown) {
      this.database.close();
      throw thrown;
    }
    // An existing file may exceed its limit.
    this.addedBytes = options.bytes;
  }

  /** Writes a recording. @throws Error where the file cannot be written */
  keep(recorded: RecordedExchange): void {
    const value = gzipSync(JSON.stringify(recorded));
    this.insert.run(recorded.id, recorded.time, value.length, value);
    this.addedBytes += value.length;
    if (this.addedBytes * 16 > this.options.bytes || Date.now() - this.prunedAt > this.pruneInterval) this.prune();
  }

  /**
   * Deletes expired recordings, and the oldest beyond the limit, of any process.
   * @throws Error where the file cannot be written
   */
  prune(): void {
    const now = Date.now();
    this.addedBytes = 0;
    this.prunedAt = now;
    const { milliseconds, bytes } = this.options;
    const over = this.database.prepare("delete from recorded where time < ?").run(now - milliseconds);
    const much = this.database
      .prepare(
        `delete from recorded where id in (select id from (
           select id, sum(size) over (order by time desc, id desc) as total from recorded) where total > ?)`,
      )
      .run(bytes);
    // The journal keeps the old pages until it is truncated; a current reader delays that to the next pruning.
    if (Number(over.changes) + Number(much.changes) > 0) this.database.exec("pragma wal_checkpoint(truncate)");
  }

  close(): void {
    this.database.close();
  }

  /** Creates the table. @throws Error where the file belongs to another program */
  private prepare(file: string): void {
    const { database } = this;
    // Deleted data is overwritten, and its space released; auto_vacuum only takes effect before the first table is created.
    database.exec("pragma auto_vacuum = full; pragma synchronous = normal; pragma secure_delete = on");
    // In one transaction: workers that start together see an empty file or a complete one of ours.
    database.exec("begin immediate");
    try {
      const owner = Number(database.prepare("pragma application_id").get()?.["application_id"]);
      const tables = Number(database.prepare("select count(*) as tables from sqlite_schema").get()?.["tables"]);
      if (owner !== APPLICATION_ID && tables > 0)
        throw new Error(`${file} is no file of recordings: name one of its own`);
      database.exec(`pragma application_id = ${APPLICATION_ID};
        create table if not exists recorded (id text primary key, time integer not null, size integer not null, value blob not null) strict;
        create index if not exists recorded_time on recorded (time, size); commit`);
    } catch (thrown) {
      database.exec("rollback");
      throw thrown;
    }
    this.enableWal();
  }

  /** Sets the journal mode. SQLite does not wait for another process that sets it, and the mode is stored in the file. */
  private enableWal(): void {
    for (let left = TRIES; ; left--)
      try {
        this.database.exec("pragma journal_mode = wal");
        return;
      } catch (thrown) {
        if (left === 0) throw thrown;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_DELAY);
      }
  }
}

/** How a SQLite file begins, and where in it the application id is. */
const [SIGNATURE, ID_POSITION] = ["SQLite format 3\0", 68];

/**
 * Reports whether a file is one of recordings, empty or missing, or cannot be read. Only for a process that does not have it open
 * as a database: closing it would release that one's locks.
 */
export function isRecordFile(file: string): boolean {
  const head = Buffer.alloc(ID_POSITION + 4);
  try {
    const opened = openSync(file, "r");
    try {
      const length = readSync(opened, head);
      return (
        length === 0 ||
        (head.toString("latin1", 0, SIGNATURE.length) === SIGNATURE && head.readInt32BE(ID_POSITION) === APPLICATION_ID)
      );
    } finally {
      closeSync(opened);
    }
  } catch {
    return true;
  }
}

/** Reads the recording of an exchange. @throws Error where the file cannot be read */
export function readRecorded({ file, milliseconds }: RecordFileOptions, id: string): RecordedExchange | undefined {
  if (!existsSync(file)) return undefined;
  const database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT });
  try {
    const row = database
      .prepare("select value from recorded where id = ? and time >= ?")
      .get(id, Date.now() - milliseconds);
    const value = row?.["value"];
    return value instanceof Uint8Array ? (JSON.parse(gunzipSync(value).toString()) as RecordedExchange) : undefined;
  } finally {
    database.close();
  }
}
