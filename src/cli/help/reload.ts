import { COMMAND } from "../verb.ts";
import { ADMIN_HELP } from "./admin-options.ts";

/** The lines of the overall help. */
export const help = `reload [--json]              make the running gateway load gateway.yaml again`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} reload [--admin ADDRESS] [--token TOKEN] [--json]

Makes the running gateway load gateway.yaml, its secrets' files and its plugins again, through its admin listener; the next request
uses them. If there are mistakes, nothing changes, and they are listed.

${ADMIN_HELP}the admin token, if the admin listener requires one; absent: the variable ADMIN_TOKEN
  --json          prints JSON

Exit codes: 0 reloaded, 1 mistakes, or the gateway does not respond, 2 not understood.`;
