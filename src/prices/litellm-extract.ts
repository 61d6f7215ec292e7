import type { Price, Rates, TieredRates } from "../core/price.ts";
import type { LiteLlmExtract, LiteLlmModel, StoredLiteLlmExtract, StoredLiteLlmModel } from "./litellm-table.ts";

/** A row of LiteLLM's table; only some members are read. */
export type LiteLlmRow = { litellm_provider?: string; mode?: string } & Record<string, unknown>;

/** Vendors by their names at LiteLLM, and the prefix of their models' names in its table. */
const LITELLM_VENDORS: Readonly<Record<string, { vendor: string; prefix: string }>> = {
  openai: { vendor: "openai", prefix: "" },
  "text-completion-openai": { vendor: "openai", prefix: "" },
  anthropic: { vendor: "anthropic", prefix: "" },
  gemini: { vendor: "google", prefix: "gemini/" },
  xai: { vendor: "x-ai", prefix: "xai/" },
  mistral: { vendor: "mistral", prefix: "mistral/" },
  groq: { vendor: "groq", prefix: "groq/" },
  deepseek: { vendor: "deepseek", prefix: "deepseek/" },
  together_ai: { vendor: "together", prefix: "together_ai/" },
  perplexity: { vendor: "perplexity", prefix: "perplexity/" },
  cerebras: { vendor: "cerebras", prefix: "cerebras/" },
  azure: { vendor: "azure", prefix: "azure/" },
  azure_ai: { vendor: "azure", prefix: "azure_ai/" },
  bedrock: { vendor: "aws", prefix: "" },
  bedrock_converse: { vendor: "aws", prefix: "" },
  openrouter: { vendor: "openrouter", prefix: "openrouter/" },
  cohere: { vendor: "cohere", prefix: "" },
  cohere_chat: { vendor: "cohere", prefix: "" },
  moonshot: { vendor: "moonshotai", prefix: "moonshot/" },
  zai: { vendor: "zai", prefix: "zai/" },
  voyage: { vendor: "voyageai", prefix: "voyage/" },
};

/** The kinds of models that the gateway serves. */
const MODES = new Set(["chat", "responses", "completion", "embedding", "image_generation", "realtime"]);

/** LiteLLM's names of rates, in dollars per token. With a suffix they apply to a tier. */
const LITELLM_RATES: Readonly<Record<keyof Rates, string>> = {
  input: "input_cost_per_token",
  cached: "cache_read_input_token_cost",
  cache_write: "cache_creation_input_token_cost",
  cache_write_1h: "cache_creation_input_token_cost_above_1hr",
  output: "output_cost_per_token",
  reasoning: "output_cost_per_reasoning_token",
  input_audio: "input_cost_per_audio_token",
  cached_audio: "cache_read_input_audio_token_cost",
  output_audio: "output_cost_per_audio_token",
  input_image: "input_cost_per_image_token",
  cached_image: "cache_read_input_image_token_cost",
  output_image: "output_cost_per_image_token",
  input_video: "input_cost_per_video_token",
};

/** The rate of cache entries that last longest; no vendor has it and that of an hour. */
const CACHE_RATE_ABOVE_12H = "cache_creation_input_token_cost_above_12hr";

const TIER_SUFFIXES = { batch: "_batches", flex: "_flex", priority: "_priority" } as const;

/** Abilities by LiteLLM's names. */
const LITELLM_ABILITIES: Readonly<Record<string, string>> = {
  supports_function_calling: "tools",
  supports_vision: "vision",
  supports_audio_input: "audio",
  supports_video_input: "video",
  supports_pdf_input: "files",
  supports_response_schema: "json_schema",
  supports_reasoning: "reasoning",
  supports_prompt_caching: "caching",
  supports_web_search: "web_search",
};

const positiveInteger = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;

