import { ArraySplitter } from "../wire/array.ts";
import { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";
import { GatewayError } from "./errors.ts";

const END = new Frame("end", Buffer.alloc(0));

/**
 * Splits a complete response into the frames it would have been streamed in, followed by the end frame.
 * @throws GatewayError `upstream_invalid` where a frame is too large
 */
export function splitIntoFrames(bytes: Buffer, framing: "sse" | "array" | undefined, maxFrame?: number): Frame[] {
  if (!framing) return [...splitReceived(bytes, framing), END];
  const splitter = splitterOf(framing, maxFrame);
  try {
    const frames = splitter.push(bytes);
    const rest = splitter.end();
    if (rest) frames.push(new Frame(framing === "sse" ? "event" : "element", rest));
    return [...frames, END];
  } catch (thrown) {
    throw GatewayError.from(thrown, "upstream_invalid");
  }
}

/** Splits the beginning of a response into the frames that are complete; unframed bytes are one piece. */
export function splitReceived(bytes: Buffer, framing: "sse" | "array" | undefined, maxFrame?: number): Frame[] {
  if (framing) return splitterOf(framing, maxFrame).push(bytes);
  return bytes.length === 0 ? [] : [new Frame("piece", bytes)];
}

/** @param maxFrame maximum bytes of a frame; default 16 MiB */
export const splitterOf = (framing: "sse" | "array", maxFrame?: number): SseSplitter | ArraySplitter =>
  framing === "sse" ? new SseSplitter(maxFrame) : new ArraySplitter(maxFrame);
