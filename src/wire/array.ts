import { Frame, Rest } from "./frame.ts";
import { BACKSLASH, findByte, QUOTE, skipPlain } from "./grammar.ts";

const COMMA = 44;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** Bytes of a string looked at one by one before the machine's own search goes on from there. */
const LEAP = 128;
/** Bytes of one such search: with many escapes and a far end, searching to the end each time would be quadratic. */
const WINDOW = 4096;

/** What a byte can be where no string is open. */
const [OTHER, SPACE, SEPARATOR, OPEN, CLOSE, STRING] = [0, 1, 2, 3, 4, 5] as const;
const CLASSES = new Uint8Array(256);
for (const byte of Buffer.from(" \t\n\r")) CLASSES[byte] = SPACE;
CLASSES[COMMA] = SEPARATOR;
CLASSES[OPEN_ARRAY] = CLASSES[OPEN_OBJECT] = OPEN;
CLASSES[CLOSE_ARRAY] = CLASSES[CLOSE_OBJECT] = CLOSE;
CLASSES[QUOTE] = STRING;

/**
 * Cuts a stream that is one JSON array into its elements while chunks arrive, cut anywhere. An element leaves at once
 * when it is whole, with the bracket, comma and white space before it; the bracket that closes the array, and anything
 * behind it, are frames without text. The frames' bytes put together are exactly the stream's. What is no array passes
 * too: a lone value is one element.
 */
export class ArraySplitter {
  private readonly rest: Rest;
  /** Containers open, the array itself not counted. */
  private depth = 0;
  private inArray = false;
  private done = false;
  private inString = false;
  private escaped = false;
  /** A number or word has begun; only what follows tells where it ends. */
  private inWord = false;

  /** @param maxElement bytes of one element; 16 MiB. */
  constructor(maxElement = 16 << 20) {
    this.rest = new Rest(maxElement, "An element");
  }

  /** The elements that this chunk completes. @throws Error when one is too large */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    const n = chunk.length;
    let start = 0;
    let i = 0;
    const cut = (to: number): void => {
      frames.push(new Frame("element", this.rest.complete(chunk, start, to)));
      start = to;
    };
    while (i < n && !this.done) {
      if (this.inString) {
        i = this.string(chunk, i);
        if (!this.inString && this.depth === 0) {
          this.done = !this.inArray;
          cut(i);
        }
        continue;
      }
      const kind = CLASSES[chunk[i] as number];
      if (this.inWord && kind !== OTHER) {
        this.inWord = false;
        cut(i);
      }
      i++;
      if (kind === STRING) this.inString = true;
      else if (kind === OTHER) this.inWord = this.depth === 0;
      else if (kind === OPEN) this.open(chunk[i - 1] as number);
      else if (kind === CLOSE && this.close()) cut(i);
    }
    if (this.done && start < n) cut(n);
    else if (start < n) this.rest.add(start === 0 ? chunk : chunk.subarray(start));
    return frames;
  }

  /** The stream has ended. Answers the bytes behind the last whole element, when the closing bracket is not among them. */
  end(): Buffer | undefined {
    return this.rest.take();
  }

  private open(byte: number): void {
    if (this.depth === 0 && !this.inArray && byte === OPEN_ARRAY) this.inArray = true;
    else this.depth++;
  }

  /** True when an element or the whole array has ended. */
  private close(): boolean {
    if (this.depth > 0) this.depth--;
    else this.done = true;
    if (this.depth === 0 && !this.inArray) this.done = true;
    return this.depth === 0;
  }

  /** The rest of a string; answers the place behind its end, or behind the chunk. */
  private string(chunk: Buffer, from: number): number {
    const n = chunk.length;
    let i = this.escaped ? from + 1 : from;
    this.escaped = false;
    for (;;) {
      const limit = Math.min(n, i + LEAP);
      i = skipPlain(chunk, i, limit);
      if (i >= n) return n;
      if (i === limit) i = findEnd(chunk, i);
      if (i >= n) return n;
      if (chunk[i] === QUOTE) {
        this.inString = false;
        return i + 1;
      }
      i += chunk[i] === BACKSLASH ? 2 : 1;
      if (i > n) this.escaped = true;
    }
  }
}

/** The next quote or backslash, if one of the next few thousand bytes is one; else how far this search went. */
function findEnd(chunk: Buffer, from: number): number {
  const window = chunk.subarray(from, from + WINDOW);
  return from + Math.min(findByte(window, QUOTE, 0), findByte(window, BACKSLASH, 0));
}
