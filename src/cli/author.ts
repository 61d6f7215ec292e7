import { hostname, userInfo } from "node:os";
import type { Author } from "../store/audit.ts";
import type { Initiator } from "../trail.ts";

/** Whoever runs a verb, as the audit trail names them. */
export const commandLine = (): Author => ({ who: `cli:${systemUser()}`, address: hostname() });

/** Who sends a signal, nobody can tell. */
export const signalled = (signal: NodeJS.Signals): Initiator => ({
  ...{ who: "signal", address: hostname() },
  detail: { signal },
});

/** Files that have changed, which `--watch` has noticed. */
export const watcher = (): Author => ({ who: "watch", address: hostname() });

/** The operating system's name of whoever runs this; a number where it has none, as in many containers. */
export function systemUser(look: () => { username: string } = userInfo): string {
  try {
    return look().username;
  } catch {
    return String(process.getuid?.() ?? "unknown");
  }
}
