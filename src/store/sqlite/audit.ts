import type { StatementSync } from "node:sqlite";
import { AUDIT_COLUMNS, Audit, type AuditEntry, auditEntry, auditValues, type NumberedAuditEntry } from "../audit.ts";
import type { SqliteDatabase } from "./database.ts";

/** The audit trail in SQLite. */
export class SqliteAudit extends Audit {
  private readonly insert: StatementSync;
  private readonly newest: StatementSync;

  constructor(private readonly database: SqliteDatabase) {
    super();
    this.insert = database.prepare(`insert into audit (${AUDIT_COLUMNS}) values (?, ?, ?, ?, ?, ?)`);
    this.newest = database.prepare("select * from audit where id < ? order by id desc limit ?");
  }

  override async add(entry: AuditEntry): Promise<void> {
    await this.database.retryWhileBusy(() => this.insert.run(...auditValues(entry)));
  }

  override async list(limit: number, before = Number.MAX_SAFE_INTEGER): Promise<NumberedAuditEntry[]> {
    return this.newest.all(before, limit).map(auditEntry);
  }
}
