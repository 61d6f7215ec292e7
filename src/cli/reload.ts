import type { ReloadResult } from "../reloads.ts";
import { ADMIN_OPTIONS, type AdminEndpoint, askAdmin, selectAdmin } from "./admin-client.ts";
import { systemUser } from "./author.ts";
import { parseVerbArguments, printJson, type Terminal } from "./verb.ts";

/** Runs the verb `reload`. Returns the exit code. @throws UsageError */
export async function runReload(
  args: readonly string[],
  io: Terminal,
  admin: AdminEndpoint | string | undefined,
): Promise<number> {
  const { values } = parseVerbArguments(args, ADMIN_OPTIONS);
  const by = { user: systemUser().slice(0, 100) };
  const found = await askAdmin(selectAdmin(values.admin, admin, io.folder), values.token, io, "/api/reload", by);
  if (!found) return 1;
  const { changes, restart, notices, generation } = found as ReloadResult;
  if (values.json) printJson(found, io);
  else {
    const what = changes.length === 1 ? "one change" : `${changes.length} changes`;
    io.out(changes.length === 0 ? "Nothing has changed." : `Reloaded: ${what}, generation ${generation}.`);
    printRestart(restart, io);
    printNotices(notices, io);
  }
  return 0;
}

/** Prints the settings that take effect only at the next start. */
export function printRestart(restart: readonly string[], io: Terminal): void {
  if (restart.length > 0) io.out(`At the next start only: ${restart.join(", ")}.`);
}

/** Prints the warnings of the new configuration. @param notices absent: the gateway is of a version that does not report them */
export function printNotices(notices: readonly string[] | undefined, io: Terminal): void {
  for (const notice of notices ?? []) io.out(`note: ${notice}`);
}
