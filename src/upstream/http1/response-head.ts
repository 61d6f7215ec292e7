import { CR, LF, SPACE } from "../../wire/grammar.ts";
import { type HeaderName, headerName, isConnectionHeader } from "../../wire/header-names.ts";
import { namesOf, withoutHeaders } from "../../wire/headers.ts";
import { LineStart, lineByte, valueEnd } from "../../wire/window.ts";
import { Http1Error } from "./errors.ts";

/** The head of a final response. */
export interface ResponseHead {
  status: number;
  /** Flat name, value list in original order and spelling: latin1, without hop-by-hop fields. */
  headers: string[];
  /** What is known about the names in `headers`; undefined: it must be looked up. */
  names?: HeaderName[] | undefined;
  /** The content codings of the body, as sent; undefined: none. */
  encoding: string | undefined;
  /** Whether the body ends with the connection, which may also have been cut. */
  readonly endsWithConnection?: boolean;
}

/** Limit of fields in a head or a trailer section; vendors send fewer than 50. */
const FIELD_LIMIT = 1000;

const PROTOCOL = new LineStart("HTTP/1.");
const ZERO = 48;
/** Maximum digits of a length. */
const MAX_DIGITS = 15;
/** Maximum names that are expected again: a peer can invent any number. */
const MAX_EXPECTED = 50;
/** Matches a control character that is not allowed in a head. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const FORBIDDEN = /[\0-\x08\v\f\x0e-\x1f\x7f]/;

/** What the last head of a connection had, and the next one probably has. */
export class ExpectedFields {
  /** The names, in order. */
  readonly names: HeaderName[] = [];
  /** Number of fields that were not hop-by-hop. */
  endToEnd = 0;
}

/** A parsed head, with what it says about the body's framing and the connection. */
export class ParsedHead implements ResponseHead {
  readonly status: number;
  headers: string[];
  names: HeaderName[];
  encoding: string | undefined;
  chunked = false;
  /** Bytes of the body, if given. */
  length: number | undefined;
  /** Milliseconds for which the provider says it keeps the connection; undefined: it does not say. */
  keepAliveTimeout: number | undefined;
  /** Number of end-to-end fields so far. */
  private count = 0;
  private readonly isHttp11: boolean;
  private keepAlive = false;
  private closes = false;
  /** Fields that a Connection header names. */
  private connectionFields: Set<string> | undefined;

  /**
   * @param text lines in latin1, each with its line end, which are also loaded in `wire/window.ts`
   * @param expected what the connection's last head had, which is replaced by what this one has
   * @throws Http1Error
   */
  constructor(text: string, expected = new ExpectedFields()) {
    const end = statusLineEnd();
    if (end === 0) throw new Http1Error("RESPONSE_NOT_HTTP");
    this.status = 100 * digitAt(9) + 10 * digitAt(10) + digitAt(11);
    this.isHttp11 = digitAt(7) === 1;
    // With the room of the last ones: arrays that grow take twice the memory.
    this.headers = new Array(2 * expected.endToEnd);
    this.names = new Array(expected.endToEnd);
    if (!readFields(text, end, this, expected.names))
      throw new Http1Error(FORBIDDEN.test(text) ? "RESPONSE_NOT_HTTP" : "RESPONSE_HEADER_INVALID");
    if (this.chunked && this.length !== undefined) throw new Http1Error("RESPONSE_FRAMED_TWICE");
    if (this.count !== expected.endToEnd) {
      expected.endToEnd = this.names.length = this.count;
      this.headers.length = 2 * this.count;
    }
    if (!this.connectionFields) return;
    this.headers = withoutHeaders(this.headers, this.connectionFields);
    this.names = namesOf(this.headers);
  }

  get endsWithConnection(): boolean {
    return !this.chunked && this.length === undefined;
  }

  /** Whether the provider allows another request on the connection. */
  get reusable(): boolean {
    // HTTP/1.0 has no chunks: an intermediary may have passed them on without understanding them (RFC 9112 §6.1).
    return !this.closes && (this.isHttp11 || (this.keepAlive && !this.chunked));
  }

  /** Records a field line. */
  field(name: HeaderName, value: string): void {
    const { key, isHopByHop, spelling } = name;
    if (!isHopByHop) {
      this.headers[2 * this.count] = spelling;
      this.headers[2 * this.count + 1] = value;
      this.names[this.count++] = name;
      if (key === "content-length") this.setLength(value);
      else if (key === "content-encoding") this.encoding = this.encoding ? `${this.encoding}, ${value}` : value;
    } else if (isConnectionHeader(key)) this.connection(value);
    else if (key === "transfer-encoding") this.coding(value);
    else if (key === "keep-alive") {
      const seconds = /(?:^|[,\s])timeout=(\d{1,9})/i.exec(value)?.[1];
      if (seconds !== undefined) this.keepAliveTimeout = Number(seconds) * 1000;
    }
  }

