import type { DatabaseSync } from "node:sqlite";
import { AUDIT_COLUMNS, type AuditEntry, auditValues } from "../audit.ts";

/** Changes of keys that are listed one by one. */
const MAX_LISTED = 10;

/** Rows of the table `key`, by id. */
const keyRows = (database: DatabaseSync): Map<string, Record<string, unknown>> =>
  new Map(
    database
      .prepare("select * from key order by rowid")
      .all()
      .map((row) => [String(row["id"]), row]),
  );

/** Changes of keys, each like `key "ci" (k1) was revoked`. */
interface KeyChanges {
  /** A restore keeps them: that a key was revoked, disabled or rotated, since the old secret may be known to others. */
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

/** Returns the changes of keys that a store has and a backup does not. */
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
  return changes;
}

function retainedChange(was: Record<string, unknown>, now: Record<string, unknown>): string | undefined {
  if (was["revoked"] === null && now["revoked"] !== null) return "revoked";
  if (was["disabled"] === null && now["disabled"] !== null) return "disabled";
  return isRotated(was, now) ? "rotated" : undefined;
}

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
 * Takes over what no restore may undo: keys that were revoked or disabled stay so, and rotated ones keep their new secret, because
 * the old one may be known to others; and the audit trail only grows. Adds the entry of the restore itself.
 */
export function keepAfterRestore(store: DatabaseSync | undefined, backup: DatabaseSync, restored: AuditEntry): void {
  const add = backup.prepare(`insert into audit (${AUDIT_COLUMNS}) values (?, ?, ?, ?, ?, ?)`);
  backup.exec("begin immediate");
  if (store) {
    keepKeyChanges(store, backup);
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
    if (now["revoked"] !== null || now["disabled"] !== null)
      stop.run(...([now["revoked"], now["disabled"], ++last, id] as Values));
    if (isRotated(was, now)) rotate.run(...([now["hash"], now["old_hash"], now["old_until"], ++last, id] as Values));
  }
}
