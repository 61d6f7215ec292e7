import { posix } from "node:path";

/** Matches static imports of a script; `import()` loads later. */
const IMPORTS = /^(?:(?:import|export)\b[^"';]*?\bfrom|import) "(\.{1,2}\/[^"]+)"/gm;

/**
 * Returns the scripts that others import, directly and indirectly: otherwise a browser finds each only after reading its
 * importer.
 * @param names of the scripts that a page starts with
 * @param textOf a script by its name
 * @returns the further scripts' names, in the order in which they are found
 */
export function transitiveImports(names: readonly string[], textOf: (name: string) => string): string[] {
  const found = new Set(names);
  // Iterating a Set includes elements added meanwhile.
  for (const name of found)
    for (const [, path = ""] of textOf(name).matchAll(IMPORTS)) found.add(posix.join(posix.dirname(name), path));
  return [...found].slice(names.length);
}
