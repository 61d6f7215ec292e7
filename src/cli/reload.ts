import { ConfigError, type Problem } from "../config/problems.ts";
import type { ReloadResult } from "../reloads.ts";
import { UsageError } from "../text/format-error.ts";
import { type AdminEndpoint, requestAdmin, selectAdmin } from "./admin-client.ts";
import { systemUser } from "./author.ts";
import { parseVerbArguments, type Terminal } from "./verb.ts";

export const ADMIN_OPTIONS = {
  admin: { type: "string" },
  token: { type: "string" },
  json: { type: "boolean" },
} as const;

/** Runs the verb `reload`. Returns the exit code. @throws UsageError */
export async function runReload(
  args: readonly string[],
  io: Terminal,
  admin: AdminEndpoint | string | undefined,
): Promise<number> {
  const { values } = parseVerbArguments(args, ADMIN_OPTIONS);
  const by = { user: systemUser().slice(0, 100) };
  const found = await adminResponse(io, selectAdmin(values.admin, admin, io.folder), values.token, "/api/reload", by);
  if (!found) return 1;
  const { changes, restart, generation } = found as ReloadResult;
  if (values.json) io.out(JSON.stringify(found, undefined, 2));
  else {
    const what = changes.length === 1 ? "one change" : `${changes.length} changes`;
    io.out(changes.length === 0 ? "Nothing has changed." : `Reloaded: ${what}, generation ${generation}.`);
    printRestart(restart, io);
  }
  return 0;
}

/** Prints the settings that take effect only at the next start. */
export function printRestart(restart: readonly string[], io: Terminal): void {
  if (restart.length > 0) io.out(`At the next start only: ${restart.join(", ")}.`);
}

/** Returns the admin side's response; undefined after printing an error. @param sent a change @throws UsageError, ConfigError */
export async function adminResponse(
  io: Terminal,
  admin: AdminEndpoint | undefined,
  token: string | undefined,
  path: string,
  sent?: object,
): Promise<unknown> {
  if (!admin) throw new UsageError("admin: is off in gateway.yaml: send the gateway a SIGHUP, and look at its log.");
  try {
    const { status, body } = await requestAdmin(
      admin,
      token ?? io.env["ADMIN_TOKEN"],
      path,
      sent ? "POST" : "GET",
      sent,
    );
    if (status === 200) return body;
    const { message, problems } = (body as { error: { message: string; problems?: Problem[] } }).error;
    // Printed like the problems of a file that was read here.
    if (problems) throw new ConfigError(problems);
    io.err(message);
  } catch (thrown) {
    if (thrown instanceof ConfigError) throw thrown;
    io.err((thrown as Error).message);
  }
  return undefined;
}
