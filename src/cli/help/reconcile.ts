import { INVOICE_FIELDS } from "../invoice-columns.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `reconcile INVOICE.csv [--provider NAME] [--tolerance 1%]
                               show where a vendor's invoice and the ledger differ`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} reconcile INVOICE.csv [--provider LIST] [--tolerance 1%] [--timezone ZONE]
                 [--columns LIST] [--only COLUMN=VALUE]…
                 [--match NAME=MODEL]… [--all] [--json]

Shows where what a vendor charges and what the ledger counted differ, day by day and model by model, in tokens and in money,
and what of the file could not be matched. Ends with 0 where both agree, 1 where they differ, 2 where they cannot be compared.

INVOICE.csv is what a vendor's page of usage or of costs exports by day, or any table with a day, a model, and tokens or
dollars. Columns are found by their names; versions' dates behind the names of models do not count.

  --provider LIST    whose it is: names of gateway.yaml's providers; without it: the one that served its models
  --tolerance PART   by how much two figures may differ: 1%. What the cents of its lines are rounded by is let pass too
  --timezone ZONE    where the vendor's days begin: UTC, or another of IANA's, like America/Los_Angeles
  --columns LIST     columns that are called otherwise, as FIELD=NAME with commas between them; FIELD is one of
                     ${Object.keys(INVOICE_FIELDS).join(", ")}
  --only COL=VALUE   only lines that have the value in that column, like api_key=gateway; may come several times, and of one
                     column any of the values will do
  --match NAME=MODEL what the file calls NAME is the provider's MODEL in the ledger; may come several times
  --all              shows what agrees too
  --json             prints JSON; money in nano-dollars`;
