import { resolve } from "node:path";
import { Days } from "../core/calendar.ts";
import type { Limits } from "../core/limit-kinds.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { NumberedAuditEntry } from "../store/audit.ts";
import { DAY, HOUR } from "../store/ledger-sums.ts";
import type { Maintenance, ProgressListener, RestoreOptions, RestoreResult } from "../store/maintenance.ts";
import type { StoreImport } from "../store/postgres/import.ts";
import { UsageError } from "../text/format-error.ts";
import { formatOwnLimits } from "../text/key-limits.ts";
import { countNoun, formatUtc, groupDigits, printTable } from "../text/table.ts";
import { cliAuthor } from "./author.ts";
import { reportBehind } from "./behind.ts";
import { DEFAULT_ENTRIES } from "./help/store.ts";
import { parsePastOption, parseVerbArguments, printFailure, printJson, type Terminal, wrongCommand } from "./verb.ts";

/** Entries of the audit trail that are read at a time. */
const PAGE_ENTRIES = 1000;
/** Maximum characters of an entry's detail; JSON is not cut. */
const MAX_DETAIL_LENGTH = 160;

const OPTIONS = {
  before: { type: "string" },
  force: { type: "boolean", default: false },
  since: { type: "string" },
  json: { type: "boolean", default: false },
} as const;

const COMMANDS = ["backup", "restore", "import", "verify", "prune", "migrate", "audit"];

type StoreCommand =
  | { verb: "backup"; file: string; json: boolean }
  | { verb: "import"; file: string; json: boolean }
  | { verb: "restore"; file: string; force: boolean; json: boolean }
  | { verb: "prune"; before: number; day: string; json: boolean }
  | { verb: "audit"; since: number | undefined; json: boolean }
  | { verb: "verify" | "migrate"; json: boolean };

/** Operations on the store that gateway.yaml names. */
interface StoreOperations {
  /**
   * Opens the store; the verb closes it.
   * @param makes whether a missing store is created
   * @throws Error if it does not exist and is not created
   */
  openStore(makes: boolean): MaybePromise<Maintenance>;
  restore(file: string, options: RestoreOptions): Promise<RestoreResult>;
  /** Copies a SQLite store into the database. */
  importFrom(file: string, terms: Omit<RestoreOptions, "force">): Promise<StoreImport>;
  /** Describes the consequences if the secret beside the store is missing; undefined: it is not. */
  missingSecretWarning(): string | undefined;
  /** The time zone of days. */
  zone(): string;
}

/** Runs the verb `store`. Returns the exit code: 0 done, 1 failed or found problems. @throws UsageError */
export async function runStore(
  args: readonly string[],
  io: Terminal,
  { openStore, restore, importFrom, missingSecretWarning, zone }: StoreOperations,
): Promise<number> {
  let maintenance: Maintenance | undefined;
  try {
    const command = parseArguments(args, io.folder, zone);
    if (command.verb === "restore") return await runRestore(command, restore, io, missingSecretWarning);
    if (command.verb === "import") return await runImport(command, importFrom, io);
    maintenance = await openStore(command.verb === "migrate");
    return await runCommand(command, maintenance, io, missingSecretWarning);
  } catch (error) {
    return printFailure(error, io);
  } finally {
    await maintenance?.close();
  }
}

async function runRestore(
  { file, force, json }: Extract<StoreCommand, { verb: "restore" }>,
  restore: StoreOperations["restore"],
  io: Terminal,
  withoutSecret: StoreOperations["missingSecretWarning"],
): Promise<number> {
  const {
    rows,
    kept,
    retained = [],
    undone = [],
  } = await restore(file, {
    ...{ force, author: cliAuthor() },
    progress: (message) => io.err(`restore: ${message}`),
  });
  for (const change of retained) io.err(`restore: kept, although the backup does not contain it: ${change}`);
  for (const change of undone) io.err(`restore: warning: undone, because the backup does not contain it: ${change}`);
  const missing = withoutSecret();
  const warning = missing && `the backup has no secret: ${missing}`;
  if (warning) io.err(`restore: warning: ${warning}`);
  const before = kept === undefined ? "" : ` The old store is ${kept}.`;
  io.out(
    json
      ? JSON.stringify({
          ...{ file, rows, kept },
          ...(retained.length > 0 && { retained }),
          ...(undone.length > 0 && { undone }),
          ...(warning && { warning }),
        })
      : `Restored ${file}: ${countNoun(rows, "row")}, verified.${before}`,
  );
  return 0;
}

async function runImport(
  { file, json }: Extract<StoreCommand, { verb: "import" }>,
  importFrom: StoreOperations["importFrom"],
  io: Terminal,
): Promise<number> {
  const progress: ProgressListener = (message) => io.err(`import: ${message}`);
  const { rows, secret } = await importFrom(file, { author: cliAuthor(), progress });
  if (!secret) progress(`warning: there is no ${file}.secret, so the secret of envelopes was not copied`);
  const { key, usage, object } = rows;
  const counts = [countNoun(key, "key"), countNoun(usage, "request"), countNoun(object, "object")].join(", ");
  io.out(
    json
      ? JSON.stringify({ file, rows, secret })
      : `Copied ${file}: ${counts}, with all sums, prices and the audit trail. ${file} is as it was; move it away.`,
  );
  return 0;
}

