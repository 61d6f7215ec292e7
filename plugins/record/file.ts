import { closeSync, existsSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { gunzipSync, gzipSync } from "node:zlib";
import type { Recorded } from "model-gateway";
import type { FileTerms } from "./messages.ts";

/** Says in a SQLite file whose it is: `mgrc`. */
const OURS = 0x6d677263;
/** Milliseconds to wait for other processes that write. */
const PATIENCE = 5000;
/** Milliseconds after which what is over is looked for, however little was written. */
const LOOK = 60_000;

/** Recordings in a SQLite file of their own, readable by its owner only; several processes may write to it. */
export class RecordFile {
  private readonly database: DatabaseSync;
  private readonly insert: StatementSync;
  private added: number;
  private looked = 0;

  /** Makes the file where there is none. @throws Error where it cannot be used, or is another program's */
  constructor(private readonly terms: FileTerms) {
    const { file } = terms;
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    closeSync(openSync(file, "a", 0o600));
    this.database = new DatabaseSync(file, { timeout: PATIENCE });
    try {
      this.prepare(file);
      this.insert = this.database.prepare("insert or replace into recorded values (?, ?, ?, ?)");
    } catch (thrown) {
      this.database.close();
      throw thrown;
    }
    // A file that is there may hold more than it shall.
    this.added = terms.bytes;
  }

  /** @throws Error where the file cannot be written */
  keep(recorded: Recorded): void {
    const value = gzipSync(JSON.stringify(recorded));
    this.insert.run(recorded.id, recorded.time, value.length, value);
    this.added += value.length;
    const now = Date.now();
    if (this.added * 16 > this.terms.bytes || now - this.looked > LOOK) this.prune(now);
  }

  close(): void {
    this.database.close();
  }

  /** @throws Error where the file is another program's */
  private prepare(file: string): void {
    const { database } = this;
    const owner = Number(database.prepare("pragma application_id").get()?.["application_id"]);
    const tables = Number(database.prepare("select count(*) as tables from sqlite_schema").get()?.["tables"]);
    if (owner !== OURS && tables > 0) throw new Error(`${file} is no file of recordings: name one of its own`);
    // What is deleted is overwritten, and its room given back.
    database.exec(`pragma auto_vacuum = full; pragma journal_mode = wal; pragma synchronous = normal;
      pragma secure_delete = on; pragma application_id = ${OURS};
      create table if not exists recorded (id text primary key, time integer not null, size integer not null, value blob not null) strict;
      create index if not exists recorded_time on recorded (time, size);`);
  }

  private prune(now: number): void {
    this.added = 0;
    this.looked = now;
    const { milliseconds, bytes } = this.terms;
    this.database.prepare("delete from recorded where time < ?").run(now - milliseconds);
    this.database
      .prepare(
        `delete from recorded where id in (select id from (
           select id, sum(size) over (order by time desc, id desc) as total from recorded) where total > ?)`,
      )
      .run(bytes);
  }
}

/** What was kept of an exchange. @throws Error where the file cannot be read */
export function readRecorded({ file, milliseconds }: FileTerms, id: string): Recorded | undefined {
  if (!existsSync(file)) return undefined;
  const database = new DatabaseSync(file, { readOnly: true, timeout: PATIENCE });
  try {
    const row = database
      .prepare("select value from recorded where id = ? and time >= ?")
      .get(id, Date.now() - milliseconds);
    const value = row?.["value"];
    return value instanceof Uint8Array ? (JSON.parse(gunzipSync(value).toString()) as Recorded) : undefined;
  } finally {
    database.close();
  }
}
