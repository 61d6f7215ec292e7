import { Frame, FrameBuffer } from "./frame.ts";
import { COLON, CR, findByte, LF } from "./grammar.ts";

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/** Bytes of a line that are read one by one before the native search continues from there. */
const MAX_BYTEWISE = 16;
/** Maximum lines of one event: who reads it looks at each of them, and other requests wait meanwhile. */
const MAX_LINES = 65_536;

/**
 * Splits a server-sent event stream into its events while chunks arrive, with arbitrary boundaries. The frames' bytes
 * concatenated are exactly the stream's: an event includes its blank line, and comments, unknown fields and extra blank lines
 * pass, these in one frame where they follow each other. Lines may end in LF, CR LF or CR (https://html.spec.whatwg.org/#event-stream-interpretation).
 */
export class SseSplitter {
  private readonly buffer: FrameBuffer;
  /** Whether the current line is empty so far. */
  private blank = true;
  /** The last byte was a CR: a LF that follows belongs to the same line end. */
  private afterCr = false;
  /** An event has ended with that CR, and waits for a possible LF. */
  private awaitsLf = false;
  /** A CR has occurred alone, so that a CR ends a line here without waiting for a LF. */
  private hasLoneCr = false;
  private first = true;
  /** A line of the current event is a comment. */
  private hasComment = false;
  /** Lines of the current event so far. */
  private lines = 0;
  private nextCr = -1;
  private nextLf = -1;

  /** @param maxEvent maximum bytes of one event; default 16 MiB */
  constructor(maxEvent = 16 << 20) {
    this.buffer = new FrameBuffer(maxEvent, "An event");
  }

  /**
   * Returns the events that this chunk completes.
   * @throws Error when one is too large, or has too many lines
   */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    const length = chunk.length;
    if (length === 0) return frames;
    this.nextCr = this.nextLf = -1;
    let start = 0;
    let i = 0;
    if (this.afterCr) {
      this.afterCr = false;
      if (chunk[0] === LF) i = 1;
      else this.hasLoneCr = true;
      if (this.awaitsLf) start = this.endEvent(frames, chunk, start, i);
    }
    while (i < length) {
      if (this.blank && chunk[i] === COLON) this.hasComment = true;
      const end = this.lineEnd(chunk, i, length);
      if (end > i) this.blank = false;
      if (end === length) break;
      i = end + 1;
      if (chunk[end] === CR) {
        if (i === length) this.afterCr = true;
        else if (chunk[i] === LF) i++;
        else this.hasLoneCr = true;
      }
      if (!this.blank) {
        this.blank = true;
        if (++this.lines > MAX_LINES) throw new Error(`An event of the stream has more than ${MAX_LINES} lines.`);
        continue;
      }
      if (end === start && this.buffer.size === 0) i = this.blankLinesEnd(chunk, i);
      if (this.afterCr && !this.hasLoneCr) this.awaitsLf = true;
      else start = this.endEvent(frames, chunk, start, i);
    }
    if (start < length) this.buffer.add(start === 0 ? chunk : chunk.subarray(start));
    return frames;
  }

  /** Number of bytes that are buffered of an incomplete event. */
  get bufferedBytes(): number {
    return this.buffer.size;
  }

  /** Ends the stream. Returns the bytes of an event without its blank line, if any. */
  end(): Buffer | undefined {
    return this.buffer.take();
  }

  /** Ends an event before the chunk's byte `to`; returns the start of the next one. */
  private endEvent(frames: Frame[], chunk: Buffer, from: number, to: number): number {
    this.awaitsLf = false;
    const bytes = this.buffer.complete(chunk, from, to);
    const bomLength = this.first && BYTE_ORDER_MARK.every((byte, i) => bytes[i] === byte) ? BYTE_ORDER_MARK.length : 0;
    this.first = false;
    if (bomLength > 0 && bytes[bomLength] === COLON) this.hasComment = true;
    frames.push(new Frame("event", bytes, bomLength, this.hasComment));
    this.hasComment = false;
    this.lines = 0;
    return to;
  }

  /** Returns the end of blank lines that follow each other: they are one frame, as a frame for each would block other requests. */
  private blankLinesEnd(chunk: Buffer, from: number): number {
    let i = from;
    for (; i < chunk.length; i++) {
      if (chunk[i] === LF) continue;
      // A last CR may be followed by its LF.
      if (chunk[i] !== CR || i + 1 === chunk.length) break;
      if (chunk[i + 1] !== LF) this.hasLoneCr = true;
    }
    return i;
  }

  private lineEnd(chunk: Buffer, from: number, length: number): number {
    const limit = Math.min(length, from + MAX_BYTEWISE);
    for (let i = from; i < limit; i++) {
      const byte = chunk[i] as number;
      if (byte < 14 && (byte === LF || byte === CR)) return i;
    }
    if (limit === length) return length;
    if (this.nextLf < limit) this.nextLf = findByte(chunk, LF, limit);
    if (this.nextCr < limit) this.nextCr = findByte(chunk, CR, limit);
    return Math.min(this.nextLf, this.nextCr);
  }
}
