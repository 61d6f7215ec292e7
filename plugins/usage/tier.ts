import type { Attempt, Frame, Protocol } from "model-gateway";

/** Members with a service tier, in most protocols. */
const SERVICE = ["service_tier"];
/** The value's form at all vendors. */
const PRIORITY = /priority/i;
/** The value for a tier that is chosen later. */
const AUTO = "auto";
const QUOTE = 0x22;
/** Maximum bytes of a tier's value, about. */
const MAX_TIER_BYTES = 100;

/** Returns the service tier in a frame, at its top level or one below; undefined: none, or one that is not chosen yet. */
export function reportedTier(frame: Frame, { output }: Protocol): string | undefined {
  const names = output?.tierMembers ?? SERVICE;
  if (!names.some((name) => frame.mayContain(name, QUOTE))) return undefined;
  const json = frame.json();
  for (const part of [json, ...(isObject(json) ? Object.values(json) : [])])
    for (const name of names) {
      const tier = isObject(part) ? part[name] : undefined;
      if (typeof tier === "string" && tier !== AUTO) return tier;
    }
  return undefined;
}

/**
 * Returns the tier that an attempt requests, where it is more expensive: a cheaper one counts once the provider reports it.
 * Undefined also where the target's price has none: it may not have such a tier.
 */
export function requestedTier({ target, protocol, body }: Attempt, time: number): string | undefined {
  const { tierMembers = SERVICE, premiumTier } = protocol.output ?? {};
  const asked = (name: string): unknown => {
    const member = body.member(name);
    return member?.kind === "string" && member.end - member.start <= MAX_TIER_BYTES ? body.value(name) : undefined;
  };
  const [member, value, name] = premiumTier ?? [];
  const isPriority = () => tierMembers.map(asked).some((tier) => typeof tier === "string" && PRIORITY.test(tier));
  const tier = member !== undefined && asked(member) === value ? name : isPriority() ? "priority" : undefined;
  // Few requests have one.
  if (tier === undefined) return undefined;
  const price = target.prices?.versionAt(time)?.price;
  return price && Object.hasOwn(price, tier) ? tier : undefined;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
