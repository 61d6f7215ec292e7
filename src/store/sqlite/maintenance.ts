import { chmodSync, copyFileSync, existsSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { backup as copy, DatabaseSync } from "node:sqlite";
import { fileProblem } from "../../core/file-problem.ts";
import { Audit } from "../audit.ts";
import { describeDifferingSums } from "../differing-sums.ts";
import { hasWaitingRows, journalFolder, listJournals } from "../journal/files.ts";
import { readJournals } from "../journal/lines.ts";
import { Maintenance, type MigrationNumbers, type ProgressListener } from "../maintenance.ts";
import { SqliteDatabase } from "./database.ts";
import { fullDiskError } from "./errors.ts";
import { importJournals } from "./import-journals.ts";
import { newPartFile, removePartFile } from "./part-file.ts";
import { pruneSqlite, sqlitePrunedBefore } from "./pruning.ts";

/** All pages at once: a copy in parts restarts with each row that another process writes meanwhile. */
const ALL_PAGES = 2 ** 31 - 1;
/** Milliseconds between progress messages of a copy. */
const PROGRESS_INTERVAL = 1000;
/** Rows deleted in one transaction, for which other writers wait some milliseconds; and milliseconds of pause between them. */
const STEP = { rows: 2000, pause: 1 };
/** Maximum number of faults of the file that are listed. */
const MAX_LISTED = 20;

/** Maintenance of a SQLite file. */
export class SqliteMaintenance extends Maintenance {
  private readonly database: SqliteDatabase;

  /** @throws FileError when the file cannot be used */
  constructor(private readonly path: string) {
    super();
    this.database = new SqliteDatabase(path);
  }

  override get migrated(): MigrationNumbers {
    return this.database.migrated;
  }

  override async backup(file: string, progress: ProgressListener): Promise<{ bytes: number; rows: number }> {
    refuseExisting(file);
    if (!existsSync(dirname(file))) throw new Error(`There is no folder ${dirname(file)}: create it first.`);
    const part = newPartFile(file);
    createPart(file, part);
    try {
      // The journals first: a row may move from there into the store meanwhile, but never back.
      const notStored = await readJournals(journalFolder(this.path));
      await this.copy(part, progress);
      const database = new SqliteDatabase(part);
      try {
        await importJournals(database, notStored);
        progress("checking the copy");
        const faults = integrity(database, "quick_check");
        if (faults.length > 0) throw new Error(`The copy is damaged: ${faults[0]}.`);
        // A single file, without a WAL beside it.
        database.prepare("pragma journal_mode = delete").get();
        const rows = Number(database.prepare("select count(*) as rows from usage").get()?.["rows"]);
        database.close();
        // Another backup may have made it meanwhile.
        refuseExisting(file);
        // The secret first: a backup that has its name is complete.
        this.copySecret(file);
        renameSync(part, file);
        return { bytes: statSync(file).size, rows };
      } finally {
        database.close();
      }
    } catch (thrown) {
      throw fullDiskError(file, thrown) ?? thrown;
    } finally {
      removePartFile(part);
    }
  }

  override async verify(progress: ProgressListener): Promise<string[]> {
    progress("checking the file");
    const faults = integrity(this.database, "integrity_check");
    if (faults.length > 0) return faults.slice(0, MAX_LISTED);
    progress("comparing hourly sums with their rows");
    return describeDifferingSums(
      (text, ...values) => this.database.prepare(text).all(...values),
      sqlitePrunedBefore(this.database),
    );
  }

  protected override removeRows(before: number): AsyncIterable<number> {
    return pruneSqlite(this.database, before, STEP);
  }

  override isBehind(): boolean {
    return listJournals(journalFolder(this.path)).some(hasWaitingRows);
  }

  override get audit(): Audit {
    return new Audit(this.database);
  }

  override close(): void {
    this.database.close();
  }

  private async copy(part: string, progress: ProgressListener): Promise<void> {
    const all = statSync(this.path).size;
    const timer = setInterval(() => {
      const done = existsSync(part) ? statSync(part).size : 0;
      progress(`copied ${megabytes(done)} of ${megabytes(all)}`);
    }, PROGRESS_INTERVAL);
    const source = new DatabaseSync(this.path, { readOnly: true, timeout: 5000 });
    try {
      await copy(source, part, { rate: ALL_PAGES });
    } finally {
      clearInterval(timer);
      source.close();
    }
  }

  /** Copies the secret for sealing clients' envelopes, which is stored beside the database. */
  private copySecret(file: string): void {
    const secret = `${this.path}.secret`;
    if (!existsSync(secret)) return;
    copyFileSync(secret, `${file}.secret`);
    chmodSync(`${file}.secret`, 0o600);
  }
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new Error(`${file} exists: a backup overwrites no file, name another.`);
}

/** SQLite, for which an empty file is a database, would say neither which file it cannot create nor why. */
function createPart(file: string, part: string): void {
  try {
    writeFileSync(part, "", { flag: "wx", mode: 0o600 });
  } catch (thrown) {
    throw new Error(`${file} cannot be written: ${fileProblem(thrown, "folder")}.`);
  }
}

function integrity(database: SqliteDatabase, pragma: "integrity_check" | "quick_check"): string[] {
  const found = database
    .prepare(`pragma ${pragma}`)
    .all()
    .map((row) => String(row[pragma] ?? Object.values(row)[0]));
  return found.filter((line) => line !== "ok");
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
