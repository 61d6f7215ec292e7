/**
 * Names as they are read by those who do not mind case: JSON readers of Go, in which many servers are written, take `Model` for
 * `model`, and by Unicode's folding also `ſ` (U+017F) for an s and the Kelvin sign (U+212A) for a k.
 * [S: pkg.go.dev/encoding/json#Unmarshal, strings.EqualFold]
 */
const LIKE: Readonly<Record<string, string>> = { s: "\u017f", k: "\u212a" };

/** A letter that such readers take for another one. */
export const FOLDED = /[A-Z\u017f\u212a]/;

/** A name in the spelling that all have in common which are the same to such readers. */
export const foldCase = (name: string): string => (FOLDED.test(name) ? name.toUpperCase().toLowerCase() : name);

/** The part of a pattern that takes a name of ASCII in any such spelling, in UTF-8 that is read as Latin-1. */
export const inAnyCase = (name: string): string =>
  name.replace(/[a-z]/gi, (letter) => `(?:${lettersLike(letter).map(latin1).join("|")})`);

/** Such a letter, or one of ASCII, as an escape of JSON, without its `\`. */
export const ESCAPED_LETTER = "u(?:00(?:5f|[46][1-9a-f]|[57][0-9a])|017f|212a)";

/** A letter as it is, in small, large and as one that is taken for it. */
export function lettersLike(letter: string): string[] {
  const small = letter.toLowerCase();
  return [...new Set([letter, small, letter.toUpperCase(), LIKE[small] ?? letter])];
}

const latin1 = (letter: string): string => Buffer.from(letter).toString("latin1");
