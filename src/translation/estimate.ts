import type { Conversation, Media, Part } from "./conversation.ts";

/**
 * Bytes of a request's JSON text for a token, where nobody counts exactly. English prose has about 4, code and JSON about
 * 3, other scripts 3 in UTF-8 for a letter and about a token each; names and brackets of the JSON come on top. Told too
 * high, a client shortens its prompt early; told too low, it runs into the vendor's limit.
 */
const BYTES = 3;

/** Tokens of what is no text: a large picture; a page or two, half a minute or a few seconds for what has a length. */
const MEDIA: Readonly<Record<Media["media"], number>> = { image: 1600, audio: 1000, video: 2600, file: 3200 };
/** Bytes of base64 above which a thing with a length counts once more. */
const PIECE: Readonly<Record<Media["media"], number>> = {
  image: Number.POSITIVE_INFINITY,
  audio: 640_000,
  video: 1_300_000,
  file: 130_000,
};

/** About how many tokens a request has; more rather than fewer. @param body it as JSON text, or the bytes of that */
export function estimate(conversation: Conversation, body: string | number): number {
  const text = typeof body === "string" ? body : "";
  /** Up to here the text has been counted, but for what is no text; and how often that was not found in it. */
  let at = 0;
  let misses = 0;
  let bytes = typeof body === "number" ? body : Buffer.byteLength(body);
  let found = 0;
  let tokens = 0;
  const count = (part: Part): void => {
    if (part.kind === "tool_result") part.parts.forEach(count);
    if (part.kind !== "media") return;
    const base64 = "base64" in part.source ? part.source.base64 : "";
    bytes -= base64.length;
    const from = misses < MISSES ? placeOf(base64, text, at) : -1;
    if (from >= 0) {
      found += pieces(text.slice(at, from));
      at = from + base64.length;
    } else if (base64 !== "" && text !== "") {
      // Some clients escape its slashes.
      misses++;
      found -= pieces(base64);
    }
    tokens += MEDIA[part.media] * Math.max(1, Math.ceil(base64.length / PIECE[part.media]));
  };
  for (const { parts } of conversation.turns) parts.forEach(count);
  found += pieces(text.slice(at));
  return Math.ceil(Math.max(0, bytes / BYTES, found * MORE)) + tokens;
}

/** What is no text stands where it is met next, mostly: it is not sought in all of a text more often than that. */
const MISSES = 3;
/** Letters by which its beginning is found: of long ones a search may take as long as text and letters multiplied. */
const BEGIN = 16;

/** Where base64 stands in a text behind a place; -1: not where its beginning is met first. */
function placeOf(base64: string, text: string, from: number): number {
  if (base64 === "" || text === "") return -1;
  const at = text.indexOf(base64.slice(0, BEGIN), from);
  return at >= 0 && text.startsWith(base64, at) ? at : -1;
}

/** A piece where tokenizers find a little more than one: measured with numbers, base64, hex, tables and logs. */
const MORE = 1.1;

const [SPACE, LOWER, UPPER, DIGIT, MARK] = [0, 1, 2, 3, 4];

/**
 * The pieces of a text: a new one begins where the kind of character changes, at every third digit and every second mark.
 * Numbers and random letters have many for their bytes, prose few. Letters of other scripts count by their bytes.
 */
function pieces(text: string): number {
  let found = 0;
  let kind = SPACE;
  let length = 0;
  /** Whether a capital that begins a word was the last. */
  let capital = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) {
      found += (code < 0x800 ? 2 : 3) / BYTES / MORE;
      if (kind === SPACE) kind = LOWER;
      continue;
    }
    const next = kindOf(code);
    const same = next === kind || (capital && next === LOWER);
    capital = next === UPPER && (kind === SPACE || kind === MARK);
    kind = next;
    length = same ? length + 1 : 1;
    const full = (kind === DIGIT && length > 3) || (kind === MARK && length > 2);
    if (kind === SPACE || (same && !full)) continue;
    found++;
    length = 1;
  }
  return found;
}

function kindOf(code: number): number {
  if (code <= 0x20) return SPACE;
  if (code >= 0x61 && code <= 0x7a) return LOWER;
  if (code >= 0x41 && code <= 0x5a) return UPPER;
  return code >= 0x30 && code <= 0x39 ? DIGIT : MARK;
}
