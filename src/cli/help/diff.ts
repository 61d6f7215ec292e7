import { COMMAND } from "../verb.ts";
import { ADMIN_HELP } from "./admin-options.ts";

/** The line of the overall help. */
export const help = `diff [--json]                show what a reload would change`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} diff [--admin ADDRESS] [--token TOKEN] [--json]

Shows what a reload of the running gateway would change: settings, named as in gateway.yaml, with their old and new
values, plugins whose code has changed, and secrets that have. No secret is printed.

${ADMIN_HELP}admin or viewer token, if the admin listener requires one; absent: the variable ADMIN_TOKEN
  --json          prints JSON

Exit codes: 0 nothing would change, 1 something would, the file has mistakes or the gateway does not respond, 2 not understood.`;
