import { thrownMessage } from "../core/errors.ts";
import { type DelimitedRow, parseDelimited } from "./delimited.ts";
import { findColumns, type InvoiceColumns, type InvoiceField, normalizeTitle } from "./invoice-columns.ts";

/** The compared figures: tokens, and nano-dollars for `cost`; absent if an invoice lacks them. */
export interface Figures {
  tokensIn?: number;
  cached?: number;
  tokensOut?: number;
  tokens?: number;
  cost?: number;
}

export const FIGURES = ["tokensIn", "cached", "tokensOut", "tokens", "cost"] as const satisfies (keyof Figures)[];

/** A vendor's charge for a model on a day. */
export interface InvoiceLine {
  /** The line in the file, from 1 on. */
  readonly line: number;
  /** Like `2026-11-20`. */
  readonly day: string;
  /** The vendor's name of the model. */
  readonly name: string;
  readonly figures: Figures;
}

export interface Invoice {
  readonly lines: readonly InvoiceLine[];
  /** Number of lines excluded by `only`. */
  readonly others: number;
  /** Lines that could not be parsed, and why. */
  readonly unread: readonly { readonly line: number; readonly reason: string; readonly text: string }[];
  /** The figures that the invoice contains. */
  readonly figureNames: ReadonlySet<keyof Figures>;
  /** Maximum rounding error of a line, in nano-dollars. */
  readonly rounding: number;
  /** Set if no money is in dollars, and so it is not compared. */
  readonly currency?: string;
  /** Set if some is in dollars: the number of lines whose money is in another currency, and not compared. */
  readonly foreign?: { readonly currency: string; readonly lines: number };
}

const DAY = 86_400_000;
const DOLLARS = new Set(["$", "usd", "us$", ""]);

/**
 * Parses days, models, tokens and money from a vendor's invoice, whose columns are found by their names.
 * @param written CSV
 * @param zone of the vendor's days; a time counts for the day that contains it
 * @param named titles of columns with unknown names
 * @param only by title, the allowed values of columns; other lines are excluded
 * @throws Error that names what is missing
 */
export function parseInvoice(
  written: string,
  zone: string,
  named?: ReadonlyMap<InvoiceField, string>,
  only?: ReadonlyMap<string, ReadonlySet<string>>,
): Invoice {
  const rows = parseDelimited(written);
  const columns = findColumns(rows, named);
  const table = rows.slice(columns.row + 1);
  const reader = new InvoiceReader(columns, zone, toRowFilters(columns, only), hasDecimalCommas(table, columns));
  for (const row of table) reader.read(row);
  return reader.invoice();
}

const NUMBER_FIELDS: ReadonlySet<InvoiceField> = new Set([
  ...(["input", "uncached", "cached", "output", "tokens", "amount", "cost"] as const),
]);
/** A number that can only have a decimal comma: 0,5, 12,50, 1.234,567. Alone, 1,234 has a comma between thousands. */
const DECIMAL_COMMA = /^[^\d,.]*(?:0,\d+|\d+,(?:\d\d?|\d{4,})|\d{1,3}(?:[.\s]\d{3})+,\d+)[^\d,.]*$/;

/** Reports whether numbers are written as in much of Europe, as where a spreadsheet has saved the file again. */
function hasDecimalCommas(rows: readonly DelimitedRow[], { at, cacheWrites }: InvoiceColumns): boolean {
  const columns = [...cacheWrites, ...[...at].flatMap(([field, column]) => (NUMBER_FIELDS.has(field) ? [column] : []))];
  return rows.some(({ cells }) => columns.some((column) => DECIMAL_COMMA.test(cells[column] ?? "")));
}

/** Writes `1.234,50` as `1234.50`. */
const withDecimalPoint = (text: string): string => text.replaceAll(".", "").replace(",", ".");

type RowFilters = readonly (readonly [column: number, values: ReadonlySet<string>])[];

function toRowFilters(
  { titles }: InvoiceColumns,
  only: ReadonlyMap<string, ReadonlySet<string>> = new Map(),
): RowFilters {
  return [...only].map(([name, values]) => {
    const column = titles.indexOf(normalizeTitle(name));
    if (column >= 0) return [column, values];
    throw new Error(`The file has no column ${JSON.stringify(name)}; it has: ${titles.join(", ")}`);
  });
}

