import { entryOf, type Usage } from "model-gateway/protocol";

/** Service tiers by all the names that protocols have for them. [S: the same in Chat and Responses, but for `more`] */
const TIERS: Readonly<Record<string, string>> = {
  auto: "auto",
  default: "default",
  standard: "default",
  standard_only: "default",
  flex: "flex",
  priority: "priority",
  scale: "scale",
  fast: "fast",
};

/**
 * The tier that a client of any protocol means; undefined for one that the vendor does not have.
 * @param more tiers that only the protocol at hand has: `ultrafast` is one of Responses [S]
 */
export function tierOf(tier: string, ...more: readonly string[]): string | undefined {
  const word = tier.toLowerCase();
  return entryOf(TIERS, word) ?? more.find((own) => own === word);
}

/** The tier that served a request, in the vendor's word where it has one; undefined where the provider told none. */
export function servedTier(usage: Usage | undefined): string | undefined {
  return usage?.tier && (tierOf(usage.tier) ?? usage.tier);
}
