import type { ByteSpan } from "../wire/splice.ts";

const LINE = Buffer.from("\r\n");
const HEAD_END = Buffer.from("\r\n\r\n");

/**
 * Finds one short text field of a multipart/form-data body while its pieces arrive. What lies in front of the field is
 * passed over and not kept.
 */
export class FieldFinder {
  /** Where the field's value stands in the body; set once it has been seen whole. */
  found: ByteSpan | undefined;

  private readonly delimiter: Buffer;
  private readonly wanted: RegExp;
  /** Bytes not yet decided on. The line break that a body's first delimiter lacks is put in front in thought. */
  private rest: Buffer = LINE;
  /** Where `rest` starts in the body. */
  private at = -LINE.length;
  private seeking = true;

  constructor(boundary: string, field: string) {
    this.delimiter = Buffer.from(`\r\n--${boundary}`);
    this.wanted = new RegExp(`^content-disposition:[^\\r\\n]*;\\s*name="?${field}"?\\s*(?:;|$)`, "im");
  }

  push(piece: Buffer): void {
    if (this.found) return;
    this.rest = Buffer.concat([this.rest, piece]);
    while (this.step());
  }

  /** One part further; false: more bytes are needed, or the field is found. */
  private step(): boolean {
    if (this.seeking) {
      const next = this.rest.indexOf(this.delimiter);
      this.drop(next < 0 ? Math.max(0, this.rest.length - this.delimiter.length + 1) : next + this.delimiter.length);
      this.seeking = next < 0;
      return next >= 0;
    }
    const head = this.rest.indexOf(HEAD_END);
    if (head < 0) return false;
    if (!this.wanted.test(this.rest.toString("latin1", 0, head))) {
      // The second line break of the head may belong to the next delimiter: an empty part.
      this.drop(head + LINE.length);
      this.seeking = true;
      return true;
    }
    const close = this.rest.indexOf(this.delimiter, head + LINE.length);
    if (close < 0) return false;
    const start = Math.min(head + HEAD_END.length, close);
    this.found = { start: this.at + start, end: this.at + close };
    return false;
  }

  private drop(bytes: number): void {
    this.rest = this.rest.subarray(bytes);
    this.at += bytes;
  }
}

/** The boundary of a multipart content-type, or undefined. */
export function boundaryOf(contentType: string): string | undefined {
  if (!/^multipart\/form-data\s*;/i.test(contentType)) return undefined;
  return /;\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType)?.slice(1).find(Boolean);
}
