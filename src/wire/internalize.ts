/**
 * Returns the text as V8's internalized string, as names of properties are: two such strings are compared by reference, and a look-up
 * in a Map need not search V8's table of all texts first. It is a copy, where a slice of a larger text would keep that in memory.
 */
export const internalize = (text: string): string => Object.keys({ [text]: true })[0] as string;
