/**
 * Returns a copy of a slice that has characters of its own. V8 keeps a slice of 13 characters and more as a reference to its whole text,
 * and JSON.stringify takes three times as long for an object with one.
 */
export function flatText(text: string): string {
  const half = text.length >> 1;
  return [text.slice(0, half), text.slice(half)].join("");
}
