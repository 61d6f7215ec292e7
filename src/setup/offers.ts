import { MODEL_ID } from "../config/schema/model.ts";
import { compileGlob } from "../core/glob.ts";
import type { Price } from "../core/price.ts";
import type { Protocol } from "../core/protocol.ts";
import { type Vendor, vendorFacts, vendorProtocols } from "../loader/vendors.ts";
import type { Catalogue } from "../prices/catalogue.ts";
import { listModels, type VendorListing, type VendorModel } from "./listing.ts";

/** A model that can be put into a new gateway.yaml. */
export interface ModelOffer {
  id: string;
  /** Members of its entry besides the target: aliases, facts. */
  entry: Readonly<Record<string, unknown>>;
  context?: number;
  price?: Price;
  /** Unix seconds. */
  created: number;
  preselected: boolean;
}

/** A vendor whose key is in the environment, or that runs on this machine. */
export interface VendorOffer {
  vendor: Vendor;
  /** The variable that holds its key. */
  variable?: string;
  url: string;
  listing: VendorListing;
  models: ModelOffer[];
}

/** Number of preselected models of a vendor without suggestions: the newest ones with a known price. */
const PRESELECTED = 3;
/** Timeout in milliseconds for a server on this machine. */
const LOCAL_TIMEOUT = 500;

/** Queries all vendors whose key is in the environment, and those that may run on this machine, in parallel. */
export async function queryOffers(
  vendors: readonly Vendor[],
  protocols: readonly Protocol[],
  env: NodeJS.ProcessEnv,
  catalogueFor: (sellers: { url: URL }[]) => Promise<Catalogue>,
): Promise<VendorOffer[]> {
  const asked = vendors.flatMap((vendor) => {
    const variable = vendor.variables.find((name) => env[name]);
    if (variable === undefined && vendor.variables.length > 0) return [];
    const url = vendor.base.map((name) => env[name]).find(Boolean) ?? vendor.provider.url;
    return URL.canParse(url) ? [{ vendor, variable, url: withVersionSegment(url, vendor) }] : [];
  });
  const catalogue = await catalogueFor(asked.map(({ url }) => ({ url: new URL(url) })));
  const offers = await Promise.all(
    asked.map(async ({ vendor, variable, url }): Promise<VendorOffer[]> => {
      const protocol = protocols.find(({ name }) => name === vendorProtocols(vendor)[0]);
      if (!protocol) return [];
      const secret = variable === undefined ? undefined : env[variable];
      const listing = await listModels(
        { url, protocol, secret },
        variable === undefined ? LOCAL_TIMEOUT : undefined,
        env,
      );
      if (variable === undefined && !listing.models?.length) return [];
      const models = modelOffers(vendor, url, listing, catalogue);
      return [{ vendor, ...(variable !== undefined && { variable }), url, listing, models }];
    }),
  );
  return offers.flat();
}

/** Adds the version segment, which the addresses in some variables lack. */
function withVersionSegment(url: string, { provider }: Vendor): string {
  const { pathname } = new URL(url);
  return pathname === "/" ? `${url.replace(/\/$/, "")}${new URL(provider.url).pathname}` : url.replace(/\/$/, "");
}

function modelOffers(
  vendor: Vendor,
  url: string,
  { models: listed }: VendorListing,
  catalogue: Catalogue,
): ModelOffer[] {
  const suggested = vendor.suggest.filter(({ id }) => !id.includes("*"));
  const available: readonly VendorModel[] = listed ?? suggested.map(({ id }) => ({ id }));
  const now = Date.now();
  // A model whose id is not allowed in the file cannot be offered.
  const named = available.filter(({ id }) => MODEL_ID.test(id));
  const known = named.map((model): ModelOffer => {
    const found = catalogue.find({ url: new URL(url) }, model.id);
    const price = found.prices?.guessed ? undefined : found.prices?.versionAt(now)?.price;
    const context = found.context?.value ?? model.context;
    const facts = vendorFacts(vendor, model.id);
    return {
      id: model.id,
      entry: Object.keys(facts).length === 0 ? {} : { facts },
      ...(context !== undefined && { context }),
      ...(price && { price }),
      created: model.created ?? 0,
      preselected: false,
    };
  });
  const newest = known.toSorted((a, b) => b.created - a.created || compareNatural(b.id, a.id));
  for (const { id, ...entry } of vendor.suggest) {
    const pattern = compileGlob(id);
    const best = newest.find((model) => pattern.test(model.id));
    if (best) Object.assign(best, { preselected: true, entry: { ...entry, ...best.entry } });
  }
  if (!newest.some(({ preselected }) => preselected))
    for (const model of newest.filter(({ price }) => price || vendor.variables.length === 0).slice(0, PRESELECTED))
      model.preselected = true;
  return newest;
}

const compareNatural = (a: string, b: string): number => a.localeCompare(b, "en", { numeric: true });
