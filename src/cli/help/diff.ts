import { COMMAND } from "../verb.ts";
import { ADMIN_HELP } from "./admin-options.ts";

/** The line of the overall help. */
export const help = `diff [--json]                show what a reload would change`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} diff [--admin ADDRESS] [--token TOKEN] [--json]

Shows what would change if the gateway that runs were reloaded: settings, in the words of gateway.yaml, with what they are and
would be, plugins whose code is another, secrets that are. No secret is printed.

${ADMIN_HELP}admin or viewer token, where the admin side has one; absent: the variable ADMIN_TOKEN
  --json          prints JSON

Exit codes: 0 nothing would change, 1 something would, is wrong, or nobody answers, 2 not understood.`;
