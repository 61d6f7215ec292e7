import { COMMAND } from "../verb.ts";
import { ADMIN_HELP } from "./admin-options.ts";

/** The line of the overall help. */
export const help = "top [--once] [--json]        show live requests: age, key, model, tokens so far";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} top [--admin ADDRESS] [--token TOKEN] [--once] [--json]

Shows the running requests of the gateway of this gateway.yaml, twice a second, the oldest first, through its admin listener.

${ADMIN_HELP}admin or viewer token, if the admin listener requires one; absent: the variable ADMIN_TOKEN
  --once          shows them once, and exits
  --json          prints JSON, once

Exit codes: 0 shown, 1 the admin listener does not respond, 2 not understood.`;
