/**
 * Everything that a request can contain and some protocol cannot express. Each protocol decides on each feature, in a table
 * that does not compile while one is missing; losses are declared from that table, and its README shows it.
 */
export const FEATURES = {
  system_in_place: "a system message between turns",
  name: "the name of who speaks",
  phase: "whether an assistant's text is a comment or the answer",
  prefill: "an assistant's turn at the end, to be continued",
  image_base64: "an image in the request",
  image_url: "an image by its URL",
  file_base64: "a file in the request",
  file_url: "a file by its URL",
  file_text: "a file as plain text",
  file_id: "a file by the id a vendor gave it",
  audio: "audio in the request",
  video: "video in the request",
  media_detail: "how closely to look at an image",
  audio_out: "an answer as audio",
  image_out: "an answer as an image",
  tools: "functions the model may call",
  tools_strict: "arguments that must match the schema",
  tools_custom: "tools that take free text",
  tools_namespace: "tools in a namespace",
  web_search: "web search by the vendor",
  tools_server: "another tool that the vendor runs",
  tools_server_needed: "a tool that the vendor runs, forced or used before",
  tool_choice: "whether and which tool to call",
  tool_choice_allowed: "a choice among some of the tools",
  parallel_off: "at most one tool call",
  assistant_media: "images or files that the assistant made",
  tool_result_media: "images or files in a tool's result",
  tool_result_error: "a tool's result that is an error",
  reasoning_effort: "how hard to think",
  reasoning_budget: "tokens for thinking",
  reasoning_summary: "how thoughts are shown",
  reasoning_text: "earlier thoughts",
  citations: "citations in earlier answers",
  foreign_block: "a block that only its vendor understands",
  foreign_media: "an image, file or recording in another protocol's form",
  json_object: "an answer as any JSON",
  json_schema: "an answer by a JSON Schema",
  json_schema_strict: "an answer that must match its schema",
  stop: "stop sequences",
  max_tokens: "the longest answer",
  temperature: "sampling temperature",
  top_p: "nucleus sampling",
  top_k: "sampling among the k likeliest",
  penalties: "penalties for repetition",
  logit_bias: "likelihoods of tokens",
  choices: "several answers",
  logprobs: "likelihoods of the answer's tokens",
  seed: "a seed",
  verbosity: "how wordy to be",
  cache_mark: "marks for the prompt cache",
  cache_key: "a key for the prompt cache",
  cache_retention: "how long the prompt cache keeps the prompt",
  cache_handle: "a cached prompt by a vendor's id",
  user: "the end user's name",
  metadata: "labels",
  tier: "the service tier",
  store: "keeping the answer at the vendor",
  stored_state: "going on from an answer that a vendor keeps",
  background: "answering in the background",
  safety: "safety settings",
  moderation: "moderation of the request",
  prediction: "a prediction of the answer",
  container: "a container of the vendor's",
  context_edits: "changes to the context by the vendor",
  other: "a field that no other protocol has",
  cosmetic: "a field that changes nothing of the answer",
} as const;

export type Feature = keyof typeof FEATURES;

/**
 * How a protocol handles a feature.
 *
 * - `mapped`: expressed, with the same meaning
 * - `dropped`: left out, with a notice to the client
 * - `refused`: a 400 that names the field, because leaving it out would change the meaning of the response
 * - `ignored`: left out without a notice, because it changes nothing
 */
export type Support = "mapped" | "dropped" | "refused" | "ignored";

/** How a protocol handles each feature, with an optional note for its README. */
export type SupportTable = Readonly<Record<Feature, Support | readonly [support: Support, note: string]>>;

/** Returns a table's entry for a feature. */
export function supportOf(table: SupportTable, feature: Feature): { support: Support; note?: string } {
  const entry = table[feature];
  return typeof entry === "string" ? { support: entry } : { support: entry[0], note: entry[1] };
}
