/** Maximum number of cached patterns; then the cache is cleared. */
const MAX_CACHED = 10_000;

const compiled = new Map<string, RegExp>();

/** Compiles a pattern in which `*` matches any text, including none, and everything else matches itself, case-sensitively. */
export function compileGlob(pattern: string): RegExp {
  const texts = pattern.split("*").map((text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${texts.join(".*")}$`, "s");
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
