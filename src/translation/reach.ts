import type { Model } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import { clientSide, translates } from "./codec.ts";

/** How a path reaches a model: by its provider's own protocol, by translation, or by either, depending on the target. */
export type Reach = "native" | "translated" | "mixed";

/** Abilities with a protocol of their own: a model that has one, and whose provider supports that protocol, has no other use. */
const ALONE = ["embeddings", "images"];

const isFor = (protocol: string, ability: string): boolean => protocol.endsWith(`-${ability}`);

/** Reports whether a protocol serves only one of a model's abilities. */
export const isAlone = (protocol: string, can: Model["can"]): boolean =>
  ALONE.some((ability) => can.includes(ability) && isFor(protocol, ability));

/** Returns how a model is reached in a protocol; undefined: not at all. @param protocols all that are loaded */
export function reachOf(
  protocol: Protocol,
  { targets, can }: Model,
  protocols: readonly Protocol[],
): Reach | undefined {
  const { name } = protocol;
  const special = ALONE.find((ability) => isFor(name, ability));
  // WebSocket protocols are not covered here.
  if (protocol.socket || (special !== undefined && !can.includes(special))) return undefined;
  const found = targets.map(({ provider: { speaks } }): Reach | undefined => {
    if (special === undefined && speaks.some((each) => isAlone(each, can))) return undefined;
    if (speaks.includes(name)) return "native";
    if (!clientSide(protocol)) return undefined;
    return protocols.some((each) => speaks.includes(each.name) && translates(each)) ? "translated" : undefined;
  });
  const ways = new Set(found.flatMap((reach) => reach ?? []));
  const [only] = ways;
  return ways.size > 1 ? "mixed" : only;
}
