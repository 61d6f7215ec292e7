import type { Model } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import { clientSide, translates } from "./codec.ts";

/** What a path does for a model: its provider's own protocol, a translation, or either, as the target is. */
export type Reach = "native" | "translated" | "mixed";

/** What a model does that has a protocol of its own for it: one that can, where its provider speaks that, does nothing else. */
const ALONE = ["embeddings", "images"];

const isFor = (protocol: string, ability: string): boolean => protocol.endsWith(`-${ability}`);

/** Whether a protocol is there for nothing but what a model can do. */
export const isAlone = (protocol: string, can: Model["can"]): boolean =>
  ALONE.some((ability) => can.includes(ability) && isFor(protocol, ability));

/** How a model is reached in a protocol; undefined: not at all. @param protocols all that there are */
export function reachOf(
  protocol: Protocol,
  { targets, can }: Model,
  protocols: readonly Protocol[],
): Reach | undefined {
  const { name } = protocol;
  const special = ALONE.find((ability) => isFor(name, ability));
  // What is said over a WebSocket is not asked here.
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
