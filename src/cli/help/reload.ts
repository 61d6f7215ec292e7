import { COMMAND } from "../verb.ts";
import { ADMIN_HELP } from "./admin-options.ts";

/** The lines of the overall help. */
export const help = `reload [--json]              have the running gateway serve what gateway.yaml says now`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} reload [--admin ADDRESS] [--token TOKEN] [--json]

Has the gateway that runs serve what gateway.yaml, its secrets' files and its plugins say now, from the next request on; asks its
admin side. Where something is wrong nothing has changed, and this says what.

${ADMIN_HELP}the admin token, where the admin side has one; absent: the variable ADMIN_TOKEN
  --json          prints JSON

Exit codes: 0 reloaded, 1 something is wrong or nobody answers, 2 not understood.`;
