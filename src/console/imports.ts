import { posix } from "node:path";

/** Where a script names another one that it cannot run without; `import()` is for later. */
const IMPORTS = /^(?:(?:import|export)\b[^"';]*?\bfrom|import) "(\.{1,2}\/[^"]+)"/gm;

/**
 * Scripts that others need, whatever stands between: a browser would learn of each only once it has read those before it.
 * @param names of those that a page begins with
 * @param textOf a script by its name
 * @returns their names without those it begins with, in the order in which they are met
 */
export function importsOf(names: readonly string[], textOf: (name: string) => string): string[] {
  const found = new Set(names);
  // A set is gone through with what is added on the way.
  for (const name of found)
    for (const [, path = ""] of textOf(name).matchAll(IMPORTS)) found.add(posix.join(posix.dirname(name), path));
  return [...found].slice(names.length);
}
