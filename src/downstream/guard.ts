import type { IncomingMessage } from "node:http";
import { GatewayError } from "../core/errors.ts";
import type { HeaderList } from "../wire/headers.ts";
import { decodeBytes } from "../wire/query.ts";

/** Limits of a request's head. */
export interface HeadLimits {
  /** Maximum header lines; more are refused, where some servers silently drop them. */
  readonly headers: number;
  /** Maximum bytes of the whole head, which node's parser counts. */
  readonly size: number;
  /** Maximum bytes of the target; at least 128. */
  readonly target: number;
}

/** Headers that may occur only once: servers differ in how they read a second line. */
const ONCE = [
  "host",
  "authorization",
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
  "expect",
  "x-api-key",
  "x-goog-api-key",
];
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
const BYTES = /^\d{1,15}$/;
const HOST = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])?(?::\d{1,5})?$/;

/**
 * Refuses requests that two servers could read differently, before anything else reads them. Requests that node's parser refuses
 * do not reach this function.
 * @param headers every line of the request
 * @throws GatewayError `bad_request`, `headers_too_large`, `target_too_long`, `bad_target`, `misplaced_key`, `method_not_allowed`
 */
export function guard(request: IncomingMessage, headers: HeaderList, limits: HeadLimits): void {
  const { method = "", httpVersion, url = "" } = request;
  if (headers.lines.length > 2 * limits.headers) throw headTooLarge(limits);
  const twice = headers.repeated(ONCE);
  if (twice !== undefined) throw badRequest(`The header ${twice} occurs twice.`);
  if (httpVersion !== "1.1" && httpVersion !== "1.0") throw badRequest("Use HTTP/1.1.");
  checkFraming(httpVersion, headers.get("transfer-encoding"), headers.get("content-length"));
  const expect = headers.get("expect");
  if (expect !== undefined && expect.toLowerCase() !== "100-continue")
    throw badRequest("The only expectation accepted is 100-continue.");
  const host = headers.get("host");
  if (host === undefined ? httpVersion === "1.1" : !HOST.test(host))
    throw badRequest("Host must be a name or address with an optional port.");
  // After the framing checks, as the connection stays open after this error: the start of the next request must be beyond doubt.
  if (!METHODS.has(method)) throw new GatewayError("method_not_allowed", { allow: [...METHODS] });
  if (PASSED_TARGETS.has(url)) return;
  checkTarget(url, limits.target);
  if (PASSED_TARGETS.size < MAX_PASSED && url.length <= MAX_PASSED_LENGTH && !url.includes("?"))
    PASSED_TARGETS.add(url);
}

/** Targets that have passed, without those that may contain a key: nearly all requests have one of a few. */
const PASSED_TARGETS = new Set<string>();
const MAX_PASSED = 500;
const MAX_PASSED_LENGTH = 100;

function checkFraming(httpVersion: string, coding: string | undefined, length: string | undefined): void {
  if (length !== undefined && !BYTES.test(length)) throw badRequest("content-length must be one decimal number.");
  if (coding === undefined) return;
  if (coding.toLowerCase() !== "chunked") throw badRequest("The only transfer-encoding accepted is chunked.");
  if (httpVersion === "1.0") throw badRequest("HTTP/1.0 has no transfer-encoding.");
  if (length !== undefined) throw badRequest("Send content-length or transfer-encoding, not both.");
}

/** Accepts the origin form only, in plain ASCII, without anything that another parser could read as a delimiter or `..`. */
function checkTarget(target: string, most: number): void {
  if (target.length > most) throw new GatewayError("target_too_long", { hint: `At most ${most} bytes.` });
  if (!target.startsWith("/"))
    throw new GatewayError("bad_target", { message: "Use a path, not an absolute address." });
  const path = target.split("?", 1)[0] as string;
  if (/[^\x21-\x7e]|[#\\]/.test(target) || /%(?![0-9a-f]{2})|%(?:5c|25|[01][0-9a-f]|7f|[89a-f][0-9a-f])/i.test(path))
    throw new GatewayError("bad_target");
  if (path.includes("%") || path.includes(".")) {
    const segments = decodeBytes(path).split("/");
    // Also with spaces and matrix parameters, which some servers remove first, or what would end the path where it is unescaped.
    if (segments.some((segment) => /^ *\.\.? *(?:[;?#]|$)/.test(segment))) throw new GatewayError("bad_target");
  }
  if (containsKey(path)) throw new GatewayError("misplaced_key");
}

/**
 * Reports whether a path, which is sent to the provider and logged, contains a gateway key: one of those presented, or its shape.
 */
export function containsKey(path: string, presented: readonly string[] = []): boolean {
  const plain = decodeBytes(path);
  for (const key of presented) if (key.length >= MIN_SECRET_LENGTH && plain.includes(key)) return true;
  return KEY_SHAPE.test(plain);
}

const KEY_SHAPE = /gw_\w{20}/;
/** Length from which a presented key is taken as a secret and not as a word. */
const MIN_SECRET_LENGTH = 16;

/** Returns the error for a head with too many lines or bytes. */
export const headTooLarge = ({ headers, size }: Pick<HeadLimits, "headers" | "size">): GatewayError =>
  new GatewayError("headers_too_large", { hint: `At most ${headers} header lines and ${size} bytes.` });

const badRequest = (hint: string): GatewayError => new GatewayError("bad_request", { hint });
