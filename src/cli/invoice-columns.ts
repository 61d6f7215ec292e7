import type { DelimitedRow } from "./delimited.ts";

/** What a column of an invoice may tell. */
export const INVOICE_FIELDS = {
  /** The day, or when it begins. */
  date: [
    ...["usage_date_utc", "usage_date", "date", "day", "start_time_iso", "usage_start_date", "usage_start_time"],
    ...["bucket_start_time", "starting_at", "start_time", "timestamp", "created_at", "created", "time"],
  ],
  until: ["end_time_iso", "usage_end_date", "usage_end_time", "bucket_end_time", "ending_at", "end_time"],
  model: ["model_version", "model", "model_name", "model_id", "line_item", "sku_description", "slug", "description"],
  /** What is charged where it is no model's: `web_search`. */
  service: ["cost_type", "usage_type"],
  /** Tokens that went in, those from a cache among them unless these have a column that is counted apart. */
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
  /** All tokens, where nothing tells them apart. */
  tokens: ["total_tokens", "tokens", "token_count"],
  /** What `amount` counts, where each kind of token has a row of its own. */
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

/** Columns that count what was written to a cache: all of them together are. */
const WRITES = /^(?:usage_input_tokens_)?cache_(?:write|creation)(?:_|$)|^input_cache_write/;
/** A column of what was read from a cache that the input has not in it. */
const APART = /cache_read/;
/** Rows before the one with the titles, as of an invoice's number and its address. */
const BEFORE = 40;

/** Where in the rows of a table each field stands. */
export interface InvoiceColumns {
  readonly at: ReadonlyMap<InvoiceField, number>;
  readonly writes: readonly number[];
  /** Whether `cached` and `writes` come beside the input, not out of it. */
  readonly apart: boolean;
  /** As `titleOf` makes them. */
  readonly titles: readonly string[];
  /** Their place among the rows. */
  readonly row: number;
  /** The currency, where titles or what stands before them name one. */
  readonly currency: string | undefined;
}

/** How titles are compared: `Unrounded Cost ($)` is `unrounded_cost`. */
export const titleOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/\([^)]*\)/g, "")
    .replaceAll(/[^a-z0-9]+/g, "_")
    .replaceAll(/^_|_$/g, "");

/**
 * Finds the titles of an invoice.
 * @param named columns that are called otherwise, by field
 * @throws Error that says what is missing, and what there is
 */
export function columnsIn(
  rows: readonly DelimitedRow[],
  named: ReadonlyMap<InvoiceField, string> = new Map(),
): InvoiceColumns {
  const found = rows.slice(0, BEFORE).map((row) => placed(row.cells.map(titleOf), named));
  const row = found.findIndex(({ missing }) => missing === undefined);
  if (row < 0) throw new Error(missingIn(rows, found, named));
  const { at, titles } = found[row] as PlacedColumns;
  const writes = titles.flatMap((title, place) => (WRITES.test(title) ? [place] : []));
  const cached = titles[at.get("cached") ?? -1] ?? "";
  const apart = writes.length > 0 || APART.test(cached) || (at.has("uncached") && !at.has("input"));
  return { at, writes, apart, titles, row, currency: currencyOf(rows, row, at.get("cost")) };
}

interface PlacedColumns {
  readonly titles: readonly string[];
  readonly at: Map<InvoiceField, number>;
  /** What it lacks to be the row of the titles. */
  readonly missing: string | undefined;
}

function placed(titles: readonly string[], named: ReadonlyMap<InvoiceField, string>): PlacedColumns {
  const at = new Map<InvoiceField, number>();
  for (const [field, names] of Object.entries(INVOICE_FIELDS) as [InvoiceField, readonly string[]][]) {
    const own = named.get(field);
    const title = (own === undefined ? names : [titleOf(own)]).find((name) => titles.includes(name));
    if (title !== undefined) at.set(field, titles.indexOf(title));
  }
  const counts = (["input", "uncached", "output", "tokens", "cost"] as const).some((field) => at.has(field));
  const lacking = [...named.keys()].find((field) => !at.has(field));
  const missing =
    lacking ?? (["date", "model"] as const).find((field) => !at.has(field)) ?? (counts ? undefined : "cost or tokens");
  return { titles, at, missing };
}

/** Told of the row that comes nearest. */
function missingIn(
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

/** Of `Cost (€)`, or of a line `Currency,AUD` before the titles. */
function currencyOf(rows: readonly DelimitedRow[], row: number, cost: number | undefined): string | undefined {
  const title = rows[row]?.cells[cost ?? -1] ?? "";
  const inTitle = /\(([^)]+)\)/.exec(title)?.[1];
  return inTitle ?? rows.slice(0, row).find(({ cells }) => titleOf(cells[0] ?? "") === "currency")?.cells[1];
}
