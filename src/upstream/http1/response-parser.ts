import { loadLines } from "../../wire/window.ts";
import { Http1Error } from "./errors.ts";
import { checkTrailers, ExpectedFields, isBlank, isText, ParsedHead, type ResponseHead } from "./response-head.ts";

/** Receives the parts of a response. */
export interface ParserListener {
  /** Called with the head of the final response. */
  onHead(head: ResponseHead): void;
  /** Called with bytes of the body; the buffer is reused after this returns. */
  onBody(bytes: Buffer): void;
  onEnd(): void;
}

/** Limit in bytes of a head or a trailer section; vendors stay below 4 KiB. */
const SECTION_LIMIT = 64 * 1024;
/** Limit of interim responses (RFC 9110 §15.2) before the final one. */
const INTERIM_LIMIT = 32;
/** Limit in bytes of a chunk-size line. */
const LINE_LIMIT = 4096;

// Parser states: what is expected next.
const START = 0;
const HEAD = 1;
const LENGTH = 2;
const UNTIL_CLOSE = 3;
const SIZE = 4;
const SIZE_BLANK = 5;
const EXTENSION = 6;
const SIZE_LF = 7;
const CHUNK = 8;
const CHUNK_CR = 9;
const CHUNK_LF = 10;
const TRAILERS = 11;
const TRAILER_SECTION = 12;
const LAST_LF = 13;

const CR = 13;
const LF = 10;
const SEMICOLON = 59;
const SECTION_END = Buffer.from("\r\n\r\n");
const PROTOCOL = "HTTP/1.";

/**
 * Incremental parser of HTTP/1.1 responses (RFC 9112) on one connection; input may be split anywhere. It refuses every response
 * whose framing is ambiguous (two lengths, a length beside chunks, a bare line feed, a folded line), and parses nothing after it.
 */
export class ResponseParser {
  /** Whether the framing of the response allows another one on the connection. */
  reusable = false;
  /** Milliseconds for which the provider says it keeps the connection; undefined: it does not say. */
  keepAliveTimeout: number | undefined;

  private state = START;
  /** Remaining bytes of a body or chunk. */
  private remaining = 0;
  /** Bytes seen of a chunk-size line. */
  private lineLength = 0;
  /** An incomplete head or trailer section, in a buffer that grows by doubling. */
  private section: Buffer | undefined;
  private sectionLength = 0;
  /** The response has no body, whatever its headers say: to a HEAD, or a CONNECT that succeeded. */
  private bodiless = false;
  private interims = 0;
  /** What the last head had. */
  private readonly expected = new ExpectedFields();
  /** An interim response announced that the connection will close. */
  private closes = false;

  constructor(private readonly listener: ParserListener) {}

  /** Prepares for the response to a new request. */
  expect(method: string): void {
    this.bodiless = method === "HEAD" || method === "CONNECT";
    this.state = START;
    this.interims = 0;
    this.closes = false;
  }

  /** Whether any byte of the response has arrived. */
  get hasStarted(): boolean {
    return this.state !== START;
  }

  /** Parses bytes from the connection. @returns how many belong to the response. @throws Http1Error */
  push(bytes: Buffer): number {
    const end = bytes.length;
    let offset = 0;
    if (this.state === START && end > 0) this.state = HEAD;
    while (offset < end) {
      const { state } = this;
      if (state === HEAD || state === TRAILER_SECTION) offset = this.readSection(bytes, offset);
      else if (state === CHUNK || state === LENGTH) offset = this.readBody(bytes, offset);
      else if (state === UNTIL_CLOSE) {
        this.listener.onBody(offset === 0 ? bytes : bytes.subarray(offset));
        offset = end;
      } else if (state === START) return offset;
      else offset = this.readBetween(bytes, offset);
    }
    return offset;
  }

  /** Called when the provider has closed its side. @returns true when that ends the response */
  close(): boolean {
    if (this.state !== UNTIL_CLOSE) return false;
    this.finish();
    return true;
  }

  /** Reads a section of lines up to a blank one. */
  private readSection(bytes: Buffer, from: number): number {
    const lengthBefore = this.sectionLength;
    let [section, start, hasEnd] = [bytes, from, true];
    if (lengthBefore > 0) {
      this.bufferSection(bytes, from);
      [section, start] = [(this.section as Buffer).subarray(0, this.sectionLength), 0];
      // Only what is new is searched, as it may be a byte.
      hasEnd = section.includes(SECTION_END, Math.max(0, lengthBefore - 3));
    }
    const length = hasEnd ? loadLines(section, start, SECTION_LIMIT) : -1;
    if (length < 0) {
      if (lengthBefore === 0) this.bufferSection(bytes, from);
      this.checkSection(lengthBefore);
      return bytes.length;
    }
    if (length > SECTION_LIMIT) throw this.tooLarge();
    this.section = undefined;
    this.sectionLength = 0;
    const text = section.toString("latin1", start, start + length);
    if (this.state === HEAD) this.handleHead(new ParsedHead(text, this.expected));
    else {
      checkTrailers(text);
      this.finish();
    }
    return from + length + 2 - lengthBefore;
  }

