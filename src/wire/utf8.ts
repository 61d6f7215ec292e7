import { isUtf8 } from "node:buffer";

const EMPTY = Buffer.alloc(0);

/** Checks that pieces of a text together are strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
export class Utf8Validator {
  /** The first bytes of a character that the last piece cut. */
  private incomplete: Buffer = EMPTY;
  /** Bytes before the next piece. */
  private base = 0;

  /** Takes the next piece. Returns the offset of the first invalid byte in the whole text, or -1. */
  push(piece: Buffer): number {
    const from = this.incomplete.length === 0 ? 0 : this.completeCharacter(piece);
    if (from < 0) return this.base - this.incomplete.length;
    const to = piece.length - incompleteLength(piece, from);
    const complete = from === 0 && to === piece.length ? piece : piece.subarray(from, to);
    if (!isUtf8(complete)) return this.base + from + firstInvalid(complete);
    if (to < piece.length) this.incomplete = Buffer.from(piece.subarray(to));
    this.base += piece.length;
    return -1;
  }

  /** Ends the text. Returns the offset of an incomplete character, or -1. */
  end(): number {
    return this.incomplete.length === 0 ? -1 : this.base - this.incomplete.length;
  }

  /** Completes the cut character; returns how many bytes of the piece belong to it, or -1 when it is invalid. */
  private completeCharacter(piece: Buffer): number {
    const missing = lengthOf(this.incomplete[0] as number) - this.incomplete.length;
    const consumed = Math.min(missing, piece.length);
    const character = Buffer.concat([this.incomplete, piece.subarray(0, consumed)]);
    if (consumed === missing) {
      if (!isUtf8(character)) return -1;
      this.incomplete = EMPTY;
    } else this.incomplete = character;
    return consumed;
  }
}

/** Returns the length of a character that begins with this byte. */
function lengthOf(lead: number): number {
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

/** Returns the number of bytes at the end of a piece that begin a character continued in the next one. */
function incompleteLength(piece: Buffer, from: number): number {
  const longest = Math.min(3, piece.length - from);
  for (let k = 1; k <= longest; k++) {
    const byte = piece[piece.length - k] as number;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return lengthOf(byte) > k ? k : 0;
  }
  return 0;
}

function firstInvalid(bytes: Buffer): number {
  let offset = 0;
  while (offset < bytes.length) {
    const length = lengthOf(bytes[offset] as number);
    if (!isUtf8(bytes.subarray(offset, offset + length))) break;
    offset += length;
  }
  return offset;
}

/** Makes a text valid for PostgreSQL and its JSON functions: without NUL and lone surrogates. */
export const sanitizeText = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");
