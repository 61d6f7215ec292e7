import type { Usage } from "./usage.ts";

/** Token prices in USD per million. A kind without its own price costs as much as the kind that it is a part of. */
export interface Rates {
  input?: number;
  /** Read from the vendor's prompt cache. */
  cached?: number;
  /** Written to the prompt cache, for the usual lifetime and for an hour or longer. */
  cache_write?: number;
  cache_write_1h?: number;
  output?: number;
  reasoning?: number;
  input_audio?: number;
  cached_audio?: number;
  output_audio?: number;
  input_image?: number;
  cached_image?: number;
  output_image?: number;
  input_video?: number;
}

/** Rates, and those for requests with more than a number of input tokens. */
export interface TieredRates extends Rates {
  above?: readonly (Rates & { tokens: number })[];
}

/** The service tiers that have rates of their own. */
export const SERVICE_TIERS = ["batch", "flex", "priority", "fast"] as const;
type ServiceTier = (typeof SERVICE_TIERS)[number];

/** Rates and those of service tiers. A rate missing in a tier is the usual one in operators' prices, and unknown in a table's. */
export type Price = TieredRates & {
  [tier in ServiceTier]?: TieredRates;
} & {
  /** USD for each request. */
  request?: number;
  /** USD for each web search by a tool of the vendor. */
  web_search?: number;
  /** USD for each image made from text, and from other images. */
  image?: PerImage;
  image_edit?: PerImage;
  /** Rates of the models that a drawing tool of the vendor uses, by name; `*` is any other. */
  image_generation?: Readonly<Record<string, Rates>>;
};

/** One price, or prices by the requested quality and size, like `hd 1024x1024`; a missing value is left out of the key. */
type PerImage = number | Readonly<Record<string, number>>;

/** Pico-dollars (10⁻¹² dollars) for a token, in the order returned by `tokenRates`: integers, so that sums are exact. */
type TokenRates = readonly number[];

/** A price step: applies to requests with more than `above` input tokens. */
interface PriceStep {
  above: number;
  rates: TokenRates;
}

/** A price prepared for calculation. */
interface Compiled {
  usual: readonly PriceStep[];
  tiers: ReadonlyMap<string, readonly PriceStep[]>;
  request: number;
  webSearch: number;
  drawing: ReadonlyMap<string, TokenRates>;
}

/** USD per million tokens, times 10⁶, is pico-dollars per token. */
const PICO_PER_TOKEN = 1e6;
const PICO_PER_USD = 1e12;
const PICO_PER_NANO = 1000;

const toInteger = (usd: number, factor: number): number => Math.round(usd * factor);

function tokenRates(rates: Rates): TokenRates {
  const { input = 0, output = 0 } = rates;
  const { cached = input, cache_write = input, input_audio = input, input_image = input } = rates;
  return [
    input,
    cached,
    cache_write,
    rates.cache_write_1h ?? cache_write,
    input_audio,
    rates.cached_audio ?? rates.cached ?? input_audio,
    input_image,
    rates.cached_image ?? rates.cached ?? input_image,
    rates.input_video ?? input,
    output,
    rates.reasoning ?? output,
    rates.output_audio ?? output,
    rates.output_image ?? output,
  ].map((usd) => toInteger(usd, PICO_PER_TOKEN));
}

/** The names of rates, in the order of `tokenRates`. */
const RATE_NAMES = [
  ...(["input", "cached", "cache_write", "cache_write_1h", "input_audio", "cached_audio"] as const),
  ...(["input_image", "cached_image", "input_video"] as const),
  ...(["output", "reasoning", "output_audio", "output_image"] as const),
];

const OUTPUT_PART = RATE_NAMES.indexOf("output");

/** Returns the steps of rates, the highest first. */
function priceSteps({ above = [], ...base }: TieredRates): PriceStep[] {
  const higher = above.map(({ tokens, ...own }) => ({ above: tokens, rates: tokenRates({ ...base, ...own }) }));
  return [...higher, { above: -1, rates: tokenRates(base) }].sort((a, b) => b.above - a.above);
}

function compile(price: Price): Compiled {
  const { batch, flex, priority, fast, request = 0, web_search = 0, image_generation = {}, ...usual } = price;
  const tiers = Object.entries({ batch, flex, priority, fast }).flatMap(([name, own]): [string, PriceStep[]][] =>
    own ? [[name, priceSteps({ ...usual, ...own })]] : [],
  );
  return {
    usual: priceSteps(usual),
    tiers: new Map(tiers),
    request: toInteger(request, PICO_PER_USD),
    webSearch: toInteger(web_search, PICO_PER_USD),
    drawing: new Map(Object.entries(image_generation).map(([model, rates]) => [model, tokenRates(rates)])),
  };
}

const compiled = new WeakMap<Price, Compiled>();

const compiledPrice = (price: Price): Compiled => compiled.getOrInsertComputed(price, compile);

