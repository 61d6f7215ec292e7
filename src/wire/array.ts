import { Frame, FrameBuffer } from "./frame.ts";
import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COMMA,
  findByte,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  skipPlain,
} from "./grammar.ts";

/** Bytes of a string that are read one by one before the native search continues from there. */
const MAX_BYTEWISE = 128;
/** Bytes of one native search: with many escapes and a distant end, searching to the end each time would be quadratic. */
const SEARCH_WINDOW = 4096;

/** What a byte can be outside of a string. */
const [OTHER, SPACE, SEPARATOR, OPEN, CLOSE, STRING] = [0, 1, 2, 3, 4, 5] as const;
const CLASSES = new Uint8Array(256);
for (const byte of Buffer.from(" \t\n\r")) CLASSES[byte] = SPACE;
CLASSES[COMMA] = SEPARATOR;
CLASSES[OPEN_ARRAY] = CLASSES[OPEN_OBJECT] = OPEN;
CLASSES[CLOSE_ARRAY] = CLASSES[CLOSE_OBJECT] = CLOSE;
CLASSES[QUOTE] = STRING;

/**
 * Splits a stream that is one JSON array into its elements while chunks arrive, with arbitrary boundaries. An element is emitted
 * as soon as it is complete, with the bracket, comma and white space before it; the closing bracket of the array is a frame without
 * text, and anything after it passes as it comes. The frames' bytes concatenated are exactly the stream's. A stream that is not an
 * array passes too: a single value is one element.
 */
export class ArraySplitter {
  private readonly buffer: FrameBuffer;
  /** Open containers, not counting the array itself. */
  private depth = 0;
  private inArray = false;
  private done = false;
  private inString = false;
  private escaped = false;
  /** A number or literal has begun; only the next byte shows its end. */
  private inWord = false;

  /** @param maxElement maximum bytes of one element; default 16 MiB */
  constructor(maxElement = 16 << 20) {
    this.buffer = new FrameBuffer(maxElement, "An element");
  }

  /**
   * Returns the elements that this chunk completes.
   * @throws Error when one is too large
   */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    const end = chunk.length;
    let start = 0;
    let i = 0;
    const emit = (to: number): void => {
      frames.push(new Frame("element", this.buffer.complete(chunk, start, to)));
      start = to;
    };
    while (i < end && !this.done) {
      if (this.inString) {
        i = this.string(chunk, i);
        if (!this.inString && this.depth === 0) {
          this.done = !this.inArray;
          emit(i);
        }
        continue;
      }
      const kind = CLASSES[chunk[i] as number];
      if (this.inWord && kind !== OTHER) {
        this.inWord = false;
        emit(i);
      }
      i++;
      if (kind === STRING) this.inString = true;
      else if (kind === OTHER) this.inWord = this.depth === 0;
      else if (kind === OPEN) this.open(chunk[i - 1] as number);
      else if (kind === CLOSE && this.close()) emit(i);
    }
    if (this.done && start < end) emit(end);
    else if (start < end) this.buffer.add(start === 0 ? chunk : chunk.subarray(start));
    return frames;
  }

  /** Number of bytes that are buffered of an incomplete element. */
  get bufferedBytes(): number {
    return this.buffer.size;
  }

  /** Ends the stream. Returns the bytes after the last complete element, if they lack the closing bracket. */
  end(): Buffer | undefined {
    return this.buffer.take();
  }

  private open(byte: number): void {
    if (this.depth === 0 && !this.inArray && byte === OPEN_ARRAY) this.inArray = true;
    else this.depth++;
  }

  /** Returns true when an element or the whole array has ended. */
  private close(): boolean {
    if (this.depth > 0) this.depth--;
    else this.done = true;
    if (this.depth === 0 && !this.inArray) this.done = true;
    return this.depth === 0;
  }

  /** Reads the rest of a string; returns the position after its end, or after the chunk. */
  private string(chunk: Buffer, from: number): number {
    const end = chunk.length;
    let i = this.escaped ? from + 1 : from;
    this.escaped = false;
    for (;;) {
      const limit = Math.min(end, i + MAX_BYTEWISE);
      i = skipPlain(chunk, i, limit);
      if (i >= end) return end;
      if (i === limit) i = findEnd(chunk, i);
      if (i >= end) return end;
      if (chunk[i] === QUOTE) {
        this.inString = false;
        return i + 1;
      }
      i += chunk[i] === BACKSLASH ? 2 : 1;
      if (i > end) this.escaped = true;
    }
  }
}

/** Returns the position of the next quote or backslash, or the end of this search window. */
function findEnd(chunk: Buffer, from: number): number {
  const window = chunk.subarray(from, from + SEARCH_WINDOW);
  return from + Math.min(findByte(window, QUOTE, 0), findByte(window, BACKSLASH, 0));
}
