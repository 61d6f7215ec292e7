import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Calendar } from "../core/calendar.ts";
import { fileProblem } from "../core/file-problem.ts";
import type { Ledger } from "../store/ledger.ts";
import type { PriceVersions } from "../store/price-versions.ts";
import { UsageError } from "../text/format-error.ts";
import { countNoun, formatCost, formatTable, groupDigits, numberColumns } from "../text/table.ts";
import {
  type ComparedDay,
  type Comparison,
  compareInvoice,
  invoiceDays,
  invoiceNameTest,
  invoiceProviders,
  ledgerAdjustments,
  ledgerDays,
} from "./comparison.ts";
import { FIGURES, type Figures, type Invoice, parseInvoice } from "./invoice.ts";
import { INVOICE_FIELDS, type InvoiceField, normalizeTitle } from "./invoice-columns.ts";
import { shellWord } from "./shell.ts";
import { parseOption, parseVerbArguments, printFailure, type Terminal } from "./verb.ts";

const OPTIONS = {
  provider: { type: "string" },
  tolerance: { type: "string", default: "1%" },
  timezone: { type: "string", default: "UTC" },
  columns: { type: "string" },
  only: { type: "string", multiple: true },
  match: { type: "string", multiple: true },
  all: { type: "boolean", default: false },
  json: { type: "boolean", default: false },
} as const;

interface ReconcileOptions {
  readonly file: string;
  readonly providers: readonly string[] | undefined;
  readonly tolerance: number;
  readonly zone: string;
  readonly columns: ReadonlyMap<InvoiceField, string>;
  /** Allowed values by the titles of columns. */
  readonly only: ReadonlyMap<string, ReadonlySet<string>>;
  readonly modelNames: ReadonlyMap<string, string>;
  readonly all: boolean;
  readonly json: boolean;
}

/**
 * Runs the verb `reconcile`. Returns the exit code: 0 both agree, 1 they differ, 2 they cannot be compared.
 * @param known providers of gateway.yaml; undefined: it cannot be read
 * @throws UsageError
 */
export async function runReconcile(
  args: readonly string[],
  io: Terminal,
  stores: { ledger: Ledger; prices: PriceVersions },
  known?: readonly string[],
): Promise<number> {
  try {
    const options = parseReconcileArguments(args);
    const invoice = parseInvoice(
      readInvoice(resolve(io.folder, options.file)),
      options.zone,
      options.columns,
      options.only,
    );
    if (invoice.lines.length > 0 && invoice.figureNames.size === 0)
      throw new Error(
        `Nothing in the file can be compared: it has no tokens, and ${invoice.currency === undefined ? "no money" : `its money is in ${invoice.currency}, the ledger's in dollars`}.`,
      );
    const span = invoiceDays(invoice, options.zone);
    const days = [
      ...(await ledgerDays(stores.ledger, span, options.zone)),
      ...(await ledgerAdjustments(stores, span, options.zone, invoiceNameTest(invoice, options.modelNames))),
    ];
    const unknownProvider = findUnknown(options.providers ?? [], [
      ...(known ?? []),
      ...days.map(({ provider }) => provider),
    ]);
    if (known && unknownProvider) throw new UsageError(`--provider: there is no ${unknownProvider}.`);
    // Only a warning: another month's file may have the name, and scripts use the same options each month.
    const unknownName = findUnknown(
      [...options.modelNames.keys()],
      invoice.lines.map(({ name }) => name),
    );
    if (unknownName) io.err(`--match: this file has no ${unknownName}.`);
    const providers = options.providers ?? invoiceProviders(invoice, days, options.modelNames);
    const comparison = compareInvoice(invoice, days, { ...options, providers });
    for (const line of options.json
      ? [comparisonJson(comparison, invoice, options)]
      : comparisonLines(comparison, invoice, options))
      io.out(line);
    return agrees(comparison, invoice) ? 0 : 1;
  } catch (error) {
    printFailure(error, io);
    return 2;
  }
}

/** Maximum number of names listed. */
const MAX_LISTED = 10;

/** Returns the first name that does not exist, quoted, with some existing ones. */
function findUnknown(names: readonly string[], there: readonly string[]): string | undefined {
  const all = [...new Set(there)].sort();
  const wrong = names.find((name) => !all.includes(name));
  if (wrong === undefined) return undefined;
  const some = all.slice(0, MAX_LISTED).join(", ") + (all.length > MAX_LISTED ? ", …" : "");
  return `${JSON.stringify(wrong)}; there ${all.length === 1 ? "is" : "are"} ${some || "none"}`;
}

const agrees = ({ days, unmatched }: Comparison, { unread }: Invoice): boolean =>
  unmatched.length + unread.length === 0 && days.every(({ differ }) => differ.length === 0);

function readInvoice(file: string): string {
  try {
    const bytes = readFileSync(file);
    // "Unicode text", as saved by spreadsheets.
    const wide = bytes[0] === 0xff && bytes[1] === 0xfe;
    return bytes.toString(wide ? "utf16le" : "utf8");
  } catch (thrown) {
    throw new Error(`${file} cannot be read: ${fileProblem(thrown, "file")}.`);
  }
}

/** Parses the arguments of `reconcile`, which needs no store. @throws UsageError */
export function parseReconcileArguments(args: readonly string[]): ReconcileOptions {
  const { values, positionals } = parseVerbArguments(args, OPTIONS, Infinity);
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0) throw new UsageError("reconcile takes one file.");
  const { provider, tolerance, timezone, columns = "", only = [], match = [], all, json } = values;
  const part = Number(/^(\d{1,2}(?:\.\d+)?)%$/.exec(tolerance)?.[1]) / 100;
  if (Number.isNaN(part)) throw new UsageError("--tolerance takes a share like 1% or 0.5%.");
  parseOption("--timezone", () => new Calendar(timezone));
  return {
    file,
    providers: provider?.split(",").map((name) => name.trim()),
    tolerance: part,
    zone: timezone,
    columns: new Map(columns === "" ? [] : columns.split(",").map(parseColumn)),
    only: parseOnly(only),
    modelNames: new Map(match.map((text) => parseNameValue(text, "--match"))),
    all,
    json,
  };
}