/** A search that only the citations of an answer tell of: others than the vendor of the model may have made it. */
const CITED_SEARCH = "cited_web_search";
/** Names for web searches in tool counts: vendors' ones, and that. */
const WEB_SEARCHES = ["web_search_requests", "web_search_calls", "web_search", CITED_SEARCH];

/** Returns the number of web searches, under any of these names. */
function countSearches({ serverTools }: Usage): number {
  let found = 0;
  if (serverTools) for (const name of WEB_SEARCHES) found += serverTools[name] ?? 0;
  return found;
}

/** A prefix that vendors put before the name of a tier. */
const ON_DEMAND = /^on_demand_/;
/** Tiers that are paid for separately. */
const PREPAID_TIERS = new Set(["scale", "provisioned", "provisioned_throughput"]);
const DEFAULT_TIERS = new Set(["default", "standard", "auto", "on_demand"]);
/** Tools of vendors that cost only their tokens, unless they have a price. */
const FREE_TOOLS = new Set(["web_fetch_requests", "mcp_calls", CITED_SEARCH]);

const normalizeTier = (tier: string): string => tier.toLowerCase().replace(ON_DEMAND, "");

/**
 * Reports whether everything that an exchange used has a price, so that `cost` is complete.
 * @param isListed the price comes from a public table: what it omits is unknown. What an operator omits costs the same as the
 *   kind it is a part of; tools cost nothing
 */
export function isPriced(usage: Usage, price: Price, isListed: boolean): boolean {
  const { images, drawn, serverTools, tier } = usage;
  if (price.image !== undefined && price.input === undefined && price.output === undefined && !images) return false;
  if (images && imagePrice(images, price) === undefined) return false;
  if (drawn && !drawingRates(drawn.model, compiledPrice(price))) return false;
  if (!hasTokenRates(usage, price)) return false;
  if (!isListed) return true;
  if (tier !== undefined && !DEFAULT_TIERS.has(tier) && !isTierPriced(usage, normalizeTier(tier), price)) return false;
  for (const name in serverTools) {
    if ((serverTools[name] as number) === 0 || FREE_TOOLS.has(name)) continue;
    if (price.web_search === undefined || !WEB_SEARCHES.includes(name)) return false;
  }
  return true;
}

/** Returns the rate that a price of tokens lacks: no other one stands for it. */
export function missingRate({ input, output }: Price): "input" | "output" | undefined {
  if (input === undefined) return output === undefined ? undefined : "input";
  return output === undefined ? "output" : undefined;
}

/** Reports whether a price of tokens has a rate for all of usage. */
function hasTokenRates(usage: Usage, price: Price): boolean {
  const missing = missingRate(price);
  if (missing === undefined) return true;
  const counts = tokenCounts(usage);
  const isMissing = (part: number) => part < OUTPUT_PART === (missing === "input");
  return RATE_NAMES.every((name, part) => counts[part] === 0 || !isMissing(part) || price[name] !== undefined);
}

/** Reports whether a public table has the rates of a tier for all tokens of usage: a standard rate is not the tier's. */
function isTierPriced(usage: Usage, tier: string, price: Price): boolean {
  if (PREPAID_TIERS.has(tier) || tier === "ultrafast") return false;
  if (!SERVICE_TIERS.includes(tier as ServiceTier)) return true;
  const own = price[tier as ServiceTier];
  if (!own) return false;
  const total = usage.in.total ?? 0;
  const isLong = ({ above = [] }: TieredRates) => above.some(({ tokens }) => total > tokens);
  if (isLong(price) && !isLong(own)) return false;
  const counts = tokenCounts(usage);
  return RATE_NAMES.every((name, part) => counts[part] === 0 || price[name] === undefined || own[name] !== undefined);
}

/** Returns USD for each image: 0 where only tokens are charged, undefined where the price is unknown. */
function imagePrice({ size, quality, edited }: NonNullable<Usage["images"]>, price: Price): number | undefined {
  if (price.image === undefined && price.image_edit === undefined) return 0;
  const each = edited ? price.image_edit : price.image;
  if (each === undefined || typeof each === "number") return each;
  const key = [quality, size].filter((word) => word !== undefined).join(" ");
  return Object.hasOwn(each, key) ? each[key] : undefined;
}

const drawingRates = (model: string | undefined, { drawing }: Compiled): TokenRates | undefined =>
  drawing.get(model ?? "*") ?? drawing.get("*");

/** Returns USD for an image of unknown price: the highest of the known prices, so that no budget takes it for free. */
const highestImagePrice = ({ image, image_edit }: Price): number =>
  Math.max(0, ...[image, image_edit].flatMap((each = 0) => (typeof each === "number" ? each : Object.values(each))));

