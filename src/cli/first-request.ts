import type { Config } from "../config/types.ts";
import { Catalogue } from "../prices/catalogue.ts";
import { shellWord } from "./shell.ts";

/** Abilities of models that do not generate text. */
const NON_TEXT = ["embeddings", "images"];

/** Returns a model that can answer a greeting, according to the file and public tables. */
export async function chooseTrialModel({
  models,
  providers,
}: Pick<Config, "models" | "providers">): Promise<string | undefined> {
  const on = new Map(providers.flatMap((each) => (each.off === undefined ? [[each.name, each]] : [])));
  const usable = models.filter(({ targets }) => targets.some(({ provider }) => on.has(provider)));
  const sellers = [...on.values()].flatMap(({ url }) => (url instanceof URL ? { url } : []));
  const catalogue = await Catalogue.for(sellers);
  const textModel = usable.find(({ id, can, targets }) => {
    const tableAbilities = targets.map(({ provider, model }) => {
      const url = on.get(provider)?.url;
      return url instanceof URL ? catalogue.find({ url }, model).can?.value : undefined;
    });
    const abilities = can ?? tableAbilities.find(Boolean) ?? (/embed/i.test(id) ? NON_TEXT : []);
    return !NON_TEXT.some((ability) => abilities.includes(ability));
  });
  return (textModel ?? usable[0])?.id;
}

/** Returns a request to paste into a shell. */
export function curlLines(base: string, key: string, model: string): string[] {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }] });
  return [
    `  curl -N ${base}/v1/chat/completions -H "authorization: Bearer ${key}" \\`,
    "    -H 'content-type: application/json' \\",
    `    -d ${shellWord(body)}`,
  ];
}
