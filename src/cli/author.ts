import { hostname, userInfo } from "node:os";
import type { Initiator } from "../audit-trail.ts";
import { thrownMessage } from "../core/errors.ts";
import type { Audit, AuditEntry, Author } from "../store/audit.ts";

/** Returns the user of a verb for the audit trail. */
export const cliAuthor = (): Author => ({ who: `cli:${systemUser()}`, address: hostname() });

/** A change for the audit trail, with the same names as in the admin API. */
export type AuditedChange = Pick<AuditEntry, "action" | "subject" | "detail">;

/** @throws Error if the trail cannot be written: the change, already printed, stays */
export async function recordChange(changed: AuditedChange, audit: Audit): Promise<void> {
  try {
    await audit.add({ time: Date.now(), ...cliAuthor(), ...changed });
  } catch (thrown) {
    throw new Error(`This is done, but missing in the audit trail: ${thrownMessage(thrown)}`);
  }
}

/** Returns the author of a signal, whose sender is unknown. */
export const signalInitiator = (signal: NodeJS.Signals): Initiator => ({
  ...{ who: "signal", address: hostname() },
  detail: { signal },
});

/** Returns the author of reloads by `--watch`. */
export const watchAuthor = (): Author => ({ who: "watch", address: hostname() });

/** Returns the operating system's user name; the number where there is none, as in many containers. */
export function systemUser(look: () => { username: string } = userInfo): string {
  try {
    return look().username;
  } catch {
    return String(process.getuid?.() ?? "unknown");
  }
}
