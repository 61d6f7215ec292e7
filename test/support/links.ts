import { dirname, join } from "node:path";

const proseOf = (text: string): string => text.replaceAll(/^```[\s\S]*?^```/gm, "").replaceAll(/`[^`\n]*`(?!\])/g, "");

/** Returns the files that a Markdown page links to, relative to the same folder as the page's own path. */
export function linksIn(page: string, text: string): string[] {
  return [...proseOf(text).matchAll(/\]\(([^)#\s]+)[^)]*\)/g)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => join(dirname(page), target));
}

/** Returns the headings that a Markdown page links to, each with its page: that one itself where the link names none. */
export function headingLinksIn(page: string, text: string): { page: string; heading: string }[] {
  return [...proseOf(text).matchAll(/\]\((?![a-z]+:)([^)#\s]*)#([^)\s]+)\)/g)].map(([, target = "", heading = ""]) => ({
    page: target === "" ? page : join(dirname(page), target),
    heading,
  }));
}

/** Returns the names by which links reach the headings of a Markdown page. */
export function headingsIn(text: string): string[] {
  return [...text.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}
