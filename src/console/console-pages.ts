import type { IncomingMessage, ServerResponse } from "node:http";
import type { PageFiles } from "./page-files.ts";

/** Where the console has pages; each is the same shell, which shows what the address names. */
const PAGES = /^\/(?:|requests(?:\/[^/]+)?|money|providers|keys|config|audit)$/;

/** The pages of the admin side, for browsers. They hold nothing: what they show they ask the API, as the visitor who looks. */
export class ConsolePages {
  constructor(private readonly files: PageFiles) {}

  /**
   * Answers a GET or HEAD that is for a page or its files.
   * @param path without the query
   * @returns false: it is for somebody else
   */
  serve(request: IncomingMessage, response: ServerResponse, path: string): boolean {
    const file = PAGES.test(path) ? this.files.page("console") : this.files.find(path);
    if (!file) return false;
    void file.send(request, response);
    return true;
  }
}
