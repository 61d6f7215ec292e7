import type { Cast } from "./dice.ts";
import { KEY } from "./key.ts";

/** The bytes for one connection, and the bodies in them, by id. */
export interface MadeUp {
  bytes: string;
  bodies: Map<string, string>;
}

const pick = <T>(cast: Cast, all: readonly T[]): T => all[cast(all.length)] as T;
/** Usually returns the first. */
const odd = <T>(cast: Cast, usual: T, all: readonly T[], rarity = 12): T =>
  cast(rarity) === 0 ? pick(cast, all) : usual;

const bodyOf = (id: string, cast: Cast): string => `{"model":"any","user":"${id}","pad":"${"x".repeat(cast(60))}"}`;

const LINE_ENDS = ["\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\0\r\n", "\x0b\r\n"];
const CODINGS = [
  ...["chunked", "Chunked", "chunked ", "chunked, chunked", "gzip, chunked", "identity", "xchunked", "\x0bchunked"],
  ...["chunked;q=1", "chunked, identity", '"chunked"', "", "chunked\x00", "chunked,"],
];
const LENGTHS = [
  (n: number) => `${n + 1}`,
  (n: number) => `${n - 1}`,
  (n: number) => `+${n}`,
  (n: number) => `0${n}`,
  (n: number) => `${n}, ${n}`,
  (n: number) => `0x${n.toString(16)}`,
  (n: number) => `${n} `,
  (n: number) => `\t${n}`,
  (n: number) => `-${n}`,
  (n: number) => `${n}.0`,
  () => "",
  () => "0",
  () => "99999999999999999999",
  (n: number) => `${BigInt(n) + 2n ** 64n}`,
];
const NAMES = [
  (name: string) => `${name} `,
  (name: string) => ` ${name}`,
  (name: string) => name.replaceAll("-", "_"),
  (name: string) => `${name}\t`,
  (name: string) => `${name}\0`,
  (name: string) => `x-${name}`,
  (name: string) => name.toUpperCase(),
  (name: string) => `\x01${name}`,
];
const LINES = [
  ...["Host: other", "Host: a b", "no colon here", ": no name", " folded", "\tfolded", "Connection: Transfer-Encoding"],
  ...[
    "Connection: close, Content-Length",
    "Connection: keep-alive",
    "Expect: 100-continue",
    "Expect: odd",
    "Upgrade: h2c",
  ],
  ...["Connection: Upgrade, HTTP2-Settings", "TE: trailers", "Trailer: Content-Length", "Proxy-Connection: keep-alive"],
  ...["Content-Type: text/plain", "Content-Encoding: chunked", "X: a\rb", "X: a\x00b", "X: a\x80b", "Keep-Alive: 300"],
  ...[
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\tchunked",
    "Content-Length: 0",
    "Content-Length:",
    "X-Http-Method-Override: DELETE",
  ],
];
const TARGETS = [
  ...["/v1/models", "http://evil/v1/chat/completions", "*", "/v1/chat/completions?x=1", "/v1/../v1/chat/completions"],
  ...[
    "//v1/chat/completions",
    "/v1/chat/completions HTTP/1.1\r\nX: y",
    "/v1/chat/completions#x",
    "/v1/chat%2fcompletions",
    "a:80",
    "",
  ],
];
/** Below a path that passes through; with a provider that responds before it has read the request. */
const PASSED = ["/v1/audio", "/v1/audio/a", "/v1/audio/early", "/v1/audio/early/close"];
const SIZES = [
  (n: number) => n.toString(16).toUpperCase(),
  (n: number) => `000${n.toString(16)}`,
  (n: number) => `${n.toString(16)};ext=1`,
  (n: number) => `${n.toString(16)};ext="a;b"`,
  (n: number) => `${n.toString(16)};a\rb`,
  (n: number) => `${n.toString(16)};a\nb`,
  (n: number) => `${n.toString(16)} `,
  (n: number) => ` ${n.toString(16)}`,
  (n: number) => `0x${n.toString(16)}`,
  (n: number) => `+${n.toString(16)}`,
  (n: number) => `-${n.toString(16)}`,
  (n: number) => (n + 1).toString(16),
  (n: number) => Math.max(0, n - 1).toString(16),
  (n: number) => `${n.toString(16)}g`,
  () => "",
  () => "ffffffffffffffff",
  (n: number) => `1_${n.toString(16)}`,
];
const TRAILERS = [
  "X: y",
  "Content-Length: 5",
  "Transfer-Encoding: chunked",
  "Host: evil",
  "no colon",
  " folded",
  "X : y",
];

/** Encodes a body in chunks, sometimes unusually. */
function chunked(body: string, cast: Cast): string {
  let text = "";
  for (let at = 0; at < body.length; ) {
    const piece = body.slice(at, at + 1 + cast(body.length));
    at += piece.length;
    const size = odd(cast, (n: number) => n.toString(16), SIZES, 25)(piece.length);
    text += `${size}${odd(cast, "\r\n", LINE_ENDS, 40)}${piece}${odd(cast, "\r\n", ["", ...LINE_ENDS, "x\r\n"], 40)}`;
  }
  const trailer = cast(15) === 0 ? `${pick(cast, TRAILERS)}\r\n` : "";
  return `${text}${odd(cast, "0", ["00", "0;x", "-0", "0 ", "", "1"], 30)}\r\n${trailer}${odd(cast, "\r\n", LINE_ENDS, 40)}`;
}

