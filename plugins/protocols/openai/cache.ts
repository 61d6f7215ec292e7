import type { CacheMark, JsonObject } from "model-gateway/protocol";

/** How long a mark holds here, by how long it was asked to hold; undefined is the vendor's usual time, 30 minutes. [S] */
const TTL: Readonly<Record<NonNullable<CacheMark["ttl"]>, "30m" | "12h" | undefined>> = {
  "5m": undefined,
  "30m": "30m",
  "1h": "12h",
  "12h": "12h",
};

const ttlOf = ({ ttl }: CacheMark): { ttl?: string } => {
  const held = ttl && TTL[ttl];
  return held ? { ttl: held } : {};
};

/** `prompt_cache_breakpoint` of a part for a mark up to which the prompt shall be kept. */
export const breakpointOf = (cache: CacheMark): JsonObject => ({ mode: "explicit", ...ttlOf(cache) });

/**
 * `prompt_cache_options` for a mark on the whole prompt; undefined where nothing has to be said: the vendor marks it by
 * itself.
 */
export function wholeCacheOf(cache: CacheMark): JsonObject | undefined {
  const held = ttlOf(cache);
  return held.ttl === undefined ? undefined : { mode: "implicit", ...held };
}
