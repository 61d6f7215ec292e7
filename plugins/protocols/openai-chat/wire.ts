import {
  asObject,
  asText,
  type CacheMark,
  type Citation,
  dropUndefined,
  type Fields,
  isObject,
  type JsonObject,
  type Opaque,
  post,
  type ResponseSource,
} from "model-gateway/protocol";

/** The only operation of this protocol. */
export const CHAT_COMPLETIONS = post("chat", "/chat/completions", { task: "generate" });

/** The older member for the only call of an assistant message. */
export const LEGACY_CALL = "function_call";

/** The `format` of `reasoning_details` entries that contain an envelope of the gateway's. */
export const ENVELOPE_FORMAT = "gw1";
/** Returns the key under which the reasoning before a call is stored, for clients that do not send it back. */
export const reasoningKey = (callId: string): string => `thoughts ${callId}`;
/** The `id` of an entry whose state was on an empty text after the text of the message. */
export const AFTER_TEXT = "behind";

/** What a message had before a reasoning: characters of its content, and calls. */
export interface ReasoningPlace {
  text: number;
  calls: number;
}

/** Returns the `id` of an entry whose reasoning did not begin the message. */
export const placeId = ({ text, calls }: ReasoningPlace): string => `${AFTER_TEXT} ${text} ${calls}`;

/** Returns the place in an entry's `id`; undefined for the beginning of the message. */
export function parsePlaceId(id: unknown): ReasoningPlace | undefined {
  const [, text, calls] = (typeof id === "string" && /^behind (\d{1,9}) (\d{1,9})$/.exec(id)) || [];
  return text === undefined ? undefined : { text: Number(text), calls: Number(calls) };
}

/** The kind of opaque state from this protocol's own vendors: its member, or how the member is read. */
export type StateKind =
  | "reasoning_details"
  | "reasoning_content"
  | "reasoning"
  | "thinking"
  /** On a call. */
  | "extra_content"
  /** On a message: Google's compatible API has `extra_content` and `thought_signature` there. */
  | "message";

/**
 * Returns opaque state of this protocol's vendors.
 * @param source the account that created it; undefined if the client sent it
 */
export const createOpaque = (kind: StateKind, data: string, source?: ResponseSource): Opaque => ({
  protocol: "openai-chat",
  ...(source ? { account: source.account, model: source.model } : {}),
  kind,
  data,
});

/** Returns the name of the readable member of a `reasoning_details` entry; encrypted entries have none. */
export const textMember = ({ type }: JsonObject): "summary" | "text" | undefined =>
  type === "reasoning.summary" ? "summary" : type === "reasoning.text" ? "text" : undefined;

/**
 * Decodes a `url_citation`. Indices count characters of the whole content; equal ones (recorded from OpenRouter: always 0)
 * are no range.
 * @param offset characters of content before the block that the citation is for
 */
export function parseUrlCitation(annotation: unknown, offset = 0): Citation | undefined {
  const source = asObject(asObject(annotation)?.["url_citation"]);
  if (!source) return undefined;
  const [start, end] = [source["start_index"], source["end_index"]];
  const isRange = typeof start === "number" && typeof end === "number" && end > start && start >= offset;
  return dropUndefined({
    url: asText(source["url"]),
    title: asText(source["title"]),
    quote: asText(source["content"]),
    start: isRange ? start - offset : undefined,
    end: isRange ? end - offset : undefined,
  });
}

/** Encodes a citation as an annotation; indices count from the start of the whole content. */
export const writeUrlCitation = ({ url, title, quote, start, end }: Citation, offset: number) => ({
  type: "url_citation",
  url_citation: dropUndefined({
    // The SDK's types have no optional member here.
    start_index: offset + (start ?? 0),
    end_index: offset + (end ?? 0),
    url: url ?? "",
    title: title ?? "",
    content: quote,
  }),
});

/** Decodes a mark for the prompt cache: OpenAI's own, or Anthropic's, which other vendors adopted. */
export function readPartCacheMark(part: Fields): { cache?: CacheMark } {
  for (const name of ["prompt_cache_breakpoint", "cache_control"]) {
    const mark = isObject(part.members[name]) ? part.object(name) : undefined;
    if (!mark) continue;
    part.declare(name, "cache_mark");
    // Its type or mode makes no difference.
    mark.any("type");
    mark.any("mode");
    const { ttl } = mark.members;
    const isKnownTtl = ttl === "5m" || ttl === "30m" || ttl === "1h" || ttl === "12h";
    if (isKnownTtl) mark.any("ttl");
    mark.declareUnread();
    return { cache: { ...(isKnownTtl && { ttl }), at: mark.ownPath } };
  }
  return {};
}
