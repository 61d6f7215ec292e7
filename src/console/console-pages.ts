import type { IncomingMessage, ServerResponse } from "node:http";
import type { PageFiles } from "./page-files.ts";

/** The paths of the console's pages, and the script of each; all use the same shell. */
const PAGE_SCRIPTS: readonly (readonly [path: RegExp, script: string])[] = [
  [/^\/$/, "now"],
  [/^\/requests\/[^/]+$/, "exchange"],
  ...["requests", "money", "providers", "keys", "config", "audit"].map(
    (name) => [new RegExp(`^/${name}$`), name] as const,
  ),
];

/** The page's own script computes which API requests it makes; it runs here too. */
const { asked, SESSION } = (await import(new URL("../../pages/console/asks.js", import.meta.url).href)) as {
  SESSION: string;
  asked(path: string, view: Record<string, string>): string[];
};

/** Characters and length that are safe in a Link header; longer heads may not pass proxies in front. */
const SAFE_ADDRESS = /^[\w/?=&%.~+:-]{1,500}$/;

/**
 * Returns a header value that makes a browser send a page's API requests in parallel with its scripts, not after them (RFC 8288,
 * HTML "preload"). The page's `fetch` of the same URL uses that response.
 */
function preloadLinks(path: string, query: URLSearchParams): string {
  const addresses = [SESSION, ...asked(path, Object.fromEntries(query))];
  return addresses
    .filter((address) => SAFE_ADDRESS.test(address))
    .map((address) => `<${address}>; rel=preload; as=fetch; crossorigin=anonymous`)
    .join(", ");
}

/** A request for a path, and the response to it. */
export interface PathRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** The pages of the admin side. They contain no data: the browser queries the API with the visitor's own session. */
export class ConsolePages {
  constructor(private readonly files: PageFiles) {}

  /**
   * Responds to a GET or HEAD for a page or one of its files. A browser gets a page for any other path, too: that there is none.
   * @param known whether the API would accept the visitor; called for pages only
   * @returns false where the path is neither
   */
  async serve({ request, response, path, query }: PathRequest, known: () => Promise<boolean>): Promise<boolean> {
    const script = PAGE_SCRIPTS.find(([fits]) => fits.test(path))?.[1];
    const file = script === undefined ? this.files.find(path) : undefined;
    if (file) {
      void file.send(request, response);
      return true;
    }
    if (script === undefined && !request.headers.accept?.includes("text/html")) return false;
    const visitor = (await known()) ? "known" : "unknown";
    // The API would refuse a visitor who is not signed in.
    if (visitor === "known") response.setHeader("link", preloadLinks(path, query));
    const page = this.files.page("console", script && `console/${script}.js`, visitor);
    void page.send(request, response, { status: script === undefined ? 404 : 200 });
    return true;
  }
}
