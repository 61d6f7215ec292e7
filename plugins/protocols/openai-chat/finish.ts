import { entryOf, type FinishReason } from "model-gateway/protocol";

/** Finish reasons of this protocol, and those that other vendors write in its place. */
const REASONS: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  content_filter: "content_filter",
  // Mistral, Together, Ollama and gateways before Claude and Gemini.
  model_length: "context_window",
  eos: "stop",
  end_turn: "stop",
  max_tokens: "length",
  tool_use: "tool_calls",
  stop_sequence: "stop_sequence",
  refusal: "refusal",
};

/** Why a choice ended; some vendors say `stop` when the model calls tools, and OpenAI when it refuses. */
export function reasonOf(raw: string | undefined, calls: boolean, refused: boolean): FinishReason {
  const reason = raw === undefined ? "stop" : (entryOf(REASONS, raw.toLowerCase()) ?? "other");
  if (reason !== "stop") return reason;
  return calls ? "tool_calls" : refused ? "refusal" : "stop";
}
