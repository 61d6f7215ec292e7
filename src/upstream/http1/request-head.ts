/**
 * The two heads that cross the border to a provider: what leaves, and what comes back. Fields that concern one connection
 * only (RFC 9110 §7.6.1) pass in neither direction, nor does what a Connection field names.
 */
import { GatewayError } from "../../core/errors.ts";
import { known } from "../../wire/names.ts";
import type { HttpRequest } from "./http-request.ts";
import type { ResponseHead } from "./response-parser.ts";

/** Besides those of one hop: what this side decides alone. */
const OURS: ReadonlySet<string> = new Set(["accept-encoding", "content-length", "expect", "host"]);
/** Methods whose requests are expected to have a body, and so say that there is none. */
const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const PATH = /^\/[\x21-\xff]*$/;

/** Why a request may not be written to a socket, where it could break out of its line; undefined: it may. */
export function checkRequest({
  method,
  path,
  fields: lines,
}: Pick<HttpRequest, "method" | "path" | "fields">): GatewayError | undefined {
  const name = faultyHeader(lines);
  if (name !== undefined)
    return new GatewayError("internal", { message: `The header ${JSON.stringify(name)} cannot be sent upstream.` });
  if (TOKEN.test(method) && PATH.test(path)) return undefined;
  return new GatewayError("internal", { message: "The gateway composed a request that cannot be sent upstream." });
}

/** Everything in front of a request's body. @param framing bytes of the body, or how else it is framed; undefined: none. */
export function requestHead(call: HttpRequest, host: string, framing: number | "chunked" | undefined): string {
  let head = `${call.method} ${call.path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  const length = framing === "chunked" ? undefined : framing || (WITH_BODY.has(call.method) ? 0 : undefined);
  const lines = outgoingHeaders(call.fields, length);
  for (let i = 0; i < lines.length; i += 2) head += `${lines[i]}: ${lines[i + 1]}\r\n`;
  return framing === "chunked" ? `${head}transfer-encoding: chunked\r\n\r\n` : `${head}\r\n`;
}

/**
 * The header lines of a request as they go out. `accept-encoding: identity` is always asked for: answers are read on
 * their way (usage, frames), and unpacking them would cost more than the bytes saved between two data centres.
 *
 * @param lines name, value, name, value, …
 * @param length content-length; undefined: none, or chunked.
 */
export function outgoingHeaders(lines: readonly string[], length: number | undefined): string[] {
  const out: string[] = [];
  let named: Set<string> | undefined;
  for (let i = 0; i < lines.length; i += 2) {
    const { spelling, key, hop } = known(lines[i] as string);
    if (!hop && !OURS.has(key)) out.push(spelling, lines[i + 1] as string);
    else if (key === "connection") named = addTokens(named, lines[i + 1] as string);
  }
  const kept = named ? without(out, named) : out;
  kept.push("accept-encoding", "identity");
  if (length !== undefined) kept.push("content-length", String(length));
  return kept;
}

/** The first header that may not be written to a socket (its name is no token, its value holds CR, LF, NUL or non-latin1). */
export function faultyHeader(lines: readonly string[]): string | undefined {
  for (let i = 0; i < lines.length; i += 2) {
    const name = lines[i] as string;
    if (!known(name).valid || !VALUE.test(lines[i + 1] as string)) return name;
  }
  return undefined;
}

/** The head of an answer whose lines are raw: latin1 strings without hop-by-hop fields; content-length stays. */
export function answerHead(raw: readonly Buffer[]): Omit<ResponseHead, "status"> {
  const headers: string[] = [];
  let named: Set<string> | undefined;
  let encoding: string | undefined;
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] as Buffer).toString("latin1");
    const value = (raw[i + 1] as Buffer).toString("latin1");
    const { key, hop } = known(name);
    if (!hop) {
      headers.push(name, value);
      if (key === "content-encoding") encoding = encoding === undefined ? value : `${encoding}, ${value}`;
    } else if (key === "connection") named = addTokens(named, value);
  }
  return { headers: named ? without(headers, named) : headers, encoding };
}

/** A copy of the lines without those whose lower-case name is in the set. */
export function without(lines: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < lines.length; i += 2) {
    const name = lines[i] as string;
    if (!names.has(known(name).key)) kept.push(name, lines[i + 1] as string);
  }
  return kept;
}

/** Adds the fields a Connection value names; the two words that every peer sends name none. */
function addTokens(named: Set<string> | undefined, value: string): Set<string> | undefined {
  if (value === "keep-alive" || value === "close") return named;
  const all = named ?? new Set<string>();
  for (const token of value.split(",")) all.add(token.trim().toLowerCase());
  return all;
}
