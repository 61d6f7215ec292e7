import type { ReloadResult } from "../reloads.ts";
import { ADMIN_OPTIONS, type AdminEndpoint, askAdmin, selectAdmin } from "./admin-client.ts";
import { printNotices, printRestart } from "./reload.ts";
import { parseVerbArguments, printJson, type Terminal } from "./verb.ts";

/** Runs the verb `diff`. Returns the exit code. @throws UsageError */
export async function runDiff(
  args: readonly string[],
  io: Terminal,
  admin: AdminEndpoint | string | undefined,
): Promise<number> {
  const { values } = parseVerbArguments(args, ADMIN_OPTIONS);
  const found = await askAdmin(selectAdmin(values.admin, admin, io.folder), values.token, io, "/api/config/diff");
  if (!found) return 1;
  const { changes, restart, notices } = found as Omit<ReloadResult, "generation">;
  if (values.json) printJson(found, io);
  else if (changes.length === 0) io.out("Nothing would change.");
  else
    for (const { path, before, after } of changes) io.out(`${path}: ${before ?? "(absent)"} -> ${after ?? "(gone)"}`);
  if (!values.json) {
    printRestart(restart, io);
    printNotices(notices, io);
  }
  return changes.length === 0 ? 0 : 1;
}
