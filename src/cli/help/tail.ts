import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `tail [--key …] [--model …] [--status …] [--once]
                               show requests as they end, from the ledger`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} tail [--key NAME] [--model ID] [--status 429|4xx|5xx] [--since WHEN] [--once] [--json]

Shows each request when it ends, one per line, from the ledger; also those of another gateway process on this machine.

  --key, --model   only requests of this key (name or id) or model
  --status CODE    only this status; 4xx and 5xx match all from 400 and 500
  --since WHEN     begins at this time instead of now
  --once           exits after the existing requests
  --json           prints one JSON object per line

WHEN is ${PAST_MOMENT_FORMS}.`;
