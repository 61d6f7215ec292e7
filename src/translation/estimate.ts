import type { Conversation, Media, Part } from "./conversation.ts";

/**
 * Bytes of a request's JSON text per token, where there is no exact count. English prose has about 4, code and JSON about 3;
 * other scripts have 3 bytes in UTF-8 per letter and about one token per letter; JSON's names and brackets come on top. Where
 * the estimate is too high, a client shortens its prompt early; where it is too low, the request exceeds the vendor's limit.
 */
const BYTES_PER_TOKEN = 3;

/** Tokens of media: a large image; a page or two, half a minute of audio or a few seconds of video. */
const MEDIA_TOKENS: Readonly<Record<Media["media"], number>> = { image: 1600, audio: 1000, video: 2600, file: 3200 };
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
/** Characters of base64 to search for: with long needles a search may take the product of both lengths. */
const SEARCHED_LENGTH = 16;

/** Returns the position of base64 in a text after an offset; -1: not at the first match of its beginning. */
function findBase64(base64: string, text: string, from: number): number {
  if (base64 === "" || text === "") return -1;
  const at = text.indexOf(base64.slice(0, SEARCHED_LENGTH), from);
  return at >= 0 && text.startsWith(base64, at) ? at : -1;
}

/** Tokens per piece, where tokenizers find a little more than one: measured with numbers, base64, hex, tables and logs. */
const TOKENS_PER_PIECE = 1.1;

const [SPACE, LOWER, UPPER, DIGIT, MARK] = [0, 1, 2, 3, 4];

/**
 * Counts the pieces of a text: a new one begins where the kind of character changes, at every third digit and every second
 * mark. Numbers and random letters have many per byte, prose few. Letters of other scripts count by their bytes.
 */
function countPieces(text: string): number {
  let pieces = 0;
  let kind = SPACE;
  let length = 0;
  /** Whether the last character was a capital that begins a word. */
  let capital = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) {
      pieces += (code < 0x800 ? 2 : 3) / BYTES_PER_TOKEN / TOKENS_PER_PIECE;
      if (kind === SPACE) kind = LOWER;
      continue;
    }
    const nextKind = kindOf(code);
    const isSameKind = nextKind === kind || (capital && nextKind === LOWER);
    capital = nextKind === UPPER && (kind === SPACE || kind === MARK);
    kind = nextKind;
    length = isSameKind ? length + 1 : 1;
    const isFull = (kind === DIGIT && length > 3) || (kind === MARK && length > 2);
    if (kind === SPACE || (isSameKind && !isFull)) continue;
    pieces++;
    length = 1;
  }
  return pieces;
}

function kindOf(code: number): number {
  if (code <= 0x20) return SPACE;
  if (code >= 0x61 && code <= 0x7a) return LOWER;
  if (code >= 0x41 && code <= 0x5a) return UPPER;
  return code >= 0x30 && code <= 0x39 ? DIGIT : MARK;
}
