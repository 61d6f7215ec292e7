import type { Provider } from "../core/marketplace.ts";
import { type Price, type Rates, SERVICE_TIERS } from "../core/price.ts";
import { type DatedPrice, DEMO, PriceList } from "../core/price-list.ts";
import type { CutModel } from "./cut.ts";
import type { KnownPrices } from "./genai.ts";
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
  genai: (vendor: string, model: string) => KnownPrices | undefined;
  genaiSource: string;
  litellm: (vendor: string, model: string) => CutModel | undefined;
  /** Rates of the vendor's models that generate images. */
  drawing: (vendor: string) => Readonly<Record<string, Rates>> | undefined;
  litellmSource: string;
}

type Seller = Pick<Provider, "vendor" | "url"> | { vendor?: string; url: URL | "demo:" };

/** The price of the built-in provider. */
const FREE = new PriceList([{ price: { input: 0, output: 0 } }], DEMO);

const NOTHING: ModelFacts = {};

/** Names that vendors point to newer models over time (Mistral, DeepSeek), for which genai-prices keeps an old target. */
const MOVING: Readonly<Record<string, RegExp>> = { mistral: /-latest$/, deepseek: /^deepseek-(?:chat|reasoner)$/ };

/**
 * Facts about models from public tables: prices and contexts from genai-prices, and the rest from an excerpt of LiteLLM's
 * table. Nothing is fetched.
 */
export class Catalogue {
  private readonly known = new Map<string, ModelFacts>();

  private constructor(private readonly tables: Tables | undefined) {}

  /** Reads the tables if one of these providers has a vendor in them. */
  static async for(sellers: Iterable<Seller>): Promise<Catalogue> {
    const wanted = [...sellers].some((seller) => !["demo", undefined].includes(vendorOf(seller)));
    if (!wanted) return new Catalogue(undefined);
    const [genai, litellm] = await Promise.all([import("./genai.ts"), import("./litellm.ts")]);
    return new Catalogue({
      genai: genai.genaiPrices,
      genaiSource: `genai-prices ${genai.genaiVersion()}`,
      litellm: litellm.litellmModel,
      drawing: litellm.drawingModels,
      litellmSource: `litellm ${litellm.litellmVersion()}`,
    });
  }

  /** Returns what is known of a provider's model. */
  find(seller: Seller, model: string): ModelFacts {
    const vendor = vendorOf(seller);
    if (vendor === "demo") return { prices: FREE };
    if (vendor === undefined || !this.tables) return NOTHING;
    const name = `${vendor}:${model}`;
    let facts = this.known.get(name);
    if (!facts) {
      facts = factsOf(this.tables, vendor, model.replace(/^models\//, ""));
      this.known.set(name, facts);
    }
    return facts;
  }
}

/** Returns the vendor of a provider, if it is known. */
export const vendorOf = ({ vendor, url }: Seller): string | undefined =>
  vendor ?? (url === "demo:" ? "demo" : vendorAt(url));

function factsOf(tables: Tables, vendor: string, model: string): ModelFacts {
  const { genaiSource, litellmSource } = tables;
  const priced = tables.genai(vendor, model);
  const row = tables.litellm(vendor, model);
  const facts: ModelFacts = {};
  const draws = row?.can?.includes("tools") ? tables.drawing(vendor) : undefined;
  const doubted = priced?.guessed || MOVING[vendor]?.test(model);
  if (priced && !(doubted && row?.price)) {
    const drawing = draws ? { image_generation: draws } : {};
    const whole = priced.prices.map((each) =>
      lent(each, { ...missing(each.price, row?.price), ...drawing }, litellmSource),
    );
    facts.prices = new PriceList(whole, genaiSource, priced.guessed);
  } else if (row?.price) {
    const price = draws ? { ...row.price, image_generation: draws } : row.price;
    facts.prices = new PriceList([{ price }], litellmSource);
  }
  if (priced?.context !== undefined && !priced.guessed) facts.context = { value: priced.context, source: genaiSource };
  else if (row?.context !== undefined) facts.context = { value: row.context, source: litellmSource };
  if (row?.output !== undefined) facts.output = { value: row.output, source: litellmSource };
  if (row?.can !== undefined) facts.can = { value: row.can, source: litellmSource };
  return facts;
}

/** Adds another table's figures to a price, with their source. */
function lent(dated: DatedPrice, more: Price, source: string): DatedPrice {
  const names = Object.keys(more);
  if (names.length === 0) return dated;
  const from = Object.fromEntries(names.map((name) => [name, source]));
  return { ...dated, price: { ...dated.price, ...more }, lent: from };
}

/** Returns rates of service tiers and of long caching, which genai-prices lacks, if both tables agree on the basic rates. */
function missing(price: Price, other: Price | undefined): Price {
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
  return more;
}
