import { LIMITS_HELP } from "../../text/key-limits.ts";
import { MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `keys create NAME [--group …] [--models …] [--expires 90d] …
                               make a key; it is printed once
  keys list | show KEY         list the keys, or show all fields of one; never a key itself
  keys set KEY [--models …] …  change a key's permissions, owner or expiry
  keys rotate KEY [--overlap 24h]
                               replace a key; both work for a while
  keys disable | enable | revoke KEY
                               disable or enable a key, or revoke it for good`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} keys create NAME [FIELDS] [--json]
       ${COMMAND} keys list [--json]
       ${COMMAND} keys show KEY [--json]
       ${COMMAND} keys set KEY [--name NAME] [FIELDS] [--json]
       ${COMMAND} keys rotate KEY [--overlap 24h] [--json]
       ${COMMAND} keys disable|enable|revoke KEY [--json]

  create   makes a key and prints it, only this once
  list     shows all keys, those of gateway.yaml included, but never a key itself
  show     shows all fields of one, and how much of its budgets and its groups' is spent
  set      changes the fields of the given options; an empty text removes a field: --models "", --expires never, --tag team=
  rotate   prints another key with the same id and scope; the old one works for the time of --overlap: 24h, or 0s for not at all
  disable  disables a key until it is enabled; its running requests end
  revoke   revokes a key for good; its running requests end, in all running gateways

KEY is a name or an id.

  --group PATH       its group, like acme/research
  --models a,b       ids of models that it may use, with * as a wildcard, like fast,smart-*
  --paths a,b        paths it may use, like /v1/chat/*
  --addresses a,b    addresses and ranges from which it may be used, like 10.0.0.0/8
  --owner NAME       the person or team that has it
  --tag NAME=VALUE   a label by which usage can be summed; may be given several times
  --expires WHEN     the time from which it no longer works: ${MOMENT_FORMS}
${LIMITS_HELP}
  --json             prints JSON`;
