/** Characters that JSON escapes, and those beyond ASCII, of which it escapes some. */
const ESCAPED = /[^ !#-[\]-~]/;

/** Reports whether a text is its own JSON between quotes. False for all beyond ASCII, some of which JSON.stringify escapes. */
export const needsNoEscapes = (text: string): boolean => !ESCAPED.test(text);

/**
 * Returns a text as JSON like JSON.stringify, which costs five times as much and is called only for texts that may need escapes.
 */
export const jsonString = (text: string): string => (needsNoEscapes(text) ? `"${text}"` : JSON.stringify(text));
