import { exactDollars } from "../config/units.ts";
import type { Keys } from "../store/keys.ts";
import type { Ledger, LedgerEntry, LedgerGroup, LedgerQuery, LedgerSpan, LedgerSum } from "../store/ledger.ts";
import { sumsByLocalDay } from "../store/ledger-days.ts";
import { LEDGER_GROUPS, sumFields } from "../store/ledger-sums.ts";
import { UsageError } from "../text/format-error.ts";
import { formatCost, formatCsv, formatTable, formatUtc, groupDigits, numberColumns } from "../text/table.ts";
import { reportBehind } from "./behind.ts";
import { MAX_ENTRIES } from "./help/usage.ts";
import { parsePastOption, parseVerbArguments, printFailure, type Terminal } from "./verb.ts";

const OPTIONS = {
  by: { type: "string" },
  since: { type: "string" },
  until: { type: "string" },
  last: { type: "string" },
  rows: { type: "boolean", default: false },
  json: { type: "boolean", default: false },
  csv: { type: "boolean", default: false },
} as const;

/** Runs the verb `usage`. Returns the exit code: 0 done, 1 failed. @param zone the time zone of days @throws UsageError */
export async function runUsage(
  args: readonly string[],
  io: Terminal,
  { keys, ledger }: { keys: Keys; ledger: Ledger },
  zone: () => string,
): Promise<number> {
  try {
    const command = parseUsageCommand(args, zone);
    if (command.print === "rows") {
      reportBehind(ledger, io, "store and journal");
      for await (const entry of ledger.entries(command.span)) io.out(JSON.stringify(entry));
      return 0;
    }
    reportBehind(ledger, io);
    const names = new Map((await keys.list()).map(({ id, name }) => [id, name]));
    const lines =
      command.print === "sums"
        ? await sums(command.query, command.format, names, ledger, zone)
        : await newest(command.count, command.json, names, ledger);
    for (const line of lines) io.out(line);
    return 0;
  } catch (error) {
    return printFailure(error, io);
  }
}

/** The output format of sums. */
type UsageFormat = "table" | "json" | "csv";

type UsageCommand =
  | { print: "sums"; query: LedgerQuery; format: UsageFormat }
  | { print: "newest"; count: number; json: boolean }
  | { print: "rows"; span: LedgerSpan };

/** Parses the arguments of `usage`, which needs no store. @throws UsageError */
export function parseUsageCommand(args: readonly string[], zone: () => string): UsageCommand {
  const { values } = parseVerbArguments(args, OPTIONS);
  if (values.rows) return { print: "rows", span: parseRowsSpan(values, zone) };
  if (values.last !== undefined) return { print: "newest", count: parseLast(values), json: values.json };
  return { print: "sums", query: parseQuery(values, zone), format: parseFormat(values) };
}

interface UsageOptions {
  by?: string;
  since?: string;
  until?: string;
  last?: string;
  json: boolean;
  csv: boolean;
}

function parseQuery(values: UsageOptions, zone: () => string): LedgerQuery {
  const by = (values.by ?? "model").split(",").map((word) => {
    const group = LEDGER_GROUPS.find((name) => name === word.trim());
    if (!group) throw new UsageError(`--by ${JSON.stringify(word)}: choose from ${LEDGER_GROUPS.join(", ")}.`);
    return group;
  });
  if (new Set(by).size < by.length) throw new UsageError("--by names a group twice.");
  return { by, ...parseSpan(values, zone) };
}

function parseFormat({ json, csv }: UsageOptions): UsageFormat {
  if (json && csv) throw new UsageError("--json and --csv exclude each other; choose one.");
  return json ? "json" : csv ? "csv" : "table";
}

function parseRowsSpan(values: UsageOptions, zone: () => string): LedgerSpan {
  if (!values.json || values.csv || values.by !== undefined || values.last !== undefined)
    throw new UsageError(
      "--rows needs --json, and takes only --since and --until: it prints one JSON object per line.",
    );
  return parseSpan(values, zone);
}

function parseSpan(values: UsageOptions, zone: () => string): LedgerSpan {
  const now = Date.now();
  const query: LedgerSpan = {};
  for (const bound of ["since", "until"] as const) {
    const time = parsePastOption(`--${bound}`, values[bound], zone, now);
    if (time !== undefined) query[bound] = time;
  }
  if ((query.since ?? 0) >= (query.until ?? Number.POSITIVE_INFINITY))
    throw new UsageError("--since must be before --until.");
  return query;
}

function parseLast({ last, by, since, until, csv }: UsageOptions): number {
  if (by !== undefined || since !== undefined || until !== undefined || csv) {
    throw new UsageError("--last cannot be combined with --by, --since, --until and --csv.");
  }
  const number = /^\d{1,6}$/.test(last ?? "") ? Number(last) : 0;
  if (number < 1 || number > MAX_ENTRIES)
    throw new UsageError(`--last takes a number from 1 to ${groupDigits(MAX_ENTRIES)}.`);
  return number;
}