function parseColumn(text: string): [InvoiceField, string] {
  const [field, name] = parseNameValue(text, "--columns");
  if (!Object.hasOwn(INVOICE_FIELDS, field))
    throw new UsageError(`--columns: ${field} is not one of ${Object.keys(INVOICE_FIELDS).join(", ")}.`);
  return [field as InvoiceField, name];
}

function parseOnly(only: readonly string[]): ReconcileOptions["only"] {
  const found = new Map<string, Set<string>>();
  for (const text of only) {
    const [written, value] = parseNameValue(text, "--only");
    const column = normalizeTitle(written);
    found.set(column, (found.get(column) ?? new Set()).add(value));
  }
  return found;
}

function parseNameValue(text: string, option: string): [string, string] {
  const at = text.indexOf("=");
  if (at < 1 || at === text.length - 1)
    throw new UsageError(`${option} takes NAME=VALUE, not ${JSON.stringify(text)}.`);
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

const FIGURE_LABELS: Record<keyof Figures, string> = {
  tokensIn: "tokens in",
  cached: "cached",
  tokensOut: "tokens out",
  tokens: "tokens",
  cost: "money",
};

const formatFigure = (name: keyof Figures, figure = 0): string =>
  name === "cost" ? formatCost(figure) : groupDigits(figure);

function comparisonLines(comparison: Comparison, invoice: Invoice, { tolerance, all }: ReconcileOptions): string[] {
  const { days, unmatched, totals, providers } = comparison;
  const figures = FIGURES.filter((name) => invoice.figureNames.has(name));
  const columns = ["DAY", "MODEL", "OF", ...numberColumns("INVOICE", "LEDGER", "DIFFERENCE"), "NOTE"];
  const row = (first: string[], name: keyof Figures, charged = 0, counted = 0, note = "") => [
    ...[...first, FIGURE_LABELS[name], formatFigure(name, charged), formatFigure(name, counted)],
    ...[`${charged > counted ? "+" : ""}${formatFigure(name, charged - counted)}`, note],
  ];
  const rows = days.flatMap((day) =>
    figures
      .filter((name) => all || day.differ.includes(name))
      .map((name) => row([day.day, day.model], name, day.invoice[name], day.ledger[name], dayNote(day))),
  );
  const sums = figures.map((name) => row(["total", ""], name, totals.invoice[name], totals.ledger[name]));
  const off = days.filter(({ differ }) => differ.length > 0).length;
  return [
    ...formatTable(columns, [...rows, ...sums]),
    "",
    `By day and model, ${groupDigits(off)} of ${groupDigits(days.length)} differ by more than ${tolerance * 100} % from the ledger's figures for ${providers.join(" and ")}.`,
    ...(invoice.others > 0 ? [`${groupDigits(invoice.others)} of the file's lines were left out by --only.`] : []),
    ...unmatchedLines(unmatched, figures),
    ...invoice.unread.slice(0, 20).map(({ line, reason }) => `Line ${line} could not be read: ${reason}.`),
    ...(invoice.unread.length > 20 ? [`… and ${countNoun(invoice.unread.length - 20, "line")} more.`] : []),
    ...(invoice.currency === undefined
      ? []
      : [`The invoice's money is in ${invoice.currency}, the ledger's in dollars: it was not compared.`]),
    ...(invoice.foreign === undefined
      ? []
      : [
          `Money of ${countNoun(invoice.foreign.lines, "line")} is in ${invoice.foreign.currency}, the ledger's in dollars: it was not compared.`,
        ]),
  ];
}

function unmatchedLines(unmatched: Comparison["unmatched"], shownFigures: readonly (keyof Figures)[]): string[] {
  return unmatched.map(({ name, lines, figures }) => {
    const sums = shownFigures
      .filter((each) => figures[each])
      .map((each) => `${formatFigure(each, figures[each])}${each === "cost" ? "" : ` ${FIGURE_LABELS[each]}`}`);
    return `Not in the ledger: ${JSON.stringify(name)}, ${countNoun(lines, "line")}, ${sums.join(", ") || "nothing charged"}. If it is one of its models: --match ${shellWord(`${name}=MODEL`)}`;
  });
}

function dayNote({ names, unsettled, ledger }: ComparedDay): string {
  const notes = [
    ...(names.length === 0 ? ["not on the invoice"] : []),
    ...(unsettled > 0 ? [`${groupDigits(unsettled)} unsettled`] : []),
    ...(names.length > 0 && FIGURES.every((name) => ledger[name] === 0) ? ["not in the ledger"] : []),
  ];
  return notes.join(", ");
}

function comparisonJson(comparison: Comparison, invoice: Invoice, { tolerance, zone, all }: ReconcileOptions): string {
  const { days, ...rest } = comparison;
  const { others, unread, currency = "usd", foreign, figureNames } = invoice;
  const shown = days.filter(({ differ }) => all || differ.length > 0);
  const summary = {
    agrees: agrees(comparison, invoice),
    tolerance,
    timezone: zone,
    compared: [...figureNames],
    days: days.length,
  };
  return JSON.stringify(
    { ...summary, currency, ...(foreign && { foreign }), ...rest, differences: shown, others, unread },
    undefined,
    2,
  );
}
