import { readFileSync } from "node:fs";
import type { CutModel, LiteLlmCut } from "./cut.ts";

const FILE = new URL("litellm.json", import.meta.url);
const DATE = /[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

let cut: LiteLlmCut | undefined;

/** The table, read when it is first asked for. */
const table = (): LiteLlmCut => (cut ??= JSON.parse(readFileSync(FILE, "utf8")) as LiteLlmCut);

/** Which version of the package the table was cut from. */
export const litellmVersion = (): string => table().version;

/** What the table says of a model, by the vendor's own name, or that without a date. */
export function litellmModel(vendor: string, model: string): CutModel | undefined {
  const { models } = table();
  return own(models, `${vendor}:${model}`) ?? own(models, `${vendor}:${model.replace(DATE, "")}`);
}

const own = (models: LiteLlmCut["models"], name: string): CutModel | undefined =>
  Object.hasOwn(models, name) ? models[name] : undefined;
