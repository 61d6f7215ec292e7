import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "schema [FILE]                print gateway.yaml's JSON Schema for editors, or write it to FILE";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} schema [FILE] [--json]

Prints the JSON Schema of gateway.yaml, with the options of all available plugins, or writes it to FILE. Editors with
YAML Language Server find it by the first line of gateway.yaml: # yaml-language-server: $schema=./gateway.schema.json

  --json    has no effect: the output is always JSON`;
