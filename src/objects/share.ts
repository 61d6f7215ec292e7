import type { Caller } from "../core/marketplace.ts";

/** Who may use what a key made: that key, the keys of its group, or all. */
export type Share = "key" | "group" | "all";

/**
 * Whom what a caller makes belongs to, and, behind that, who else's it may use. Widening `share` takes nothing away: what
 * was a key's own before is still among them.
 */
export function ownersOf(share: Share, caller: Caller | undefined): readonly string[] {
  const own = caller ? `key ${caller.id}` : "";
  const group = share !== "key" && caller?.group !== undefined ? [`group ${caller.group}`] : [];
  return [...(share === "all" ? ["all"] : []), ...group, own];
}
