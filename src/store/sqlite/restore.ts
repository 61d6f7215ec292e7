import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  linkSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { thrownMessage } from "../../core/errors.ts";
import { journalFolder, listJournals, removeFiles, syncPath } from "../journal/files.ts";
import { readJournals } from "../journal/lines.ts";
import type { ProgressListener, RestoreOptions, RestoreResult } from "../maintenance.ts";
import { makeFolder } from "../make-folder.ts";
import { isEnvelopeSecret } from "../secret.ts";
import { isNewer, SqliteDatabase } from "./database.ts";
import { BUSY, fullDiskError, isDamage, sqliteCode } from "./errors.ts";
import { importJournals } from "./import-journals.ts";
import { SqliteMaintenance } from "./maintenance.ts";
import { newPartFile, removePartFile, SIDE_FILES } from "./part-file.ts";
import { joinChanges, keepAfterRestore, keyChangesSince } from "./restore-losses.ts";

/**
 * Puts a backup in a store's place, once it has been found in order. What was there before stays beside it, under another
 * name, with what its journals held.
 * @param path of the store, which nothing may use
 * @param file of the backup, which stays as it is
 * @param options `force`: also over a store with exchanges or changes of keys or groups that the backup does not have
 * @throws Error that says why not; the store is as it was then
 */
export async function restoreSqlite(path: string, file: string, options: RestoreOptions): Promise<RestoreResult> {
  if (resolve(file) === resolve(path)) throw new Error(`${file} is the store itself: name a backup.`);
  const [part, secret] = [newPartFile(path), newPartFile(`${path}.secret`)];
  try {
    const backup = await copyAndVerify(file, part, options.progress);
    copySecret(file, secret);
    if (!existsSync(path)) {
      carryOver(undefined, part, file, options);
      installCopy(part, secret, path);
      // What only they have of a lost store would be lost, too.
      if (listJournals(journalFolder(path)).length > 0)
        options.progress("the requests in the lost store's journals stay, and are in the store after the next start");
      return { rows: backup.rows };
    }
    return await replaceStore(path, file, { part, secret, ...backup }, options).catch((thrown: Error) => {
      if (!isDamage(thrown)) throw thrown;
      throw new Error(
        `The store ${path} is damaged itself (${thrown.message}): move it away, leave ${journalFolder(path)} where it is, and restore again. Nothing was changed.`,
      );
    });
  } catch (thrown) {
    throw fullDiskError(path, thrown) ?? thrown;
  } finally {
    removePartFile(part);
    removePartFile(secret);
  }
}

/** Installs a checked copy where a store is, which is kept under another name. */
async function replaceStore(
  path: string,
  file: string,
  copy: { part: string; secret: string; rows: number; last: number },
  options: RestoreOptions,
): Promise<RestoreResult> {
  const found = openLocked(path);
  const newer = isNewer(found);
  if (!newer) found.close();
  // The way back from an upgrade: this version cannot write into a newer one's store.
  const lock = newer ? found : await lockStore(path);
  try {
    const last = lastRow(lock);
    if (!options.force && last > copy.last)
      throw new Error(
        `The store has exchanges from ${new Date(last).toISOString()}, later than the backup's last (${copy.last === 0 ? "none" : new Date(copy.last).toISOString()}): they would be lost. To restore it all the same: --force.`,
      );
    const { retained, undone } = carryOver(lock, copy.part, file, options);
    const kept = nameForPrevious(path);
    keepPrevious(path, kept);
    if (existsSync(`${path}.secret`)) copyFileSync(`${path}.secret`, `${kept}.secret`);
    installCopy(copy.part, copy.secret, path);
    // Those of a newer version are not in the store that is kept.
    if (!newer) for (const journal of listJournals(journalFolder(path))) removeFiles(journal.files);
    return {
      ...{ rows: copy.rows, kept },
      ...(retained.length > 0 && { retained }),
      ...(undone.length > 0 && { undone }),
    };
  } finally {
    lock.close();
  }
}

/**
 * Carries over to the checked copy what a restore must not undo, and records the restore in its audit trail.
 * @param store the one to be replaced
 * @returns changes of keys and groups that the backup does not have
 * @throws Error where there are such changes and that was not asked for
 */
function carryOver(
  store: DatabaseSync | undefined,
  part: string,
  file: string,
  options: RestoreOptions,
): ReturnType<typeof keyChangesSince> {
  const copy = new DatabaseSync(part, { timeout: 0 });
  try {
    const changes = store ? keyChangesSince(store, copy) : { retained: [], undone: [] };
    const { retained, undone } = changes;
    if (retained.length + undone.length > 0 && !options.force)
      throw new Error(
        `The backup lacks later changes of keys or groups: ${joinChanges([...retained, ...undone])}. To restore it all the same: --force; what was revoked or disabled stays so, and rotated keys keep their new secret.`,
      );
    const detail = { file, ...(undone.length > 0 && { undone: joinChanges(undone) }) };
    const what = { action: "store.restore", subject: "store", detail };
    keepAfterRestore(store, copy, { ...options.author, time: Date.now(), ...what });
    return changes;
  } finally {
    copy.close();
  }
}

