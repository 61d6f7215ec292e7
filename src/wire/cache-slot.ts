/**
 * Returns the slot of a text in a cache with a power of two slots, from its length and four characters, which costs less than
 * hashing a new string. Texts with the same slot evict each other.
 */
export function cacheSlot(text: string, slots: number): number {
  const { length } = text;
  const edges = 7 * text.charCodeAt(0) + 131 * text.charCodeAt(length - 1);
  // Many names differ only in their last word.
  const inside = 31 * text.charCodeAt(length >> 1) + 17 * text.charCodeAt(length - 1 - (length >> 3));
  return (311 * length + edges + inside) & (slots - 1);
}
