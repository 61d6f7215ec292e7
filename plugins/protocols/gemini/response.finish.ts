import type { FinishReason } from "model-gateway/protocol";

/** What the vendor's words mean; a word that is not here means `other`. STOP also ends an answer that calls functions. */
const MEANINGS: ReadonlyMap<string, FinishReason> = new Map(
  Object.entries({
    STOP: "stop",
    MAX_TOKENS: "length",
    // Its answer can be continued with a token that only this vendor takes.
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

/** Clients can ask for enums as numbers [F]; the same ones in both forms of the protocol up to 5, and all filters up to 8. */
const NUMBERS = ["", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"];

/** A finish reason as the vendor wrote it, name or number; undefined where it says nothing. */
export function rawReason(value: unknown): string | undefined {
  if (typeof value === "number") return value > 0 ? String(value) : undefined;
  return typeof value === "string" && value !== "" && !value.endsWith("_UNSPECIFIED") ? value : undefined;
}

/** What a finish reason means; `called`: the answer holds a call of a client's function. */
export function reasonOf(raw: string, called: boolean): FinishReason {
  const meaning = MEANINGS.get(/^\d+$/.test(raw) ? (NUMBERS[Number(raw)] ?? "OTHER") : raw) ?? "other";
  return meaning === "stop" && called ? "tool_calls" : meaning;
}

/**
 * True for ends that an answer has only when something went wrong, like MALFORMED_FUNCTION_CALL. With nothing said before
 * it such an answer would look like one that is done.
 */
export const isFailure = (reason: FinishReason): boolean => reason === "malformed_call" || reason === "other";

const WORDS: Readonly<Record<FinishReason, string>> = {
  stop: "STOP",
  stop_sequence: "STOP",
  tool_calls: "STOP",
  pause: "STOP",
  length: "MAX_TOKENS",
  context_window: "MAX_TOKENS",
  content_filter: "SAFETY",
  refusal: "SAFETY",
  malformed_call: "MALFORMED_FUNCTION_CALL",
  other: "OTHER",
};

/** The vendor's word; `refused`: the model said that it will not answer, whatever the reason is called. */
export const wordOf = (reason: FinishReason, refused: boolean): string =>
  refused && WORDS[reason] === "STOP" ? "SAFETY" : WORDS[reason];
