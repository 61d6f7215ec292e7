import type { Attempt, Frame, Protocol } from "model-gateway";
import { premiumTier, tierMembers } from "model-gateway/store";

/** The value for a tier that is chosen later. */
const AUTO = "auto";
const QUOTE = 0x22;
/** Maximum bytes of a tier's value, about. */
const MAX_TIER_BYTES = 100;

/** Returns the service tier in a frame, at its top level or one below; undefined: none, or one that is not chosen yet. */
export function reportedTier(frame: Frame, protocol: Protocol): string | undefined {
  const names = tierMembers(protocol);
  if (!names.some((name) => frame.mayContain(name, QUOTE))) return undefined;
  const json = frame.json();
  for (const part of [json, ...(isObject(json) ? Object.values(json) : [])])
    for (const name of names) {
      const tier = isObject(part) ? part[name] : undefined;
      if (typeof tier === "string" && tier !== AUTO && tier.length <= MAX_TIER_BYTES) return tier;
    }
  return undefined;
}

/**
 * Returns the tier that an attempt requests, where it is more expensive: a cheaper one counts once the provider reports it.
 * Undefined also where the target's price has none: it may not have such a tier.
 */
export function requestedTier({ target, protocol, body }: Attempt, time: number): string | undefined {
  const tier = premiumTier(protocol, (name) => {
    const member = body.member(name);
    return member?.kind === "string" && member.end - member.start <= MAX_TIER_BYTES ? body.value(name) : undefined;
  });
  // Few requests have one.
  if (tier === undefined) return undefined;
  const price = target.prices?.versionAt(time)?.price;
  return price && Object.hasOwn(price, tier) ? tier : undefined;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
