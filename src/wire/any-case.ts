/**
 * Case-insensitive names: JSON decoders of Go, the language of many servers, accept `Model` for `model`, and by Unicode case
 * folding also `ſ` (U+017F) for an s and the Kelvin sign (U+212A) for a k. [S: pkg.go.dev/encoding/json#Unmarshal,
 * strings.EqualFold]
 */
const UNICODE_VARIANTS: Readonly<Record<string, string>> = { s: "\u017f", k: "\u212a" };

/** A letter that such readers fold to another one. */
export const FOLDABLE = /[A-Z\u017f\u212a]/;

/** Returns the common spelling of all names that such readers consider equal. */
export const foldCase = (name: string): string => (FOLDABLE.test(name) ? name.toUpperCase().toLowerCase() : name);

/** Returns the pattern that matches an ASCII name in any such spelling, in UTF-8 that is read as Latin-1. */
export const anyCasePattern = (name: string): string =>
  name.replace(/[a-z]/gi, (letter) => `(?:${letterVariants(letter).map(latin1).join("|")})`);

/** Matches such a letter, an ASCII letter or `_` written as an escape of JSON, which only serves to hide a name. */
export const ESCAPED_LETTER = /\\u(?:00(?:5f|[46][1-9a-f]|[57][0-9a])|017f|212a)/i;

/** Returns a letter itself, in lower and upper case, and the letter that folds to it. */
export function letterVariants(letter: string): string[] {
  const small = letter.toLowerCase();
  return [...new Set([letter, small, letter.toUpperCase(), UNICODE_VARIANTS[small] ?? letter])];
}

const latin1 = (letter: string): string => Buffer.from(letter).toString("latin1");
