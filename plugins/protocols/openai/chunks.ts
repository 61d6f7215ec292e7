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
} from "model-gateway";
import { errorOf } from "./errors.ts";
import { holdsUsage } from "./family.ts";

const QUOTE = 34;
const ERROR = Buffer.from('"error"');
/** `data: [DONE]` with its blank line, in any spelling. */
const LONGEST_DONE = 20;

/** What a chunk, or a whole completion, reports as its failure: an object, of some vendors a text; undefined: nothing. */
export const reported = ({ error }: JsonObject): JsonObject | string | undefined =>
  asObject(error) ?? (asText(error) || undefined);

/**
 * A stream of chunks is whole once a choice has its `finish_reason` (some vendors send no `[DONE]`, and usage may still
 * follow), or at `[DONE]`. In the chunks before, vendors write null or an empty text. A failure is a chunk with an `error`
 * (recorded from Groq, and from OpenRouter beside a choice), or `error` as the finish reason.
 */
export function ending(frame: Frame): Ending | undefined {
  const { bytes } = frame;
  if (glance(bytes, "finish_reason", QUOTE) || (bytes.includes(ERROR) && mayFail(bytes))) return read(frame.json());
  return bytes.length <= LONGEST_DONE && frame.text === "[DONE]" ? "complete" : undefined;
}

/** Most chunks of some vendors say that there is no error, with null. */
const mayFail = (bytes: Buffer): boolean => glance(bytes, "error") || glance(bytes, "error", QUOTE);

function read(json: unknown): Ending | undefined {
  const chunk = asObject(json);
  if (chunk && reported(chunk) !== undefined) return "error";
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
