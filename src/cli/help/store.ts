import { PAST_MOMENT_FORMS } from "../../text/moments.ts";
import { COMMAND } from "../verb.ts";

/** Entries of the audit trail that `audit` shows without `--since`. */
export const DEFAULT_ENTRIES = 100;

/** The lines of the overall help. */
export const help = `store backup FILE | restore FILE | import FILE | verify | prune --before DATE | migrate | audit [--since 24h]
                               back up, restore or verify the store, copy a SQLite store into PostgreSQL,
                               delete old rows, migrate it, show the audit trail`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} store backup FILE [--json]
       ${COMMAND} store restore FILE [--force] [--json]
       ${COMMAND} store import FILE [--json]
       ${COMMAND} store verify [--json]
       ${COMMAND} store prune --before WHEN [--json]
       ${COMMAND} store migrate [--json]
       ${COMMAND} store audit [--since WHEN] [--json]

All but restore and import can be run while gateways run.

  backup   writes a copy of the store, rows in its journal included, to a file that must not exist, and beside it, as
           FILE.secret, the secret of envelopes
  restore  checks a backup and replaces the store and its secret by it, when all gateways have stopped. The old store is kept
           beside it as gateway.db.until-TIME, with its journals' rows. If the old store has exchanges after the
           backup's last one, or changes of keys or groups that the backup lacks, they would be lost: then --force is
           required. What was revoked or disabled stays so, rotated keys keep their new secret, and the audit trail keeps
           all its entries
  import   copies a SQLite store, rows in its journals and its secret included, into the empty PostgreSQL database that
           gateway.yaml names, when all gateways have stopped: all of it or, if that fails, nothing
  verify   checks the file, and that the hourly sums match their rows; exit code 1 if they do not,
           or if there is no store yet
  prune    deletes the rows of requests from before a day; their hourly sums stay. The file keeps its size: new rows
           use the free space
  migrate  updates the store's schema, as every start does; it is the only one of these verbs that creates a missing store
  audit    shows the audit trail, newest first: starts, reloads, and each change of keys, groups, providers and sessions, with who
           made it and from where

  --force         also replaces a store with later exchanges or changes of keys or groups
  --before WHEN   the first day that is kept, at least a day ago; days are those of gateway.yaml's
                  timezone
  --since WHEN    shows all entries from this time on; absent: the last ${DEFAULT_ENTRIES}
  --json          prints JSON

WHEN is ${PAST_MOMENT_FORMS}.`;
