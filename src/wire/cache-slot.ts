/**
 * Returns the slot of a text in a cache with a power of two slots, from its length, edges and middle, which costs less than
 * hashing a new string. Texts with the same slot evict each other.
 */
export function cacheSlot(text: string, slots: number): number {
  const { length } = text;
  const edges = 7 * text.charCodeAt(0) + 11 * text.charCodeAt(length - 1);
  return (37 * length + edges + 3 * text.charCodeAt(length >> 1)) & (slots - 1);
}
