import {
  asObject,
  asText,
  type Citation,
  dropUndefined,
  type Ending,
  type FinishReason,
  type Frame,
  type JsonObject,
  type Opaque,
  type Operation,
  ownProperty,
  post,
  type RateLimitStates,
  type RawJson,
} from "model-gateway/protocol";

/** The protocol's name, on opaque state and on parts that only it understands. */
export const ANTHROPIC_MESSAGES = "anthropic-messages";

/** The operation that generates a message. */
export const MESSAGES: Operation = post("messages", "/messages", { task: "generate" });

/** The operation that counts a request's tokens. */
export const COUNT_TOKENS: Operation = post("count_tokens", "/messages/count_tokens", {
  streams: false,
  generates: false,
  task: "count",
});

/**
 * The error details for a request that uses a thread, a conversation stored by the provider, where there is none: clients then
 * send the whole conversation in each request. [S]
 */
export const NO_THREADS = {
  hint: "Send the whole conversation without it.",
  details: { error_code: "thread_unsupported_request", unsupported: ["thread"] },
} as const;

/** The frame that the vendor sends after the first event, and during long pauses. */
export const PING = Buffer.from('event: ping\ndata: {"type": "ping"}\n\n');

/** Members of requests whose original text is kept: arguments and schemas. */
export const RAW_MEMBERS: ReadonlySet<string> = new Set(["input", "input_schema", "schema"]);

/** The vendor's `stop_reason` for each finish reason. */
export const STOP_REASONS: Readonly<Record<FinishReason, string>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal",
  refusal: "refusal",
  stop_sequence: "stop_sequence",
  pause: "pause_turn",
  context_window: "model_context_window_exceeded",
  malformed_call: "end_turn",
  other: "end_turn",
};

const REASONS: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  max_tokens: "length",
  stop_sequence: "stop_sequence",
  tool_use: "tool_calls",
  pause_turn: "pause",
  refusal: "refusal",
  model_context_window_exceeded: "context_window",
};

/** Returns the meaning of a `stop_reason`; `other` for an unknown one. */
export const finishReasonOf = (stopReason: string): FinishReason => ownProperty(REASONS, stopReason) ?? "other";

/** The vendor's own models, whoever serves them. Imitations of the protocol serve others. */
export const CLAUDE = /claude/i;

/** The kinds of opaque state: of a thinking block, and of a redacted block. */
export type OpaqueKind = "signature" | "redacted";

/** Returns state of that kind by this protocol's vendor, unchanged; undefined for all other. */
export const opaqueData = (opaque: Opaque | undefined, kind: OpaqueKind): string | undefined =>
  opaque?.protocol === ANTHROPIC_MESSAGES && opaque.kind === kind ? opaque.data : undefined;

/** Reports whether a text is a JSON object. */
export function holdsObject(json: RawJson): boolean {
  try {
    return asObject(json.value) !== undefined;
  } catch {
    return false;
  }
}

/** The block with what a search of the vendor's found. */
export const SEARCH_RESULT = "web_search_tool_result";

/** The member with the URL, by type: a search result's `source` is chosen by the client, usually a URL. */
const URL_MEMBERS: Readonly<Record<string, string>> = {
  web_search_result_location: "url",
  search_result_location: "source",
};

/** Members of all kinds of citations: text, position, and keys of the vendor's. [S] */
export const CITATION_MEMBERS: readonly string[] = [
  ...["type", "cited_text", "url", "title", "source", "document_title", "document_index", "search_result_index"],
  ...["start_char_index", "end_char_index", "start_page_number", "end_page_number"],
  ...["start_block_index", "end_block_index", "encrypted_index", "file_id"],
];

/** Decodes a citation. Positions in the request's documents name their title differently. */
export function parseCitation(value: unknown): Citation {
  const citation = asObject(value) ?? {};
  const title = "document_title" in citation ? "document_title" : "title";
  return dropUndefined({
    url: asText(citation[ownProperty(URL_MEMBERS, asText(citation["type"])) ?? "url"]),
    title: asText(citation[title]),
    quote: asText(citation["cited_text"]),
  });
}

/**
 * Encodes a citation as a web search result; undefined without a URL, which this form requires.
 * @param encryptedIndex required by the SDK's types, and only the vendor can make one
 */
export function writeCitation({ url, title, quote }: Citation, encryptedIndex: () => string): JsonObject | undefined {
  if (url === undefined) return undefined;
  return {
    type: "web_search_result_location",
    cited_text: quote ?? "",
    url,
    title: title ?? null,
    encrypted_index: encryptedIndex(),
  };
}

const LETTER_E = 0x65;
/** The first letter of `message_start`, `message_delta` and `message_stop`, and of no other event. */
export const LETTER_M = 0x6d;
const COLON = 0x3a;
const SPACE = 0x20;

const STOP = Buffer.from('"message_stop"');
const ERROR = Buffer.from('"error"');

const ENDINGS: Readonly<Record<string, Ending>> = { message_stop: "complete", error: "error" };

/** Returns the first letter of an event's name; undefined when the event does not begin with its name. */
export function eventInitial({ bytes }: Frame): number | undefined {
  if (bytes[0] !== LETTER_E || bytes[5] !== COLON) return undefined;
  return bytes[6] === SPACE ? bytes[7] : bytes[6];
}

/**
 * Returns how an event ends the stream, if it does. Nearly all events are `content_block_…` or `ping`, recognised by their
 * first letter. Events without a name, which only imitations of this protocol send, are recognised by their `type`.
 */
export function ending(frame: Frame): Ending | undefined {
  if (frame.kind !== "event") return undefined;
  const letter = eventInitial(frame);
  if (letter === undefined && !frame.bytes.includes(STOP) && !frame.bytes.includes(ERROR)) return undefined;
  if (letter !== undefined && letter !== LETTER_M && letter !== LETTER_E) return undefined;
  if (frame.event !== undefined) return ownProperty(ENDINGS, frame.event);
  const { type, error } = asObject(frame.json()) ?? {};
  // A proxy in front of an imitation may report its failures in another format.
  return type === undefined && asObject(error) ? "error" : ownProperty(ENDINGS, asText(type));
}

/** Headers in which the vendor reports what is left of a minute. [D: rate limits page] */
export const remainingRateHeaders = [
  ["requests", "anthropic-ratelimit-requests-remaining"],
  ["tokens", "anthropic-ratelimit-tokens-remaining"],
] as const;

/** Returns `anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}`; resets are RFC 3339. [D: rate limits page] */
export const rateHeaders = ({ requests, tokens }: RateLimitStates, now: number): string[] =>
  Object.entries({ requests, tokens }).flatMap(([what, state]) =>
    state
      ? [
          ...[`anthropic-ratelimit-${what}-limit`, String(state.limit)],
          ...[`anthropic-ratelimit-${what}-remaining`, String(state.remaining)],
          ...[`anthropic-ratelimit-${what}-reset`, rfc3339(now + state.reset)],
        ]
      : [],
  );

/** Formats a time like the vendor, in whole seconds. */
const rfc3339 = (time: number): string => new Date(Math.ceil(time / 1000) * 1000).toISOString().replace(".000Z", "Z");
