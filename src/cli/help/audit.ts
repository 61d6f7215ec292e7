import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help =
  "audit [--level high] [--ignore IDS] [--json]\n                               list settings of gateway.yaml that are valid, but risky";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} audit [--level LEVEL] [--ignore IDS] [--json]

Lists settings that check accepts, but that are risky: who has access, what they may spend, what is lost when a
provider fails, what others can read. Each piece of advice has an id and a level.

  --level LEVEL   exit code 1 for advice of this level or above: high, medium or low; absent: high
  --ignore IDS    leaves these out, separated by commas
  --json          prints [{ id, level, about, at, message, fix }]; at: file:line, where to change the file

Exit codes: 0 no advice of that level, 1 some, 2 not understood.`;
