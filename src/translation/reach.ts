import type { Model } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import { clientTranslationOf, isTranslatable } from "./codec.ts";

/** How a path reaches a model: by its provider's own protocol, by translation, or by either, depending on the target. */
export type Reach = "native" | "translated" | "mixed";

/** Abilities with a protocol of their own: a model that has one, and whose provider supports that protocol, has no other use. */
const EXCLUSIVE_ABILITIES = ["embeddings", "images"];

const serves = (protocol: string, ability: string): boolean => protocol.endsWith(`-${ability}`);

/** Reports whether a protocol serves only one of a model's abilities. */
export const isExclusive = (protocol: string, capabilities: Model["capabilities"]): boolean =>
  EXCLUSIVE_ABILITIES.some((ability) => capabilities.includes(ability) && serves(protocol, ability));

/** Returns how a model is reached in a protocol; undefined: not at all. @param protocols all that are loaded */
export function modelReach(
  protocol: Protocol,
  { targets, capabilities }: Model,
  protocols: readonly Protocol[],
): Reach | undefined {
  const { name } = protocol;
  const exclusiveAbility = EXCLUSIVE_ABILITIES.find((ability) => serves(name, ability));
  // WebSocket protocols are not covered here.
  if (protocol.socket || (exclusiveAbility !== undefined && !capabilities.includes(exclusiveAbility))) return undefined;
  const reaches = targets.map(({ provider: { speaks } }): Reach | undefined => {
    if (exclusiveAbility === undefined && speaks.some((spoken) => isExclusive(spoken, capabilities))) return undefined;
    if (speaks.includes(name)) return "native";
    if (!clientTranslationOf(protocol)) return undefined;
    return protocols.some((other) => speaks.includes(other.name) && isTranslatable(other)) ? "translated" : undefined;
  });
  const distinct = new Set(reaches.flatMap((reach) => reach ?? []));
  const [first] = distinct;
  return distinct.size > 1 ? "mixed" : first;
}
