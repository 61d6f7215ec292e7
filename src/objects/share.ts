import type { Caller } from "../core/caller.ts";

/** Who may use the objects of a key: that key, the keys of its group, or all. */
export type Share = "key" | "group" | "all";

/**
 * Returns the owner of what a caller creates, followed by other owners whose objects it may use. A wider `share` keeps access to
 * what the key created before.
 */
export function ownersOf(share: Share, caller: Caller | undefined): readonly string[] {
  const own = caller ? `key ${caller.id}` : "";
  const group = share !== "key" && caller?.group !== undefined ? [`group ${caller.group}`] : [];
  return [...(share === "all" ? ["all"] : []), ...group, own];
}
