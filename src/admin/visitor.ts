/** What somebody may do: look, or change things too. */
export type Role = "viewer" | "admin";

/** Who asks. */
export interface Visitor {
  readonly role: Role;
  /** For the audit trail; `local` where nobody signs in. */
  readonly who: string;
  readonly address: string;
  /** Absent: a program that shows a token, or this machine. */
  readonly session?: string;
}
