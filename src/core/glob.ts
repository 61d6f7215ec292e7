/** Maximum number of cached patterns; then the cache is cleared. */
const MOST = 10_000;

const compiled = new Map<string, RegExp>();

/** Compiles a pattern in which `*` matches any text, including none, and everything else matches itself, case-sensitively. */
export function globOf(pattern: string): RegExp {
  const texts = pattern.split("*").map((text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${texts.join(".*")}$`, "s");
}

/** Reports whether a text equals one of these names or matches one of these patterns. */
export function matchesAny(patterns: readonly string[], text: string): boolean {
  return patterns.includes(text) || patterns.some((pattern) => pattern.includes("*") && remembered(pattern).test(text));
}

function remembered(pattern: string): RegExp {
  let glob = compiled.get(pattern);
  if (!glob) {
    if (compiled.size >= MOST) compiled.clear();
    glob = globOf(pattern);
    compiled.set(pattern, glob);
  }
  return glob;
}
