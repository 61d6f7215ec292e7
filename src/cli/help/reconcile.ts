import { INVOICE_FIELDS } from "../invoice-columns.ts";
import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `reconcile INVOICE.csv [--provider NAME] [--tolerance 1%]
                               compare a vendor's invoice with the ledger`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} reconcile INVOICE.csv [--provider LIST] [--tolerance 1%] [--timezone ZONE]
                 [--columns LIST] [--only COLUMN=VALUE]…
                 [--match NAME=MODEL]… [--all] [--json]

Shows where a vendor's invoice and the ledger differ, by day and model, in tokens and in money, and which lines of the
file could not be matched. Exit codes: 0 both agree, 1 they differ, 2 they cannot be compared.

INVOICE.csv is a daily export of a vendor's usage or cost page, or any table with a day, a model, and tokens or
dollars. Columns are found by their names; version dates at the end of model names are ignored.

  --provider LIST    the providers in gateway.yaml that it is from; absent: the one that served its models
  --tolerance PART   the accepted difference of two figures: 1%. Differences due to lines rounded to cents are accepted too
  --timezone ZONE    the time zone of the vendor's days: UTC, or another IANA name, like America/Los_Angeles
  --columns LIST     columns with other names, as FIELD=NAME, separated by commas; FIELD is one of
                     ${Object.keys(INVOICE_FIELDS).join(", ")}
  --only COL=VALUE   only lines with this value in that column, like api_key=gateway; may be given several times; of one
                     column any of the values matches
  --match NAME=MODEL NAME in the file is the provider's MODEL in the ledger; may be given several times
  --all              also shows what agrees
  --json             prints JSON; money in nano-dollars`;