/** The figures of a sum, with their titles in the table and in CSV. */
const FIGURES = [
  ["requests", "REQUESTS", "requests"],
  ["failed", "FAILED", "failed"],
  ["tokensIn", "TOKENS IN", "tokens_in"],
  ["cached", "CACHED", "cached"],
  ["tokensOut", "TOKENS OUT", "tokens_out"],
  ["reasoning", "REASONING", "reasoning"],
  ["cost", "COST", "cost_usd"],
  ["unsettled", "UNSETTLED", "unsettled"],
] as const;

type UsageNames = ReadonlyMap<string, string>;

async function sums(
  query: LedgerQuery,
  form: UsageFormat,
  names: UsageNames,
  ledger: Ledger,
  zone: () => string,
): Promise<string[]> {
  // The ledger stores sums of UTC days.
  const local = query.by.includes("day") ? zone() : "UTC";
  const found = local === "UTC" ? await ledger.sums(query) : await sumsByLocalDay(ledger, query, local);
  if (form === "csv") return formatCsv([csvTitles(query), ...found.map((sum) => csvCells(query, sum, names))]);
  if (form === "json") {
    const groups = found.map(sumFields).map(({ group, ...sum }) => ({
      ...Object.fromEntries(query.by.map((name, at) => [name, group[at]])),
      ...sum,
    }));
    return [JSON.stringify(groups, undefined, 2)];
  }
  if (found.length === 0) return ["No requests yet in that time."];
  const titles = FIGURES.map(([, title]) => title);
  const columns = [...query.by.map((name) => name.toUpperCase()), ...numberColumns(...titles)];
  // Not the sum of the lines: an entry with two tags is in two lines.
  const [all] = await ledger.sums({ ...query, by: [] });
  const total = { ...(all as LedgerSum), group: query.by.map((_, at) => (at === 0 ? "total" : "")) };
  const named = found.map((sum) => ({ ...sum, group: sum.group.map((id, at) => label(query.by[at], id, names)) }));
  const lines = formatTable(columns, [...named, total].map(cells));
  if (total.unsettled > 0)
    lines.push("", `Unsettled: the provider reported no tokens or not all, so these may have cost more.`);
  return lines;
}

function csvTitles({ by }: LedgerQuery): string[] {
  const groups = by.flatMap((name) => (name === "key" ? ["key", "key_name"] : [name]));
  return [...groups, ...FIGURES.map(([, , title]) => title)];
}

function csvCells({ by }: LedgerQuery, sum: LedgerSum, names: UsageNames): string[] {
  const groups = sum.group.flatMap((value, at) => (by[at] === "key" ? [value, names.get(value) ?? ""] : [value]));
  const figures = FIGURES.map(([name]) => (name === "cost" ? exactDollars(sum.cost) : String(sum[name])));
  return [...groups, ...figures];
}

const cells = (sum: LedgerSum): string[] => [
  ...sum.group,
  ...FIGURES.map(([name]) => (name === "cost" ? formatCost(sum.cost) : groupDigits(sum[name]))),
];

async function newest(count: number, json: boolean, names: UsageNames, ledger: Ledger): Promise<string[]> {
  const entries = await ledger.recent(count);
  if (json) return [JSON.stringify(entries, undefined, 2)];
  if (entries.length === 0) return ["No requests yet."];
  const columns = [
    ...["TIME", "KEY", "MODEL", "TARGET", "STATUS", "OUTCOME"],
    ...numberColumns("TRIES", "FIRST BYTE", "TIME", "TOKENS IN", "TOKENS OUT", "COST"),
  ];
  return formatTable(
    columns,
    entries.map((entry) => entryCells(entry, names)),
  );
}

/** A missing number is shown as a dash, not 0. */
function entryCells(entry: LedgerEntry, names: UsageNames): string[] {
  const { usage } = entry;
  const known = (number: number | undefined, write: (number: number) => string) =>
    number === undefined ? "-" : write(number);
  const ms = (time: number) => `${groupDigits(Math.round(time))} ms`;
  return [
    formatUtc(entry.time),
    label("key", entry.key, names),
    entry.model || "-",
    entry.target || "-",
    String(entry.status),
    entry.outcome,
    String(entry.attempts.length),
    known(entry.firstByte, ms),
    ms(entry.duration),
    known(usage?.in.total, groupDigits),
    known(usage?.out.total, groupDigits),
    known(entry.cost, formatCost),
  ];
}

/** Returns a key's current name, if it has one; a dash for an empty value. */
function label(group: LedgerGroup | undefined, value: string, names: UsageNames): string {
  return (group === "key" ? names.get(value) : undefined) ?? (value || "-");
}
