import { type KnownName, known } from "../../wire/names.ts";

/** The head of an answer. */
export interface ResponseHead {
  status: number;
  /** Flat name, value list in the order and spelling that came: latin1, without hop-by-hop fields. */
  headers: string[];
  /** The codings the body is wrapped in, as sent; undefined: plain. */
  encoding: string | undefined;
}

/** Takes what an answer consists of. */
export interface ParserListener {
  /** A final answer's head. */
  onHead(head: ResponseHead): void;
  /** Bytes of the body; they are the reader's own, and change once this has returned. */
  onBody(bytes: Buffer): void;
  onEnd(): void;
}

/** Why an answer cannot be read. The code goes to the log; no byte of the answer does. */
export class ParseError extends Error {
  override readonly name = "AnswerError";
  constructor(readonly code: `ANSWER_${string}`) {
    super(code);
  }
}

/** Bytes of a head; vendors' are below 4 KiB. */
const HEAD_LIMIT = 64 * 1024;
/** Interim answers (RFC 9110 §15.2) before the final one. */
const INTERIM_LIMIT = 32;
/** Bytes of the line before a chunk, and of the trailers behind the last. */
const LINE_LIMIT = 4096;
const TRAILER_LIMIT = 64 * 1024;

// What comes next.
const START = 0;
const HEAD = 1;
const LENGTH = 2;
const UNTIL_CLOSE = 3;
const SIZE = 4;
const EXTENSION = 5;
const SIZE_LF = 6;
const CHUNK = 7;
const CHUNK_CR = 8;
const CHUNK_LF = 9;
const TRAILER = 10;
const TRAILER_LINE = 11;
const TRAILER_LF = 12;
const LAST_LF = 13;
const SIZE_BLANK = 14;

const CR = 13;
const LF = 10;
const SEMICOLON = 59;
const HEAD_END = Buffer.from("\r\n\r\n");

/**
 * Reads answers of HTTP/1.1 (RFC 9112) from one connection while their bytes arrive, cut anywhere. Where the grammar leaves
 * two ways to read an answer, as with two lengths, a length beside chunks, a bare line feed or a folded line, there is none
 * here: such an answer is refused, and nothing more is read behind it.
 */
export class ResponseParser {
  /** Whether the answer was framed so that another may follow on the connection. */
  reusable = false;
  /** Milliseconds for which the provider says it keeps the connection; undefined: it says nothing. */
  keptFor: number | undefined;

  private state = START;
  /** Bytes still due of a body or chunk; in lines, bytes seen of it. */
  private left = 0;
  private seen = 0;
  /** Bytes of a head that is not whole yet, in a buffer that grows by doubling. */
  private part: Buffer | undefined;
  private partLength = 0;
  /** The answer is to a HEAD: it has no body, whatever it says. */
  private bodiless = false;
  private interims = 0;

  constructor(private readonly sink: ParserListener) {}

  /** Another answer is expected. */
  expect(method: string): void {
    this.bodiless = method === "HEAD";
    this.state = START;
    this.interims = 0;
  }

  /** Whether some of the answer has come. */
  get begun(): boolean {
    return this.state !== START;
  }

  /** Bytes from the connection. Answers how many belong to the answer. @throws AnswerError */
  push(bytes: Buffer): number {
    const n = bytes.length;
    let i = 0;
    if (this.state === START && n > 0) this.state = HEAD;
    while (i < n) {
      const { state } = this;
      if (state === HEAD) i = this.readHead(bytes, i);
      else if (state === CHUNK || state === LENGTH) i = this.readBody(bytes, i);
      else if (state === UNTIL_CLOSE) {
        this.sink.onBody(i === 0 ? bytes : bytes.subarray(i));
        i = n;
      } else if (state === START) return i;
      else i = this.between(bytes, i);
    }
    return i;
  }

  /** The provider has closed its side. True when that ends the answer. */
  close(): boolean {
    if (this.state !== UNTIL_CLOSE) return false;
    this.finish();
    return true;
  }

  private readHead(bytes: Buffer, from: number): number {
    let head: string;
    let next: number;
    if (this.partLength === 0) {
      const end = bytes.indexOf(HEAD_END, from);
      if (end < 0) return this.keep(bytes, from);
      next = end + 4;
      head = bytes.toString("latin1", from, end + 2);
    } else {
      const before = this.partLength;
      this.keep(bytes, from);
      const part = this.part as Buffer;
      const end = part.subarray(0, this.partLength).indexOf(HEAD_END, Math.max(0, before - 3));
      if (end < 0) return bytes.length;
      next = from + end + 4 - before;
      head = part.toString("latin1", 0, end + 2);
      this.part = undefined;
      this.partLength = 0;
    }
    if (head.length > HEAD_LIMIT) throw new ParseError("ANSWER_HEAD_TOO_LARGE");
    this.takeHead(head);
    return next;
  }

