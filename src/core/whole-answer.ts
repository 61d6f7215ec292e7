import { ArraySplitter } from "../wire/array.ts";
import { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";
import type { Head } from "./exchange.ts";
import { passStages, type Stage } from "./stage.ts";

const END = new Frame("end", Buffer.alloc(0));

/**
 * Makes `head.whole` give an answer as some stages leave it: they see all of it then, and what they made of it stands in
 * their place.
 * @param stages those of the plugins so far; more may follow
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

/** A whole answer as the frames in which it would have come, and its end. */
function framesOf(bytes: Buffer, framing: Head["framing"]): Frame[] {
  if (!framing) return bytes.length === 0 ? [END] : [new Frame("piece", bytes), END];
  const splitter = framing === "sse" ? new SseSplitter() : new ArraySplitter();
  const frames = splitter.push(bytes);
  const rest = splitter.end();
  if (rest) frames.push(new Frame(framing === "sse" ? "event" : "element", rest));
  return [...frames, END];
}
