import type { Config } from "../config/types.ts";
import { Catalogue } from "../prices/catalogue.ts";
import { shellWord } from "./shell.ts";

/** Abilities of models that do not generate text. */
const NON_TEXT = ["embeddings", "images"];

/** Chooses a model for a client of a protocol, or for any; undefined where none can be used. */
export type ChooseModel = (protocol?: string) => string | undefined;

/**
 * Returns a chooser of models that can answer a greeting, according to the file and public tables: the first one that a provider
 * serves in the client's own protocol, because agents work best with the models that they are made for; otherwise the first one.
 */
export async function trialModels({ models, providers }: Pick<Config, "models" | "providers">): Promise<ChooseModel> {
  const on = new Map(providers.flatMap((each) => (each.off === undefined ? [[each.name, each]] : [])));
  const usable = usableModels({ models, providers });
  const sellers = [...on.values()].flatMap(({ url }) => (url instanceof URL ? { url } : []));
  const catalogue = await Catalogue.for(sellers);
  const textModels = usable.filter(({ id, can, targets }) => {
    const tableAbilities = targets.map(({ provider, model }) => {
      const url = on.get(provider)?.url;
      return url instanceof URL ? catalogue.find({ url }, model).can?.value : undefined;
    });
    const abilities = can ?? tableAbilities.find(Boolean) ?? (/embed/i.test(id) ? NON_TEXT : []);
    return !NON_TEXT.some((ability) => abilities.includes(ability));
  });
  // The built-in provider speaks every protocol, and is nobody's first choice.
  const isNative = ({ targets }: Config["models"][number], protocol: string) =>
    targets.some(({ provider }) => on.get(provider)?.url !== "demo:" && on.get(provider)?.speaks.includes(protocol));
  return (protocol) => {
    const native = protocol === undefined ? undefined : textModels.find((model) => isNative(model, protocol));
    return (native ?? textModels[0] ?? usable[0])?.id;
  };
}

/** Returns the models that a provider serves which is on. */
export function usableModels({ models, providers }: Pick<Config, "models" | "providers">): Config["models"] {
  const on = new Set(providers.flatMap(({ name, off }) => (off === undefined ? [name] : [])));
  return models.filter(({ targets }) => targets.some(({ provider }) => on.has(provider)));
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
