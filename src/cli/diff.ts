import type { Reloaded } from "../reloads.ts";
import { ADMIN_HELP, type AskedAdmin, adminOf } from "./admin-client.ts";
import { answerOf, OPTIONS, sayRestart } from "./reload.ts";
import { argumentsOf, COMMAND, type Terminal } from "./verb.ts";

/** The line in the overall help. */
export const help = `diff [--json]                show what a reload would change`;

/** The text of the verb's `--help`. */
export const USAGE = `usage: ${COMMAND} diff [--admin ADDRESS] [--token TOKEN] [--json]

Shows what would change if the gateway that runs were reloaded: settings, in the words of gateway.yaml, with what they are and
would be, plugins whose code is another, secrets that are. No secret is printed.

${ADMIN_HELP}admin or viewer token, where the admin side has one; absent: the variable ADMIN_TOKEN
  --json          prints JSON

Exit codes: 0 nothing would change, 1 something would, is wrong, or nobody answers, 2 not understood.`;

/** Runs the verb `diff`. Returns the exit code. @throws Misuse */
export async function run(
  args: readonly string[],
  io: Terminal,
  admin: AskedAdmin | string | undefined,
): Promise<number> {
  const { values } = argumentsOf(args, OPTIONS);
  const found = await answerOf(io, adminOf(values.admin, admin, io.folder), values.token, "/api/config/diff");
  if (!found) return 1;
  const { changes, restart } = found as Pick<Reloaded, "changes" | "restart">;
  if (values.json) io.out(JSON.stringify(found, undefined, 2));
  else if (changes.length === 0) io.out("Nothing would change.");
  else
    for (const { path, before, after } of changes) io.out(`${path}: ${before ?? "(absent)"} -> ${after ?? "(gone)"}`);
  if (!values.json) sayRestart(restart, io);
  return changes.length === 0 ? 0 : 1;
}
