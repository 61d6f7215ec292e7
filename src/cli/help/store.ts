import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** Entries of the audit trail that `audit` shows without `--since`. */
export const DEFAULT_ENTRIES = 100;

/** The lines of the overall help. */
export const help = `store backup FILE | restore FILE | verify | prune --before DATE | migrate | audit [--since 24h]
                               copy the store, put a copy in its place, check it, take old rows away, bring it up to date;
                               show who changed what`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} store backup FILE [--json]
       ${COMMAND} store restore FILE [--force] [--json]
       ${COMMAND} store verify [--json]
       ${COMMAND} store prune --before WHEN [--json]
       ${COMMAND} store migrate [--json]
       ${COMMAND} store audit [--since WHEN] [--json]

All of it but restore can be done while gateways run.

  backup   writes a copy of all that the store holds, what is only in its journal included, to a file that must not exist;
           beside it, as FILE.secret, what envelopes are sealed with
  restore  checks a backup and puts it, and its secret, in the store's place, once all gateways have stopped. What was there
           stays beside it as gateway.db.until-TIME, its journals' rows included. Where that has exchanges later than
           the backup's last, or changes of keys that it does not have, they would be gone: then it takes --force. Keys
           that were revoked or disabled stay so, and the audit trail keeps all its entries
  verify   checks the file, and that the sums of hours are those of their rows: 1 where they are not,
           and where there is no store yet
  prune    takes the rows of requests away that came before a day; what they sum up to, hour by hour, stays. The
           file keeps its size: new rows fill the room
  migrate  brings the store up to date, as every start does; it alone makes one where there is none
  audit    shows the audit trail, newest first: starts, reloads, and each change of keys, providers and sessions, with who
           made it and from where

  --force         restores also over a store with later exchanges or changes of keys
  --before WHEN   the first day that stays, a day ago or earlier; days are those of gateway.yaml's
                  timezone: ${PAST_MOMENT_FORMS}
  --since WHEN    shows all from then on; without it the last ${DEFAULT_ENTRIES}: ${PAST_MOMENT_FORMS}
  --json          prints JSON`;
