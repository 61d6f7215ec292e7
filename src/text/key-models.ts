import { unknownNameMessage } from "../config/suggest.ts";
import { matchesAny } from "../core/glob.ts";

/**
 * Returns why a key cannot be limited to a model, undefined: it can. Keys allow models by id only: with any other name, an alias
 * included, the key would allow nothing.
 * @param model an id, in which `*` matches any text
 * @param known ids of gateway.yaml's models
 */
export function unknownModelMessage(model: string, known: readonly string[]): string | undefined {
  if (known.some((id) => matchesAny([model], id))) return undefined;
  return model.includes("*") ? `no model matches ${model}.` : unknownNameMessage("model", model, known);
}
