import { hostname, userInfo } from "node:os";
import type { Author } from "../store/audit.ts";
import type { Initiator } from "../trail.ts";

/** Returns the user of a verb for the audit trail. */
export const commandLine = (): Author => ({ who: `cli:${systemUser()}`, address: hostname() });

/** Returns the author of a signal, whose sender is unknown. */
export const signalled = (signal: NodeJS.Signals): Initiator => ({
  ...{ who: "signal", address: hostname() },
  detail: { signal },
});

/** Returns the author of reloads by `--watch`. */
export const watcher = (): Author => ({ who: "watch", address: hostname() });

/** Returns the operating system's user name; the number where there is none, as in many containers. */
export function systemUser(look: () => { username: string } = userInfo): string {
  try {
    return look().username;
  } catch {
    return String(process.getuid?.() ?? "unknown");
  }
}
