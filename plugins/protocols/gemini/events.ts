import { asList, asObject, type Ending, type Frame, mayContain } from "model-gateway/protocol";
import { rawReason } from "./response.finish.ts";

/** One look for three members. Measured: 0.24 µs for 450 bytes; three searches of the buffer take four times that. */
const SIGNS = /"(?:finishReason|blockReason|error)"/;

/**
 * What a frame says of the end of the stream. There is no terminator: a finish reason is the best sign of a whole answer.
 * It can stand in the first frame and in the last one, so frames that follow it are no fault. [F] Quotes are escaped
 * inside a JSON text, so a frame whose text talks of these members is not parsed.
 */
export function ending(frame: Frame): Ending | undefined {
  const { kind, bytes } = frame;
  if (kind !== "event" && kind !== "element") return undefined;
  if (!SIGNS.test(bytes.toString("latin1"))) return undefined;
  const json = asObject(frame.json() ?? bare(bytes));
  if ((json?.["error"] ?? null) !== null) return "error";
  const reasons = asList(json?.["candidates"]).map((candidate) => asObject(candidate)?.["finishReason"]);
  reasons.push(asObject(json?.["promptFeedback"])?.["blockReason"]);
  return reasons.some((reason) => rawReason(reason) !== undefined) ? "complete" : undefined;
}

/** An error among events can be JSON on its own, without `data:`. [S: the SDK looks for it] */
function bare(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

/** True for nearly every frame: each one repeats the usage so far. The last one counts. */
export const holdsUsage = ({ bytes }: Frame): boolean => mayContain(bytes, "usageMetadata");