/** USD per million, with six decimals: the table has 1.0000000000000001e-07. */
function perMillion(value: unknown): number | undefined {
  if (typeof value !== "number" || !(value >= 0)) return undefined;
  return Math.round(value * 1e12) / 1e6;
}

function readRates(row: LiteLlmRow, suffix: string): Rates {
  const found: Rates = {};
  for (const [name, theirs] of Object.entries(LITELLM_RATES)) {
    const usd =
      perMillion(row[theirs + suffix]) ??
      (name === "cache_write_1h" ? perMillion(row[CACHE_RATE_ABOVE_12H + suffix]) : undefined);
    if (usd !== undefined) found[name as keyof Rates] = usd;
  }
  return found;
}

/** Returns a row's rates including those for many tokens. @param suffix of a service tier */
function readTieredRates(row: LiteLlmRow, suffix: string): TieredRates {
  const base = readRates(row, suffix);
  const sizes = Object.keys(row).flatMap((name) => /^input_cost_per_token_above_(\d+)k_tokens$/.exec(name)?.[1] ?? []);
  const above = [...new Set(sizes)].flatMap((size) => {
    const own = readRates(row, `_above_${size}k_tokens${suffix}`);
    return own.input === undefined ? [] : [{ tokens: Number(size) * 1000, ...own }];
  });
  return above.length > 0 ? { ...base, above } : base;
}

function litellmPrice(row: LiteLlmRow): Price | undefined {
  const usual = readTieredRates(row, "");
  if (usual.input === undefined || (usual.output === undefined && row.mode !== "embedding")) return undefined;
  const price: Price = { ...usual };
  for (const [tier, suffix] of Object.entries(TIER_SUFFIXES)) {
    const own = readTieredRates(row, suffix);
    if (own.input !== undefined) price[tier as keyof typeof TIER_SUFFIXES] = own;
  }
  const search = row["search_context_cost_per_query"] as Record<string, unknown> | undefined;
  const usd = search?.["search_context_size_medium"];
  if (typeof usd === "number" && row["search_free_requests"] === undefined) price.web_search = usd;
  const request = row["input_cost_per_request"];
  if (typeof request === "number" && request > 0) price.request = request;
  return price;
}

function imagePrice(row: LiteLlmRow, sizes: Record<string, number> | undefined): Price | undefined {
  if (row.mode !== "image_generation") return undefined;
  const usd = usdPerImage(row);
  if (sizes) return { image: { ...(usd === undefined ? {} : { "": usd }), ...sizes } };
  return usd === undefined ? undefined : { image: usd };
}

function abilities(row: LiteLlmRow): string[] {
  const can = Object.entries(LITELLM_ABILITIES).flatMap(([theirs, ours]) => (row[theirs] === true ? [ours] : []));
  if (row.mode === "embedding") can.push("embeddings");
  if (row.mode === "image_generation") can.push("images");
  return can;
}

/**
 * The name of a row for one size and quality of a model's images: before the size is a quality, or LiteLLM's name of a vendor.
 */
const SIZED_ROW = /^(?:(.*)\/)?(\d+)-x-(\d+)\/([^/]+)$/;
const QUALITY = /^(?:(.*)\/)?(low|medium|high|hd|standard)$/;
/** The default quality and size of a request. [D: DALL·E 3] */
const [USUAL_QUALITY, USUAL_SIZE] = ["standard", "1024x1024"];

/** Returns a row's USD per image, if tokens are not charged. */
function usdPerImage(row: LiteLlmRow, pixels = 0): number | undefined {
  if (row["input_cost_per_token"] !== undefined || row["output_cost_per_image_token"] !== undefined) return undefined;
  // LiteLLM uses both names for the same: the price of output.
  const { output_cost_per_image: out, input_cost_per_image: each, input_cost_per_pixel: pixel } = row;
  const usd = [out, each, Number(pixel) * pixels].find((price) => typeof price === "number" && price > 0);
  return usd === undefined ? undefined : Math.round(Number(usd) * 1e6) / 1e6;
}

