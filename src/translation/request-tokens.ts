import { randomBytes } from "node:crypto";
import type { Body } from "../core/body.ts";
import { BACKSLASH } from "../wire/grammar.ts";
import { type ByteSpan, type Edit, splice } from "../wire/splice.ts";
import { base64SpansInSteps } from "./base64-spans.ts";
import type { Media } from "./conversation.ts";
import type { Envelopes } from "./envelope.ts";
import { estimateTokensInSteps } from "./estimate.ts";
import {
  type Base64Content,
  contentOf,
  HEAD_LENGTH,
  type TokenRange,
  tokensOfContent,
  tokensOfUndecoded,
} from "./media-content.ts";
import { type ClientRequest, readRequestInSteps } from "./request.ts";
import { endsStep, LARGE_BODY_BYTES, runAtOnce, type Steps } from "./steps.ts";
import { countBudget } from "./text-tokens.ts";

/** The end of what a data URL has before its base64, and the maximum bytes up to there. */
const DATA_URL_END = "base64,";
const MAX_DATA_URL_START = 256;
/** Bytes of the longest escape of a character. */
const MAX_ESCAPE = 6;
/** Bytes of the random part of placeholders, and of the number after it: three bytes are four characters of base64. */
const [MARKER_BYTES, NUMBER_BYTES] = [18, 6];
/** Contents whose tokens are counted in one turn. */
const MAX_AT_ONCE = 100;
/** A head without escapes, line ends and letters of the other alphabet. */
const PLAIN = /^[A-Za-z0-9+/]+$/;

/**
 * Returns the tokens of a request, in steps. Long base64 is not parsed: in its place the protocol's decoder gets a placeholder, and only
 * where it reads that as media, the base64 counts as media. Anywhere else (a tool call's arguments, a schema) it is text.
 * @throws GatewayError where the request cannot be decoded
 */
export function* tokensInRequest(
  request: Omit<ClientRequest, "text" | "streaming">,
  body: Body,
  envelopes: Envelopes,
): Steps<TokenRange> {
  const replaced = yield* replaceBase64(body);
  const steps = tokensInReplaced(request, replaced, envelopes);
  // A body that waits for a turn grows old for V8, which marks the whole heap to free it: at 1.5 MB a quarter of the CPU.
  const isShort = replaced.text.length < LARGE_BODY_BYTES && replaced.contents.size <= MAX_AT_ONCE;
  return isShort ? runAtOnce(steps) : yield* steps;
}

function* tokensInReplaced(
  request: Omit<ClientRequest, "text" | "streaming">,
  { text, contents }: ReplacedBody,
  envelopes: Envelopes,
): Steps<TokenRange> {
  yield;
  const budget = countBudget();
  const unread = new Set(contents.keys());
  let above = 0;
  const counts: { [kind in Media["media"]]?: number } = {};
  const tokensOf = ({ media, source }: Media): number => {
    const base64 = "base64" in source ? source.base64 : "";
    unread.delete(base64);
    const { likely, maximum } = tokensOfContent(media, contents.get(base64) ?? contentOf(base64), budget);
    above += maximum - likely;
    counts[media] = (counts[media] ?? 0) + maximum;
    return likely;
  };
  const conversation = yield* readRequestInSteps({ ...request, streaming: false, text }, envelopes);
  yield;
  let likely = yield* estimateTokensInSteps(conversation, text, tokensOf, budget);
  let n = 0;
  for (const placeholder of unread) {
    likely += tokensOfUndecoded(contents.get(placeholder) as Base64Content, budget);
    if (endsStep(n++)) yield;
  }
  return { likely, maximum: likely + above, media: counts };
}

/** A body's text with placeholders for long base64, and what was replaced, by placeholder. */
interface ReplacedBody {
  readonly text: string;
  readonly contents: ReadonlyMap<string, Base64Content>;
}

function* replaceBase64(body: Body): Steps<ReplacedBody> {
  const contents = new Map<string, Base64Content>();
  // Random, so that no other text of the client's is taken for it; generated once: that takes long.
  const marker = Buffer.concat([randomBytes(MARKER_BYTES), Buffer.alloc(NUMBER_BYTES)]);
  const edits: Edit[] = [];
  for (const { kind, ...span } of yield* base64SpansInSteps(body.pieces)) {
    // State is not media. A quote after a backslash does not end the string: everything behind would be misread.
    if (kind === "opaque" || body.slice(span.end - 1, span.end)[0] === BACKSLASH) continue;
    const { content, start } = contentAt(body, span);
    marker.writeUIntBE(edits.length, MARKER_BYTES, NUMBER_BYTES);
    const placeholder = content.head + marker.toString("base64");
    contents.set(placeholder, content);
    edits.push({ start, end: span.end, bytes: Buffer.from(placeholder) });
    if (endsStep(edits.length)) yield;
  }
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
  const length = span.end - start;
  const read = (from = 0, to = length) =>
    unescaped(body.slice(start + from, start + Math.min(to, length)).toString("latin1"));
  return { content: { head: headOf(read), length, read }, start };
}

function headOf(read: Base64Content["read"]): string {
  const plain = read(0, HEAD_LENGTH);
  if (plain.length === HEAD_LENGTH && PLAIN.test(plain)) return plain;
  return read(0, MAX_ESCAPE * HEAD_LENGTH)
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .replace(/[^A-Za-z0-9+/]/g, "")
    .slice(0, HEAD_LENGTH);
}

/** Resolves escaped slashes and letters, and removes line ends. */
const unescaped = (base64: string): string =>
  base64.includes("\\")
    ? base64.replace(/\\(?:u([\da-f]{4})|[^/]|)/gi, (_, code: string | undefined) =>
        code === undefined ? "" : String.fromCharCode(Number.parseInt(code, 16)),
      )
    : base64;
