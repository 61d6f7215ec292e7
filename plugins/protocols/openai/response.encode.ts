import type { EventOf, FinishReason, ResponseContext } from "model-gateway/protocol";

/** The word of Chat for each reason. A refusal that is not written as one is content that was held back. */
export const FINISH_WORDS: Readonly<Record<FinishReason, string>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  content_filter: "content_filter",
  refusal: "content_filter",
  stop_sequence: "stop",
  // The answer is not whole: `stop` would say that it is.
  pause: "length",
  context_window: "length",
  malformed_call: "stop",
  other: "stop",
};

/** Whether an end's message tells why nothing, or no more, is said. */
export const saysWhy = (reason: FinishReason): boolean => reason === "refusal" || reason === "content_filter";

/**
 * Declares what is known of the end of an answer and no finish reason of these protocols has a word for.
 * @param refused whether a refusal was written
 */
export function declareEnd(event: EventOf<"finish">, refused: boolean, context: ResponseContext): void {
  const { reason, raw, message, stopSequence } = event;
  if (stopSequence !== undefined) context.drop("stop_sequence", "No finish reason says which one matched.");
  const untold = message !== undefined && !(saysWhy(reason) && refused);
  if (reason === "pause") context.drop("finish_reason", "The vendor paused: ask again to let it go on.");
  else if (reason === "malformed_call")
    context.drop("finish_reason", message ?? "The model wrote a call that cannot be read.");
  else if (reason === "other")
    context.drop("finish_reason", message ?? `The vendor ended the answer with "${raw ?? "no reason"}".`);
  else if (untold) context.drop("finish_reason", message);
}
