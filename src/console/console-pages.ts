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

/** What a page asks the API is worked out by its own script, which runs here too. */
const { asked, SESSION } = (await import(new URL("../../pages/console/asks.js", import.meta.url).href)) as {
  SESSION: string;
  asked(path: string, view: Record<string, string>): string[];
};

/** What may stand in a Link header as it is, and how long it may be: what stands in between has no room for larger heads. */
const PLAIN = /^[\w/?=&%.~+:-]{1,500}$/;

/**
 * Header value that has a browser ask the API for a page's figures together with its scripts, not after them (RFC 8288, HTML
 * "preload"). The page's `fetch` of the same address takes the answer.
 */
function asksOf(path: string, query: URLSearchParams): string {
  const addresses = [SESSION, ...asked(path, Object.fromEntries(query))];
  return addresses
    .filter((address) => PLAIN.test(address))
    .map((address) => `<${address}>; rel=preload; as=fetch; crossorigin=anonymous`)
    .join(", ");
}

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
    query: URLSearchParams,
    known: () => Promise<boolean>,
  ): Promise<boolean> {
    const script = PAGES.find(([fits]) => fits.test(path))?.[1];
    if (script === undefined) {
      const file = this.files.find(path);
      void file?.send(request, response);
      return file !== undefined;
    }
    const visitor = (await known()) ? "known" : "unknown";
    // Who is not signed in would be refused.
    if (visitor === "known") response.setHeader("link", asksOf(path, query));
    void this.files.page("console", `console/${script}.js`, visitor).send(request, response);
    return true;
  }
}
