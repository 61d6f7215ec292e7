import { LIMITS_HELP } from "../../text/key-limits.ts";
import { MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `keys create NAME [--group …] [--models …] [--expires 90d] …
                               make a key; it is printed once
  keys list | show KEY         show all keys, or all of one; never a key itself
  keys set KEY [--models …] …  change what a key may do, whose it is, when it expires
  keys rotate KEY [--overlap 24h]
                               another key in its place; both work for a while
  keys disable | enable | revoke KEY
                               switch a key off and on again, or end it for good`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} keys create NAME [FIELDS] [--json]
       ${COMMAND} keys list [--json]
       ${COMMAND} keys show KEY [--json]
       ${COMMAND} keys set KEY [--name NAME] [FIELDS] [--json]
       ${COMMAND} keys rotate KEY [--overlap 24h] [--json]
       ${COMMAND} keys disable|enable|revoke KEY [--json]

  create   makes a key and prints it, this once
  list     shows all keys, those of gateway.yaml included, but never a key itself
  show     shows all that is known of one, and what is spent of its budgets and its groups'
  set      changes what its options name; an empty text takes a field away: --models "", --expires never, --tag team=
  rotate   prints another key with the same id and scope; the old one works for --overlap: 24h, or 0s for not at all
  disable  switches a key off until it is enabled; what runs for it ends
  revoke   ends a key for good; what runs for it ends, also in a gateway that is running

KEY is a name or an id.

  --group PATH       the group it belongs to, like acme/research
  --models a,b       ids of models it may use, also with *, like fast,smart-*
  --paths a,b        paths it may use, like /v1/chat/*
  --addresses a,b    addresses and ranges it may be used from, like 10.0.0.0/8
  --owner NAME       whose it is
  --tag NAME=VALUE   what usage can be summed up by; may come several times
  --expires WHEN     when it stops working: ${MOMENT_FORMS}
${LIMITS_HELP}
  --json             prints JSON`;