class InvoiceReader {
  private readonly lines: InvoiceLine[] = [];
  private readonly unread: Invoice["unread"][number][] = [];
  private readonly figureNames = new Set<keyof Figures>();
  private others = 0;
  private decimals = 0;
  private foreign: string | undefined;
  /** Numbers of lines whose money is not in dollars, and whether any is. */
  private readonly foreignLines = new Set<number>();
  private hasDollars = false;

  /** @param hasDecimalCommas whether 1.234,50 is a number of the file, not 1,234.50 */
  constructor(
    private readonly columns: InvoiceColumns,
    private readonly zone: string,
    private readonly filters: RowFilters,
    private readonly hasDecimalCommas: boolean,
  ) {
    const { currency = "" } = columns;
    if (!DOLLARS.has(currency.toLowerCase())) this.foreign = currency;
  }

  read({ line, cells }: DelimitedRow): void {
    const of = (field: InvoiceField) => this.textOf(field, cells[this.columns.at.get(field) ?? -1] ?? "");
    const fail = (reason: string) => this.unread.push({ line, reason, text: cells.join(",") });
    // A line of totals.
    if (cells.some((cell) => /^(?:(?:grand|filtered) |sub-?)?total:?$/i.test(cell)) && of("model") === "") return;
    if (this.filters.some(([column, values]) => !values.has(cells[column] ?? ""))) {
      this.others++;
      return;
    }
    const name = of("model") || of("service");
    let figures: Figures;
    try {
      figures = this.figures(cells, of);
    } catch (thrown) {
      fail(thrownMessage(thrown));
      return;
    }
    const given = FIGURES.filter((name) => figures[name] !== undefined);
    for (const name of given) this.figureNames.add(name);
    if (given.length === 0 && cells.length < this.columns.titles.length) {
      fail("it has too few columns");
      return;
    }
    // A day without usage.
    if (given.every((name) => figures[name] === 0) && (given.length === 0 || name === "")) return;
    const day = parseDay(of("date"), this.zone);
    const last = parseDay(of("until"), this.zone);
    if (day === undefined) fail(`${JSON.stringify(of("date"))} is not a day like 2026-11-20`);
    else if (last !== undefined && Date.parse(last) - Date.parse(day) > DAY)
      fail(`it covers more than a day (${day} to ${last}): export it by day`);
    else if (name === "") fail("it has no model");
    else {
      this.lines.push({ line, day, name, figures });
      if (figures.cost !== undefined) this.noteCurrency(line, of("currency"));
    }
  }

  invoice(): Invoice {
    const { lines, others, unread, figureNames, decimals, foreign } = this;
    // Half a unit of the last digit; more than six digits count as exact.
    const rounding = decimals > 6 ? 0 : 0.5 * 10 ** (9 - decimals);
    if (foreign === undefined) return { lines, others, unread, figureNames, rounding };
    if (this.hasDollars) return this.dropForeignMoney(foreign, rounding);
    figureNames.delete("cost");
    return { lines, others, unread, figureNames, rounding, currency: foreign };
  }

  /** Returns a cell's text, of a number with a decimal point. */
  private textOf(field: InvoiceField, text: string): string {
    return this.hasDecimalCommas && NUMBER_FIELDS.has(field) ? withDecimalPoint(text) : text;
  }

  private noteCurrency(line: number, currency: string): void {
    const other = [this.columns.currency ?? "", currency].find((each) => !DOLLARS.has(each.toLowerCase()));
    if (other === undefined) this.hasDollars = true;
    else this.foreignLines.add(line);
    this.foreign ??= other;
  }

  /** Removes the money of lines in another currency. */
  private dropForeignMoney(currency: string, rounding: number): Invoice {
    const { others, figureNames, foreignLines } = this;
    const unread = [...this.unread];
    const lines = this.lines.flatMap((each): InvoiceLine[] => {
      if (!foreignLines.has(each.line)) return [each];
      const { cost: _, ...figures } = each.figures;
      if (Object.keys(figures).length > 0) return [{ ...each, figures }];
      const reason = `its money is in ${currency}, the ledger's in dollars`;
      unread.push({ line: each.line, reason, text: each.name });
      return [];
    });
    unread.sort((one, other) => one.line - other.line);
    return { lines, others, unread, figureNames, rounding, foreign: { currency, lines: foreignLines.size } };
  }

