import type { Credential } from "../core/marketplace.ts";

/** Bytes: a shorter credential, like that of a local server, may be a word of any text. */
const MIN_CREDENTIAL = 20;
/** Bytes with which keys of a vendor begin: where a piece ends with no more of the credential, it may be any key. */
const MAX_BEGINNING = 16;
const STAR = 42;

/** A credential to search for, and the shift for each byte below its last position (Horspool). */
interface Search {
  readonly secret: Buffer;
  readonly skip: Uint8Array;
  /** For each byte, whether the credential contains it. */
  readonly contains: Uint8Array;
}

const searches = new WeakMap<Credential, Search>();

function searchFor(credential: Credential): Search {
  let search = searches.get(credential);
  if (search) return search;
  const secret = Buffer.from(credential.secret);
  const last = secret.length - 1;
  const skip = new Uint8Array(256).fill(Math.min(255, secret.length));
  for (let i = Math.max(0, last - 255); i < last; i++) skip[secret[i] as number] = last - i;
  const contains = new Uint8Array(256);
  for (const byte of secret) contains[byte] = 1;
  search = { secret, skip, contains };
  searches.set(credential, search);
  return search;
}

/**
 * Masks the credential of an attempt in its successful answer, where that repeats it to the letter: errors are redacted, in which a
 * provider repeats what it was sent. A mask is as long as the credential, so that no length changes.
 */
export class CredentialMask {
  private readonly secret: Buffer;
  private readonly skip: Uint8Array;
  private readonly contains: Uint8Array;
  /** Bytes of the credential with which the pieces so far have ended. */
  private matched = 0;

  private constructor({ secret, skip, contains }: Search) {
    this.secret = secret;
    this.skip = skip;
    this.contains = contains;
  }

  /** Returns a mask for one answer; undefined: there is no credential, or a short one. */
  static of(credential: Credential | undefined): CredentialMask | undefined {
    const isShort = credential === undefined || credential.secret.length < MIN_CREDENTIAL;
    return isShort ? undefined : new CredentialMask(searchFor(credential));
  }

  /** Reports whether bytes contain it. */
  isIn(bytes: Buffer): boolean {
    return this.indexIn(bytes, 0) >= 0;
  }

  /** Returns a copy of bytes with the mask. */
  masked(bytes: Buffer): Buffer {
    const copy = Buffer.from(bytes);
    this.maskFrom(copy, 0);
    return copy;
  }

  /** Masks it in the next piece of a body, in place. Of one that pieces cut, no more than its beginning passes. */
  apply(piece: Buffer): void {
    const continued = this.continue(piece);
    if (continued === piece.length && this.matched > 0) return;
    const from = this.maskFrom(piece, continued);
    this.matched = this.beginningAt(piece, from);
    this.hide(piece, piece.length - this.matched, 0, this.matched);
  }

  /** Masks the continuation of what the last piece ended with. Returns where that ends. */
  private continue(piece: Buffer): number {
    const { matched, secret } = this;
    if (matched === 0) return 0;
    const length = Math.min(piece.length, secret.length - matched);
    const isContinued = secret.compare(piece, 0, length, matched, matched + length) === 0;
    this.matched = isContinued && matched + length < secret.length ? matched + length : 0;
    if (!isContinued) return 0;
    if (this.matched === 0) piece.fill(STAR, 0, length);
    else this.hide(piece, 0, matched, length);
    return length;
  }

  /** Masks bytes of an incomplete credential, but for those of its beginning. @param offset of them in the credential */
  private hide(piece: Buffer, at: number, offset: number, length: number): void {
    const shown = Math.max(0, MAX_BEGINNING - offset);
    if (shown < length) piece.fill(STAR, at + shown, at + length);
  }

  /** Masks each whole one. Returns where the last one ends. */
  private maskFrom(bytes: Buffer, from: number): number {
    const { length } = this.secret;
    let end = from;
    for (let at = this.indexIn(bytes, from); at >= 0; at = this.indexIn(bytes, end)) {
      end = at + length;
      bytes.fill(STAR, at, end);
    }
    return end;
  }

  private indexIn(bytes: Buffer, from: number): number {
    const { secret, skip } = this;
    const last = secret.length - 1;
    for (let end = from + last; end < bytes.length; end += skip[bytes[end] as number] as number) {
      let i = last;
      while (i >= 0 && bytes[end - last + i] === secret[i]) i--;
      if (i < 0) return end - last;
    }
    return -1;
  }

  /** Returns how many bytes of the credential's beginning the piece ends with. */
  private beginningAt(piece: Buffer, from: number): number {
    const { secret, contains } = this;
    // The end of an event or of a JSON text is nearly never a byte of it.
    if (contains[piece.at(-1) ?? 0] === 0) return 0;
    for (let at = Math.max(from, piece.length - secret.length + 1); at < piece.length; at++)
      if (piece[at] === secret[0] && piece.compare(secret, 0, piece.length - at, at) === 0) return piece.length - at;
    return 0;
  }
}
