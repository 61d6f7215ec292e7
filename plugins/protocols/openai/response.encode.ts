import type { EventOf, FinishReason, ResponseContext } from "model-gateway/protocol";

/** Chat's value for each finish reason. A refusal without a text of its own counts as filtered content. */
export const CHAT_FINISH_REASONS: Readonly<Record<FinishReason, string>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  content_filter: "content_filter",
  refusal: "content_filter",
  stop_sequence: "stop",
  // Declared as lost; the client continues the turn by sending it back.
  pause: "stop",
  context_window: "length",
  malformed_call: "stop",
  other: "stop",
};

/** Reports whether the message of an end explains a refusal or a filter. */
export const isRefusalReason = (reason: FinishReason): boolean => reason === "refusal" || reason === "content_filter";

/**
 * Declares details of a response's end that no finish reason of these protocols expresses.
 * @param refused whether a refusal was written
 */
export function declareFinish(event: EventOf<"finish">, refused: boolean, context: ResponseContext): void {
  const { reason, raw, message, stopSequence } = event;
  if (stopSequence !== undefined) context.drop("stop_sequence", "No finish reason says which one matched.");
  const isMessageLost = message !== undefined && !(isRefusalReason(reason) && refused);
  if (reason === "pause")
    context.drop("finish_reason", "The vendor paused the turn: send the request again to continue it.");
  else if (reason === "malformed_call")
    context.drop("finish_reason", message ?? "The model wrote a call that cannot be read.");
  else if (reason === "other")
    context.drop("finish_reason", message ?? `The vendor ended the answer with "${raw ?? "no reason"}".`);
  else if (isMessageLost) context.drop("finish_reason", message);
}
