/** Maximum number of cached patterns; then the cache is cleared. */
const MAX_CACHED = 10_000;

const compiled = new Map<string, RegExp>();

/**
 * Compiles a pattern in which `*` matches any text, including none, and everything else matches itself, case-sensitively. A text
 * between two `*` is matched where it first occurs, and no later place is tried (a lookahead does not backtrack): otherwise a
 * long path that fits several `*` in many ways would block all requests.
 */
export function compileGlob(pattern: string): RegExp {
  const [first = "", ...rest] = pattern.split("*").map((text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const last = rest.pop();
  const between = rest.map((text, i) => (text === "" ? "" : `(?=(?<t${i}>.*?${text}))\\k<t${i}>`)).join("");
  return new RegExp(`^${first}${between}${last === undefined ? "" : `.*${last}`}$`, "s");
}

/** Reports whether a text equals one of these names or matches one of these patterns. */
export function matchesAny(patterns: readonly string[], text: string): boolean {
  return patterns.includes(text) || patterns.some((pattern) => pattern.includes("*") && cachedGlob(pattern).test(text));
}

function cachedGlob(pattern: string): RegExp {
  let glob = compiled.get(pattern);
  if (!glob) {
    if (compiled.size >= MAX_CACHED) compiled.clear();
    glob = compileGlob(pattern);
    compiled.set(pattern, glob);
  }
  return glob;
}
