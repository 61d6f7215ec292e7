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

/**
 * Returns a sentence part for each change of a key that the store has and a backup does not, like `key "ci" (k1) was revoked`.
 */
export function keyChangesSince(store: DatabaseSync, backup: DatabaseSync): string[] {
  const before = keyRows(backup);
  return [...keyRows(store)].flatMap(([id, now]) => {
    const was = before.get(id);
    const change = was === undefined ? "made" : changeOf(was, now);
    return change === undefined ? [] : [`key ${JSON.stringify(now["name"])} (${id}) was ${change}`];
  });
}

function changeOf(was: Record<string, unknown>, now: Record<string, unknown>): string | undefined {
  if (was["revoked"] === null && now["revoked"] !== null) return "revoked";
  if (was["disabled"] === null && now["disabled"] !== null) return "disabled";
  if (was["hash"] !== now["hash"]) return "rotated";
  return was["changed"] === now["changed"] ? undefined : "changed";
}

/** Joins changes to one text of limited length. */
export const joinChanges = (changes: readonly string[]): string =>
  changes.length <= MAX_LISTED
    ? changes.join(", ")
    : `${changes.slice(0, MAX_LISTED).join(", ")} and ${changes.length - MAX_LISTED} more changes`;

/**
 * Takes over what no restore may undo: keys that were revoked or disabled stay so, because their secret may be known to others;
 * and the audit trail only grows. Adds the entry of the restore itself.
 */
export function keepAfterRestore(store: DatabaseSync | undefined, backup: DatabaseSync, restored: AuditEntry): void {
  const add = backup.prepare(`insert into audit (${AUDIT_COLUMNS}) values (?, ?, ?, ?, ?, ?)`);
  backup.exec("begin immediate");
  if (store) {
    const stop = backup.prepare(
      "update key set revoked = ifnull(revoked, ?), disabled = ifnull(disabled, ?), changed = ? where id = ?",
    );
    let { last } = backup.prepare("select ifnull(max(changed), 0) as last from key").get() as { last: number };
    const closed = store.prepare(
      "select id, revoked, disabled from key where revoked is not null or disabled is not null",
    );
    for (const { id, revoked, disabled } of closed.all())
      stop.run(revoked as number | null, disabled as number | null, ++last, String(id));
    const { newest } = backup.prepare("select ifnull(max(time), 0) as newest from audit").get() as { newest: number };
    const later = store.prepare(`select ${AUDIT_COLUMNS} from audit where time > ? order by id`).all(newest);
    for (const { time, who, address, action, subject, detail } of later)
      add.run(...([time, who, address, action, subject, detail] as [number, string, string, string, string, string]));
  }
  add.run(...auditValues(restored));
  backup.exec("commit");
}
