/** The member of most protocols. */
const USUAL_MEMBERS = ["service_tier"];
/** The value's form at all vendors. */
const PRIORITY = /priority/i;

/** What a protocol says of service tiers: the part of `Protocol` that decides. */
interface TierNames {
  readonly output?: {
    readonly tierMembers?: readonly string[];
    readonly premiumTier?: readonly [member: string, value: string, tier: string];
  };
}

/** Returns the members of a protocol's requests and answers that name a service tier. */
export const tierMembers = ({ output }: TierNames): readonly string[] => output?.tierMembers ?? USUAL_MEMBERS;

/**
 * Returns the service tier that a request asks for, where it is more expensive than the usual one; undefined: none.
 * @param read returns the value of a member of the request
 */
export function premiumTier(protocol: TierNames, read: (member: string) => unknown): string | undefined {
  const [member, value, tier] = protocol.output?.premiumTier ?? [];
  if (member !== undefined && read(member) === value) return tier;
  const isPriority = (asked: unknown) => typeof asked === "string" && PRIORITY.test(asked);
  return tierMembers(protocol).some((name) => isPriority(read(name))) ? "priority" : undefined;
}
