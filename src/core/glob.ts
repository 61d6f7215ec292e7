/** Patterns that are remembered; beyond, memory starts anew. */
const MOST = 10_000;

const compiled = new Map<string, RegExp>();

/** A pattern in which * stands for any text, also none, and everything else for itself, to the letter. */
export function globOf(pattern: string): RegExp {
  const texts = pattern.split("*").map((text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${texts.join(".*")}$`, "s");
}

/** Whether a text is one of these names, or stands under a pattern among them. */
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
