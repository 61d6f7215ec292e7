import { asList, asObject, asText, type Ending, type Frame, glance, type IncludeUsage } from "model-gateway";

const QUOTE = 34;
/** `data: [DONE]` with its blank line, in any spelling. */
const LONGEST_DONE = 20;

/** Whole once a choice has its `finish_reason` (null or empty before), or at `[DONE]`. */
export function ending(frame: Frame): Ending | undefined {
  const { bytes } = frame;
  if (glance(bytes, "finish_reason", QUOTE) || glance(bytes, "error")) return read(frame.json());
  return bytes.length <= LONGEST_DONE && frame.text === "[DONE]" ? "complete" : undefined;
}

function read(json: unknown): Ending | undefined {
  const chunk = asObject(json);
  if (asObject(chunk?.["error"])) return "error";
  const reasons = asList(chunk?.["choices"]).map((choice) => asText(asObject(choice)?.["finish_reason"]));
  if (reasons.includes("error")) return "error";
  return reasons.some((reason) => reason) ? "complete" : undefined;
}

export const holdsUsage = (frame: Frame): boolean => glance(frame.bytes, "usage");

/** Usage comes in a stream only when asked for by `stream_options.include_usage`, in a last chunk with no choices. */
export const includeUsage: IncludeUsage = {
  missing(body) {
    const request = asObject(body);
    return request?.["stream"] === true && asObject(request["stream_options"])?.["include_usage"] !== true;
  },
  member(body) {
    const asked = asObject(asObject(body)?.["stream_options"]);
    return { name: "stream_options", json: JSON.stringify({ ...asked, include_usage: true }) };
  },
  extra(frame) {
    if (!holdsUsage(frame)) return false;
    const chunk = asObject(frame.json());
    const choices = chunk?.["choices"];
    return Array.isArray(choices) && choices.length === 0 && asObject(chunk?.["usage"]) !== undefined;
  },
};
