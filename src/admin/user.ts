/** What somebody may do: read only, or change things too. */
export type Role = "viewer" | "admin";

/** The sender of a request. */
export interface AdminUser {
  readonly role: Role;
  /** For the audit trail; `local` where no sign-in is needed. */
  readonly who: string;
  readonly address: string;
  /** Absent: a program with a token, or a local process. */
  readonly session?: string;
}
