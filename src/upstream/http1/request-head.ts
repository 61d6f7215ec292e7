/** The head of a request as it leaves. Fields that concern one connection only (RFC 9110 §7.6.1) stay behind. */
import { isSendable, without } from "../../wire/headers.ts";
import { isConnection, known } from "../../wire/names.ts";
import { Http1Error } from "./errors.ts";
import type { HttpRequest } from "./http-request.ts";

/** How the requests of a pool are addressed. */
export interface Addressing {
  /** Host and port of the origin. */
  readonly host: string;
  /** What stands in front of a path: nothing, or scheme and authority for a proxy (absolute-form, RFC 9112 §3.2.2). */
  readonly prefix: string;
  /** Field lines for the proxy, each with its line end. */
  readonly proxyFields: string;
}

/** Besides those of one hop: what this side decides alone. */
const OURS: ReadonlySet<string> = new Set(["accept-encoding", "content-length", "expect", "host"]);
/** Methods whose requests are expected to have a body, and so say that there is none. */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NOT_IN_PATH = /[^\x21-\xff]/;

/** Why a request may not be written to a socket, where it could break out of its line; undefined: it may. */
export function checkRequest({
  method,
  path,
  fields,
}: Pick<HttpRequest, "method" | "path" | "fields">): Http1Error | undefined {
  const name = faultyField(fields);
  if (name !== undefined)
    return new Http1Error("REQUEST_INVALID", `The header ${JSON.stringify(name)} cannot be sent upstream.`);
  if (TOKEN.test(method) && path.startsWith("/") && !NOT_IN_PATH.test(path)) return undefined;
  return new Http1Error("REQUEST_INVALID", "The gateway composed a request that cannot be sent upstream.");
}

/** The first field that may not be written to a socket (its name is no token, its value holds CR, LF, NUL or non-latin1). */
function faultyField(fields: readonly string[]): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (!known(name).valid || !isSendable(fields[i + 1] as string)) return name;
  }
  return undefined;
}

/**
 * Everything in front of a request's body. `accept-encoding: identity` is always asked for: responses are read on their
 * way (usage, frames), and unpacking them would cost more than the bytes saved between two data centres.
 *
 * @param framing bytes of the body, or how else it is framed; undefined: none.
 */
export function requestHead(
  { method, path, fields }: Pick<HttpRequest, "method" | "path" | "fields">,
  { host, prefix, proxyFields }: Addressing,
  framing: number | "chunked" | undefined,
): string {
  let head = `${method} ${prefix}${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n${proxyFields}`;
  const lines = endToEnd(fields);
  for (let i = 0; i < lines.length; i += 2) head += `${lines[i]}: ${lines[i + 1]}\r\n`;
  head += "accept-encoding: identity\r\n";
  if (framing === "chunked") return `${head}transfer-encoding: chunked\r\n\r\n`;
  const length = framing || (WITH_BODY.has(method) ? 0 : undefined);
  return length === undefined ? `${head}\r\n` : `${head}content-length: ${length}\r\n\r\n`;
}

/** The fields that go on to the origin, in their order and spelling. */
function endToEnd(fields: readonly string[]): readonly string[] {
  const out: string[] = [];
  let named: Set<string> | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const { spelling, key, hop } = known(fields[i] as string);
    if (!hop && !OURS.has(key)) out.push(spelling, fields[i + 1] as string);
    else if (isConnection(key)) named = addTokens(named, fields[i + 1] as string);
  }
  return named ? without(out, named) : out;
}

/** Adds the fields that a Connection value names; the two words that every peer sends name none. */
function addTokens(named: Set<string> | undefined, value: string): Set<string> | undefined {
  if (value === "keep-alive" || value === "close") return named;
  const all = named ?? new Set<string>();
  for (const token of value.split(",")) all.add(token.trim().toLowerCase());
  return all;
}