/** Copies a backup beside the store, brings it up to date and checks it. */
async function copyAndVerify(
  file: string,
  part: string,
  progress: ProgressListener,
): Promise<{ rows: number; last: number }> {
  if (!existsSync(file)) throw new Error(`There is no ${file}.`);
  if (statSync(file).isDirectory()) throw new Error(`${file} is a folder, not a backup.`);
  // On a new machine the folder does not exist yet.
  makeFolder(dirname(part));
  copyFileSync(file, part);
  // A store that was copied while in use has these.
  if (existsSync(`${file}-wal`)) copyFileSync(`${file}-wal`, `${part}-wal`);
  chmodSync(part, 0o600);
  const found = new DatabaseSync(part, { timeout: 0 });
  try {
    found.prepare("select 1 from usage limit 1").get();
  } catch (thrown) {
    throw new Error(`${file} is not a backup of a store: ${thrownMessage(thrown)}.`);
  } finally {
    found.close();
  }
  const maintenance = new SqliteMaintenance(part);
  let faults: string[];
  try {
    faults = await maintenance.verify(progress);
  } finally {
    maintenance.close();
  }
  if (faults.length > 0) throw new Error(`${file} is damaged: ${faults[0]}. Nothing was changed.`);
  const database = new DatabaseSync(part, { timeout: 0 });
  try {
    // A single file, so that only its name has to change.
    database.prepare("pragma journal_mode = delete").get();
    const rows = Number(database.prepare("select count(*) as rows from usage").get()?.["rows"]);
    return { rows, last: lastRow(database) };
  } finally {
    database.close();
  }
}

/**
 * Locks a store exclusively, after writing the journals of dead processes into it.
 * @returns the connection that holds the lock
 * @throws Error if another process has it open
 */
export async function lockStore(path: string): Promise<DatabaseSync> {
  // A running process would have it open, so no journal is in use.
  openLocked(path).close();
  const notStored = await readJournals(journalFolder(path));
  const database = new SqliteDatabase(path, true);
  try {
    await importJournals(database, notStored);
  } finally {
    database.close();
  }
  return openLocked(path);
}

/** @throws Error if another process has it open */
function openLocked(path: string): DatabaseSync {
  const lock = new DatabaseSync(path, { timeout: 0 });
  try {
    // Only a sole connection can leave WAL mode.
    lock.prepare("pragma journal_mode = delete").get();
    lock.exec("pragma locking_mode = exclusive; begin exclusive");
    return lock;
  } catch (thrown) {
    lock.close();
    if (sqliteCode(thrown) !== BUSY) throw thrown;
    throw new Error("A gateway, or another command, has the store open: stop it first. Nothing was changed.");
  }
}

function lastRow(database: DatabaseSync): number {
  return Number(database.prepare("select ifnull(max(time), 0) as last from usage").get()?.["last"]);
}

/** Returns a name for the previous store that no file has: another restore in the same second may have left one. */
function nameForPrevious(path: string): string {
  const name = `${path}.until-${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
  let free = name;
  for (let nth = 2; existsSync(free); nth++) free = `${name}-${nth}`;
  return free;
}

/** Gives the store a second name, so that it has its own until the copy takes that: a killed restore leaves a store. */
function keepPrevious(path: string, kept: string): void {
  try {
    linkSync(path, kept);
  } catch {
    // Not every file system has hard links.
    renameSync(path, kept);
  }
}

/** Copies the secret for envelopes of a backup, if it has one. */
function copySecret(file: string, part: string): void {
  if (!existsSync(`${file}.secret`)) return;
  if (!isEnvelopeSecret(readFileSync(`${file}.secret`, "utf8")))
    throw new Error(
      `${file}.secret contains no secret (64 hexadecimal digits), and no gateway would start with it. To restore without it, move it away. Nothing was changed.`,
    );
  copyFileSync(`${file}.secret`, part);
  chmodSync(part, 0o600);
  syncPath(part);
}

/** Gives the verified copy, and that of the secret, the store's names and its owner. */
function installCopy(part: string, secret: string, path: string): void {
  // A restore is often run as root, but the gateway is not.
  if (process.getuid?.() === 0) {
    const { uid, gid } = statSync(existsSync(path) ? path : dirname(path));
    for (const file of [part, secret]) if (existsSync(file)) chownSync(file, uid, gid);
  }
  for (const rest of SIDE_FILES) rmSync(path + rest, { force: true });
  syncPath(part);
  renameSync(part, path);
  if (existsSync(secret)) renameSync(secret, `${path}.secret`);
  syncPath(dirname(path));
}
