import type { SqlRunner } from "./sql-runner.ts";

/** The author of a change, and where it came from. */
export interface Author {
  /** The signed-in user, `local` without sign-in; `cli:` and the system's user; `signal`, `watch`. */
  readonly who: string;
  /** The client's address; without a client, the machine's name. */
  readonly address: string;
}

/** One change, made through any interface. */
export interface AuditEntry extends Author {
  /** Unix milliseconds. */
  readonly time: number;
  /** Like `keys.create`. */
  readonly action: string;
  /** The name or id of what was changed. */
  readonly subject: string;
  /** Contains no secrets. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/** A stored entry. */
export interface NumberedAuditEntry extends AuditEntry {
  /** Increases with each entry. */
  readonly id: number;
}

/** Returns the detail of an edit's entry: the fields set, and under `was` their former values; null: none. */
export const editDetail = (before: object | undefined, edit: object): AuditEntry["detail"] => {
  const was = Object.fromEntries(
    Object.keys(edit).map((name) => [name, (before as Record<string, unknown>)?.[name] ?? null]),
  );
  return before ? { ...edit, was } : { ...edit };
};

/** The audit trail; entries are only appended. */
export class Audit {
  constructor(private readonly database: SqlRunner) {}

  /** @throws the store's error when it cannot be written */
  async add(entry: AuditEntry): Promise<void> {
    await this.database.query(INSERT_ENTRY, ...auditValues(entry));
  }

  /** Lists entries, newest first. @param before the id of the last entry already known */
  async list(limit: number, before = Number.MAX_SAFE_INTEGER): Promise<NumberedAuditEntry[]> {
    const newest = "select * from audit where id < ? order by id desc limit ?";
    return (await this.database.query(newest, before, limit)).map(toEntry);
  }
}

/** Columns in the order of the bound values of an entry. */
export const AUDIT_COLUMNS = "time, who, address, action, subject, detail";

/** Inserts an entry with `auditValues`. */
export const INSERT_ENTRY = `insert into audit (${AUDIT_COLUMNS}) values (?, ?, ?, ?, ?, ?)`;

/** Returns the values to bind, in the order of `AUDIT_COLUMNS`. */
export const auditValues = ({ time, who, address, action, subject, detail }: AuditEntry) =>
  [time, who, address, action, subject, JSON.stringify(detail)] as const;

const toEntry = (row: Readonly<Record<string, unknown>>): NumberedAuditEntry => ({
  id: Number(row["id"]),
  time: Number(row["time"]),
  ...{ who: String(row["who"]), address: String(row["address"]), action: String(row["action"]) },
  subject: String(row["subject"]),
  detail: JSON.parse(String(row["detail"])) as Record<string, unknown>,
});
