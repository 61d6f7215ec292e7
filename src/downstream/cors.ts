import type { IncomingMessage, ServerResponse } from "node:http";
import { GatewayError, REFUSALS } from "../core/errors.ts";
import type { HeaderList } from "../wire/headers.ts";

/** The sites whose page scripts may send requests. */
interface CorsRules {
  /** Like `https://app.example.com`, `https://*.example.com`, `http://localhost:*`; `*` alone allows every origin. */
  readonly origins: readonly string[];
  /** Milliseconds for which a browser caches the permission. */
  readonly max_age: number;
}

/** Maximum characters of an origin that an error repeats. */
const MAX_SHOWN_ORIGIN = 100;
const HINT = REFUSALS.origin_not_allowed.hint ?? "";
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
/** Header names separated by commas (RFC 9110 §5.6.2). */
const NAMES = /^[\w!#$%&'*+.^`|~-]+(?:\s*,\s*[\w!#$%&'*+.^`|~-]+)*$/;

/**
 * Handles cross-origin requests of browsers (the Fetch standard, §3.2). Keys are headers set by a page's script; there are no
 * cookies, so no page is trusted with credentials.
 */
export class Cors {
  private readonly any: boolean;
  private readonly exact: ReadonlySet<string>;
  private readonly patterns: readonly RegExp[];
  private readonly maxAge: string;

  constructor({ origins, max_age: maxAge }: CorsRules) {
    this.any = origins.includes("*");
    this.exact = new Set(origins);
    this.patterns = origins.filter((origin) => origin.includes("*")).map(patternOf);
    this.maxAge = String(Math.round(maxAge / 1000));
  }

  /**
   * Lets a page of an allowed origin read the response, including an error.
   * @returns whether this is a preflight
   * @throws GatewayError `origin_not_allowed` for a preflight from another origin
   */
  admit({ method }: IncomingMessage, headers: HeaderList, response: ServerResponse): boolean {
    const origin = headers.get("origin");
    if (origin === undefined) return false;
    const preflight = method === "OPTIONS" && headers.has("access-control-request-method");
    if (!this.allows(origin)) {
      // The gateway's own pages send an origin too: they are served like any client.
      if (!preflight) return false;
      throw new GatewayError("origin_not_allowed", {
        message: `Scripts of pages of ${JSON.stringify(origin.slice(0, MAX_SHOWN_ORIGIN))} may not send requests to this gateway.`,
        hint: HINT,
      });
    }
    response.setHeader("access-control-allow-origin", this.any ? "*" : origin);
    if (!this.any) response.setHeader("vary", "origin");
    if (!preflight) response.setHeader("access-control-expose-headers", "*");
    return preflight;
  }

  /** Answers a preflight of an allowed origin. */
  answerPreflight(headers: HeaderList, response: ServerResponse, id: string): void {
    const named = headers.get("access-control-request-headers");
    const lines = ["access-control-allow-methods", METHODS, "access-control-max-age", this.maxAge, "x-request-id", id];
    if (named !== undefined && NAMES.test(named)) lines.push("access-control-allow-headers", named);
    response.writeHead(204, lines).end();
  }

  private allows(origin: string): boolean {
    return this.any || this.exact.has(origin) || this.patterns.some((pattern) => pattern.test(origin));
  }
}

const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";

/** Returns a pattern in which `*` matches labels of a host, or a port. */
function patternOf(origin: string): RegExp {
  const plain = origin.replaceAll(/[^A-Za-z0-9*]/g, "\\$&");
  const ported = plain.replace(/:\*$/, ":\\d{1,5}");
  return new RegExp(`^${ported.replaceAll("*", `${LABEL}(?:\\.${LABEL})*`)}$`);
}
