import { dirname, join } from "node:path";

/** Returns the files that a Markdown page links to, relative to the same folder as the page's own path. */
export function linksIn(page: string, text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, "").replaceAll(/`[^`\n]*`(?!\])/g, "");
  return [...prose.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => join(dirname(page), target));
}