/** Returns one request, sometimes invalid. @param last whether none follows it */
function request(body: string, last: boolean, cast: Cast): string {
  const passes = cast(3) === 0;
  const methods = ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "post", "P OST", "PATCH"];
  const method = odd(cast, "POST", methods, passes ? 2 : 25);
  const target = odd(cast, passes ? pick(cast, PASSED) : "/v1/chat/completions", TARGETS, 20);
  const version = odd(
    cast,
    "HTTP/1.1",
    ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/01.1", ""],
    25,
  );
  const framing: [name: string, value: string][] = [];
  const inChunks = cast(2) === 0;
  if (!inChunks || cast(12) === 0) {
    const length = odd(cast, (n: number) => `${n}`, LENGTHS, 8)(body.length);
    framing.push(["Content-Length", length]);
    if (cast(20) === 0) framing.push(["Content-Length", odd(cast, length, ["0", "5", length], 2)]);
  }
  if (inChunks || cast(12) === 0) {
    framing.push(["Transfer-Encoding", odd(cast, "chunked", CODINGS, 8)]);
    if (cast(20) === 0) framing.push(["Transfer-Encoding", pick(cast, CODINGS)]);
  }
  const named = framing.map(([name, value]) => `${odd(cast, (text: string) => text, NAMES, 20)(name)}: ${value}`);
  const lines = ["Host: a", `X-Api-Key: ${KEY}`, "Content-Type: application/json", ...named];
  if (last) lines.push("Connection: close");
  if (cast(12) === 0) lines.push("Expect: 100-continue");
  while (cast(8) === 0) lines.splice(cast(lines.length + 1), 0, pick(cast, LINES));
  const end = () => odd(cast, "\r\n", LINE_ENDS, 150);
  const head = `${method} ${target} ${version}${end()}${lines.map((line) => line + end()).join("")}${end()}`;
  return head + (inChunks ? chunked(body, cast) : body);
}

/** Returns requests for one connection, some of which are invalid and some hide another one. */
export function madeUp(name: string, cast: Cast): MadeUp {
  const bodies = new Map<string, string>();
  const count = 1 + cast(3);
  let bytes = "";
  const next = (last: boolean, depth: number): string => {
    const id = `${name}-${bodies.size}`;
    const own = bodyOf(id, cast);
    bodies.set(id, own);
    // A body followed by what could be the next request.
    const hidden = depth === 0 && cast(6) === 0 ? `${odd(cast, "", ["\r\n", "0\r\n\r\n"], 2)}${next(false, 1)}` : "";
    return request(own + (cast(2) === 0 ? hidden : ""), last, cast) + (hidden === "" ? "" : odd(cast, "", [hidden], 2));
  };
  for (let i = 1; i <= count; i++) bytes += odd(cast, "", ["\r\n", "\n", "\r\n\r\n", "x"], 40) + next(i === count, 0);
  return { bytes, bodies };
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Returns the bodies of the requests that a strict parser finds, in order, up to the first ambiguous one. What follows must not
 * be taken for a request by any parser.
 */
export function strictly(bytes: string): string[] {
  const found: string[] = [];
  for (let rest = bytes; rest !== ""; ) {
    // Empty lines before a request line are ignored, whatever their line end (RFC 9112 §2.2).
    rest = rest.replace(/^(?:\r?\n)+/, "");
    const end = rest.indexOf("\r\n\r\n");
    if (end < 0) return found;
    const [line = "", ...lines] = rest.slice(0, end).split("\r\n");
    if (/[\r\n\0]/.test(rest.slice(0, end).replaceAll("\r\n", "")) || !/^[A-Z-]+ \S+ HTTP\/1\.[01]$/.test(line))
      return found;
    const fields = lines.map(
      (each) => [each.slice(0, each.indexOf(":")), each.slice(each.indexOf(":") + 1).trim()] as const,
    );
    if (lines.some((each) => !each.includes(":")) || fields.some(([name]) => !TOKEN.test(name))) return found;
    const values = (wanted: string) =>
      fields.flatMap(([name, value]) => (name.toLowerCase() === wanted ? [value] : []));
    const [lengths, codings] = [values("content-length"), values("transfer-encoding")];
    if (lengths.length + codings.length > 1) return found;
    rest = rest.slice(end + 4);
    const [length] = lengths;
    const taken = codings.length > 0 ? dechunked(rest, codings[0] as string) : plain(rest, length);
    if (!taken) return found;
    found.push(taken.body);
    rest = rest.slice(taken.size);
  }
  return found;
}

function plain(rest: string, length: string | undefined): { body: string; size: number } | undefined {
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return undefined;
  const size = Number(length ?? 0);
  return rest.length < size ? undefined : { body: rest.slice(0, size), size };
}

/** Decodes a chunked body at the start of the text, and returns its encoded size; undefined if it is incomplete or ambiguous. */
export function dechunked(rest: string, coding = "chunked"): { body: string; size: number } | undefined {
  if (coding.toLowerCase() !== "chunked") return undefined;
  let body = "";
  for (let at = 0; ; ) {
    const end = rest.indexOf("\r\n", at);
    const size = /^([0-9A-Fa-f]{1,12})[ \t]*(?:;[^\r\n]*)?$/.exec(end < 0 ? "" : rest.slice(at, end))?.[1];
    if (size === undefined) return undefined;
    const length = Number.parseInt(size, 16);
    at = end + 2;
    if (length === 0) {
      // Trailers, which end like a head.
      const trailers = rest.slice(at).startsWith("\r\n") ? 2 : rest.slice(at).indexOf("\r\n\r\n") + 4;
      return trailers < 2 || trailers === 3 ? undefined : { body, size: at + trailers };
    }
    body += rest.slice(at, at + length);
    at += length;
    if (rest.slice(at, at + 2) !== "\r\n") return undefined;
    at += 2;
  }
}