  /** Keeps the start of a head whose end has not come. */
  private keep(bytes: Buffer, from: number): number {
    const length = this.partLength + bytes.length - from;
    // What lies behind the head in its last piece does not count; that piece is at most as large as a read.
    if (this.partLength > HEAD_LIMIT) throw new ParseError("ANSWER_HEAD_TOO_LARGE");
    if (!this.part || length > this.part.length) {
      const grown = Buffer.allocUnsafe(2 * length);
      this.part?.copy(grown, 0, 0, this.partLength);
      this.part = grown;
    }
    bytes.copy(this.part, this.partLength, from);
    this.partLength = length;
    return bytes.length;
  }

  /** @param text the head's lines, each with its line end. */
  private takeHead(text: string): void {
    const parsed = new HeadText(text);
    const { status } = parsed;
    const { length } = parsed;
    // Nothing was asked that 101 could answer.
    if (status === 101) throw new ParseError("ANSWER_UPGRADED");
    if (status < 200) {
      // One with a body would make that body an answer.
      if (++this.interims > INTERIM_LIMIT || parsed.chunked || length) throw new ParseError("ANSWER_INTERIM");
      return;
    }
    this.reusable = parsed.reusable;
    this.keptFor = parsed.keptFor;
    this.sink.onHead(parsed);
    if (this.bodiless || status === 204 || status === 304) {
      // A body that must not be there would be read as the next answer.
      if (!this.bodiless && (parsed.chunked || (length ?? 0) > 0)) this.reusable = false;
      this.finish();
    } else if (parsed.chunked) {
      this.state = SIZE;
      this.left = 0;
      this.seen = 0;
    } else if (length === undefined) {
      this.reusable = false;
      this.state = UNTIL_CLOSE;
    } else if (length === 0) this.finish();
    else {
      this.left = length;
      this.state = LENGTH;
    }
  }

  private readBody(bytes: Buffer, from: number): number {
    const to = Math.min(bytes.length, from + this.left);
    this.left -= to - from;
    this.sink.onBody(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
    if (this.left > 0) return to;
    if (this.state === LENGTH) this.finish();
    else this.state = CHUNK_CR;
    return to;
  }

  /** A byte of what stands between chunks: line ends, sizes, extensions, trailers. */
  private between(bytes: Buffer, from: number): number {
    let i = from;
    const byte = bytes[i++] as number;
    switch (this.state) {
      case SIZE:
        this.size(byte);
        break;
      case SIZE_BLANK:
        if (byte === SEMICOLON) this.state = EXTENSION;
        else if (!isBlank(byte) || ++this.seen > LINE_LIMIT) throw new ParseError("ANSWER_CHUNK_INVALID");
        break;
      case EXTENSION:
        if (byte === CR) this.state = SIZE_LF;
        else if (byte === LF || ++this.seen > LINE_LIMIT) throw new ParseError("ANSWER_CHUNK_INVALID");
        break;
      case SIZE_LF:
        expectByte(byte, LF);
        this.state = this.left > 0 ? CHUNK : TRAILER;
        this.seen = 0;
        break;
      case CHUNK_CR:
        expectByte(byte, CR);
        this.state = CHUNK_LF;
        break;
      case CHUNK_LF:
        expectByte(byte, LF);
        this.state = SIZE;
        this.seen = 0;
        break;
      case TRAILER:
        if (byte === LF || ++this.seen > TRAILER_LIMIT) throw new ParseError("ANSWER_TRAILER_INVALID");
        this.state = byte === CR ? LAST_LF : TRAILER_LINE;
        break;
      case TRAILER_LINE:
        if (byte === CR) this.state = TRAILER_LF;
        else if (byte === LF || ++this.seen > TRAILER_LIMIT) throw new ParseError("ANSWER_TRAILER_INVALID");
        break;
      case TRAILER_LF:
        expectByte(byte, LF);
        this.state = TRAILER;
        break;
      default:
        expectByte(byte, LF);
        this.finish();
    }
    return i;
  }

  /** A byte of a chunk's size, up to 2^48. */
  private size(byte: number): void {
    const digit = hexOf(byte);
    if (digit >= 0 && ++this.seen <= 12) this.left = this.left * 16 + digit;
    else if (this.seen === 0 || digit >= 0) throw new ParseError("ANSWER_CHUNK_INVALID");
    else if (byte === CR) this.state = SIZE_LF;
    else if (byte === SEMICOLON) this.state = EXTENSION;
    // Blanks may stand before an extension, and nowhere else (RFC 9112 §7.1.1).
    else if (isBlank(byte)) this.state = SIZE_BLANK;
    else throw new ParseError("ANSWER_CHUNK_INVALID");
  }

  private finish(): void {
    this.state = START;
    this.sink.onEnd();
  }
}

function hexOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

function expectByte(byte: number, wanted: number): void {
  if (byte !== wanted) throw new ParseError("ANSWER_CHUNK_INVALID");
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [^\r\n]*)?\r\n/;
/** What may not stand in a head: control characters, and line ends that are not whole. */
const UNFIT = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)/;

