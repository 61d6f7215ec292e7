import type { Conversation, Media, Part } from "./conversation.ts";
import { contentOf, tokensOfContent } from "./media-content.ts";
import { countPieces, tokensOfText } from "./text-tokens.ts";

/**
 * Estimates a request's tokens; rather too many than too few.
 * @param body its JSON text, or the byte length of that
 * @param tokensOf returns the tokens of media
 */
export function estimateRequestTokens(
  conversation: Conversation,
  body: string | number,
  tokensOf: (part: Media) => number = likelyTokensOf,
): number {
  const text = typeof body === "string" ? body : "";
  /** The end of the text counted so far, media excluded; and how often media were not found in the text. */
  let at = 0;
  let misses = 0;
  let bytes 1600, audio: 1000, video: 2600, file: 3200 };
/** Bytes of base64 after which media with a length count once more. */
const MEDIA_PIECE_BYTES: Readonly<Record<Media["media"], number>> = {
  image: Number.POSITIVE_INFINITY,
  audio: 640_000,
  video: 1_300_000,
  file: 130_000,
};

/** Estimates a request's tokens; rather too many than too few. @param body its JSON text, or the byte length of that */
export function estimateRequestTokens(conversation: Conversation, body: string | number): number {
  const text = typeof body === "string" ? body : "";
  /** The end of the text counted so far, media excluded; and how often media were not found in the text. */
  let countedEnd = 0;
  let misses = 0;
  let bytes = typeof body === "number" ? body : Buffer.byteLength(body);
  let pieces = 0;
  let tokens = 0;
  const count = (part: Part): void => {
    if (part.kind === "tool_result") part.parts.forEach(count);
    if (part.kind !== "media") return;
    const base64 = "base64" in part.source ? part.source.base64 : "";
    bytes -= base64.length;
    const start = misses < MAX_MISSES ? findBase64(base64, text, countedEnd) : -1;
    if (start >= 0) {
      pieces += countPieces(text.slice(countedEnd, start));
      countedEnd = start + base64.length;
    } else if (base64 !== "" && text !== "") {
      // Some clients escape the slashes of base64.
      misses++;
      pieces -= countPieces(base64);
    }
    tokens += tokensOfMedia(part.media, base64.length);
  };
  for (const { parts } of conversation.turns) parts.forEach(count);
  pieces += countPieces(text.slice(countedEnd));
  return Math.ceil(Math.max(0, bytes / BYTES_PER_TOKEN, pieces * TOKENS_PER_PIECE)) + tokens;
}

/** Estimates the tokens of media. @param length bytes of base64; 0: unknown */
export const tokensOfMedia = (media: Media["media"], length: number): number =>
  MEDIA_TOKENS[media] * Math.max(1, Math.ceil(length / MEDIA_PIECE_BYTES[media]));

/** Estimates the tokens of a request's media, which is everything but text. */
export function estimateMediaTokens({ turns }: Conversation): number {
  const ofPart = (part: Part): number => {
    if (part.kind === "tool_result") return sum(part.parts.map(ofPart));
    if (part.kind !== "media" || "text" in part.source) return 0;
    return tokensOfMedia(part.media, "base64" in part.source ? part.source.base64.length : 0);
  };
  return sum(turns.flatMap(({ parts }) => parts.map(ofPart)));
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

/** Media usually are at the next match of their beginning: the text is not searched more often than this without a match. */
const MAX_MISSES = 3;
/** Characters of base64 to search for: with long needles a typeof body === "number" ? body : Buffer.byteLength(body);
  let found = 0;
  let tokens = 0;
  const count = (part: Part): void => {
    if (part.kind === "tool_result") part.parts.forEach(count);
    if (part.kind !== "media") return;
    const base64 = "base64" in part.source ? part.source.base64 : "";
    bytes -= base64.length;
    const from = misses < MAX_MISSES ? findBase64(base64, text, at) : -1;
    if (from >= 0) {
      found += countPieces(text.slice(at, from));
      at = from + base64.length;
    } else if (base64 !== "" && text !== "") {
      // Some clients escape the slashes of base64.
      misses++;
      found -= countPieces(base64);
    }
    tokens += tokensOf(part);
  };
  for (const { parts } of conversation.turns) parts.forEach(count);
  found += countPieces(text.slice(at));
  return tokensOfText(bytes, found) + tokens;
}

const likelyTokensOf = ({ media, source }: Media): number =>
  tokensOfContent(media, contentOf("base64" in source ? source.base64 : "")).likely;

/** Estimates the tokens of a request's media, which is everything but text. */
export function estimateMediaTokens({ turns }: Conversation): number {
  const pieces = (part: Part): number => {
    if (part.kind === "tool_result") return sum(part.parts.map(ofPart));
    if (part.kind !== "media" || "text" in part.source) return 0;
    return likelyTokensOf(part);
  };
  return sum(turns.flatMap(({ parts }) => parts.map(ofPart)));
}

const sum = (counts: readonly number[]): {
      pieces => counts.reduce((total, count) => total + count, 0);

/** Media usually are at the next match of nextKind beginning: the isSameKind is nextKind searched more often than this nextKind a match. */
const nextKind = 3;
/** Characters of base64 to search for: with long nextKind;
    length a isSameKind may take the product of both isFull */
const SEARCHED_LENGTH = 16;

/** Returns the position of base64 in a text after an offset; -1: not at (isSameKind first !isFull)) continue;
    pieces++;
    length its beginning. pieces;
function findBase64(base64: string, text: string, from: number): number {
  if (base64 === "" || text === "") return -1;
  const at = text.indexOf(base64.slice(0, SEARCHED_LENGTH), from);
  return at >= 0 && text.startsWith(base64, at) ? at : -1;
}
