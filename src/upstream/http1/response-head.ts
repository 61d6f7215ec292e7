import { type HeaderName, headerName, isConnectionHeader } from "../../wire/header-names.ts";
import { withoutHeaders } from "../../wire/headers.ts";
import { Http1Error, type Http1ErrorCode } from "./errors.ts";

/** The head of a final response. */
export interface ResponseHead {
  status: number;
  /** Flat name, value list in original order and spelling: latin1, without hop-by-hop fields. */
  headers: string[];
  /** The content codings of the body, as sent; undefined: none. */
  encoding: string | undefined;
  /** Whether the body ends with the connection, which may also have been cut. */
  readonly endsWithConnection?: boolean;
}

/** Limit of fields in a head or a trailer section; vendors send fewer than 50. */
const FIELD_LIMIT = 1000;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?\r\n/;
/**
 * The control characters that are not allowed in a head, half of them each: V8 searches for up to 16 characters in many bytes at once,
 * for more in one byte after another.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const FORBIDDEN = [/[\0-\x08\v\f\x0e-\x11]/, /[\x12-\x1f\x7f]/] as const;

const hasForbidden = (text: string): boolean => FORBIDDEN[0].test(text) || FORBIDDEN[1].test(text);

/** A parsed head, with what it says about the body's framing and the connection. */
export class ParsedHead implements ResponseHead {
  readonly status: number;
  headers: string[] = [];
  encoding: string | undefined;
  chunked = false;
  /** Bytes of the body, if given. */
  length: number | undefined;
  /** Milliseconds for which the provider says it keeps the connection; undefined: it does not say. */
  keepAliveTimeout: number | undefined;
  private readonly isHttp11: boolean;
  private keepAlive = false;
  private closes = false;
  /** Fields that a Connection header names. */
  private connectionFields: Set<string> | undefined;

  /** @param text lines, each with its line end. @throws Http1Error */
  constructor(text: string) {
    const line = STATUS_LINE.exec(text);
    if (!line || hasForbidden(text)) throw new Http1Error("RESPONSE_NOT_HTTP");
    this.status = Number(line[2]);
    this.isHttp11 = line[1] === "1";
    readFields(text, line[0].length, this, "RESPONSE_HEADER_INVALID");
    if (this.chunked && this.length !== undefined) throw new Http1Error("RESPONSE_FRAMED_TWICE");
    if (this.connectionFields) this.headers = withoutHeaders(this.headers, this.connectionFields);
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
  field({ key, isHopByHop, spelling }: HeaderName, value: string): void {
    if (!isHopByHop) {
      this.headers.push(spelling, value);
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
    if (this.length !== undefined || !/^\d{1,15}$/.test(value)) throw new Http1Error("RESPONSE_LENGTH_INVALID");
    this.length = Number(value);
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
 * Checks trailers, which are not forwarded. They are parsed as strictly as a head, because an intermediary could use framing fields
 * in them (RFC 9110 §6.5.1: no framing fields, no hop-by-hop fields).
 *
 * @param text lines, each with its line end. @throws Http1Error
 */
export function checkTrailers(text: string): void {
  if (hasForbidden(text)) throw new Http1Error("RESPONSE_TRAILER_INVALID");
  readFields(text, 0, TRAILERS, "RESPONSE_TRAILER_INVALID");
}

const TRAILERS: FieldReceiver = {
  field({ key, isHopByHop }) {
    if (isHopByHop || key === "content-length") throw new Http1Error("RESPONSE_TRAILER_INVALID");
  },
};

interface FieldReceiver {
  field(name: HeaderName, value: string): void;
}

/** Parses field lines of name, colon, value. @throws Http1Error with the given code for an invalid line, or for too many */
function readFields(text: string, from: number, receiver: FieldReceiver, code: Http1ErrorCode): void {
  let count = 0;
  for (let lineStart = from; lineStart < text.length; ) {
    const end = text.indexOf("\n", lineStart);
    const colon = text.indexOf(":", lineStart);
    const name = headerName(text.slice(lineStart, colon));
    // In a line without a colon the one found belongs to a later line, and the name becomes invalid. A line must end with CR LF
    // and contain no other CR.
    if (!name.isToken || colon < 0 || text.indexOf("\r", colon) !== end - 1 || ++count > FIELD_LIMIT)
      throw new Http1Error(code);
    receiver.field(name, trimBlanks(text, colon + 1, end - 1));
    lineStart = end + 1;
  }
}

/** Trims spaces and tabs; other Unicode white space is part of a value. */
function trimBlanks(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

/** Reports whether a byte is a space or a tab. */
export const isBlank = (code: number): boolean => code === 32 || code === 9;
