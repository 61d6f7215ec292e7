import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { groupDigits } from "../../text/table.ts";
import { COMMAND } from "../verb.ts";

/** The largest number that `--last` takes. */
export const MAX_ENTRIES = 1_000;

/** The lines of the overall help. */
export const help = `usage [--by key,group,model,target,tag,day] [--since 24h] [--until 2026-11-01]
                               show requests, tokens and money (--last N, --rows: one by one)`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} usage [--by LIST] [--since WHEN] [--until WHEN] [--json|--csv]
       ${COMMAND} usage --rows --json [--since WHEN] [--until WHEN]
       ${COMMAND} usage --last N [--json]

Shows requests, tokens and money.

  --by LIST       sums by one or more of key, group, model, target, tag, day; absent: model. Days are those of
                  gateway.yaml's timezone, as for budgets; group and tags are the key's at the time of the request; a request with
                  several tags counts for each
  --since WHEN    requests from this time on; absent: from the first request
  --until WHEN    requests before this time; absent: now
  --last N        the newest N requests one by one, at most ${groupDigits(MAX_ENTRIES)}
  --rows          every request that has ended, one JSON object per line, newest last, also those that a running gateway has
                  not stored yet
  --json          prints JSON; money in nano-dollars, times in Unix milliseconds
  --csv           prints CSV; money in dollars

If requests wait in the journal until the store can be written, a line on standard error says so; output and exit code
are as always.

WHEN is ${PAST_MOMENT_FORMS}.`;
