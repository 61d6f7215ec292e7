import { type EventOf, type FinishReason } from "model-gateway/protocol";

/** The vendor's finish reasons; unknown ones mean `other`. STOP also ends a response that calls functions. */
const FINISH_REASONS: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries({
    STOP: "stop",
    MAX_TOKENS: "length",
    // The response can be continued with a token that only this vendor accepts.
    CONTINUATION: "length",
    SAFETY: "content_filter",
    RECITATION: "content_filter",
    BLOCKLIST: "content_filter",
    PROHIBITED_CONTENT: "content_filter",
    SPII: "content_filter",
    MODEL_ARMOR: "content_filter",
    JAILBREAK: "content_filter",
    IMAGE_SAFETY: "content_filter",
    IMAGE_PROHIBITED_CONTENT: "content_filter",
    IMAGE_RECITATION: "content_filter",
    MALFORMED_FUNCTION_CALL: "malformed_call",
    UNEXPECTED_TOOL_CALL: "malformed_call",
  } satisfies Record<string, FinishReason>),
);

/**
 * Finish reasons by number, which clients can request [F]; both forms of the protocol agree up to 5; in both, 6 to 8
 * are filters.
 */
const REASON_NUMBERS = [
  "",
  "STOP",
  "MAX_TOKENS",
  "SAFETY",
  "RECITATION",
  "OTHER",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
];

/**
 * Returns the meaning of a finish reason.
 * @param hasToolCall whether the response calls a client's function. A call that the vendor did not expect counts as well: the
 * client can answer it.
 */
export function meaningOfFinish(raw: string, hasToolCall: boolean): FinishReason {
  const meaning = FINISH_REASONS.get(/^\d+$/.test(raw) ? (REASON_NUMBERS[Number(raw)] ?? "OTHER") : raw) ?? "other";
  return hasToolCall && (meaning === "stop" || raw === "UNEXPECTED_TOOL_CALL") ? "tool_calls" : meaning;
}

/**
 * Reports whether a finish reason means that something went wrong, like MALFORMED_FUNCTION_CALL. A response without content
 * before it would otherwise look complete.
 */
export const isFailureReason = (reason: FinishReason): boolean => reason === "malformed_call" || reason === "other";

/** Finish reasons of turns that broke off: the text before is valid, but what was to follow it is missing. */
const BROKEN_REASONS = new Set(["TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"]);

/** Reports whether a finish is a failure even after a text or a call: agents would take these for the complete response. */
export const isBrokenFinish = (finish: EventOf<"finish"> | undefined): boolean =>
  finish !== undefined && (finish.reason === "malformed_call" || BROKEN_REASONS.has(finish.raw ?? ""));

/**
 * Returns a finish that the model did not choose with its explanation. After a text, OTHER, LANGUAGE and newer reasons mean
 * that it is unfinished: of the reasons that other protocols have, `content_filter` is nearest. After a call the client can
 * continue.
 */
export function explainFinish(finish: EventOf<"finish">, hasToolCall: boolean): EventOf<"finish"> {
  const { raw, reason, message } = finish;
  if (raw === undefined || (reason !== "content_filter" && (reason !== "other" || hasToolCall))) return finish;
  const outcome = reason === "other" ? "broken off" : "held back";
  return { ...finish, reason: "content_filter", message: message || `The answer was ${outcome}: ${raw}.` };
}
