import { importNames } from "../../setup/import-names.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `init [--from KIND FILE] …    write a gateway.yaml: from vendors' keys in the environment, or from a file
                               of another gateway`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} init [--models NAMES] [--out FILE] [--force] [--yes] [--json]
       ${COMMAND} init --from KIND FILE [--out FILE] [--force] [--json]

Finds vendors' keys in the environment, and model servers on this machine, requests their lists of models, and writes a
short gateway.yaml with the models that you choose. Then prints a key, a curl command that works as soon as the gateway runs, and the
clients found here. Secrets stay in the environment: the file names their variables.

  --from KIND FILE  converts another gateway's file, and lists what has no counterpart. KIND is one of
                    ${importNames().join(", ")}
  --models NAMES    takes these models instead of the marked ones, separated by commas; * matches any text
  --out FILE        where to write; absent: gateway.yaml; - prints it instead
  --force           overwrites an existing file
  --yes             takes the marked models without asking
  --json            prints what was found and written as JSON; with --out - also the file

Exit codes: 0 written; 1 not written, or written with mistakes, which are on standard error; 2 not understood.`;
