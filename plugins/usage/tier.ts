import type { Attempt, Frame, Protocol } from "model-gateway";

/** Members that tell of a service tier, in the words of most. */
const SERVICE = ["service_tier"];
/** In the words of all vendors. */
const PRIORITY = /priority/i;
/** A word for the tier that is chosen later. */
const AUTO = "auto";
const QUOTE = 0x22;
/** Bytes of the longest word for a tier, about. */
const WORD = 100;

/** The service tier that a frame tells, at its top or in what stands there; undefined: none, or one that is still to be chosen. */
export function tierIn(frame: Frame, { output }: Protocol): string | undefined {
  const names = output?.service ?? SERVICE;
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
 * The tier that an attempt asks for, where that is dearer: a cheaper one holds when the provider has told it. Undefined also
 * where the target's price has none: it may not have such a tier.
 */
export function askedTier({ target, protocol, body }: Attempt, time: number): string | undefined {
  const { service = SERVICE, tier: dearer } = protocol.output ?? {};
  const asked = (name: string): unknown => {
    const member = body.member(name);
    return member?.kind === "string" && member.end - member.start <= WORD ? body.value(name) : undefined;
  };
  const [member, value, name] = dearer ?? [];
  const isPriority = () => service.map(asked).some((tier) => typeof tier === "string" && PRIORITY.test(tier));
  const tier = member !== undefined && asked(member) === value ? name : isPriority() ? "priority" : undefined;
  // Hardly any request asks for one.
  if (tier === undefined) return undefined;
  const price = target.prices?.at(time)?.price;
  return price && Object.hasOwn(price, tier) ? tier : undefined;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
