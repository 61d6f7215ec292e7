import { sanitizeText } from "../../wire/utf8.ts";
import { AUDIT_COLUMNS, Audit, type AuditEntry, auditEntry, auditValues, type NumberedAuditEntry } from "../audit.ts";
import type { PostgresDatabase } from "./database.ts";

/** The audit trail in PostgreSQL. */
export class PostgresAudit extends Audit {
  constructor(private readonly database: Pick<PostgresDatabase, "query">) {
    super();
  }

  override async add(entry: AuditEntry): Promise<void> {
    const values = auditValues(entry).map((value) => (typeof value === "string" ? sanitizeText(value) : value));
    await this.database.query(INSERT, ...values);
  }

  override async list(limit: number, before = Number.MAX_SAFE_INTEGER): Promise<NumberedAuditEntry[]> {
    return (await this.database.query(NEWEST, before, limit)).map(auditEntry);
  }
}

const INSERT = `insert into audit (${AUDIT_COLUMNS}) values (?::bigint, ?::text, ?::text, ?::text, ?::text, ?::text)`;
const NEWEST = "select * from audit where id < ?::bigint order by id desc limit ?::integer";
