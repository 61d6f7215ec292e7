import { ConfigError, type Problem } from "../config/problems.ts";
import type { Reloaded } from "../reloads.ts";
import { Misuse } from "../text/reason.ts";
import { type AskedAdmin, adminOf, askAdmin } from "./admin-client.ts";
import { systemUser } from "./author.ts";
import { argumentsOf, type Terminal } from "./verb.ts";

export const OPTIONS = { admin: { type: "string" }, token: { type: "string" }, json: { type: "boolean" } } as const;

/** Runs the verb `reload`. Returns the exit code. @throws Misuse */
export async function run(
  args: readonly string[],
  io: Terminal,
  admin: AskedAdmin | string | undefined,
): Promise<number> {
  const { values } = argumentsOf(args, OPTIONS);
  const by = { user: systemUser().slice(0, 100) };
  const found = await answerOf(io, adminOf(values.admin, admin, io.folder), values.token, "/api/reload", by);
  if (!found) return 1;
  const { changes, restart, generation } = found as Reloaded;
  if (values.json) io.out(JSON.stringify(found, undefined, 2));
  else {
    const what = changes.length === 1 ? "one change" : `${changes.length} changes`;
    io.out(changes.length === 0 ? "Nothing has changed." : `Reloaded: ${what}, generation ${generation}.`);
    sayRestart(restart, io);
  }
  return 0;
}

/** Prints the settings that take effect only at the next start. */
export function sayRestart(restart: readonly string[], io: Terminal): void {
  if (restart.length > 0) io.out(`At the next start only: ${restart.join(", ")}.`);
}

/** Returns the admin side's response; undefined after printing an error. @param sent a change @throws Misuse, ConfigError */
export async function answerOf(
  io: Terminal,
  admin: AskedAdmin | undefined,
  token: string | undefined,
  path: string,
  sent?: object,
): Promise<unknown> {
  if (!admin) throw new Misuse("admin: is off in gateway.yaml: send the gateway a SIGHUP, and look at its log.");
  try {
    const { status, body } = await askAdmin(admin, token ?? io.env["ADMIN_TOKEN"], path, sent ? "POST" : "GET", sent);
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
