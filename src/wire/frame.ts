import { CLOSE_ARRAY, COLON, COMMA, CR, findByte, LF, OPEN_ARRAY, SPACE } from "./grammar.ts";
import { containsError, containsWord, mayContain } from "./may-contain.ts";
import { inOwnMemory } from "./own-memory.ts";
import { type ByteSpan, type Edit, splice } from "./splice.ts";
import { parseJson } from "./values.ts";

/**
 * A piece of a response as seen by stages.
 *
 * - `event`: one complete server-sent event, including the blank line
 * - `element`: one complete element of a JSON array stream, with the separators around it
 * - `piece`: bytes of a body that is not a stream, with arbitrary boundaries
 * - `end`: no bytes, once: the whole response has been received, and its transfer ended as HTTP requires. It says nothing about
 *   the protocol's own ending: it also follows an error event, and a stream that stops without its terminal event, until `sse`,
 *   the first plugin of a chain, breaks that off. Stages may still add frames here.
 */
export type FrameKind = "event" | "element" | "piece" | "end";

const EVENT = Buffer.from("event");
const TEXT = Buffer.from("data");
const LINE = Buffer.from("\n");

/** Bytes with a view that is parsed on demand. */
export class Frame {
  private parsed: { value: unknown } | undefined;
  private fields: { event: string | undefined; text: string | undefined } | undefined;
  private errorFound: boolean | undefined;

  /**
   * @param current its bytes
   * @param bomLength number of bytes before the first field that do not belong to it: a stream's byte order mark
   * @param hasComment whether a line of an event is a comment
   */
  constructor(
    readonly kind: FrameKind,
    private current: Buffer,
    private readonly bomLength = 0,
    readonly hasComment = false,
  ) {}

  get bytes(): Buffer {
    return this.current;
  }

  /**
   * Takes as little memory as possible, for a frame that is kept for long: its bytes would keep alive the whole read that they are a
   * part of. What was parsed is parsed again on demand.
   */
  detach(): void {
    this.current = inOwnMemory(this.current);
    this.parsed = undefined;
    this.fields = undefined;
  }

  /** The event's name; undefined when it has none (SSE reads that as `message`). */
  get event(): string | undefined {
    return this.parseFields().event;
  }

  /** The event's data lines joined by newlines, or an element's JSON text; undefined when there is none. */
  get text(): string | undefined {
    return this.parseFields().text;
  }

  /** Returns the data as JSON, parsed once; undefined when it is not JSON. */
  json(): unknown {
    this.parsed ??= { value: this.text === undefined ? undefined : parseJson(this.text) };
    return this.parsed.value;
  }

  /**
   * Reports whether its bytes may contain a member whose value begins with the byte `opening`, by default a brace. A fast check
   * without parsing: it may report a member at another place, but never misses one.
   * @param members one, or a constant list of which any is enough
   */
  mayContain(members: string | readonly string[], opening?: number): boolean {
    return mayContain(this.bytes, members, opening);
  }

  /**
   * Whether its bytes contain the word "error" in any case; of more than 2 KiB, in a usual one. Searched once, as it is asked about
   * several times.
   */
  get mayHoldError(): boolean {
    this.errorFound ??= containsError(this.current);
    return this.errorFound;
  }

  /** Reports whether its bytes contain a word, at any place. */
  containsWord(word: string): boolean {
    return containsWord(this.bytes, word);
  }

  /** The original bytes of `text`; empty when there is none. */
  get data(): Buffer {
    const parts = this.spans().flatMap(({ start, end }) => [LINE, this.bytes.subarray(start, end)]);
    return parts.length === 2 ? (parts[1] as Buffer) : Buffer.concat(parts.slice(1));
  }

  /** Returns the frame with edits at offsets in its `data`, which is JSON; all other fields are kept. */
  edited(edits: readonly Edit[]): Frame {
    const spans = this.spans();
    const [first, last] = [spans[0], spans.at(-1)];
    if (edits.length === 0 || !first || !last) return this;
    const data = splice([this.data], edits);
    const parts = [this.bytes.subarray(0, first.start), ...data, this.bytes.subarray(last.end)];
    // Data on several lines is joined into one: JSON has line breaks only between its tokens.
    if (spans.length > 1) {
      const separators = spans.slice(1).map(({ start }, i) => this.bytes.toString("utf8", spans[i]?.end, start));
      const otherLines = separators.flatMap((text) => text.split(/\r\n|\r|\n/).slice(1, -1)).map((line) => `\n${line}`);
      const line = Buffer.concat(data).toString().replaceAll("\n", " ");
      parts.splice(1, data.length, Buffer.from(line + otherLines.join("")));
    }
    return new Frame(this.kind, Buffer.concat(parts), this.bomLength, this.hasComment);
  }

  /** Returns the positions of its data: a span for each data line. */
  private spans(): ByteSpan[] {
    const spans: ByteSpan[] = [];
    if (this.kind === "event") readEvent(this.bytes, this.bomLength, spans);
    else readElement(this.bytes, spans);
    return spans;
  }

