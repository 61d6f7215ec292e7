import type { Frame } from "../wire/frame.ts";
import { splitIntoFrames } from "./answer-frames.ts";
import type { Head } from "./head.ts";
import { runStages, type Stage } from "./stage.ts";

/**
 * Makes `head.readBody` return the response as these stages leave it: all frames are then passed through them at once, and one
 * stage that emits the result replaces them. Of a response that breaks off they see what arrived, as it may have to be paid.
 * @param stages of the plugins so far; more may follow
 */
export function readThroughStages(head: Head, stages: Stage[]): void {
  const { readBody } = head;
  if (!readBody) return;
  const readThrough = async (limit: number): Promise<Buffer> => {
    const bytes = await readBody(limit).catch((thrown: unknown) => {
      showReceived(head, stages);
      throw thrown;
    });
    const frames: Frame[] = [];
    for (const frame of splitIntoFrames(bytes, (head.translated ?? head).framing, head.maxFrame))
      runStages(stages, frame, frames);
    stages.splice(0, stages.length, (frame) => (frame.kind === "end" ? frames : []));
    const pieces = frames.map((frame) => frame.bytes).filter((piece) => piece.length > 0);
    return pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
  };
  head.readBody = readThrough;
}

/** Passes what has arrived of a response that broke off through stages, once; nobody gets what they make of it. */
function showReceived(head: Head, stages: readonly Stage[]): void {
  const { received } = head;
  head.received = undefined;
  if (!received) return;
  try {
    for (const frame of received()) runStages(stages, frame, []);
  } catch {
    // The reason why it broke off is reported, not what that did to a stage.
  }
}
