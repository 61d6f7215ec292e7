import {
  asList,
  asObject,
  asText,
  type Ending,
  eventBytes,
  type Fault,
  type Frame,
  glance,
  type IncludeUsage,
  type JsonObject,
} from "model-gateway/protocol";
import { errorOf } from "./errors.ts";
import { holdsUsage } from "./family.ts";

const QUOTE = 34;
/** The word for a failure: a member, the name of an event, or what an object says it is. */
const ERROR = "error";
const ERROR_BYTES = Buffer.from(ERROR);
const IS_ERROR = /"object"\s*:\s*"error"/;
/** `data: [DONE]` with its blank line, in any spelling. */
const LONGEST_DONE = 20;

/**
 * What a chunk, or a whole completion, reports as its failure; undefined: nothing. It is the member `error`, an object or
 * of some vendors a text; Groq's `x_groq.error`, which says why a stream stopped early [S]; or all of an object that says
 * it is an error, as Mistral's and older ones of vLLM do [D].
 */
export function reported(json: JsonObject): JsonObject | string | undefined {
  const { error, x_groq: groq, object } = json;
  return (
    asObject(error) ?? (asText(error) || asText(asObject(groq)?.["error"]) || (object === ERROR ? json : undefined))
  );
}

/** The same of a frame of a stream. One whose event is named an error reports one, whatever it holds. */
export function reportedIn(frame: Frame): JsonObject | string | undefined {
  const chunk = asObject(frame.json());
  const found = chunk && reported(chunk);
  return found ?? (frame.event === ERROR ? (chunk ?? frame.text) : undefined);
}

/**
 * A stream of chunks is whole once a choice has its `finish_reason` (some vendors send no `[DONE]`, and usage may still
 * follow), or at `[DONE]`. In the chunks before, vendors write null or an empty text. A failure is what reports one
 * (recorded from Groq, and from OpenRouter beside a choice), or `error` as the finish reason.
 */
export function ending(frame: Frame): Ending | undefined {
  const { bytes } = frame;
  if (glance(bytes, "finish_reason", QUOTE) || mayFail(frame)) return read(frame);
  return bytes.length <= LONGEST_DONE && frame.text === "[DONE]" ? "complete" : undefined;
}

/** A quick look: most chunks of some vendors say that there is no error, with null. */
function mayFail(frame: Frame): boolean {
  const { bytes } = frame;
  if (!bytes.includes(ERROR_BYTES)) return false;
  return (
    frame.event === ERROR ||
    glance(bytes, ERROR) ||
    glance(bytes, ERROR, QUOTE) ||
    IS_ERROR.test(bytes.toString("latin1"))
  );
}

function read(frame: Frame): Ending | undefined {
  if (reportedIn(frame) !== undefined) return "error";
  const chunk = asObject(frame.json());
  const reasons = asList(chunk?.["choices"]).map((choice) => asText(asObject(choice)?.["finish_reason"]));
  if (reasons.includes("error")) return "error";
  return reasons.some((reason) => reason) ? "complete" : undefined;
}

/** A chunk with an `error` member makes both SDK generations throw. No `[DONE]` follows: that would be a clean end. */
export const streamError = (fault: Fault): Buffer => eventBytes({ error: errorOf(fault) });

const optionsOf = (body: unknown) => asObject(asObject(body)?.["stream_options"]);

/** Whether a request asks for usage in its stream. */
export const asksUsage = (body: unknown): boolean => optionsOf(body)?.["include_usage"] === true;

/** Usage comes in a stream only when asked for by `stream_options.include_usage`, in a last chunk with no choices. */
export const includeUsage: IncludeUsage = {
  missing: (body) => asObject(body)?.["stream"] === true && !asksUsage(body),
  member: (body) => ({ name: "stream_options", json: JSON.stringify({ ...optionsOf(body), include_usage: true }) }),
  extra(frame) {
    // Azure's first chunk has no choices either, but no usage: it is the client's.
    if (!holdsUsage(frame)) return false;
    const chunk = asObject(frame.json());
    const choices = chunk?.["choices"];
    return Array.isArray(choices) && choices.length === 0 && asObject(chunk?.["usage"]) !== undefined;
  },
};
