import type { Frame } from "../wire/frame.ts";
import type { Head } from "./head.ts";
import type { Protocol } from "./protocol.ts";

const [LF, CR] = Buffer.from("\n\r");

/** Reports whether an event ends with a blank line: without one the next event would be part of it. */
const endsWithBlankLine = (bytes: Buffer): boolean => {
  const last = bytes.at(-1);
  return (last === LF || last === CR) && (bytes.at(-2) === last || (bytes.at(-2) === CR && bytes.at(-3) === LF));
};

/**
 * Returns a check of what a plugin's stage makes of each frame of a stream, which is not called for frames that pass unchanged.
 * It throws for an event that no client could read, and notes in `head` whether the event that ends the stream is lost: the
 * error is then the plugin's, and not the provider's.
 * @param origin plugin and phase
 * @param protocol of the frames at this place of the chain
 */
export function streamCheck(
  head: Head,
  origin: string,
  protocol: Protocol,
): (frame: Frame, made: readonly Frame[]) => void {
  // Input that the stage has not returned at once, and may return later: it is as the provider sent it.
  const delayed = new WeakSet<Frame>();
  return (frame, made) => {
    for (const each of made) if (each !== frame && !delayed.has(each)) checkEvent(each, frame, protocol);
    if (made.some((each) => protocol.ending(each) !== undefined)) {
      if (head.endingLostBy === origin) head.endingLostBy = undefined;
      return;
    }
    if (made.includes(frame)) return;
    delayed.add(frame);
    if (frame.kind !== "end" && protocol.ending(frame) !== undefined) head.endingLostBy = origin;
  };
}

/** @param original the frame for which the stage returned it */
function checkEvent(made: Frame, original: Frame, protocol: Protocol): void {
  if (made.kind !== "event" && made.kind !== "element") return;
  const { text } = made;
  const isReadable = text === undefined || text === original.text || made.json() !== undefined;
  // Some protocols end with an event that is not JSON.
  if (!isReadable && protocol.ending(made) === undefined)
    throw new TypeError("A stage has returned an event whose data is not JSON.");
  if (made.kind === "event" && !endsWithBlankLine(made.bytes) && endsWithBlankLine(original.bytes))
    throw new TypeError("A stage has returned an event that does not end with a blank line.");
}
