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

/** The one thing this protocol is asked for. */
export const CHAT_COMPLETIONS = post("chat", "/chat/completions", { task: "generate" });

/** The older member for the one call of an assistant's message. */
export const LEGACY_CALL = "function_call";

/** The `format` of entries of `reasoning_details` that hold an envelope of ours. */
export const ENVELOPE_FORMAT = "gw1";
/** What the thoughts before a call are remembered by, for clients that keep nothing of them. */
export const reasoningKey = (callId: string): string => `thoughts ${callId}`;
/** The `id` of such an entry whose state sat on an empty text behind the text of the message. */
export const AFTER_TEXT = "behind";

/** What state of this protocol's own vendors is: the member that it stands in, or how the member is read. */
export type StateKind =
  | "reasoning_details"
  | "reasoning_content"
  | "reasoning"
  | "thinking"
  /** On a call. */
  | "extra_content"
  /** On a message: Google's compatible API has `extra_content` and `thought_signature` there. */
  | "message";

/** State of this protocol's own vendors. @param source the account that gave it; absent: the client sent it is */
export const createOpaque = (kind: StateKind, data: string, source?: ResponseSource): Opaque => ({
  protocol: "openai-chat",
  ...(source ? { account: source.account, model: source.model } : {}),
  kind,
  data,
});

/** The member of an entry of `reasoning_details` that everybody can read; encrypted entries have none. */
export const textMember = ({ type }: JsonObject): "summary" | "text" | undefined =>
  type === "reasoning.summary" ? "summary" : type === "reasoning.text" ? "text" : undefined;

/**
 * A `url_citation`. Its indices count characters of the whole content; where they are equal (recorded from OpenRouter:
 * always 0) they mean nothing.
 * @param before characters of the content before the block that the citation is for
 */
export function parseCitation(annotation: unknown, before = 0): Citation | undefined {
  const source = asObject(asObject(annotation)?.["url_citation"]);
  if (!source) return undefined;
  const [start, end] = [source["start_index"], source["end_index"]];
  const spans = typeof start === "number" && typeof end === "number" && end > start && start >= before;
  return dropUndefined({
    url: asText(source["url"]),
    title: asText(source["title"]),
    quote: asText(source["content"]),
    start: spans ? start - before : undefined,
    end: spans ? end - before : undefined,
  });
}

/** The annotation for a citation; indices count from the start of the whole content. */
export const writeCitation = ({ url, title, quote, start, end }: Citation, before: number) => ({
  type: "url_citation",
  url_citation: dropUndefined({
    // The SDK's types have no optional member here.
    start_index: before + (start ?? 0),
    end_index: before + (end ?? 0),
    url: url ?? "",
    title: title ?? "",
    content: quote,
  }),
});

/** A mark for the prompt cache: OpenAI's own, or the one that other vendors took over from Anthropic. */
export function readCacheMark(part: Fields): { cache?: CacheMark } {
  for (const name of ["prompt_cache_breakpoint", "cache_control"]) {
    const mark = isObject(part.of[name]) ? part.object(name) : undefined;
    if (!mark) continue;
    part.declare(name, "cache_mark");
    // A mark marks, whatever it calls that.
    mark.any("type");
    mark.any("mode");
    const { ttl } = mark.of;
    const known = ttl === "5m" || ttl === "30m" || ttl === "1h" || ttl === "12h";
    if (known) mark.any("ttl");
    mark.declareUnread();
    return { cache: { ...(known && { ttl }), at: mark.at } };
  }
  return {};
}
