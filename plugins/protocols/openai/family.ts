import { asList, asObject, asText, bearer, type Ending, type Frame, type Protocol } from "model-gateway/protocol";
import { ERROR, errorBody, errorInStreamFrame, refuses, streamError } from "./errors.ts";
import { vendorObjects } from "./objects.ts";
import { holdsUsage, includeUsage } from "./usage.ts";
import { rateHeaders, remainingRateHeaders } from "./wire.ts";

/** Headers in which agents send their session's id. Seen on the wire. */
const SESSION_HEADERS = ["session-id", "session_id", "thread-id", "x-session-affinity", "x-session-id"];

/** Members common to the protocols of this family. Each spreads it first, and then adds its own. */
export const family = {
  versionSegment: "/v1",
  respondsWithJson: true,
  headers: ["openai-beta", "idempotency-key", "x-client-request-id", "x-stainless-*"],
  responseHeaders: ["openai-processing-ms", "openai-version"],
  // A comment: parsers skip it.
  ping: Buffer.from(": ping\n\n"),
  credential: bearer,
  refuses,
  error: errorBody,
  holdsUsage,
  vendorObjects,
  rateHeaders,
  remainingRateHeaders,
  labelMembers: ["user", "safety_identifier", "prompt_cache_key", "metadata"],
  conversation: {
    members: [["prompt_cache_key"]],
    headers: SESSION_HEADERS,
    turns: "messages",
    cacheMarks: ["prompt_cache_breakpoint", "cache_control"],
  },
} satisfies Partial<Protocol>;

const QUOTE = 34;
const IS_ERROR = /"object"\s*:\s*"error"/;
/** Maximum bytes of `data: [DONE]` with its blank line, in any form. */
const MAX_DONE_BYTES = 20;

/**
 * Returns how a frame ends its stream, if it does. A stream of chunks is complete once a choice has its `finish_reason` (some
 * vendors send no `[DONE]`, and usage may still follow), or at `[DONE]`. Earlier chunks have null or an empty string there. A
 * failure is a reported one (recorded from Groq, and from OpenRouter beside a choice), or `error` as the finish reason.
 */
function ending(frame: Frame): Ending | undefined {
  if (frame.mayContain("finish_reason", QUOTE) || mayFail(frame)) return readEnding(frame);
  return isDone(frame) ? "complete" : undefined;
}

/** Checks the bytes first: most chunks of some vendors have an `error` that is null. */
function mayFail(frame: Frame): boolean {
  if (!frame.mayHoldError) return false;
  return (
    frame.event === ERROR ||
    frame.mayContain(ERROR) ||
    frame.mayContain(ERROR, QUOTE) ||
    IS_ERROR.test(frame.bytes.toString("latin1"))
  );
}

function readEnding(frame: Frame): Ending | undefined {
  if (errorInStreamFrame(frame) !== undefined) return "error";
  const chunk = asObject(frame.json());
  const reasons = asList(chunk?.["choices"]).map((choice) => asText(asObject(choice)?.["finish_reason"]));
  if (reasons.includes("error")) return "error";
  return reasons.some((reason) => reason) ? "complete" : undefined;
}

const isDone = (frame: Frame): boolean => frame.bytes.length <= MAX_DONE_BYTES && frame.text === "[DONE]";

/** Further members common to chat and text completions: their streams consist of chunks with `choices`. */
export const completionsFamily = {
  ...family,
  streamError,
  ending,
  terminal: isDone,
  includeUsage,
} satisfies Partial<Protocol>;
