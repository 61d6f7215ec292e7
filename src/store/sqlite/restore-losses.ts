import type { DatabaseSync } from "node:sqlite";
import { AUDIT_COLUMNS, type AuditEntry, auditValues, INSERT_ENTRY } from "../audit.ts";

/** Changes of keys and groups that are listed one by one. */
const MAX_LISTED = 10;

/** Rows of the table `key`, by id. */
const keyRows = (database: DatabaseSync): Map<string, Record<string, unknown>> =>
  new Map(
    database
      .prepare("select * from key order by rowid")
      .all()
      .map((row) => [String(row["id"]), row]),
  );

/** Changes of keys and groups, each like `key "ci" (k1) was revoked`. */
interface KeyChanges {
  /**
   * A restore keeps them: that a key was revoked, disabled or rotated, since the old secret may be known to others, and that a
   * group was disabled.
   */
  readonly retained: string[];
  /** A restore undoes them. */
  readonly undone: string[];
}

/** Columns whose changes a restore keeps, and the counter of changes. */
const RETAINED_COLUMNS: ReadonlySet<string> = new Set([
  "hash",
  "old_hash",
  "old_until",
  "revoked",
  "disabled",
  "changed",
]);

/** Returns the changes of keys and groups that a store has and a backup does not. */
export function keyChangesSince(store: DatabaseSync, backup: DatabaseSync): KeyChanges {
  const before = keyRows(backup);
  const changes: KeyChanges = { retained: [], undone: [] };
  for (const [id, now] of keyRows(store)) {
    const was = before.get(id);
    const describe = (change: string) => `key ${JSON.stringify(now["name"])} (${id}) was ${change}`;
    const retained = was === undefined ? undefined : retainedChange(was, now);
    if (retained !== undefined) changes.retained.push(describe(retained));
    if (was === undefined) changes.undone.push(describe("made"));
    else if (was["changed"] !== now["changed"] && (retained === undefined || isEdited(was, now)))
      changes.undone.push(describe("changed"));
  }
  for (const { name, disabled } of groupsChangedSince(store, backup))
    if (disabled === null) changes.undone.push(`group ${JSON.stringify(name)} was enabled`);
    else changes.retained.push(`group ${JSON.stringify(name)} was disabled`);
  return changes;
}

/** A row of the table `key_group`. */
interface GroupRow {
  readonly name: string;
  readonly disabled: number | null;
  readonly changed: number;
}

/** Returns the groups that were disabled or enabled after a backup: it may also be newer than the store that it replaces. */
function groupsChangedSince(store: DatabaseSync, backup: DatabaseSync): GroupRow[] {
  const rows = (database: DatabaseSync) => database.prepare("select * from key_group order by name").all();
  const before = new Map((rows(backup) as unknown as GroupRow[]).map((row) => [row.name, row]));
  return (rows(store) as unknown as GroupRow[]).filter(({ name, disabled, changed }) => {
    const was = before.get(name);
    return (was?.disabled ?? null) !== disabled && changed > (was?.changed ?? 0);
  });
}

function retainedChange(was: Record<string, unknown>, now: Record<string, unknown>): string | undefined {
  if (isStopped(was, now, "revoked")) return "revoked";
  if (isStopped(was, now, "disabled")) return "disabled";
  return isRotated(was, now) ? "rotated" : undefined;
}

const isStopped = (was: Record<string, unknown>, now: Record<string, unknown>, how: "revoked" | "disabled"): boolean =>
  was[how] === null && now[how] !== null;

/** Reports whether the store has the later secret: a backup may also be newer than the store that it replaces. */
const isRotated = (was: Record<string, unknown>, now: Record<string, unknown>): boolean =>
  was["hash"] !== now["hash"] && Number(now["changed"]) > Number(was["changed"]);

const isEdited = (was: Record<string, unknown>, now: Record<string, unknown>): boolean =>
  Object.keys(now).some((column) => !RETAINED_COLUMNS.has(column) && was[column] !== now[column]);

/** Joins changes to one text of limited length. */
export const joinChanges = (changes: readonly string[]): string =>
  changes.length <= MAX_LISTED
    ? changes.join(", ")
    : `${changes.slice(0, MAX_LISTED).join(", ")} and ${changes.length - MAX_LISTED} more changes`;

/**
 * Takes over what no restore may undo: keys and groups that were revoked or disabled stay so, and rotated keys keep their new
 * secret, because the old one may be known to others; and the audit trail only grows. Adds the entry of the restore itself.
 */
export function keepAfterRestore(store: DatabaseSync | undefined, backup: DatabaseSync, restored: AuditEntry): void {
  const add = backup.prepare(INSERT_ENTRY);
  backup.exec("begin immediate");
  if (store) {
    keepKeyChanges(store, backup);
    const disable = backup.prepare("insert or replace into key_group (name, disabled, changed) values (?, ?, ?)");
    for (const { name, disabled, changed } of groupsChangedSince(store, backup))
      if (disabled !== null) disable.run(name, disabled, changed);
    const { newest } = backup.prepare("select ifnull(max(time), 0) as newest from audit").get() as { newest: number };
    const later = store.prepare(`select ${AUDIT_COLUMNS} from audit where time > ? order by id`).all(newest);
    for (const { time, who, address, action, subject, detail } of later)
      add.run(...([time, who, address, action, subject, detail] as [number, string, string, string, string, string]));
  }
  add.run(...auditValues(restored));
  backup.exec("commit");
}

function keepKeyChanges(store: DatabaseSync, backup: DatabaseSync): void {
  type Values = (string | number | null)[];
  const stop = backup.prepare(
    "update key set revoked = ifnull(revoked, ?), disabled = ifnull(disabled, ?), changed = ? where id = ?",
  );
  const rotate = backup.prepare("update key set hash = ?, old_hash = ?, old_until = ?, changed = ? where id = ?");
  const before = keyRows(backup);
  let { last } = backup.prepare("select ifnull(max(changed), 0) as last from key").get() as { last: number };
  for (const [id, now] of keyRows(store)) {
    const was = before.get(id);
    if (!was) continue;
    // A key that is in the backup as it is keeps its number, by which the next restore sees that nothing has changed.
    if (isStopped(was, now, "revoked") || isStopped(was, now, "disabled"))
      stop.run(...([now["revoked"], now["disabled"], ++last, id] as Values));
    if (isRotated(was, now)) rotate.run(...([now["hash"], now["old_hash"], now["old_until"], ++last, id] as Values));
  }
}
