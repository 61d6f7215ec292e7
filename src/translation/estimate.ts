import type { Conversation, Media, Part } from "../conversation.ts";

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

/** About how many tokens a request has; more rather than fewer. @param body it as JSON text, or the bytes of that. */
export function estimate(conversation: Conversation, body: string | number): number {
  let bytes = typeof body === "number" ? body : Buffer.byteLength(body);
  let tokens = 0;
  const count = (part: Part): void => {
    if (part.kind === "tool_result") part.parts.forEach(count);
    if (part.kind !== "media") return;
    const size = "base64" in part.source ? part.source.base64.length : 0;
    bytes -= size;
    tokens += MEDIA[part.media] * Math.max(1, Math.ceil(size / PIECE[part.media]));
  };
  for (const { parts } of conversation.turns) parts.forEach(count);
  return Math.ceil(Math.max(0, bytes) / BYTES) + tokens;
}
