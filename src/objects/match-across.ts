/**
 * Reports whether an ASCII pattern occurs in bytes that are split into pieces anywhere.
 * @param maxLength characters that it can match
 */
export function matchesAcross(pieces: readonly Buffer[], pattern: RegExp, maxLength: number): boolean {
  let before = "";
  for (const piece of pieces) {
    const text = before + piece.toString("latin1");
    if (pattern.test(text)) return true;
    before = text.slice(1 - maxLength);
  }
  return false;
}
