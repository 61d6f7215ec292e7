import { without } from "../../wire/headers.ts";
import { isConnection, type KnownName, known } from "../../wire/names.ts";
import { Http1Error, type Http1ErrorCode } from "./errors.ts";

/** The head of a final response. */
export interface ResponseHead {
  status: number;
  /** Flat name, value list in original order and spelling: latin1, without hop-by-hop fields. */
  headers: string[];
  /** The content codings of the body, as sent; undefined: none. */
  encoding: string | undefined;
}

/** Limit of fields in a head or a trailer section; vendors send fewer than 50. */
const FIELD_LIMIT = 1000;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?\r\n/;
/** Control characters that are not allowed in a head. A single class, because V8 then checks many bytes at once. */
const UNFIT = /[^\t\r\n\x20-\x7e\x80-\xff]/;

/** A parsed head, with what it says about the body's framing and the connection. */
export class ParsedHead implements ResponseHead {
  readonly status: number;
  headers: string[] = [];
  encoding: string | undefined;
  chunked = false;
  /** Bytes of the body, if given. */
  length: number | undefined;
  /** Milliseconds for which the provider says it keeps the connection; undefined: it does not say. */
  keptFor: number | undefined;
  private readonly latest: boolean;
  private keeps = false;
  private closes = false;
  /** Fields that a Connection header names. */
  private named: Set<string> | undefined;

  /** @param text lines, each with its line end. @throws Http1Error */
  constructor(text: string) {
    const line = STATUS_LINE.exec(text);
    if (!line || UNFIT.test(text)) throw new Http1Error("RESPONSE_NOT_HTTP");
    this.status = Number(line[2]);
    this.latest = line[1] === "1";
    readFields(text, line[0].length, this, "RESPONSE_HEADER_INVALID");
    if (this.chunked && this.length !== undefined) throw new Http1Error("RESPONSE_FRAMED_TWICE");
    if (this.named) this.headers = without(this.headers, this.named);
  }

  /** Whether the provider allows another request on the connection. */
  get reusable(): boolean {
    // HTTP/1.0 has no chunks: an intermediary may have passed them on without understanding them (RFC 9112 §6.1).
    return !this.closes && (this.latest || (this.keeps && !this.chunked));
  }

  /** Records a field line. */
  field({ key, hop, spelling }: KnownName, value: string): void {
    if (!hop) {
      this.headers.push(spelling, value);
      if (key === "content-length") this.setLength(value);
      else if (key === "content-encoding") this.encoding = this.encoding ? `${this.encoding}, ${value}` : value;
    } else if (isConnection(key)) this.connection(value);
    else if (key === "transfer-encoding") this.coding(value);
    else if (key === "keep-alive") {
      const seconds = /(?:^|[,\s])timeout=(\d{1,9})/i.exec(value)?.[1];
      if (seconds !== undefined) this.keptFor = Number(seconds) * 1000;
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
    for (const token of value.toLowerCase().split(",")) {
      const word = token.trim();
      if (word === "keep-alive") this.keeps = true;
      else if (word === "close") this.closes = true;
      else this.named = (this.named ?? new Set()).add(word);
    }
  }
}

/**
 * Checks trailers, which are not passed on. They are parsed as strictly as a head, because an intermediary could take for framing
 * what looks like it (RFC 9110 §6.5.1: no framing fields, no hop-by-hop fields).
 *
 * @param text lines, each with its line end. @throws Http1Error
 */
export function checkTrailers(text: string): void {
  if (UNFIT.test(text)) throw new Http1Error("RESPONSE_TRAILER_INVALID");
  readFields(text, 0, TRAILERS, "RESPONSE_TRAILER_INVALID");
}

const TRAILERS: FieldReceiver = {
  field({ key, hop }) {
    if (hop || key === "content-length") throw new Http1Error("RESPONSE_TRAILER_INVALID");
  },
};

interface FieldReceiver {
  field(name: KnownName, value: string): void;
}

/** Parses field lines of name, colon, value. @throws Http1Error with the given code for an invalid line, or for too many */
function readFields(text: string, from: number, receiver: FieldReceiver, code: Http1ErrorCode): void {
  let count = 0;
  for (let at = from; at < text.length; ) {
    const end = text.indexOf("\n", at);
    const colon = text.indexOf(":", at);
    const name = known(text.slice(at, colon));
    // In a line without a colon the one found belongs to a later line, and the name becomes invalid. A line must end with CR LF
    // and contain no other CR.
    if (!name.valid || colon < 0 || text.indexOf("\r", colon) !== end - 1 || ++count > FIELD_LIMIT)
      throw new Http1Error(code);
    receiver.field(name, trimmed(text, colon + 1, end - 1));
    at = end + 1;
  }
}

/** Trims spaces and tabs; other Unicode white space is part of a value. */
function trimmed(text: string, from: number, to: number): string {
  let start = from;
  let end = to;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

const isBlank = (code: number): boolean => code === 32 || code === 9;