  /** Buffers the start of a section whose end has not arrived. */
  private bufferSection(bytes: Buffer, from: number): void {
    const lengthBefore = this.sectionLength;
    // Bytes after the section in its last piece do not count towards the limit; a piece is no larger than one read.
    if (lengthBefore > SECTION_LIMIT) throw this.tooLarge();
    const length = lengthBefore + bytes.length - from;
    if (!this.section || length > this.section.length) {
      const grown = Buffer.allocUnsafe(2 * length);
      this.section?.copy(grown, 0, 0, lengthBefore);
      this.section = grown;
    }
    bytes.copy(this.section, lengthBefore, from);
    this.sectionLength = length;
  }

  /** Refuses at once a start that no section can have, instead of waiting for its end. @param from offset of the new bytes */
  private checkSection(from: number): void {
    const { state, sectionLength: length } = this;
    const section = this.section as Buffer;
    if (state === HEAD && !PROTOCOL.startsWith(section.toString("latin1", 0, Math.min(length, PROTOCOL.length))))
      throw new Http1Error("RESPONSE_NOT_HTTP");
    for (let at = section.indexOf(LF, from); at >= 0 && at < length; at = section.indexOf(LF, at + 1))
      if (section[at - 1] !== CR)
        throw new Http1Error(state === HEAD ? "RESPONSE_HEADER_INVALID" : "RESPONSE_TRAILER_INVALID");
  }

  private tooLarge(): Http1Error {
    return new Http1Error(this.state === HEAD ? "RESPONSE_HEAD_TOO_LARGE" : "RESPONSE_TRAILER_INVALID");
  }

  private handleHead(head: ParsedHead): void {
    const { status, length } = head;
    // No request asked for an upgrade.
    if (status === 101) throw new Http1Error("RESPONSE_UPGRADED");
    if (status < 200) {
      // The body of an interim response would be parsed as a response.
      if (++this.interims > INTERIM_LIMIT || head.chunked || length) throw new Http1Error("RESPONSE_INTERIM");
      if (!head.reusable) this.closes = true;
      return;
    }
    this.reusable = head.reusable && !this.closes;
    this.keepAliveTimeout = head.keepAliveTimeout;
    this.listener.onHead(head);
    if (this.bodiless || status === 204 || status === 304) {
      // A body that is not allowed here would be parsed as the next response.
      if (!this.bodiless && (head.chunked || (length ?? 0) > 0)) this.reusable = false;
      this.finish();
    } else if (head.chunked) {
      this.state = SIZE;
      this.remaining = 0;
      this.lineLength = 0;
    } else if (length === undefined) {
      this.reusable = false;
      this.state = UNTIL_CLOSE;
    } else if (length === 0) this.finish();
    else {
      this.remaining = length;
      this.state = LENGTH;
    }
  }

  private readBody(bytes: Buffer, from: number): number {
    const to = Math.min(bytes.length, from + this.remaining);
    this.remaining -= to - from;
    this.listener.onBody(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
    if (this.remaining > 0) return to;
    if (this.state === LENGTH) this.finish();
    else this.state = CHUNK_CR;
    return to;
  }

  /** Reads one byte between chunks: line ends, sizes, extensions. */
  private readBetween(bytes: Buffer, from: number): number {
    const byte = bytes[from] as number;
    switch (this.state) {
      case SIZE:
        this.readSize(byte);
        break;
      case SIZE_BLANK:
        if (byte === SEMICOLON) this.state = EXTENSION;
        else if (!isBlank(byte) || ++this.lineLength > LINE_LIMIT) throw new Http1Error("RESPONSE_CHUNK_INVALID");
        break;
      case EXTENSION:
        if (byte === CR) this.state = SIZE_LF;
        else if (!isText(byte) || ++this.lineLength > LINE_LIMIT) throw new Http1Error("RESPONSE_CHUNK_INVALID");
        break;
      case SIZE_LF:
        expectByte(byte, LF);
        this.state = this.remaining > 0 ? CHUNK : TRAILERS;
        break;
      case CHUNK_CR:
        expectByte(byte, CR);
        this.state = CHUNK_LF;
        break;
      case CHUNK_LF:
        expectByte(byte, LF);
        this.state = SIZE;
        this.lineLength = 0;
        break;
      case TRAILERS:
        this.state = byte === CR ? LAST_LF : TRAILER_SECTION;
        // The first byte of a field name belongs to the section.
        return byte === CR ? from + 1 : from;
      default:
        expectByte(byte, LF);
        this.finish();
    }
    return from + 1;
  }

  /** Reads one byte of a chunk size, up to 2^48. */
  private readSize(byte: number): void {
    const digit = hexOf(byte);
    if (digit >= 0 && ++this.lineLength <= 12) this.remaining = this.remaining * 16 + digit;
    else if (this.lineLength === 0 || digit >= 0) throw new Http1Error("RESPONSE_CHUNK_INVALID");
    else if (byte === CR) this.state = SIZE_LF;
    else if (byte === SEMICOLON) this.state = EXTENSION;
    // Blanks are allowed before an extension, and nowhere else (RFC 9112 §7.1.1).
    else if (isBlank(byte)) this.state = SIZE_BLANK;
    else throw new Http1Error("RESPONSE_CHUNK_INVALID");
  }

  private finish(): void {
    this.state = START;
    this.listener.onEnd();
  }
}

function hexOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

function expectByte(byte: number, expected: number): void {
  if (byte !== expected) throw new Http1Error("RESPONSE_CHUNK_INVALID");
}
