import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `groups [--since 24h] [--json]
                               show groups, their keys and what they have spent`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} groups [--since WHEN] [--json]

Shows the groups that keys belong to, or have belonged to while they were used. What stands behind a group is of all groups
below it too: acme counts what acme/research does. Where gateway.yaml gives a group a budget, what is spent of it stands there too.

  --since WHEN    from when on; without it: from the first request
  --json          prints JSON; money in nano-dollars

WHEN is ${PAST_MOMENT_FORMS}.`;