/** A head, taken apart. */
class HeadText implements ResponseHead {
  readonly status: number;
  readonly headers: string[] = [];
  encoding: string | undefined;
  chunked = false;
  length: number | undefined;
  keptFor: number | undefined;
  private readonly latest: boolean;
  private keeps = false;
  private closes = false;
  /** Fields that a Connection value names. */
  private named: Set<string> | undefined;

  /** @param text lines, each with its line end. @throws AnswerError */
  constructor(text: string) {
    const line = STATUS_LINE.exec(text);
    if (!line || UNFIT.test(text)) throw new ParseError("ANSWER_NOT_HTTP");
    this.status = Number(line[2]);
    this.latest = line[1] === "1";
    for (let at = line[0].length; at < text.length; ) {
      const end = text.indexOf("\n", at);
      const colon = text.indexOf(":", at);
      const name = known(text.slice(at, colon));
      // Where the line has no colon, what was found behind it makes a name that is none.
      if (!name.valid || colon < 0 || text.charCodeAt(end - 1) !== CR) throw new ParseError("ANSWER_HEADER_INVALID");
      this.field(name, trimmed(text, colon + 1, end - 1));
      at = end + 1;
    }
    if (this.chunked && this.length !== undefined) throw new ParseError("ANSWER_FRAMED_TWICE");
    if (this.named) this.drop(this.named);
  }

  /** Whether the provider lets another request follow. */
  get reusable(): boolean {
    // HTTP/1.0 knows no chunks: whoever passed them on may have done so blindly (RFC 9112 §6.1).
    return !this.closes && (this.latest || (this.keeps && !this.chunked));
  }

  private field({ key, hop, spelling }: KnownName, value: string): void {
    if (!hop) {
      this.headers.push(spelling, value);
      if (key === "content-length") this.setLength(value);
      else if (key === "content-encoding") this.encoding = this.encoding ? `${this.encoding}, ${value}` : value;
    } else if (key === "connection") this.connection(value);
    else if (key === "transfer-encoding") this.coding(value);
    else if (key === "keep-alive") {
      const seconds = /(?:^|[,\s])timeout=(\d{1,9})/i.exec(value)?.[1];
      if (seconds !== undefined) this.keptFor = Number(seconds) * 1000;
    }
  }

  private setLength(value: string): void {
    if (this.length !== undefined || !/^\d{1,15}$/.test(value)) throw new ParseError("ANSWER_LENGTH_INVALID");
    this.length = Number(value);
  }

  private coding(value: string): void {
    if (this.chunked || value.toLowerCase() !== "chunked") throw new ParseError("ANSWER_CODING_UNKNOWN");
    this.chunked = true;
  }

  private connection(value: string): void {
    for (const token of value.toLowerCase().split(",")) {
      const word = token.trim();
      if (word === "keep-alive") this.keeps = true;
      if (word === "close") this.closes = true;
      // These two name no field when they stand alone, as nearly always.
      if (value.length > word.length || !(this.keeps || this.closes)) this.named = (this.named ?? new Set()).add(word);
    }
  }

  private drop(named: ReadonlySet<string>): void {
    for (let i = this.headers.length - 2; i >= 0; i -= 2)
      if (named.has(known(this.headers[i] as string).key)) this.headers.splice(i, 2);
  }
}

/** Without the spaces and tabs around it; other white space of Unicode is part of a value. */
function trimmed(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 32 || code === 9;