/** Returns prices by quality and size of models without token prices, by the names of their rows. */
function sizedPrices(rows: Readonly<Record<string, LiteLlmRow>>): Map<string, Record<string, number>> {
  const found = new Map<string, Record<string, number>>();
  for (const [key, row] of Object.entries(rows)) {
    const [, before = "", width, height, name = ""] = SIZED_ROW.exec(key) ?? [];
    const quality = QUALITY.exec(before);
    const vendor = quality ? quality[1] : before;
    const model = vendor ? `${vendor}/${name}` : name;
    const usd = row.mode === "image_generation" ? usdPerImage(row, Number(width) * Number(height)) : undefined;
    if (usd === undefined || rows[model]?.["input_cost_per_token"] !== undefined) continue;
    const sizes = found.getOrInsertComputed(model, () => ({}));
    const size = `${width}x${height}`;
    const qualities = quality?.[2] === USUAL_QUALITY ? [USUAL_QUALITY, ""] : [quality?.[2] ?? ""];
    for (const qualityKey of qualities)
      for (const sizeKey of size === USUAL_SIZE ? [size, ""] : [size]) sizes[`${qualityKey} ${sizeKey}`.trim()] = usd;
  }
  return found;
}

/** Extracts what the gateway reads of LiteLLM's table: models of known vendors, with context, output, abilities and price. */
export function extractLiteLlm(rows: Readonly<Record<string, LiteLlmRow>>, version: string): LiteLlmExtract {
  const models: [string, LiteLlmModel][] = [];
  const sized = sizedPrices(rows);
  const whole = Object.entries(rows).filter(([key]) => !SIZED_ROW.test(key));
  // Some models have only rows for sizes.
  const bare = [...sized.keys()].filter((key) => !Object.hasOwn(rows, key));
  const alone = bare.flatMap((key): [string, LiteLlmRow][] => {
    const row = Object.entries(rows).find(
      ([name]) => SIZED_ROW.test(name) && name.endsWith(`/${key.split("/").at(-1)}`),
    );
    return row ? [[key, { litellm_provider: row[1].litellm_provider ?? "", mode: "image_generation" }]] : [];
  });
  for (const [key, row] of [...whole, ...alone]) {
    const known = LITELLM_VENDORS[row.litellm_provider ?? ""];
    if (!known || !MODES.has(row.mode ?? "") || !key.startsWith(known.prefix)) continue;
    const model: LiteLlmModel = {};
    const [context, output, can, price] = [
      positiveInteger(row["max_input_tokens"]),
      positiveInteger(row["max_output_tokens"]),
      abilities(row),
      litellmPrice(row) ?? imagePrice(row, sized.get(key)),
    ];
    if (context !== undefined) model.context = context;
    if (output !== undefined) model.output = output;
    if (can.length > 0) model.can = can;
    if (price !== undefined) model.price = price;
    if (Object.keys(model).length > 0) models.push([`${known.vendor}:${key.slice(known.prefix.length)}`, model]);
  }
  // Sorted, so that a new version's diff shows only the table's changes.
  models.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return { version, models: Object.fromEntries(models) };
}

/** Stores each model once, with all of its names. */
export function packLiteLlm({ version, models }: LiteLlmExtract): StoredLiteLlmExtract {
  const groups = Map.groupBy(Object.entries(models), ([, model]) => JSON.stringify(model));
  const abilities = [...new Set(Object.values(models).flatMap(({ can = [] }) => can))].sort();
  const pack = (equal: readonly [string, LiteLlmModel][]): StoredLiteLlmModel => {
    const names = equal.map(([name]) => name);
    const { can = [], context = null, output = null, price } = (equal[0] as [string, LiteLlmModel])[1];
    const facts = [names, can.map((each) => abilities.indexOf(each)), context, output] as const;
    return price ? [...facts, price] : facts;
  };
  return { version, abilities, models: [...groups.values()].map(pack) };
}
