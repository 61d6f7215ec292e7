import { COMMAND } from "../verb.ts";
import { ADMIN_HELP } from "./admin-options.ts";

/** The line of the overall help. */
export const help = "top [--once] [--json]        show live requests: age, key, model, tokens so far";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} top [--admin ADDRESS] [--token TOKEN] [--once] [--json]

Shows what runs in the gateway of this gateway.yaml, twice a second, the oldest first; asks its admin side.

${ADMIN_HELP}admin or viewer token, where the admin side has one; absent: the variable ADMIN_TOKEN
  --once          shows it once, and ends
  --json          prints JSON, once

Exit codes: 0 shown, 1 the admin side does not answer, 2 not understood.`;
