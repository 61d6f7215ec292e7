import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "routes [--json]              show which path is served by which chain, in which protocol";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} routes [--json]

Shows every path that is served: what answers there, and the plugins that its requests pass, in order. Answers pass them back
from the last to the first.

  --json   prints [{ path, answers, protocol, chain, plugins, strict }]`;