  private setLength(value: string): void {
    const length = parseLength(value);
    if (this.length !== undefined || length === undefined) throw new Http1Error("RESPONSE_LENGTH_INVALID");
    this.length = length;
  }

  private coding(value: string): void {
    if (this.chunked || value.toLowerCase() !== "chunked") throw new Http1Error("RESPONSE_CODING_UNKNOWN");
    this.chunked = true;
  }

  private connection(value: string): void {
    if (value === "keep-alive") {
      this.keepAlive = true;
      return;
    }
    for (const token of value.toLowerCase().split(",")) {
      const option = token.trim();
      if (option === "keep-alive") this.keepAlive = true;
      else if (option === "close") this.closes = true;
      else this.connectionFields = (this.connectionFields ?? new Set()).add(option);
    }
  }
}

/**
 * Returns the length of the status line, with its end; 0 if the lines begin with none: `HTTP/1.` with `0` or `1`, a status of three
 * digits up to 599, and perhaps a reason.
 */
function statusLineEnd(): number {
  const isVersion = PROTOCOL.isAt(0) && (digitAt(7) === 0 || digitAt(7) === 1) && lineByte(8) === SPACE;
  const isStatus = isVersion && digitAt(9) >= 1 && digitAt(9) <= 5 && isDigit(digitAt(10)) && isDigit(digitAt(11));
  if (!isStatus || (lineByte(12) !== SPACE && lineByte(12) !== CR)) return 0;
  const end = valueEnd(12);
  return lineByte(end) === CR && lineByte(end + 1) === LF ? end + 2 : 0;
}

/** Returns the value of a digit; another byte gives less than 0 or more than 9. */
const digitAt = (at: number): number => lineByte(at) - ZERO;
const isDigit = (value: number): boolean => value >= 0 && value <= 9;

/** Returns the number of bytes that digits say; undefined for anything else. */
function parseLength(value: string): number | undefined {
  if (value === "" || value.length > MAX_DIGITS) return undefined;
  let length = 0;
  for (let i = 0; i < value.length; i++) {
    const digit = value.charCodeAt(i) - ZERO;
    if (!isDigit(digit)) return undefined;
    length = 10 * length + digit;
  }
  return length;
}

/**
 * Checks trailers, which are not forwarded. They are parsed as strictly as a head, because an intermediary could use framing fields
 * in them (RFC 9110 §6.5.1: no framing fields, no hop-by-hop fields).
 *
 * @param text as of `ParsedHead`. @throws Http1Error
 */
export function checkTrailers(text: string): void {
  if (!readFields(text, 0, TRAILERS)) throw new Http1Error("RESPONSE_TRAILER_INVALID");
}

const TRAILERS: FieldReceiver = {
  field({ key, isHopByHop }) {
    if (isHopByHop || key === "content-length") throw new Http1Error("RESPONSE_TRAILER_INVALID");
  },
};

interface FieldReceiver {
  field(name: HeaderName, value: string): void;
}

/**
 * Parses field lines of name, colon, value, from the bytes that are loaded: a search in the text costs more for each line.
 * @param text the same lines
 * @param expected the names of the last section of this kind, which are replaced by those of this one: most are in the same place
 * @returns false for an invalid line, or for too many
 */
function readFields(text: string, from: number, receiver: FieldReceiver, expected: HeaderName[] = []): boolean {
  let count = 0;
  for (let at = from; at < text.length; count++) {
    let name = expected[count];
    if (!name?.lineStart.isAt(at)) {
      name = headerName(text.slice(at, text.indexOf(":", at)));
      // Without a colon in its line the name contains the line's end.
      if (!name.isToken || count === FIELD_LIMIT) return false;
      if (count < MAX_EXPECTED) expected[count] = name;
    }
    at += name.spelling.length + 1;
    while (isBlank(lineByte(at))) at++;
    const lineEnd = valueEnd(at);
    if (lineByte(lineEnd) !== CR || lineByte(lineEnd + 1) !== LF) return false;
    let end = lineEnd;
    while (end > at && isBlank(lineByte(end - 1))) end--;
    receiver.field(name, text.slice(at, end));
    at = lineEnd + 2;
  }
  return true;
}

/** Reports whether a byte is a space or a tab. */
export const isBlank = (code: number): boolean => code === 32 || code === 9;

/** Reports whether a byte may occur in a field value. */
export const isText = (code: number): boolean => (code >= 32 && code !== 127) || code === 9;
