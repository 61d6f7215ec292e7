import type { Config } from "../config/types.ts";
import { Catalogue } from "../prices/catalogue.ts";

/** Abilities of models that do not generate text. */
const MUTE = ["embeddings", "images"];

/** Returns a model that can answer a greeting, according to the file and public tables. */
export async function toTry({ models, providers }: Pick<Config, "models" | "providers">): Promise<string | undefined> {
  const on = new Map(providers.flatMap((each) => (each.off === undefined ? [[each.name, each]] : [])));
  const usable = models.filter(({ targets }) => targets.some(({ provider }) => on.has(provider)));
  const sellers = [...on.values()].flatMap(({ url }) => (url instanceof URL ? { url } : []));
  const catalogue = await Catalogue.for(sellers);
  const talks = usable.find(({ id, can, targets }) => {
    const told = targets.map(({ provider, model }) => {
      const url = on.get(provider)?.url;
      return url instanceof URL ? catalogue.find({ url }, model).can?.value : undefined;
    });
    const abilities = can ?? told.find(Boolean) ?? (/embed/i.test(id) ? MUTE : []);
    return !MUTE.some((ability) => abilities.includes(ability));
  });
  return (talks ?? usable[0])?.id;
}

/** Returns a request to paste into a shell. */
export function curlOf(base: string, key: string, model: string): string[] {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "Hello" }] });
  return [
    `  curl -N ${base}/v1/chat/completions -H "authorization: Bearer ${key}" \\`,
    "    -H 'content-type: application/json' \\",
    `    -d '${body.replaceAll("'", "'\\''")}'`,
  ];
}
