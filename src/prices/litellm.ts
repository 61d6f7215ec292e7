import { readFileSync } from "node:fs";
import { undatedName } from "../core/marketplace.ts";
import type { Rates } from "../core/price.ts";
import { omit } from "../wire/values.ts";
import { type LiteLlmExtract, type LiteLlmModel, type StoredLiteLlmExtract, unpackLiteLlm } from "./litellm-table.ts";

const FILE = new URL("litellm.json", import.meta.url);

let extract: LiteLlmExtract | undefined;

/** Reads the table on first use. */
const table = (): LiteLlmExtract =>
  (extract ??= unpackLiteLlm(JSON.parse(readFileSync(FILE, "utf8")) as StoredLiteLlmExtract));

/** Returns the version of the package that the table was extracted from. */
export const litellmVersion = (): string => table().version;

/** Looks a model up by the vendor's own name, or that without a date, or with its latest date. */
export function litellmModel(vendor: string, model: string): LiteLlmModel | undefined {
  const { models } = table();
  const name = `${vendor}:${model}`;
  return (
    ownModel(models, name) ?? ownModel(models, undatedName(name)) ?? ownModel(models, latestDated().get(name) ?? "")
  );
}

let latestNames: ReadonlyMap<string, string> | undefined;

/** Returns the latest names with a date, by the same without it. */
function latestDated(): ReadonlyMap<string, string> {
  latestNames ??= new Map(
    Object.keys(table().models)
      .filter((name) => undatedName(name) !== name)
      .sort()
      .map((name) => [undatedName(name), name]),
  );
  return latestNames;
}

/** Vendors whose other models use these to generate images, and report their tokens separately. */
const IMAGE_TOOL_VENDORS = new Set(["openai", "azure"]);
const imageRates = new Map<string, Readonly<Record<string, Rates>> | undefined>();

/** Returns the rates of a vendor's models that generate images for others, by name. */
export function imageModelRates(vendor: string): Readonly<Record<string, Rates>> | undefined {
  if (IMAGE_TOOL_VENDORS.has(vendor) && !imageRates.has(vendor)) imageRates.set(vendor, readImageRates(`${vendor}:`));
  return imageRates.get(vendor);
}

const readImageRates = (prefix: string): Record<string, Rates> =>
  Object.fromEntries(
    Object.entries(table().models).flatMap(([id, { can, price }]) => {
      if (!id.startsWith(prefix) || !can?.includes("images") || price?.input === undefined) return [];
      const rates = omit(price, "batch", "flex", "priority", "above", "web_search");
      return [[id.slice(prefix.length), rates]];
    }),
  );

const ownModel = (models: LiteLlmExtract["models"], name: string): LiteLlmModel | undefined =>
  Object.hasOwn(models, name) ? models[name] : undefined;