/** Returns the highest known rates for drawn images whose own are unknown, for the same reason. */
function highestDrawingRates({ drawing }: Compiled): TokenRates | undefined {
  const perImage = (rates: TokenRates) => rates.at(-1) as number;
  return [...drawing.values()].sort((a, b) => perImage(b) - perImage(a))[0];
}

/** Returns the pico-dollars of images. */
function imageCost({ images, drawn }: Usage, price: Price, compiled: Compiled): number {
  let pico = images ? images.count * toInteger(imagePrice(images, price) ?? highestImagePrice(price), PICO_PER_USD) : 0;
  const rates = drawn && (drawingRates(drawn.model, compiled) ?? highestDrawingRates(compiled));
  if (rates) for (const [part, count] of tokenCounts(drawn).entries()) pico += count * (rates[part] as number);
  return pico;
}

/**
 * Returns the cost of an exchange in integer nano-dollars, as far as the price covers it; rounded once, at the end, half up.
 * Every token counts as one kind: cached, written, audio, image and video tokens are subtracted from the plain input first.
 */
export function cost(usage: Usage, price: Price): number {
  const compiled = compiledPrice(price);
  const { request, webSearch } = compiled;
  const steps = stepsOf(usage, compiled);
  const total = usage.in.total ?? 0;
  let step = 0;
  while ((steps[step] as PriceStep).above >= total && step < steps.length - 1) step++;
  const { rates } = steps[step] as PriceStep;
  const counts = tokenCounts(usage);
  const fixed = request + (usage.images || usage.drawn ? imageCost(usage, price, compiled) : 0);
  let pico = fixed + (usage.serverTools ? countSearches(usage) * webSearch : 0);
  for (let part = 0; part < counts.length; part++) pico += (counts[part] as number) * (rates[part] as number);
  if (!Number.isSafeInteger(pico)) return exactCost(counts, rates, fixed, countSearches(usage), webSearch);
  const rest = pico % PICO_PER_NANO;
  return (pico - rest) / PICO_PER_NANO + (rest * 2 >= PICO_PER_NANO ? 1 : 0);
}

function stepsOf({ tier }: Usage, { usual, tiers }: Compiled): readonly PriceStep[] {
  // Nearly always.
  if (tier === undefined || tiers.size === 0 || DEFAULT_TIERS.has(tier)) return usual;
  return tiers.get(normalizeTier(tier)) ?? usual;
}

/** Calculates the same with BigInt, for sums beyond the safe integers. */
function exactCost(counts: TokenRates, rates: TokenRates, fixed: number, found: number, webSearch: number): number {
  const sum = counts.reduce(
    (all, count, part) => all + BigInt(count) * BigInt(rates[part] as number),
    BigInt(fixed) + BigInt(found) * BigInt(webSearch),
  );
  return Number((sum + BigInt(PICO_PER_NANO / 2)) / BigInt(PICO_PER_NANO));
}

/**
 * Returns the number of tokens of each kind of `tokenRates`. No kind takes more than is left: vendors' parts can exceed their
 * totals.
 */
function tokenCounts({ in: input, out }: Pick<Usage, "in" | "out">): number[] {
  const rest = new Remainder(input.total);
  const { write, cachedAudio = 0, cachedImage = 0, cachedVideo = 0 } = input;
  const long = write ? (write["1h"] ?? 0) + (write["12h"] ?? 0) : 0;
  const hour = rest.take(long);
  const written = write ? rest.take(sumWrites(write) - long) : 0;
  // Cached tokens count as text first, unless the vendor reports otherwise.
  const audioFromCache = rest.take(cachedAudio);
  const imageFromCache = rest.take(cachedImage);
  const cached = rest.take((input.cached ?? 0) - audioFromCache - imageFromCache);
  const audio = rest.take((input.audio ?? 0) - audioFromCache);
  const image = rest.take((input.image ?? 0) - imageFromCache);
  // From the cache, video costs as much as text.
  const video = rest.take((input.video ?? 0) - cachedVideo);
  const restOut = new Remainder(out.total);
  const audioOut = restOut.take(out.audio);
  const drawn = restOut.take(out.image);
  const reasoning = restOut.take(out.reasoning);
  return [
    rest.tokens,
    cached,
    written,
    hour,
    audio,
    audioFromCache,
    image,
    imageFromCache,
    video,
    restOut.tokens,
    reasoning,
    audioOut,
    drawn,
  ];
}

/** Tokens of a total that belong to no kind yet. */
class Remainder {
  constructor(public tokens = 0) {}

  /** Takes the tokens of a kind, as far as there are any left. Returns their number. */
  take(wanted = 0): number {
    const taken = Math.max(0, Math.min(wanted, this.tokens));
    this.tokens -= taken;
    return taken;
  }
}

function sumWrites(write: NonNullable<Usage["in"]["write"]>): number {
  let sum = 0;
  for (const time in write) sum += write[time as keyof typeof write] ?? 0;
  return sum;
}