  private parseFields() {
    this.fields ??=
      this.kind === "event"
        ? readEvent(this.bytes, this.bomLength)
        : { event: undefined, text: readElement(this.bytes) };
    return this.fields;
  }
}

const SPACES = new Set(Buffer.from(" \t\r\n"));

/**
 * Returns an array element without the `[` or `,` before it, the `]` or `,` after it, and white space.
 * @param spans receives its position
 */
function readElement(bytes: Buffer, spans?: ByteSpan[]): string | undefined {
  let from = 0;
  let to = bytes.length;
  const trim = (): void => {
    while (from < to && SPACES.has(bytes[from] as number)) from++;
    while (from < to && SPACES.has(bytes[to - 1] as number)) to--;
  };
  trim();
  const isFirst = bytes[from] === OPEN_ARRAY;
  if (isFirst || bytes[from] === COMMA) from++;
  trim();
  // An element that is an array itself keeps its own bracket: the splitter sends the closing bracket of the stream separately.
  const ownBracket = bytes[from] === OPEN_ARRAY;
  if (from < to && (bytes[to - 1] === COMMA || (bytes[to - 1] === CLOSE_ARRAY && !ownBracket))) to--;
  trim();
  if (from < to) spans?.push({ start: from, end: to });
  return from === to ? undefined : bytes.toString("utf8", from, to);
}

/**
 * Reads the lines of one event by the WHATWG event stream rules.
 * @param spans receives the positions of the data
 */
function readEvent(
  bytes: Buffer,
  bomLength: number,
  spans?: ByteSpan[],
): { event: string | undefined; text: string | undefined } {
  let event: string | undefined;
  let text: string | undefined;
  let nextCr = -1;
  let nextLf = -1;
  for (let lineStart = bomLength; lineStart < bytes.length; ) {
    // Each is searched again only when it has been passed: a stream may have only one of them.
    if (nextCr < lineStart) nextCr = findByte(bytes, CR, lineStart);
    if (nextLf < lineStart) nextLf = findByte(bytes, LF, lineStart);
    const end = Math.min(nextCr, nextLf);
    const value = valueAt(bytes, lineStart, end, TEXT);
    if (value >= 0) {
      const line = bytes.toString("utf8", value, end);
      spans?.push({ start: value, end });
      text = text === undefined ? line : `${text}\n${line}`;
    } else {
      const name = valueAt(bytes, lineStart, end, EVENT);
      if (name >= 0) event = bytes.toString("utf8", name, end) || undefined;
    }
    lineStart = end + (bytes[end] === CR && bytes[end + 1] === LF ? 2 : 1);
  }
  return { event, text };
}

/** Returns the start of a field's value, or -1 when the line is another field. A name cannot contain a line end. */
function valueAt(bytes: Buffer, lineStart: number, end: number, name: Buffer): number {
  for (let i = 0; i < name.length; i++) if (bytes[lineStart + i] !== name[i]) return -1;
  const colon = lineStart + name.length;
  if (colon === end) return end;
  if (bytes[colon] !== COLON) return -1;
  return colon + (bytes[colon + 1] === SPACE ? 2 : 1);
}

/**
 * The bytes of an incomplete frame. They are held in one buffer that grows by doubling, so that neither time nor memory depends
 * on the size of the chunks, and no chunk is kept alive by its last bytes.
 */
export class FrameBuffer {
  private buffer: Buffer = Buffer.alloc(0);
  private length = 0;

  /**
   * @param max maximum bytes of one frame
   * @param frameName names the frame in the error
   */
  constructor(
    private readonly max: number,
    private readonly frameName: string,
  ) {}

  /**
   * Holds bytes.
   * @throws Error when the frame is too large
   */
  add(bytes: Buffer): void {
    const length = this.length + bytes.length;
    this.check(length);
    if (length > this.buffer.length) {
      const grown = Buffer.allocUnsafe(2 * length);
      this.buffer.copy(grown, 0, 0, this.length);
      this.buffer = grown;
    }
    bytes.copy(this.buffer, this.length);
    this.length = length;
  }

  /** Returns the held bytes and the chunk's bytes `from` to `to`, which end the frame; a view of the chunk if none are held. */
  complete(chunk: Buffer, from: number, to: number): Buffer {
    if (this.length === 0) {
      this.check(to - from);
      return from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to);
    }
    this.add(chunk.subarray(from, to));
    return this.take() as Buffer;
  }

  /** Returns and releases the held bytes; undefined when there are none. */
  take(): Buffer | undefined {
    if (this.length === 0) return undefined;
    const bytes = this.buffer.subarray(0, this.length);
    this.buffer = Buffer.alloc(0);
    this.length = 0;
    return bytes;
  }

  /** Number of held bytes. */
  get size(): number {
    return this.length;
  }

  private check(length: number): void {
    if (length > this.max) throw new Error(`${this.frameName} of the stream is larger than ${this.max} bytes.`);
  }
}
