import { importNames } from "../../setup/import-names.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `init [--from KIND FILE] …    write a gateway.yaml: of the vendors' keys in the environment, or of a file
                               of another gateway`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} init [--models NAMES] [--out FILE] [--force] [--yes] [--json]
       ${COMMAND} init --from KIND FILE [--out FILE] [--force] [--json]

Looks for vendors' keys in the environment, and for model servers on this machine, asks each which models it has, and writes a
short gateway.yaml with those you choose. Then prints a key, a curl that works as soon as the gateway runs, and the clients
found here. Secrets stay where they are: the file names their variables.

  --from KIND FILE  turns the file of another gateway into ours, and lists what has no counterpart. KIND is one of
                    ${importNames().join(", ")}
  --models NAMES    takes models by name instead of those that are marked, separated by commas; * stands for any text
  --out FILE        where to write; absent: gateway.yaml; - prints it instead
  --force           writes over a file that exists
  --yes             takes the marked models without asking
  --json            prints what was found and written as JSON

Exit codes: 0 written, 1 it could not be, 2 not understood.`;
