import { asObject, asText, type Ending, entryOf, type Frame, mayContain } from "model-gateway/protocol";

const LETTER_E = 0x65;
const LETTER_M = 0x6d;
const COLON = 0x3a;
const SPACE = 0x20;

const STOP = Buffer.from('"message_stop"');
const ERROR = Buffer.from('"error"');

const ENDINGS: Readonly<Record<string, Ending>> = { message_stop: "complete", error: "error" };

/** First letter of an event's name; undefined when the event does not begin with its name. */
function initial({ bytes }: Frame): number | undefined {
  if (bytes[0] !== LETTER_E || bytes[5] !== COLON) return undefined;
  return bytes[6] === SPACE ? bytes[7] : bytes[6];
}

/**
 * What an event says of the end of the stream. Nearly all events are `content_block_…` or `ping`; their first letter is
 * enough. Events without a name, which only imitations of this protocol send, are known by their `type`.
 */
export function ending(frame: Frame): Ending | undefined {
  if (frame.kind !== "event") return undefined;
  const letter = initial(frame);
  if (letter === undefined && !frame.bytes.includes(STOP) && !frame.bytes.includes(ERROR)) return undefined;
  if (letter !== undefined && letter !== LETTER_M && letter !== LETTER_E) return undefined;
  return entryOf(ENDINGS, frame.event ?? asText(asObject(frame.json())?.["type"]));
}

/** True for `message_start` and `message_delta`, the two events that tell usage, and for a body with a `usage` object. */
export function holdsUsage(frame: Frame): boolean {
  const letter = initial(frame);
  return (letter === undefined || letter === LETTER_M) && mayContain(frame.bytes, "usage");
}
