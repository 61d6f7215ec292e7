import { type FinishReason, ownProperty } from "model-gateway/protocol";

/** Finish reasons of an answer that its vendor broke off: OpenRouter's, DeepSeek's and Z.ai's. [F, D] */
const FAILURES: ReadonlySet<string> = new Set(["error", "insufficient_system_resource", "network_error"]);

/** Reports whether a finish reason says that the vendor broke the answer off. */
export const isFailure = (raw: string): boolean => FAILURES.has(raw);

/** Finish reasons of this protocol, and those that other vendors use instead. */
const REASONS: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter",
  // Mistral, Together, Ollama, Z.ai, and gateways in front of Claude and Gemini.
  model_length: "context_window",
  model_context_window_exceeded: "context_window",
  sensitive: "content_filter",
  safety: "content_filter",
  recitation: "content_filter",
  blocklist: "content_filter",
  prohibited_content: "content_filter",
  spii: "content_filter",
  malformed_function_call: "malformed_call",
  "function_call_filter: malformed_function_call": "malformed_call",
  eos: "stop",
  end_turn: "stop",
  max_tokens: "length",
  max_output_tokens: "length",
  tool_use: "tool_calls",
  stop_sequence: "stop_sequence",
  refusal: "refusal",
};

/**
 * Returns the finish reason that counts: OpenRouter says `tool_calls` even where the length limit cut the arguments of a call,
 * and beside it what its vendor said. [F]
 * @param native the vendor's own finish reason
 */
export const countingReason = (reason: string, native: unknown): string =>
  reason === "tool_calls" && typeof native === "string" && ownProperty(REASONS, native.toLowerCase()) === "length"
    ? native
    : reason;

/**
 * Returns a finish reason; some vendors send `stop` for tool calls, and OpenAI for refusals. Calls that are not in the answer, because
 * its server could not read them, are none for the client, who would wait for them.
 */
export function reasonOf(raw: string | undefined, calls: boolean, refused: boolean): FinishReason {
  const reason = raw === undefined ? "stop" : (ownProperty(REASONS, raw.toLowerCase()) ?? "other");
  if (reason !== "stop" && (reason !== "tool_calls" || calls)) return reason;
  return calls ? "tool_calls" : refused ? "refusal" : "stop";
}
