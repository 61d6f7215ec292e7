import { ArraySplitter } from "../wire/array.ts";
import { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";
import { GatewayError } from "./errors.ts";

/** The frame after the last one of a response. */
export const END_FRAME = new Frame("end", Buffer.alloc(0));

/** Bytes that are split together: thousands of small frames take long enough for one turn of the event loop. */
const SPLIT_TOGETHER = 64 * 1024;
/** Maximum frames of a response that is buffered: one may have three bytes, and takes a hundred times as many in memory. */
const MAX_FRAMES = 500_000;

/**
 * Splits a complete response into the frames it would have been streamed in, followed by the end frame.
 * @throws GatewayError `upstream_invalid` where a frame is too large, or there are too many
 */
export const splitIntoFrames = (...response: Parameters<typeof splitInGroups>): Frame[] =>
  [...splitInGroups(...response)].flat();

/** Does the same in groups of frames, for a caller that gives other work a turn between them. @throws as `splitIntoFrames` */
export function* splitInGroups(
  bytes: Buffer,
  framing: "sse" | "array" | undefined,
  maxFrame?: number,
): Iterable<Frame[]> {
  if (framing) {
    const splitter = splitterOf(framing, maxFrame);
    try {
      yield* splitGroups(splitter, bytes);
      const rest = splitter.end();
      if (rest) yield [new Frame(framing === "sse" ? "event" : "element", rest)];
    } catch (thrown) {
      throw GatewayError.from(thrown, "upstream_invalid");
    }
  } else yield splitReceived(bytes, framing);
  yield [END_FRAME];
}

/**
 * Splits the beginning of a response into the frames that are complete; unframed bytes are one piece.
 * @throws Error where a frame is too large, or there are too many
 */
export function splitReceived(bytes: Buffer, framing: "sse" | "array" | undefined, maxFrame?: number): Frame[] {
  if (framing) return [...splitGroups(splitterOf(framing, maxFrame), bytes)].flat();
  return bytes.length === 0 ? [] : [new Frame("piece", bytes)];
}

function* splitGroups(splitter: SseSplitter | ArraySplitter, bytes: Buffer): Iterable<Frame[]> {
  let count = 0;
  for (let start = 0; start < bytes.length; start += SPLIT_TOGETHER) {
    const frames = splitter.push(bytes.subarray(start, start + SPLIT_TOGETHER));
    count += frames.length;
    if (count > MAX_FRAMES) throw new Error(`The answer has more than ${MAX_FRAMES} events.`);
    yield frames;
  }
}

/** @param maxFrame maximum bytes of a frame; default 16 MiB */
export const splitterOf = (framing: "sse" | "array", maxFrame?: number): SseSplitter | ArraySplitter =>
  framing === "sse" ? new SseSplitter(maxFrame) : new ArraySplitter(maxFrame);
