import type { Reloaded } from "../reloads.ts";
import { type AskedAdmin, adminOf } from "./admin-client.ts";
import { answerOf, OPTIONS, sayRestart } from "./reload.ts";
import { argumentsOf, type Terminal } from "./verb.ts";

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
