import type { Provider } from "../core/marketplace.ts";
import { type Price, type Rates, SERVICE_TIERS, type TieredRates } from "../core/price.ts";
import { type DatedPrice, DEMO_SOURCE, PriceList } from "../core/price-list.ts";
import type { GenaiPrices } from "./genai.ts";
import type { LiteLlmModel } from "./litellm-table.ts";
import { vendorAt } from "./vendors.ts";

/** Facts about a model from public tables, with their sources. */
export interface ModelFacts {
  prices?: PriceList;
  /** Tokens. */
  context?: SourcedFact<number>;
  output?: SourcedFact<number>;
  can?: SourcedFact<readonly string[]>;
}

export interface SourcedFact<T> {
  readonly value: T;
  readonly source: string;
}

/** The tables. They are large, and read only if a provider's vendor is known. */
interface Tables {
  genai: (vendor: string, model: string) => GenaiPrices | undefined;
  genaiSource: string;
  litellm: (vendor: string, model: string) => LiteLlmModel | undefined;
  /** Rates of the vendor's models that generate images. */
  imageRates: (vendor: string) => Readonly<Record<string, Rates>> | undefined;
  litellmSource: string;
}

type PricedProvider = Pick<Provider, "vendor" | "url"> | { vendor?: string; url: URL | "demo:" };

/** The price of the built-in provider. */
const FREE_PRICES = new PriceList([{ price: { input: 0, output: 0 } }], DEMO_SOURCE);

const NO_FACTS: ModelFacts = {};

/** Names that vendors point to newer models over time (Mistral, DeepSeek), for which genai-prices keeps an old target. */
const MOVING_ALIASES: Readonly<Record<string, RegExp>> = {
  mistral: /-latest$/,
  deepseek: /^deepseek-(?:chat|reasoner)$/,
};

/**
 * Facts about models from public tables: prices and contexts from genai-prices, and the rest from an excerpt of LiteLLM's
 * table. Nothing is fetched.
 */
export class Catalogue {
  private readonly known = new Map<string, ModelFacts>();

  private constructor(private readonly tables: Tables | undefined) {}

  /** Reads the tables if one of these providers has a vendor in them. */
  static async for(providers: Iterable<PricedProvider>): Promise<Catalogue> {
    const needsTables = [...providers].some((provider) => !["demo", undefined].includes(vendorOf(provider)));
    if (!needsTables) return new Catalogue(undefined);
    const [genai, litellm] = await Promise.all([import("./genai.ts"), import("./litellm.ts")]);
    return new Catalogue({
      genai: genai.genaiPrices,
      genaiSource: `genai-prices ${genai.genaiVersion()}`,
      litellm: litellm.litellmModel,
      imageRates: litellm.imageModelRates,
      litellmSource: `litellm ${litellm.litellmVersion()}`,
    });
  }

