import type { IncomingMessage, ServerResponse } from "node:http";
import type { PageFiles } from "./page-files.ts";

/** Where the console has pages, and the script of each: the shell is the same, and shows what the address names. */
const PAGES: readonly (readonly [path: RegExp, script: string])[] = [
  [/^\/$/, "now"],
  [/^\/requests\/[^/]+$/, "exchange"],
  ...["requests", "money", "providers", "keys", "config", "audit"].map(
    (name) => [new RegExp(`^/${name}$`), name] as const,
  ),
];

/** The pages of the admin side, for browsers. They hold nothing: what they show they ask the API, as the visitor who looks. */
export class ConsolePages {
  constructor(private readonly files: PageFiles) {}

  /**
   * Answers a GET or HEAD that is for a page or its files.
   * @param path without the query
   * @param known whether the API would answer the visitor, asked for pages only
   * @returns false: it is for somebody else
   */
  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    known: () => Promise<boolean>,
  ): Promise<boolean> {
    const script = PAGES.find(([fits]) => fits.test(path))?.[1];
    const file =
      script === undefined
        ? this.files.find(path)
        : this.files.page("console", `console/${script}.js`, (await known()) ? "known" : "unknown");
    if (!file) return false;
    void file.send(request, response);
    return true;
  }
}
