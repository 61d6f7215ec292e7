import type { Verdict } from "./matrix.ts";

/** Recordings that do not reach clients of another protocol unchanged, with the reason. */
interface Refused {
  recordings: RegExp;
  /** Only for clients of these protocols. */
  client?: RegExp;
  reason: string;
}

export const REFUSED: readonly Refused[] = [
  {
    recordings: /^openai-responses\/.*test_background_mode_(?:with_tool_vcr__[02]|streaming_without)/,
    reason: "the answer is still queued; the gateway never asks for one in the background",
  },
  {
    recordings: /^openai-responses\/vercel-ai__azure\.azure-deepseek-reasoning/,
    reason: "a Chat answer that was filed among Responses",
  },
  {
    recordings: /^openai-chat\/.*test_openai\.test_invalid_response__/,
    reason: "not an answer: the page of a test server",
  },
  {
    recordings: /^openai-chat\/.*(?:mistral-small-latest_streams_thinking|test_mistral_model_thinking_part_iter)/,
    reason: "tells its text as lists of parts, which the vendor's SDK turns into [object Object]",
  },
  {
    recordings: /^anthropic\/anthropic-sdk-ts__fixtures\.incomplete_partial_json_response/,
    reason: "the length limit cut the arguments of its call: they are no JSON, and whole answers leave the call out",
  },
  {
    recordings: /^openai-chat\/.*test_openrouter_cache_instructions_gemini_real_api__0/,
    client: /^anthropic-messages$/,
    reason: "tells more tokens read from and written to the cache than tokens at all",
  },
  {
    recordings: /^openai-chat\/.*azure_grok-4-1/,
    reason: "tells more tokens read from the cache than tokens at all: all are told as read from it",
  },
  {
    recordings: /^openai-chat\/.*(?:xai-tool-call|tool_calls_without_id)/,
    reason: "counts thoughts in its total that its output leaves out: the output is told by the total",
  },
  {
    recordings: /^anthropic\/.*anthropic-refusal/,
    client: /^openai-/,
    reason: "why the vendor refused stands beside its empty answer; here it is the refusal itself",
  },
  {
    recordings: /^openai-(?:chat\/.*post_a0ea5208|responses\/.*image_generation_jpeg)/,
    client: /^anthropic-messages$/,
    reason: "a picture or sound alone, which a message cannot hold: a text says so",
  },
  {
    recordings: /^gemini\/.*partial_function_calling/,
    reason: "tells a call in pieces, which the vendor's SDK does not put together",
  },
];

/** Why a verdict may be a bad one; undefined: it may not. */
export const excuse = ({ recording, client }: Verdict): string | undefined =>
  REFUSED.find((each) => each.recordings.test(recording) && (each.client?.test(client) ?? true))?.reason;