  /** Returns what is known of a provider's model. */
  find(provider: PricedProvider, model: string): ModelFacts {
    const vendor = vendorOf(provider);
    if (vendor === "demo") return { prices: FREE_PRICES };
    const { tables } = this;
    if (vendor === undefined || !tables) return NO_FACTS;
    const find = () => factsOf(tables, vendor, model.replace(/^models\//, ""));
    return this.known.getOrInsertComputed(`${vendor}:${model}`, find);
  }
}

/** Returns the vendor of a provider, if it is known. */
export const vendorOf = ({ vendor, url }: PricedProvider): string | undefined =>
  vendor ?? (url === "demo:" ? "demo" : vendorAt(url));

function factsOf(tables: Tables, vendor: string, model: string): ModelFacts {
  const { genaiSource, litellmSource } = tables;
  const priced = tables.genai(vendor, model);
  const row = tables.litellm(vendor, model);
  const facts: ModelFacts = {};
  const imageRates = row?.can?.includes("tools") ? tables.imageRates(vendor) : undefined;
  const other = row?.price && completeTiers(row.price);
  const drawing = imageRates ? { image_generation: imageRates } : {};
  const whole = priced?.prices.map((each) =>
    addLongWrites(model, addRates(each, { ...missingRates(model, each.price, other), ...drawing }, litellmSource)),
  );
  const first = whole?.every(({ price }) => hasAudioRates(model, price)) ? whole : undefined;
  const second =
    other && hasAudioRates(model, other) ? [addLongWrites(model, { price: { ...other, ...drawing } })] : undefined;
  const doubted = priced?.guessed || MOVING_ALIASES[vendor]?.test(model);
  if (first && !(doubted && second)) facts.prices = new PriceList(first, genaiSource, priced?.guessed);
  else if (second) facts.prices = new PriceList(second, litellmSource);
  if (priced?.context !== undefined && !priced.guessed) facts.context = { value: priced.context, source: genaiSource };
  else if (row?.context !== undefined) facts.context = { value: row.context, source: litellmSource };
  if (row?.output !== undefined) facts.output = { value: row.output, source: litellmSource };
  if (row?.can !== undefined) facts.can = { value: row.can, source: litellmSource };
  return facts;
}

/** Models that genai-prices lists among the names of models with cheaper searches. */
const MISPRICED_SEARCH = /-search-preview\b/;

/** Models whose audio costs many times their text. */
const AUDIO_MODEL = /(?:^|[-/])audio(?:-|$)/;

/** Reports whether a price has the audio rates that its model must have: a table without them has only those of text. */
const hasAudioRates = (model: string, { input_audio, output_audio }: Price): boolean =>
  !AUDIO_MODEL.test(model) || input_audio !== undefined || output_audio !== undefined;

/** Completes the rates of LiteLLM's tiers, where the standard ones tell them. */
function completeTiers({ reasoning, ...price }: Price): Price {
  // The table often repeats the rate of output, but not in tiers.
  const whole: Price = reasoning === undefined || reasoning === price.output ? price : { ...price, reasoning };
  for (const tier of SERVICE_TIERS) {
    const own = whole[tier];
    if (own)
      whole[tier] = {
        ...own,
        ...longWrite(own, price),
        ...(own.above && { above: own.above.map((each) => ({ ...each, ...longWrite(each, price) })) }),
      };
  }
  return whole;
}

const MICRO_PER_USD = 1e6;

/** Returns the missing rate of long cache writes: all vendors charge a fixed multiple of that of the others, in each tier. */
function longWrite({ cache_write: own, cache_write_1h: long }: Rates, { cache_write, cache_write_1h }: Price): Rates {
  if (long !== undefined || !own || !cache_write || cache_write_1h === undefined) return {};
  return { cache_write_1h: Math.round((own * cache_write_1h * MICRO_PER_USD) / cache_write) / MICRO_PER_USD };
}

const CLAUDE = /claude/;
/** The source of the rate below. */
const LONG_WRITE_SOURCE = "twice the input, as wherever a table has it";

/**
 * Adds the rate of long cache writes to a price of Claude that has only that of short ones, as those of most resellers in the tables:
 * it is twice that of input, in each step and tier. As short writes, which are cheaper, they would cost too little.
 */
function addLongWrites(model: string, dated: DatedPrice): DatedPrice {
  if (!CLAUDE.test(model)) return dated;
  const { price } = dated;
  const complete = <T extends TieredRates>(rates: T): T => {
    const { input, cache_write, cache_write_1h, above } = rates;
    const lacks = cache_write_1h === undefined && cache_write !== undefined && input !== undefined;
    return { ...rates, ...(lacks && { cache_write_1h: 2 * input }), ...(above && { above: above.map(complete) }) };
  };
  const whole = complete(price);
  for (const tier of SERVICE_TIERS) if (price[tier]) whole[tier] = complete(price[tier]);
  const from = price.cache_write_1h === whole.cache_write_1h ? {} : { cache_write_1h: LONG_WRITE_SOURCE };
  return { ...dated, price: whole, sourceOverrides: { ...dated.sourceOverrides, ...from } };
}

const AUDIO_RATES = ["input_audio", "output_audio"] as const;

/** Adds another table's figures to a price, with their source. */
function addRates(dated: DatedPrice, more: Price, source: string): DatedPrice {
  const names = Object.keys(more);
  if (names.length === 0) return dated;
  const from = Object.fromEntries(names.map((name) => [name, source]));
  return { ...dated, price: { ...dated.price, ...more }, sourceOverrides: from };
}

/** Returns rates of service tiers, long caching, audio and searches, which genai-prices lacks, if both tables agree on the basic rates. */
function missingRates(model: string, price: Price, other: Price | undefined): Price {
  const more: Price = {};
  if (!other || price.input !== other.input || price.output !== other.output) return more;
  for (const tier of SERVICE_TIERS)
    if (price[tier] === undefined && other[tier] !== undefined) more[tier] = other[tier];
  if (
    price.cache_write_1h === undefined &&
    price.cache_write === other.cache_write &&
    other.cache_write_1h !== undefined
  )
    more.cache_write_1h = other.cache_write_1h;
  for (const name of AUDIO_RATES) if (price[name] === undefined && other[name] !== undefined) more[name] = other[name];
  const lacksSearch = price.web_search === undefined || MISPRICED_SEARCH.test(model);
  if (other.web_search !== undefined && lacksSearch) more.web_search = other.web_search;
  return more;
}
