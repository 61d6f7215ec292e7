import type { Usage } from "./usage.ts";

/** Prices of tokens in USD per million. What has no price of its own costs what the kind costs that it is a part of. */
export interface Rates {
  input?: number;
  /** Read from the vendor's prompt cache. */
  cached?: number;
  /** Written to it, for the usual time and for an hour or longer. */
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

/** Rates, and those of a whole request with more tokens in than some. */
export interface TieredRates extends Rates {
  above?: readonly (Rates & { tokens: number })[];
}

/** The service tiers that have rates of their own. */
export const SERVICE_TIERS = ["batch", "flex", "priority", "fast"] as const;
type ServiceTier = (typeof SERVICE_TIERS)[number];

/** Rates with those of service tiers; a rate that a tier does not have is the usual one. */
export type Price = TieredRates & {
  [tier in ServiceTier]?: TieredRates;
} & {
  /** USD for each request. */
  request?: number;
  /** USD for each search of the web by a tool of the vendor. */
  web_search?: number;
  /** USD for each picture that is made from words, and from other pictures. */
  image?: PerImage;
  image_edit?: PerImage;
  /** Rates of the models that a tool of the vendor draws with, by their names; `*` is any other. */
  image_generation?: Readonly<Record<string, Rates>>;
};

/** For all pictures, or by quality and size as they are asked for, like `hd 1024x1024`; without a word where there is none. */
type PerImage = number | Readonly<Record<string, number>>;

/** Pico-dollars (millionths of a millionth) for a token, in the order of `PARTS`: whole numbers, so that sums are exact. */
type Rated = readonly number[];

/** A step of prices: it holds for requests with more tokens in. */
interface PriceStep {
  above: number;
  rates: Rated;
}

/** A price as it is reckoned with. */
interface Compiled {
  usual: readonly PriceStep[];
  tiers: ReadonlyMap<string, readonly PriceStep[]>;
  request: number;
  webSearch: number;
  drawing: ReadonlyMap<string, Rated>;
}

/** USD per million tokens are as many millionths of a dollar, and a million pico-dollars, for each. */
const PER_TOKEN = 1e6;
const PICO = 1e12;
const PICO_IN_NANO = 1000;

const whole = (usd: number, factor: number): number => Math.round(usd * factor);

function rated(rates: Rates): Rated {
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
  ].map((usd) => whole(usd, PER_TOKEN));
}

/** The steps of rates, the highest first. */
function stepsOf({ above = [], ...base }: TieredRates): PriceStep[] {
  const higher = above.map(({ tokens, ...own }) => ({ above: tokens, rates: rated({ ...base, ...own }) }));
  return [...higher, { above: -1, rates: rated(base) }].sort((a, b) => b.above - a.above);
}

function compile(price: Price): Compiled {
  const { batch, flex, priority, fast, request = 0, web_search = 0, image_generation = {}, ...usual } = price;
  const tiers = Object.entries({ batch, flex, priority, fast }).flatMap(([name, own]): [string, PriceStep[]][] =>
    own ? [[name, stepsOf({ ...usual, ...own })]] : [],
  );
  return {
    usual: stepsOf(usual),
    tiers: new Map(tiers),
    request: whole(request, PICO),
    webSearch: whole(web_search, PICO),
    drawing: new Map(Object.entries(image_generation).map(([model, rates]) => [model, rated(rates)])),
  };
}

const compiled = new WeakMap<Price, Compiled>();

function compiledOf(price: Price): Compiled {
  let found = compiled.get(price);
  if (!found) {
    found = compile(price);
    compiled.set(price, found);
  }
  return found;
}

/** What vendors call a search of the web among the counts of their tools. */
const WEB_SEARCHES = ["web_search_requests", "web_search_calls", "web_search"];

/** Searches of the web, by whatever name. */
function searches({ serverTools }: Usage): number {
  let found = 0;
  if (serverTools) for (const name of WEB_SEARCHES) found += serverTools[name] ?? 0;
  return found;
}

/** Words of vendors for the tiers that have rates of their own, besides their names. */
const ON_DEMAND = /^on_demand_/;
/** Tiers that are paid for in another way. */
const PREPAID = new Set(["scale", "provisioned", "provisioned_throughput"]);
const USUAL = new Set(["default", "standard", "auto", "on_demand"]);
/** Tools of vendors that cost nothing but their tokens. */
const FREE_TOOLS = new Set(["web_fetch_requests", "mcp_calls"]);

const tierOf = (tier: string): string => tier.toLowerCase().replace(ON_DEMAND, "");

/**
 * Whether all that an exchange used has a price, so that `cost` is the whole of it.
 * @param isListed the price is of a public table: what it leaves out it does not know. What an operator leaves out costs the same
 *   as what it is a part of, or nothing.
 */
export function isPriced(usage: Usage, price: Price, isListed: boolean): boolean {
  const { images, drawn, serverTools, tier } = usage;
  if (price.image !== undefined && price.input === undefined && price.output === undefined && !images) return false;
  if (images && perImage(images, price) === undefined) return false;
  if (drawn && !drawingOf(drawn.model, compiledOf(price))) return false;
  if (!isListed) return true;
  if (tier !== undefined && !USUAL.has(tier) && !hasTier(tierOf(tier), price)) return false;
  for (const name in serverTools) {
    if ((serverTools[name] as number) === 0 || FREE_TOOLS.has(name)) continue;
    if (price.web_search === undefined || !WEB_SEARCHES.includes(name)) return false;
  }
  return true;
}

