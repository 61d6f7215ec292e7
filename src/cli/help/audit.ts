import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help =
  "audit [--level high] [--ignore IDS] [--json]\n                               advice on gateway.yaml: what is allowed, but not wise";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} audit [--level LEVEL] [--ignore IDS] [--json]

Says what check finds right, and what is not wise all the same: who may come in, what they may spend, what is lost when a
provider fails, what others can read. Each piece of advice has an id and a level.

  --level LEVEL   exit code 1 for advice of this level or above: high, medium or low; absent: high
  --ignore IDS    leaves these out, separated by commas
  --json          prints [{ id, level, about, at, says, fix }]; at: file:line, where what it is about stands in the file

Exit codes: 0 nothing of that level, 1 something, 2 not understood.`;
