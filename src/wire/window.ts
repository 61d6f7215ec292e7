import { endianness } from "node:os";
import { BACKSLASH, ESCAPES, findByte, HEX, LOWER_U, QUOTE, skipPlain } from "./grammar.ts";

/** Words without a quote or backslash after which the machine's own search for a quote takes over. */
const LEAP = 64;
/** Pieces from this size on are looked at four bytes at a time. */
const LONG = 512;
const LITTLE = endianness() === "LE";

/** What `stringEnd` answers for what is wrong. */
export const FAULT = -1;

/**
 * A piece of JSON in which the ends of strings are found, four bytes at a time where that is quicker: V8 takes as long for
 * a byte as for four of them in one number, by the arithmetic that finds a zero byte in a word.
 */
export class Window {
  readonly length: number;
  private words: Int32Array | undefined;
  /** Bytes before the first whole word. */
  private readonly offset: number;

  constructor(readonly bytes: Buffer) {
    this.length = bytes.length;
    this.offset = -bytes.byteOffset & 3;
  }

  /**
   * Where the quote stands that ends a string, from inside of it. The length where the bytes end before, one more where they
   * end behind a backslash.
   * @param checked up to where escapes and control characters are checked; behind it only the end is sought
   * @returns FAULT for a control character or wrong escape, and for an escape that the piece cuts, in front of `checked`
   */
  stringEnd(from: number, checked: number): number {
    const { offset, bytes } = this;
    if (!LITTLE || this.length < LONG || from < offset) return this.byBytes(from, checked);
    this.words ??= new Int32Array(bytes.buffer, bytes.byteOffset + offset, (this.length - offset) >> 2);
    const { words } = this;
    let at = (from - offset) >> 2;
    let last = at;
    /** Where the text goes on behind an escape. */
    let next = from;
    for (; at < words.length; at++) {
      const word = words[at] as number;
      const quote = word ^ 0x22222222;
      const backslash = word ^ 0x5c5c5c5c;
      // One bit for each byte that is one of the three. Above a true one it may be wrong, and is looked at again.
      let found =
        (((quote - 0x01010101) & ~quote) | ((backslash - 0x01010101) & ~backslash) | ((word - 0x20202020) & ~word)) &
        0x80808080;
      if (found === 0) {
        if (at - last < LEAP || offset + 4 * at < checked) continue;
        const end = this.leap(Math.max(next, offset + 4 * at));
        if (end >= 0) return end;
        next = -end;
        at = ((next - offset) >> 2) - 1;
        last = at;
        continue;
      }
      last = at;
      for (; found !== 0; found &= found - 1) {
        const place = offset + 4 * at + ((31 - Math.clz32(found & -found)) >> 3);
        if (place < next) continue;
        const byte = bytes[place] as number;
        if (byte === QUOTE) return place;
        if (byte === BACKSLASH) {
          next = place + 2;
          if (place < checked && ESCAPES[bytes[place + 1] ?? 0] === 0) {
            if (!this.isUnicode(place + 1)) return FAULT;
            next = place + 6;
          }
        } else if (byte < 32 && place < checked) return FAULT;
      }
    }
    return this.byBytes(Math.max(next, offset + 4 * at), checked);
  }

  /** The same, byte by byte: at the edges of a piece. */
  private byBytes(from: number, checked: number): number {
    const { bytes, length } = this;
    let i = from;
    while (i < length) {
      i = skipPlain(bytes, i, length);
      if (i >= length) break;
      const byte = bytes[i] as number;
      if (byte === QUOTE) return i;
      if (byte !== BACKSLASH) {
        if (i < checked) return FAULT;
        i++;
      } else if (i >= checked || ESCAPES[bytes[i + 1] ?? 0] === 1) i += 2;
      else if (this.isUnicode(i + 1)) i += 6;
      else return FAULT;
    }
    return i;
  }

  /** The same by the machine's own search, for long plain text; where an escaped quote comes first, minus the place behind it. */
  leap(from: number): number {
    const { bytes } = this;
    const quote = findByte(bytes, QUOTE, from);
    let run = quote;
    while (run > from && bytes[run - 1] === BACKSLASH) run--;
    if (((quote - run) & 1) === 0) return quote;
    return quote === this.length ? quote + 1 : -(quote + 1);
  }

  /** Whether `u` and four hex digits stand there. */
  private isUnicode(at: number): boolean {
    const { bytes } = this;
    if (bytes[at] !== LOWER_U || at + 5 > bytes.length) return false;
    for (let i = at + 1; i < at + 5; i++) if (HEX[bytes[i] as number] === 0) return false;
    return true;
  }
}
