import { ArraySplitter } from "../wire/array.ts";
import { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";

const END = new Frame("end", Buffer.alloc(0));

/** Splits a complete response into the frames it would have been streamed in, followed by the end frame. */
export function splitIntoFrames(bytes: Buffer, framing: "sse" | "array" | undefined): Frame[] {
  if (!framing) return bytes.length === 0 ? [END] : [new Frame("piece", bytes), END];
  const splitter = framing === "sse" ? new SseSplitter() : new ArraySplitter();
  const frames = splitter.push(bytes);
  const rest = splitter.end();
  if (rest) frames.push(new Frame(framing === "sse" ? "event" : "element", rest));
  return [...frames, END];
}
