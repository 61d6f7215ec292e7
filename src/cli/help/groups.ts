import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `groups [--since 24h] [--json]
                               show groups, their keys and what they have spent
  groups disable | enable GROUP
                               disable or enable all keys of a group`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} groups [--since WHEN] [--json]
       ${COMMAND} groups disable|enable GROUP [--json]

Shows the groups to which keys belong, or belonged when they were used. The figures of a group include all groups below it: acme
includes acme/research. If gateway.yaml gives a group a budget, its spending is shown too.

  disable  refuses the keys of the group and of all groups below it, those in gateway.yaml too, until it is enabled; their running
           requests end, in all running gateways

  --since WHEN    requests from this time on; absent: from the first request
  --json          prints JSON; money in nano-dollars

If requests wait in the journal until the store can be written, a line on standard error says so; output and exit code
are as always.

WHEN is ${PAST_MOMENT_FORMS}.`;