  /** @throws Error for an invalid number */
  private figures(cells: readonly string[], of: (field: InvoiceField) => string): Figures {
    const { at, cacheWrites, cacheSeparate } = this.columns;
    const figures: Figures = {};
    const cost = of("cost");
    if (cost !== "") {
      figures.cost = Math.round(parseNumber(cost) * 1e9);
      this.decimals = Math.max(this.decimals, /\.(\d+)/.exec(cost)?.[1]?.length ?? 0);
    }
    const count = (field: InvoiceField) => (of(field) === "" ? undefined : parseNumber(of(field)));
    const cached = count("cached");
    const read = at.has("input") ? count("input") : count("uncached");
    if (read !== undefined) {
      const written = cacheWrites.reduce(
        (sum, column) => sum + (cells[column] ? parseNumber(this.textOf("cached", cells[column])) : 0),
        0,
      );
      figures.tokensIn = cacheSeparate ? read + (cached ?? 0) + written : read;
    }
    if (cached !== undefined) figures.cached = cached;
    const output = count("output");
    if (output !== undefined) figures.tokensOut = output;
    const all = count("tokens");
    if (all !== undefined && read === undefined && output === undefined) figures.tokens = all;
    return { ...this.tokenKindFigures(of), ...figures };
  }

  /** Returns the figures of a row that counts one kind of token. */
  private tokenKindFigures(of: (field: InvoiceField) => string): Figures {
    if (of("amount") === "") return {};
    const words = `${of("kind")} ${of("model")}`.toLowerCase().replaceAll(/[^a-z]+/g, " ");
    const unit = of("unit").toLowerCase();
    // Cache storage is counted in token hours, searches and images by number.
    const isTokens = of("kind") !== "" || (/\btokens?\b/.test(words) && /^(?:count|tokens?|)$/.test(unit));
    const direction = /\b(?:input|output)\b/.exec(words)?.[0];
    if (!isTokens || direction === undefined || /\bstorage\b/.test(words)) return {};
    const amount = parseNumber(of("amount"));
    if (direction === "output") return { tokensOut: amount };
    return /\b(?:cached|caching|cache read)\b/.test(words)
      ? { tokensIn: amount, cached: amount }
      : { tokensIn: amount };
  }
}

/** Parses `1,234.50`, `$1.2`, `(3.00)`, `1.2e-05`. @throws Error for an invalid number */
function parseNumber(text: string): number {
  const bare = text.replaceAll(/[$\s_]|^US\$|(?<=\d),(?=\d{3}(?:\D|$))/g, "");
  const number = /^\(.+\)$/.test(bare) ? -Number(bare.slice(1, -1)) : Number(bare);
  if (!Number.isFinite(number)) throw new Error(`${JSON.stringify(text)} is not a number like 1234.5`);
  return number;
}

/** Returns the day of a date or a time; undefined for other text. */
function parseDay(text: string, zone: string): string | undefined {
  if (/^\d{10}(?:\.\d+)?$/.test(text)) return dayInZone(Number(text) * 1000, zone);
  if (/^\d{13}$/.test(text)) return dayInZone(Number(text), zone);
  const found = /^(\d{4}-\d\d-\d\d)(?:$|[T ]\d\d:\d\d.*?(Z|UTC|[+-]\d\d:?\d\d)?$)/.exec(text);
  if (!found) return undefined;
  const time = Date.parse(found[2] ? text.replace(/ ?UTC$/, "Z") : `${found[1]}T00:00Z`);
  if (Number.isNaN(time)) return undefined;
  return found[2] ? dayInZone(time, zone) : found[1];
}

const dayInZone = (time: number, zone: string): string =>
  Temporal.Instant.fromEpochMilliseconds(Math.floor(time)).toZonedDateTimeISO(zone).toPlainDate().toString();
