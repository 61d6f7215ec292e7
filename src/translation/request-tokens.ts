import { randomBytes } from "node:crypto";
import type { Body } from "../core/body.ts";
import { type ByteSpan, splice } from "../wire/splice.ts";
import { base64Spans } from "./base64-spans.ts";
import type { Media } from "./conversation.ts";
import type { Envelopes } from "./envelope.ts";
import { estimateRequestTokens } from "./estimate.ts";
import { type Base64Content, contentOf, HEAD_LENGTH, type TokenRange, tokensOfContent } from "./media-content.ts";
import { type ClientRequest, readRequest } from "./request.ts";
import { estimateTextTokens } from "./text-tokens.ts";

/** The end of what a data URL has before its base64, and the maximum bytes up to there. */
const DATA_URL_END = "base64,";
const MAX_DATA_URL_START = 256;
const BACKSLASH = 0x5c;
/** Bytes of the longest escape of a character. */
const MAX_ESCAPE = 6;
/** Bytes of a placeholder's random end: three bytes are four characters of base64. */
const MARKER_BYTES = 18;

/**
 * Returns the tokens of a request. Long base64 is not parsed: in its place the protocol's decoder gets a placeholder, and only
 * where it reads that as media, the base64 counts as media. Anywhere else (a tool call's arguments, a schema) it is text.
 * @throws GatewayError where the request cannot be decoded
 */
export function tokensOfRequest(
  request: Omit<ClientRequest, "text" | "streaming">,
  body: Body,
  envelopes: Envelopes,
): TokenRange {
  const { text, contents } = replaceBase64(body);
  const unread = new Set(contents.keys());
  let above = 0;
  const tokensOf = ({ media, source }: Media): number => {
    const base64 = "base64" in source ? source.base64 : "";
    unread.delete(base64);
    const { likely, maximum } = tokensOfContent(media, contents.get(base64) ?? contentOf(base64));
    above += maximum - likely;
    return likely;
  };
  const conversation = readRequest({ ...request, streaming: false, text }, envelopes);
  let likely = estimateRequestTokens(conversation, text, tokensOf);
  for (const placeholder of unread) likely += estimateTextTokens((contents.get(placeholder) as Base64Content).read());
  return { likely, maximum: likely + above };
}

/** Replaces long base64 in a body. Returns its text, and by placeholder what was replaced. */
function replaceBase64(body: Body): { text: string; contents: ReadonlyMap<string, Base64Content> } {
  const contents = new Map<string, Base64Content>();
  const edits = base64Spans(body.pieces).flatMap(({ kind, ...span }) => {
    // State is not media. A quote after a backslash does not end the string: everything behind would be misread.
    if (kind === "opaque" || body.slice(span.end - 1, span.end)[0] === BACKSLASH) return [];
    const { content, start } = contentAt(body, span);
    // Random, so that no other text of the client's is taken for it.
    const placeholder = content.head + randomBytes(MARKER_BYTES).toString("base64");
    contents.set(placeholder, content);
    return { start, end: span.end, bytes: Buffer.from(placeholder) };
  });
  return { text: Buffer.concat(splice(body.pieces, edits)).toString(), contents };
}

/** Returns base64 in a body, without the start of a data URL, and where it begins. */
export function contentAt(
  body: Pick<Body, "slice">,
  span: ByteSpan,
): { readonly content: Base64Content; readonly start: number } {
  const before = body.slice(span.start, Math.min(span.end, span.start + MAX_DATA_URL_START)).toString("latin1");
  const at = before.indexOf(DATA_URL_END);
  const start = at < 0 ? span.start : span.start + at + DATA_URL_END.length;
  const read = (until: number) => unescaped(body.slice(start, until).toString("latin1"));
  const head = read(Math.min(span.end, start + MAX_ESCAPE * HEAD_LENGTH))
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .replace(/[^A-Za-z0-9+/]/g, "")
    .slice(0, HEAD_LENGTH);
  return { content: { head, length: span.end - start, read: () => read(span.end) }, start };
}

/** Resolves escaped slashes and letters, and removes line ends. */
const unescaped = (base64: string): string =>
  base64.includes("\\")
    ? base64.replace(/\\(?:u([\da-f]{4})|[^/]|)/gi, (_, code: string | undefined) =>
        code === undefined ? "" : String.fromCharCode(Number.parseInt(code, 16)),
      )
    : base64;
