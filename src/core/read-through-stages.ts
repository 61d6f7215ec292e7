import type { Frame } from "../wire/frame.ts";
import { splitIntoFrames } from "./answer-frames.ts";
import type { Head } from "./exchange.ts";
import { runStages, type Stage } from "./stage.ts";

/**
 * Makes `head.readBody` return the response as these stages leave it: all frames are then passed through them at once, and one
 * stage that emits the result replaces them.
 * @param stages of the plugins so far; more may follow
 */
export function readThroughStages(head: Head, stages: Stage[]): void {
  const { readBody } = head;
  if (!readBody) return;
  head.readBody = async (limit) => {
    const bytes = await readBody(limit);
    const frames: Frame[] = [];
    for (const frame of splitIntoFrames(bytes, (head.translated ?? head).framing)) runStages(stages, frame, frames);
    stages.splice(0, stages.length, (frame) => (frame.kind === "end" ? frames : []));
    return Buffer.concat(frames.map((frame) => frame.bytes));
  };
}
