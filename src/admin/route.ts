import type { AuditEntry } from "../store/audit.ts";
import type { AdminSubject } from "./served.ts";
import type { Visitor } from "./visitor.ts";

/** A request to the admin side's API. */
export interface AdminRequest {
  readonly visitor: Visitor;
  readonly query: URLSearchParams;
  /** What the path names, in order. */
  readonly names: readonly string[];
  /** What was sent, as JSON. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** What is answered; a change says what it has changed, for the audit trail. */
export interface AdminAnswer {
  readonly status?: number;
  readonly body?: unknown;
  readonly audit?: Pick<AuditEntry, "action" | "subject" | "detail">;
}

export type AdminAct = (subject: AdminSubject, request: AdminRequest) => Promise<AdminAnswer>;
