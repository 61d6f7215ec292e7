/**
 * Where a text is remembered among so many places, a power of two: worked out from its length, edges and middle, which costs less
 * than the hash of a text that has just come. Texts that share a place take turns in it.
 */
export function placeOf(text: string, places: number): number {
  const { length } = text;
  const edges = 7 * text.charCodeAt(0) + 11 * text.charCodeAt(length - 1);
  return (37 * length + edges + 3 * text.charCodeAt(length >> 1)) & (places - 1);
}