function hasTier(tier: string, price: Price): boolean {
  if (PREPAID.has(tier) || tier === "ultrafast") return false;
  return !SERVICE_TIERS.includes(tier as ServiceTier) || price[tier as ServiceTier] !== undefined;
}

/** USD for each of some pictures: 0 where tokens alone are charged, undefined where it is not known. */
function perImage({ size, quality, edited }: NonNullable<Usage["images"]>, price: Price): number | undefined {
  if (price.image === undefined && price.image_edit === undefined) return 0;
  const each = edited ? price.image_edit : price.image;
  if (each === undefined || typeof each === "number") return each;
  const asked = [quality, size].filter((word) => word !== undefined).join(" ");
  return Object.hasOwn(each, asked) ? each[asked] : undefined;
}

const drawingOf = (model: string | undefined, { drawing }: Compiled): Rated | undefined =>
  drawing.get(model ?? "*") ?? drawing.get("*");

/** USD for a picture of which nobody knows what it costs: as much as the dearest, so that no budget takes it for free. */
const dearestPicture = ({ image, image_edit }: Price): number =>
  Math.max(0, ...[image, image_edit].flatMap((each = 0) => (typeof each === "number" ? each : Object.values(each))));

/** Pico-dollars of pictures. */
function pictures({ images, drawn }: Usage, price: Price, compiled: Compiled): number {
  let pico = images ? images.count * whole(perImage(images, price) ?? dearestPicture(price), PICO) : 0;
  const rates = drawn && drawingOf(drawn.model, compiled);
  if (rates) for (const [part, count] of countsOf(drawn).entries()) pico += count * (rates[part] as number);
  return pico;
}

/**
 * What an exchange costs at a price, as far as the price knows of it (`isPriced`), in integer nano-dollars, rounded once, at the end, half up. Every token counts as one
 * kind: what was cached, written, heard or seen is taken out of the plain input first.
 */
export function cost(usage: Usage, price: Price): number {
  const compiled = compiledOf(price);
  const { usual, tiers, request, webSearch } = compiled;
  const steps = usage.tier === undefined ? usual : (tiers.get(tierOf(usage.tier)) ?? usual);
  const total = usage.in.total ?? 0;
  let step = 0;
  while ((steps[step] as PriceStep).above >= total && step < steps.length - 1) step++;
  const { rates } = steps[step] as PriceStep;
  const counts = countsOf(usage);
  const fixed = request + (usage.images || usage.drawn ? pictures(usage, price, compiled) : 0);
  let pico = fixed + (usage.serverTools ? searches(usage) * webSearch : 0);
  for (let part = 0; part < counts.length; part++) pico += (counts[part] as number) * (rates[part] as number);
  if (!Number.isSafeInteger(pico)) return exactly(counts, rates, fixed, searches(usage), webSearch);
  const rest = pico % PICO_IN_NANO;
  return (pico - rest) / PICO_IN_NANO + (rest * 2 >= PICO_IN_NANO ? 1 : 0);
}

/** The same for sums that a number cannot hold. */
function exactly(counts: Rated, rates: Rated, fixed: number, found: number, webSearch: number): number {
  const sum = counts.reduce(
    (all, count, part) => all + BigInt(count) * BigInt(rates[part] as number),
    BigInt(fixed) + BigInt(found) * BigInt(webSearch),
  );
  return Number((sum + BigInt(PICO_IN_NANO / 2)) / BigInt(PICO_IN_NANO));
}

/** How many tokens there are of each kind of `rated`. No kind takes more than is left: vendors' parts can exceed their sums. */
function countsOf({ in: input, out }: Pick<Usage, "in" | "out">): number[] {
  let left = input.total ?? 0;
  const taken = (tokens: number | undefined): number => {
    const part = Math.max(0, Math.min(tokens ?? 0, left));
    left -= part;
    return part;
  };
  const { write, cachedAudio = 0, cachedImage = 0 } = input;
  const long = write ? (write["1h"] ?? 0) + (write["12h"] ?? 0) : 0;
  const hour = taken(long);
  const written = write ? taken(sumOf(write) - long) : 0;
  // Of what was cached is text first, unless the vendor says otherwise.
  const heard = taken(cachedAudio);
  const seen = taken(cachedImage);
  const cached = taken((input.cached ?? 0) - heard - seen);
  const audio = taken((input.audio ?? 0) - heard);
  const image = taken((input.image ?? 0) - seen);
  const video = taken(input.video);
  let behind = out.total ?? 0;
  const gone = (tokens: number | undefined): number => {
    const part = Math.max(0, Math.min(tokens ?? 0, behind));
    behind -= part;
    return part;
  };
  const [spoken, drawn, thought] = [gone(out.audio), gone(out.image), gone(out.reasoning)];
  return [left, cached, written, hour, audio, heard, image, seen, video, behind, thought, spoken, drawn];
}

function sumOf(write: NonNullable<Usage["in"]["write"]>): number {
  let sum = 0;
  for (const time in write) sum += write[time as keyof typeof write] ?? 0;
  return sum;
}
