import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `tail [--key …] [--model …] [--status …] [--once]
                               show requests as they end, from the ledger`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} tail [--key NAME] [--model ID] [--status 429|4xx|5xx] [--since WHEN] [--once] [--json]

Shows each request as it ends, a line each, as the ledger has it: also of a gateway that runs on this machine.

  --key, --model   only those of this key, by name or id, or model
  --status CODE    only this status; 4xx and 5xx are all of their hundred
  --since WHEN     begins there instead of now: ${PAST_MOMENT_FORMS}
  --once           ends when all there is has been shown
  --json           prints a JSON object a line`;
