import type { DelimitedRow } from "./delimited.ts";

/** Fields of an invoice, and the titles of columns that may contain them. */
export const INVOICE_FIELDS = {
  /** The day, or the time at which it begins. */
  date: [
    ...["usage_date_utc", "usage_date", "date", "day", "start_time_iso", "usage_start_date", "usage_start_time"],
    ...["bucket_start_time", "starting_at", "start_time", "timestamp", "created_at", "created", "time"],
  ],
  until: ["end_time_iso", "usage_end_date", "usage_end_time", "bucket_end_time", "ending_at", "end_time"],
  model: ["model_version", "model", "model_name", "model_id", "line_item", "sku_description", "slug", "description"],
  /** What is charged where it is not a model: `web_search`. */
  service: ["cost_type", "usage_type"],
  /** Input tokens, including cached ones unless the titles say that these are counted separately. */
  input: ["input_tokens", "prompt_tokens", "tokens_in", "tokens_prompt", "n_context_tokens_total"],
  uncached: ["usage_input_tokens_no_cache", "uncached_input_tokens", "input_uncached_tokens", "input_no_cache"],
  cached: [
    ...["usage_input_tokens_cache_read", "cache_read_input_tokens", "input_cached_tokens", "cached_input_tokens"],
    ...["cached_tokens", "tokens_cached", "cached"],
  ],
  output: [
    "output_tokens",
    "usage_output_tokens",
    "completion_tokens",
    "tokens_out",
    "tokens_completion",
    "n_generated_tokens_total",
  ],
  /** All tokens, where they are not split. */
  tokens: ["total_tokens", "tokens", "token_count"],
  /** What `amount` counts, where each kind of token has its own row. */
  kind: ["token_type"],
  amount: ["usage_amount", "quantity"],
  unit: ["usage_unit", "unit"],
  /** The least rounded first. */
  cost: [
    ...["unrounded_subtotal", "unrounded_cost", "subtotal", "cost_usd", "amount_value", "amount_usd", "total_cost"],
    ...["total_cost_usd", "cost", "cost_in_usd", "amount", "spend"],
  ],
  currency: ["amount_currency", "currency", "cost_currency"],
} as const satisfies Record<string, readonly string[]>;

export type InvoiceField = keyof typeof INVOICE_FIELDS;

/** Columns of tokens written to a cache: their sum counts. */
const CACHE_WRITE = /^(?:usage_input_tokens_)?cache_(?:write|creation)(?:_|$)|^input_cache_write/;
/** A column of tokens read from a cache that are not part of the input. */
const CACHE_READ = /cache_read/;
/** Maximum number of rows before the titles, such as the invoice's number and address. */
const MAX_PREAMBLE = 40;

/** The columns of a table. */
export interface InvoiceColumns {
  readonly at: ReadonlyMap<InvoiceField, number>;
  readonly cacheWrites: readonly number[];
  /** Whether `cached` and `cacheWrites` are in addition to the input, not part of it. */
  readonly cacheSeparate: boolean;
  /** Normalized by `normalizeTitle`. */
  readonly titles: readonly string[];
  /** The row of the titles. */
  readonly row: number;
  /** The currency, if titles or the rows before them name one. */
  readonly currency: string | undefined;
}

/** Normalizes a title for comparison: `Unrounded Cost ($)` is `unrounded_cost`. */
export const normalizeTitle = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/\([^)]*\)/g, "")
    .replaceAll(/[^a-z0-9]+/g, "_")
    .replaceAll(/^_|_$/g, "");

/**
 * Finds the titles of an invoice.
 * @param named titles of columns with unknown names, by field
 * @throws Error that names the missing field and the existing titles
 */
export function findColumns(
  rows: readonly DelimitedRow[],
  named: ReadonlyMap<InvoiceField, string> = new Map(),
): InvoiceColumns {
  const found = rows.slice(0, MAX_PREAMBLE).map((row) => placeColumns(row.cells.map(normalizeTitle), named));
  const row = found.findIndex(({ missing }) => missing === undefined);
  if (row < 0) throw new Error(missingColumnMessage(rows, found, named));
  const { at, titles } = found[row] as PlacedColumns;
  const cacheWrites = titles.flatMap((title, index) => (CACHE_WRITE.test(title) ? [index] : []));
  const cached = titles[at.get("cached") ?? -1] ?? "";
  const cacheSeparate = cacheWrites.length > 0 || CACHE_READ.test(cached) || (at.has("uncached") && !at.has("input"));
  return { at, cacheWrites, cacheSeparate, titles, row, currency: findCurrency(rows, row, at.get("cost")) };
}

interface PlacedColumns {
  readonly titles: readonly string[];
  readonly at: Map<InvoiceField, number>;
  /** The field it lacks to be the row of the titles. */
  readonly missing: string | undefined;
}

function placeColumns(titles: readonly string[], named: ReadonlyMap<InvoiceField, string>): PlacedColumns {
  const at = new Map<InvoiceField, number>();
  for (const [field, names] of Object.entries(INVOICE_FIELDS) as [InvoiceField, readonly string[]][]) {
    const own = named.get(field);
    const title = (own === undefined ? names : [normalizeTitle(own)]).find((name) => titles.includes(name));
    if (title !== undefined) at.set(field, titles.indexOf(title));
  }
  const counts = (["input", "uncached", "output", "tokens", "cost"] as const).some((field) => at.has(field));
  const lacking = [...named.keys()].find((field) => !at.has(field));
  const missing =
    lacking ?? (["date", "model"] as const).find((field) => !at.has(field)) ?? (counts ? undefined : "cost or tokens");
  return { titles, at, missing };
}

/** Describes what is missing in the row that matches best. */
function missingColumnMessage(
  rows: readonly DelimitedRow[],
  found: readonly PlacedColumns[],
  named: ReadonlyMap<InvoiceField, string>,
): string {
  const best = found.reduce((most, one, at) => (one.at.size > (found[most]?.at.size ?? -1) ? at : most), 0);
  const { missing = "date" } = found[best] ?? {};
  const own = named.get(missing as InvoiceField);
  const what = own === undefined ? `no column for ${missing}` : `no column ${JSON.stringify(own)}`;
  const there = rows[best]?.cells.filter((cell) => cell !== "").join(", ") ?? "nothing";
  return `The file has ${what}. Name columns with --columns date=…,model=…,cost=…; it has: ${there}`;
}

/** Finds the currency in a title like `Cost (€)`, or in a line `Currency,AUD` before the titles. */
function findCurrency(rows: readonly DelimitedRow[], row: number, cost: number | undefined): string | undefined {
  const title = rows[row]?.cells[cost ?? -1] ?? "";
  const inTitle = /\(([^)]+)\)/.exec(title)?.[1];
  return inTitle ?? rows.slice(0, row).find(({ cells }) => normalizeTitle(cells[0] ?? "") === "currency")?.cells[1];
}
