/** What a response says in words of its own: how it ended, what it cost, what it cites, and an echo of the request. */
import {
  asObject,
  type Citation,
  type EventOf,
  type FinishReason,
  type JsonObject,
  type Usage,
  writeJson,
} from "model-gateway/protocol";

const INCOMPLETE: Readonly<Record<FinishReason, string | undefined>> = {
  stop: undefined,
  length: "max_output_tokens",
  tool_calls: undefined,
  content_filter: "content_filter",
  // The vendor's own refusals are answers like any other, with a part that says so; see `endOf`.
  refusal: "content_filter",
  stop_sequence: undefined,
  pause: undefined,
  context_window: "max_output_tokens",
  malformed_call: undefined,
  other: undefined,
};

/** `status` and `incomplete_details`. `refused`: the refusal is told in a part of its own. */
export function endOf(finish: EventOf<"finish"> | undefined, refused = true) {
  const reason = finish && !(refused && finish.reason === "refusal") ? INCOMPLETE[finish.reason] : undefined;
  return reason === undefined
    ? { status: "completed", incomplete_details: null }
    : { status: "incomplete", incomplete_details: { reason } };
}

/** `usage`. Both counts are required, and so are their details; what nobody reported is 0 there. [S] */
export function usageOf({ in: input, out }: Usage): JsonObject {
  const { write } = input;
  const [half, twelve] = [write?.["30m"], write?.["12h"]];
  const split =
    half === undefined && twelve === undefined ? undefined : { ttl_30m_tokens: half, ttl_12h_tokens: twelve };
  return {
    input_tokens: input.total ?? 0,
    input_tokens_details: {
      cached_tokens: input.cached ?? 0,
      ...(write && { cache_write_tokens: Object.values(write).reduce((sum, tokens) => sum + tokens, 0) }),
      ...(split && { cache_write_tokens_details: split }),
    },
    output_tokens: out.total ?? 0,
    output_tokens_details: { reasoning_tokens: out.reasoning ?? 0 },
    total_tokens: (input.total ?? 0) + (out.total ?? 0),
  };
}

/** A source with an address, as an annotation. */
export const annotationOf = ({ url, title, start, end }: Citation): JsonObject => ({
  type: "url_citation",
  ...(url === undefined ? undefined : { url }),
  ...(title === undefined ? undefined : { title }),
  start_index: start ?? 0,
  end_index: end ?? start ?? 0,
});

/** The members that say again what the request asked, as JSON text without braces; the vendor's defaults where it did not. */
export function echoOf(request: JsonObject): string {
  const echo: JsonObject = {
    background: false,
    instructions: request["instructions"] ?? null,
    max_output_tokens: request["max_output_tokens"] ?? null,
    max_tool_calls: request["max_tool_calls"] ?? null,
    metadata: request["metadata"] ?? {},
    parallel_tool_calls: request["parallel_tool_calls"] ?? true,
    previous_response_id: null,
    prompt_cache_key: request["prompt_cache_key"] ?? null,
    reasoning: { effort: null, summary: null, ...asObject(request["reasoning"]) },
    safety_identifier: request["safety_identifier"] ?? null,
    // Nothing is kept: neither here, nor where the answer was made.
    store: false,
    temperature: request["temperature"] ?? 1,
    text: { format: { type: "text" }, ...asObject(request["text"]) },
    tool_choice: request["tool_choice"] ?? "auto",
    tools: request["tools"] ?? [],
    top_logprobs: request["top_logprobs"] ?? 0,
    top_p: request["top_p"] ?? 1,
    truncation: request["truncation"] ?? "disabled",
    user: request["user"] ?? null,
  };
  return writeJson(echo).slice(1, -1);
}
