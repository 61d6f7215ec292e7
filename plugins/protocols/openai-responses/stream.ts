import { asObject, asText, type Ending, type Frame, mayContain } from "model-gateway/protocol";

const ENDINGS: ReadonlyMap<string | undefined, Ending> = new Map<string, Ending>([
  ["response.completed", "complete"],
  ["response.incomplete", "complete"],
  ["response.failed", "error"],
  ["error", "error"],
]);
const ERROR = Buffer.from('"error"');
/** The longest first line that names an ending: `event: response.incomplete`. */
const LONGEST_NAME = 27;
const LF = 10;
const CR = 13;

/**
 * Events carry their name twice: in an `event:` line, which stands first, and as `type`. Some vendors leave the line out;
 * then the type is looked for among the data.
 */
export function ending(frame: Frame): Ending | undefined {
  const { bytes } = frame;
  // "e" of `event:`; a frame that begins otherwise has no such line, or has it behind a comment or its data.
  if (bytes[0] === 0x65) {
    let end = 6;
    while (end <= LONGEST_NAME && bytes[end] !== LF && bytes[end] !== CR) end++;
    return end > LONGEST_NAME ? undefined : ENDINGS.get(bytes.toString("latin1", 6, end).trim());
  }
  if (!mayContain(bytes, "response") && !bytes.includes(ERROR)) return undefined;
  const json = asObject(frame.json());
  return ENDINGS.get(asText(json?.["type"])) ?? (asObject(json?.["error"]) ? "error" : undefined);
}
