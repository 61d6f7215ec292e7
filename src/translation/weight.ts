import type { Event } from "./events.ts";

/** Characters that an event counts in addition to its content, and those for a piece of text, because there are many. */
const EVENT_WEIGHT = 64;
const PIECE_WEIGHT = 16;
/** Characters that a member of an object, or a number, counts. */
const MEMBER_WEIGHT = 8;
/** No response is nested so deeply; a deeper value exceeds every limit. */
const MAX_DEPTH = 64;

/**
 * Estimates an event's memory while it is buffered, in characters. Limits are counted in this, so that no response evades
 * them, not even with many empty blocks. Events that are not buffered weigh nothing.
 */
export function weightOf(event: Event): number {
  switch (event.type) {
    case "text":
      return PIECE_WEIGHT + event.text.length + (event.logprobs === undefined ? 0 : sizeOf(event.logprobs));
    case "arguments":
      return PIECE_WEIGHT + event.text.length;
    case "opaque":
      return EVENT_WEIGHT + sizeOf(event.opaque);
    case "citation":
      return EVENT_WEIGHT + sizeOf(event.citation);
    case "media":
      return EVENT_WEIGHT + (event.base64 ?? event.url ?? "").length;
    case "server":
      return EVENT_WEIGHT + event.json.text.length;
    case "open":
      return EVENT_WEIGHT + sizeOf(event);
    case "unmapped":
      return PIECE_WEIGHT + event.path.length;
    case "close":
    case "finish":
      return EVENT_WEIGHT;
    case "start":
    case "usage":
    case "ping":
    case "error":
    case "end":
      return 0;
  }
}

function sizeOf(value: unknown, depth = 0): number {
  if (typeof value === "string") return value.length;
  if (depth > MAX_DEPTH) return Number.POSITIVE_INFINITY;
  let size = MEMBER_WEIGHT;
  if (typeof value === "object")
    for (const name in value) size += MEMBER_WEIGHT + sizeOf((value as Record<string, unknown>)[name], depth + 1);
  return size;
}
