import { readFileSync } from "node:fs";
import type { Rates } from "../core/price.ts";
import type { CutModel, LiteLlmCut } from "./cut.ts";

const FILE = new URL("litellm.json", import.meta.url);
const DATE = /[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

let cut: LiteLlmCut | undefined;

/** Reads the table on first use. */
const table = (): LiteLlmCut => (cut ??= JSON.parse(readFileSync(FILE, "utf8")) as LiteLlmCut);

/** Returns the version of the package that the table was extracted from. */
export const litellmVersion = (): string => table().version;

/** Looks a model up by the vendor's own name, or that without a date. */
export function litellmModel(vendor: string, model: string): CutModel | undefined {
  const { models } = table();
  return own(models, `${vendor}:${model}`) ?? own(models, `${vendor}:${model.replace(DATE, "")}`);
}

/** Vendors whose other models use these to generate images, and report their tokens separately. */
const DRAWING = new Set(["openai", "azure"]);
const drawing = new Map<string, Readonly<Record<string, Rates>> | undefined>();

/** Returns the rates of a vendor's models that generate images for others, by name. */
export function drawingModels(vendor: string): Readonly<Record<string, Rates>> | undefined {
  if (DRAWING.has(vendor) && !drawing.has(vendor)) drawing.set(vendor, ratesOfDrawing(`${vendor}:`));
  return drawing.get(vendor);
}

const ratesOfDrawing = (prefix: string): Record<string, Rates> =>
  Object.fromEntries(
    Object.entries(table().models).flatMap(([id, { can, price }]) => {
      if (!id.startsWith(prefix) || !can?.includes("images") || price?.input === undefined) return [];
      const { batch: _, flex: __, priority: ___, above: ____, web_search: _____, ...rates } = price;
      return [[id.slice(prefix.length), rates as Rates]];
    }),
  );

const own = (models: LiteLlmCut["models"], name: string): CutModel | undefined =>
  Object.hasOwn(models, name) ? models[name] : undefined;
