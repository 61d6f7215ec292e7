/** Characters that JSON escapes, and those beyond ASCII, of which it escapes some. */
const ESCAPED = /[^ !#-[\]-~]/;

/** Whether a text stands between quotes in JSON as it is. False for all beyond ASCII, some of which JSON.stringify escapes. */
export const isPlain = (text: string): boolean => !ESCAPED.test(text);

/** A text as JSON, as JSON.stringify writes it: that is called only for what has to be looked at more closely, because it costs five times as much. */
export const jsonString = (text: string): string => (isPlain(text) ? `"${text}"` : JSON.stringify(text));
