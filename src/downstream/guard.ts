import type { IncomingMessage } from "node:http";
import { GatewayError } from "../errors.ts";

/** Header lines of a request; more are refused rather than silently dropped, as some servers do. */
const MAX_LINES = 100;
/** Bytes of a request target. */
const MAX_TARGET = 8192;

/** Headers that may occur once: a second line is read differently by different servers. */
const ONCE = new Set([
  "host",
  "authorization",
  "content-type",
  "content-length",
  "content-encoding",
  "transfer-encoding",
  "expect",
  "x-api-key",
  "x-goog-api-key",
]);
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
const HOST = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])?(?::\d{1,5})?$/;

/**
 * Refuses what two servers could read in two ways, looking at the raw header lines before anybody else does. What node's
 * parser refuses itself never comes here.
 * @throws GatewayError `bad_request`, `headers_too_large`, `target_too_long`, `bad_target`, `method_not_allowed`
 */
export function guard(request: IncomingMessage): void {
  const lines = request.rawHeaders;
  if (lines.length > 2 * MAX_LINES) throw new GatewayError("headers_too_large");
  checkLines(lines);
  if (!METHODS.has(request.method ?? "")) throw new GatewayError("method_not_allowed");
  if (request.httpVersion !== "1.1" && request.httpVersion !== "1.0") throw bad("Use HTTP/1.1.");
  const { host, expect } = request.headers;
  const coding = request.headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked")
    throw bad("The only transfer-encoding accepted is chunked.");
  if (coding !== undefined && request.httpVersion === "1.0") throw bad("HTTP/1.0 has no transfer-encoding.");
  if (coding !== undefined && request.headers["content-length"] !== undefined)
    throw bad("Send content-length or transfer-encoding, not both.");
  if (request.headers["content-length"] !== undefined && !/^\d{1,15}$/.test(request.headers["content-length"]))
    throw bad("content-length must be one decimal number.");
  if (expect !== undefined && expect.toLowerCase() !== "100-continue")
    throw bad("The only expectation accepted is 100-continue.");
  if (host === undefined ? request.httpVersion === "1.1" : !HOST.test(host))
    throw bad("Host must be a name or address with an optional port.");
  checkTarget(request.url ?? "");
}

function checkLines(lines: readonly string[]): void {
  let seen = "";
  for (let i = 0; i < lines.length; i += 2) {
    const name = (lines[i] as string).toLowerCase();
    if (!ONCE.has(name)) continue;
    if (seen.includes(`;${name};`)) throw bad(`The header ${name} occurs twice.`);
    seen += `;${name};`;
  }
}

/** Origin form only, plain ASCII, nothing that a second parser could take for a delimiter or a way upwards. */
function checkTarget(target: string): void {
  if (target.length > MAX_TARGET) throw new GatewayError("target_too_long");
  if (!target.startsWith("/"))
    throw new GatewayError("bad_target", { message: "Use a path, not an absolute address." });
  const path = target.split("?", 1)[0] as string;
  if (/[^\x21-\x7e]|[#\\]/.test(target) || /%(?![0-9a-f]{2})|%(?:5c|25|[01][0-9a-f]|7f|[89a-f][0-9a-f])/i.test(path))
    throw new GatewayError("bad_target");
  if (path.includes("%") || path.includes(".")) {
    const segments = path.replaceAll(/%2e/gi, ".").split(/\/|%2f/i);
    if (segments.some((segment) => segment === "." || segment === "..")) throw new GatewayError("bad_target");
  }
}

const bad = (hint: string): GatewayError => new GatewayError("bad_request", { hint });
