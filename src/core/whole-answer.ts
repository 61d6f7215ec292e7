import type { Frame } from "../wire/frame.ts";
import { framesOf } from "./answer-frames.ts";
import type { Head } from "./exchange.ts";
import { passStages, type Stage } from "./stage.ts";

/**
 * Makes `head.whole` return the response as these stages leave it: all frames are then passed through them at once, and one stage
 * that emits the result replaces them.
 * @param stages of the plugins so far; more may follow
 */
export function wholeBehind(head: Head, stages: Stage[]): void {
  const { whole } = head;
  if (!whole) return;
  head.whole = async (limit) => {
    const bytes = await whole(limit);
    const frames: Frame[] = [];
    for (const frame of framesOf(bytes, (head.translated ?? head).framing)) passStages(stages, frame, frames);
    stages.splice(0, stages.length, (frame) => (frame.kind === "end" ? frames : []));
    return Buffer.concat(frames.map((frame) => frame.bytes));
  };
}
