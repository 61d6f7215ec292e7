import { isUtf8 } from "node:buffer";

const EMPTY = Buffer.alloc(0);

/** Checks that pieces of a text together are strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
export class Utf8Validator {
  /** The first bytes of a character that the last piece cut. */
  private cut: Buffer = EMPTY;
  /** Bytes before the next piece. */
  private base = 0;

  /** Takes the next piece. Returns the offset of the first invalid byte in the whole text, or -1. */
  push(piece: Buffer): number {
    const from = this.cut.length === 0 ? 0 : this.completeCut(piece);
    if (from < 0) return this.base - this.cut.length;
    const to = piece.length - cutLength(piece, from);
    const whole = from === 0 && to === piece.length ? piece : piece.subarray(from, to);
    if (!isUtf8(whole)) return this.base + from + firstInvalid(whole);
    if (to < piece.length) this.cut = Buffer.from(piece.subarray(to));
    this.base += piece.length;
    return -1;
  }

  /** Ends the text. Returns the offset of an incomplete character, or -1. */
  end(): number {
    return this.cut.length === 0 ? -1 : this.base - this.cut.length;
  }

  /** Completes the cut character; returns how many bytes of the piece belong to it, or -1 when it is invalid. */
  private completeCut(piece: Buffer): number {
    const missing = lengthOf(this.cut[0] as number) - this.cut.length;
    const taken = Math.min(missing, piece.length);
    const character = Buffer.concat([this.cut, piece.subarray(0, taken)]);
    if (taken === missing) {
      if (!isUtf8(character)) return -1;
      this.cut = EMPTY;
    } else this.cut = character;
    return taken;
  }
}

/** Returns the length of a character that begins with this byte. */
function lengthOf(lead: number): number {
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

/** Returns the number of bytes at the end of a piece that begin a character continued in the next one. */
function cutLength(piece: Buffer, from: number): number {
  const most = Math.min(3, piece.length - from);
  for (let k = 1; k <= most; k++) {
    const byte = piece[piece.length - k] as number;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return lengthOf(byte) > k ? k : 0;
  }
  return 0;
}

function firstInvalid(bytes: Buffer): number {
  let at = 0;
  while (at < bytes.length) {
    const length = lengthOf(bytes[at] as number);
    if (!isUtf8(bytes.subarray(at, at + length))) break;
    at += length;
  }
  return at;
}

/** Makes a text valid for PostgreSQL and its JSON functions: without NUL and lone surrogates. */
export const sanitizeText = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");