async function runCommand(
  command: Exclude<StoreCommand, { verb: "restore" | "import" }>,
  maintenance: Maintenance,
  io: Terminal,
  withoutSecret: StoreOperations["missingSecretWarning"],
): Promise<number> {
  const progress: ProgressListener = (message) => io.err(`${command.verb}: ${message}`);
  const print = (report: object, text: string) => io.out(command.json ? JSON.stringify(report) : text);
  if (command.verb === "backup") {
    const behind = reportBehind(maintenance, io, "store and journal");
    const { bytes, rows } = await maintenance.backup(command.file, progress);
    const missing = withoutSecret();
    const warning = missing && `the copy has no secret: ${missing}`;
    if (warning) progress(`warning: ${warning}`);
    print(
      { file: command.file, bytes, rows, ...(warning && { warning }), ...behind },
      `${command.file}: ${countNoun(rows, "row")}, ${groupDigits(bytes)} bytes, verified.`,
    );
  } else if (command.verb === "prune") {
    const removed = await maintenance.prune(command.before, progress);
    const { day } = command;
    print({ removed, before: day }, `${countNoun(removed, "row")} from before ${day} deleted; their hourly sums stay.`);
  } else if (command.verb === "migrate") {
    const { from, to } = maintenance.migrated;
    print(
      maintenance.migrated,
      from === to
        ? `The store is up to date (version ${to}).`
        : `The store was at version ${from}, and is now at ${to}.`,
    );
  } else if (command.verb === "audit") {
    const entries = await readTrail(maintenance.audit, command.since);
    if (command.json) printJson(entries, io);
    else if (entries.length === 0) io.out("The audit trail has no entries since then.");
    else printTable(COLUMNS, entries.map(auditRow), io);
  } else {
    const problems = await maintenance.verify(progress);
    if (command.json) io.out(JSON.stringify({ ok: problems.length === 0, problems }));
    else if (problems.length === 0) io.out("The store has no errors.");
    else for (const problem of problems) io.err(problem);
    return problems.length === 0 ? 0 : 1;
  }
  return 0;
}

/** Returns entries since a time, newest first; without one the last ones. */
async function readTrail(audit: Maintenance["audit"], since: number | undefined): Promise<NumberedAuditEntry[]> {
  if (since === undefined) return audit.list(DEFAULT_ENTRIES);
  const found: NumberedAuditEntry[] = [];
  for (let before: number | undefined; ; ) {
    const page = await audit.list(PAGE_ENTRIES, before);
    const late = page.filter(({ time }) => time >= since);
    found.push(...late);
    // Clocks of several machines differ slightly, so entries of one page may be out of order.
    if (page.length < PAGE_ENTRIES || late.length === 0) return found;
    before = page.at(-1)?.id;
  }
}

const COLUMNS = ["TIME", "WHO", "FROM", "ACTION", "SUBJECT", "DETAIL"];

function auditRow({ time, who, address, action, subject, detail }: NumberedAuditEntry): string[] {
  const text = Object.keys(detail).length === 0 ? "" : JSON.stringify(withDollars(detail));
  const short = text.length > MAX_DETAIL_LENGTH ? `${text.slice(0, MAX_DETAIL_LENGTH)}…` : text;
  return [formatUtc(time), who, address, action, subject, short];
}

/** Formats the limits in an entry's detail, with sums like $10/day; JSON output has them as they are stored. */
function withDollars({ limits, was, ...others }: NumberedAuditEntry["detail"]): Record<string, unknown> {
  const given = limits ? formatOwnLimits(limits as Limits) : limits;
  return {
    ...others,
    ...(limits !== undefined && { limits: given }),
    ...(was !== undefined && { was: withDollars(was as NumberedAuditEntry["detail"]) }),
  };
}

function parseArguments(args: readonly string[], folder: string, zone: () => string): StoreCommand {
  const { values, positionals } = parseVerbArguments(args, OPTIONS, Infinity);
  const [verb, file, ...more] = positionals;
  const { json, before, force, since } = values;
  if (verb === undefined || !COMMANDS.includes(verb)) throw wrongCommand("store", verb, COMMANDS);
  if (force && verb !== "restore") throw new UsageError("--force is an option of store restore only.");
  if (since !== undefined && verb !== "audit") throw new UsageError("--since is an option of store audit only.");
  if (before !== undefined && verb !== "prune") throw new UsageError("--before is an option of store prune only.");
  const named = !file || more.length > 0 ? undefined : resolve(folder, file);
  if (verb === "backup" && named !== undefined) return { verb, file: named, json };
  if (verb === "restore" && named !== undefined) return { verb, file: named, force, json };
  if (verb === "import" && named !== undefined) return { verb, file: named, json };
  if (verb === "backup" || verb === "restore" || verb === "import")
    throw new UsageError(`store ${verb} takes one file.`);
  if (file !== undefined) throw new UsageError(`store ${verb} takes no names.`);
  if (verb === "prune") return { verb, ...parseBefore(before, zone), json };
  if (verb === "audit") return { verb, since: parsePastOption("--since", since, zone), json };
  return { verb: verb === "verify" ? verb : "migrate", json };
}

/** Returns the first millisecond of the first day to keep. Days of requests that may still be running are refused. */
function parseBefore(text: string | undefined, zone: () => string): { before: number; day: string } {
  const now = Date.now();
  const at = parsePastOption("--before", text, zone, now);
  if (at === undefined) throw new UsageError("store prune needs --before: the first day that is kept.");
  const start = new Days(zone()).today(at);
  if (start > now - DAY)
    throw new UsageError("--before: rows of the last 24 hours cannot be deleted; name an earlier day.");
  const day = Temporal.Instant.fromEpochMilliseconds(start).toZonedDateTimeISO(zone()).toPlainDate().toString();
  // Sums are of whole hours, and not all days begin with one.
  return { before: Math.floor(start / HOUR) * HOUR, day };
}
