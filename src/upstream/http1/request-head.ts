/** Builds the head of a request. Hop-by-hop fields (RFC 9110 §7.6.1) are left out. */

import { headerName, isConnectionHeader, TOKEN } from "../../wire/header-names.ts";
import { isSendable, isSendableInPath } from "../../wire/headers.ts";
import { internalize } from "../../wire/internalize.ts";
import { Http1Error } from "./errors.ts";
import type { HttpRequest } from "./http-request.ts";

/** How the requests of a pool are addressed. */
export interface Addressing {
  /** Prefix of the path: empty, or scheme and authority for a proxy (absolute-form, RFC 9112 §3.2.2). */
  readonly prefix: string;
  /** What is between the path and the fields that are forwarded: the same for all. */
  readonly afterPath: string;
}

/**
 * @param host and port of the origin
 * @param proxyFields field lines for the proxy, each with its line end
 */
export const addressingOf = (host: string, prefix = "", proxyFields = ""): Addressing => ({
  prefix,
  afterPath: internalize(` HTTP/1.1\r\nhost: ${host}\r\n${proxyFields}connection: keep-alive`),
});

/** Fields that only this client sets, besides the hop-by-hop ones. */
const CLIENT_FIELDS: ReadonlySet<string> = new Set(["accept-encoding", "content-length", "expect", "host"]);
/** Methods whose requests are expected to have a body, and therefore announce an empty one with `content-length: 0`. */
export const METHODS_WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

/** Returns why a request may not be written to a socket, where it could inject into the head; undefined: it may. */
export function checkRequest({
  method,
  path,
  fields,
}: Pick<HttpRequest, "method" | "path" | "fields">): Http1Error | undefined {
  const name = faultyField(fields);
  if (name !== undefined)
    return new Http1Error("REQUEST_INVALID", `The header ${JSON.stringify(name)} cannot be sent upstream.`);
  if (TOKEN.test(method) && path.startsWith("/") && isSendableInPath(path)) return undefined;
  return new Http1Error("REQUEST_INVALID", "The gateway composed a request that cannot be sent upstream.");
}

/**
 * Returns the first field that may not be written to a socket (its name is no token, its value holds CR, LF, NUL or non-latin1).
 */
function faultyField(fields: readonly string[]): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (!headerName(name).isToken || !isSendable(fields[i + 1] as string)) return name;
  }
  return undefined;
}

/**
 * Returns the head of a request, with its final blank line. It always has `accept-encoding: identity`: responses are parsed while
 * they pass (usage, frames), and decompressing them would cost more than the bytes saved between two data centres.
 *
 * @param framing bytes of the body, or `chunked`; undefined: no body.
 */
export function requestHead(
  { method, path, fields }: Pick<HttpRequest, "method" | "path" | "fields">,
  { prefix, afterPath }: Addressing,
  framing: number | "chunked" | undefined,
): string {
  const head = `${method} ${prefix}${path}${afterPath}${endToEndLines(fields)}`;
  if (framing === "chunked") return head + CHUNKED_END;
  const length = framing || (METHODS_WITH_BODY.has(method) ? 0 : undefined);
  return length === undefined ? head + BODILESS_END : `${head}${BEFORE_LENGTH}${length}\r\n\r\n`;
}

const IDENTITY = "\r\naccept-encoding: identity\r\n";
const CHUNKED_END = `${IDENTITY}transfer-encoding: chunked\r\n\r\n`;
const BODILESS_END = `${IDENTITY}\r\n`;
const BEFORE_LENGTH = `${IDENTITY}content-length: `;

/**
 * Returns the lines of the fields that are forwarded to the origin, in original order and spelling, each behind a line's end.
 * @param named fields that a Connection field names; undefined: not known yet
 */
function endToEndLines(fields: readonly string[], named?: ReadonlySet<string>): string {
  let lines = "";
  let connectionFields: Set<string> | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const { key, beforeValue, isHopByHop } = headerName(fields[i] as string);
    const value = fields[i + 1] as string;
    if (isHopByHop) {
      if (!named && isConnectionHeader(key)) connectionFields = addTokens(connectionFields, value);
    } else if (!CLIENT_FIELDS.has(key) && !named?.has(key)) lines += beforeValue + value;
  }
  return connectionFields ? endToEndLines(fields, connectionFields) : lines;
}

/** Adds the fields that a Connection value names; `keep-alive` and `close`, which every peer sends, name none. */
function addTokens(names: Set<string> | undefined, value: string): Set<string> | undefined {
  if (value === "keep-alive" || value === "close") return names;
  const extended = names ?? new Set<string>();
  for (const token of value.split(",")) extended.add(token.trim().toLowerCase());
  return extended;
}
