/** Who made a change, and from where. */
export interface Author {
  /** Who signed in, `local` where nobody does; `cli:` and the system's user; `signal`, `watch`. */
  readonly who: string;
  /** Of the client; the name of the machine, where there is none. */
  readonly address: string;
}

/** One change, whichever way it was made. */
export interface AuditEntry extends Author {
  /** Unix milliseconds. */
  readonly time: number;
  /** Like `keys.create`. */
  readonly action: string;
  /** What was changed, by its name or id. */
  readonly subject: string;
  /** No secrets. */
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface NumberedAuditEntry extends AuditEntry {
  /** Later ones have greater numbers. */
  readonly id: number;
}

/** What an edit has set, for the detail of its entry, and beside it what was there before; null: nothing. */
export const editDetail = (before: object | undefined, edit: object): AuditEntry["detail"] => {
  const was = Object.fromEntries(
    Object.keys(edit).map((name) => [name, (before as Record<string, unknown>)?.[name] ?? null]),
  );
  return before ? { ...edit, was } : { ...edit };
};

/** The trail of changes: it only grows. */
export abstract class Audit {
  /** @throws what the store says where it cannot be written */
  abstract add(entry: AuditEntry): Promise<void>;
  /** Newest first. @param before the id of the last one that is known already */
  abstract list(limit: number, before?: number): Promise<NumberedAuditEntry[]>;
}

/** Columns in the order in which an entry's values are bound. */
export const AUDIT_COLUMNS = "time, who, address, action, subject, detail";

export const auditValues = ({ time, who, address, action, subject, detail }: AuditEntry) =>
  [time, who, address, action, subject, JSON.stringify(detail)] as const;

/** An entry of a row of either store. */
export const auditEntry = (row: Record<string, unknown>): NumberedAuditEntry => ({
  id: Number(row["id"]),
  time: Number(row["time"]),
  ...{ who: String(row["who"]), address: String(row["address"]), action: String(row["action"]) },
  subject: String(row["subject"]),
  detail: JSON.parse(String(row["detail"])) as Record<string, unknown>,
});
