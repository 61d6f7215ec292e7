import { CR, LF } from "../../wire/grammar.ts";
import { type HeaderName, headerName, isConnectionHeader } from "../../wire/header-names.ts";
import { withoutHeaders } from "../../wire/headers.ts";
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

/** Lines of a message, up to the blank one: the bytes from `start`, and the same as text. */
export interface Section {
  readonly bytes: Buffer;
  readonly start: number;
  /** In latin1. */
  readonly text: string;
}

/** Limit of fields in a head or a trailer section; vendors send fewer than 50. */
const FIELD_LIMIT = 1000;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n/;
const COLON = 58;
/** Maximum names that are expected again: a peer can invent any number. */
const MAX_EXPECTED = 50;
/** Matches a control character that is not allowed in a head. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const FORBIDDEN = /[\0-\x08\v\f\x0e-\x1f\x7f]/;

/** A parsed head, with what it says about the body's framing and the connection. */
export class ParsedHead implements ResponseHead {
  readonly status: number;
  headers: string[] = [];
  names: HeaderName[] | undefined = [];
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

  /**
   * @param section lines, each with its line end
   * @param expected the names of the connection's last head, which are replaced by those of this one
   * @throws Http1Error
   */
  constructor(section: Section, expected?: HeaderName[]) {
    const line = STATUS_LINE.exec(section.text);
    if (!line) throw new Http1Error("RESPONSE_NOT_HTTP");
    this.status = Number(line[2]);
    this.isHttp11 = line[1] === "1";
    if (!readFields(section, line[0].length, this, expected))
      throw new Http1Error(FORBIDDEN.test(section.text) ? "RESPONSE_NOT_HTTP" : "RESPONSE_HEADER_INVALID");
    if (this.chunked && this.length !== undefined) throw new Http1Error("RESPONSE_FRAMED_TWICE");
    if (!this.connectionFields) return;
    this.headers = withoutHeaders(this.headers, this.connectionFields);
    this.names = undefined;
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
      this.headers.push(spelling, value);
      this.names?.push(name);
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
 * @param section lines, each with its line end. @throws Http1Error
 */
export function checkTrailers(section: Section): void {
  if (!readFields(section, 0, TRAILERS)) throw new Http1Error("RESPONSE_TRAILER_INVALID");
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
 * Parses field lines of name, colon, value, in one pass over their bytes: a search in the text costs more for each line than its bytes do.
 * @param expected the names of the last section of this kind, which are replaced by those of this one: most are in the same place
 * @returns false for an invalid line, or for too many
 */
function readFields(
  { bytes, start, text }: Section,
  from: number,
  receiver: FieldReceiver,
  expected: HeaderName[] = [],
): boolean {
  const end = start + text.length;
  let count = 0;
  for (let at = start + from; at < end; count++) {
    let name = expected[count];
    if (!name || !isNameAt(name, bytes, at)) {
      name = headerName(text.slice(at - start, text.indexOf(":", at - start)));
      // Without a colon in its line the name contains the line's end.
      if (!name.isToken || count === FIELD_LIMIT) return false;
      if (count < MAX_EXPECTED) expected[count] = name;
    }
    at += name.spelling.length + 1;
    while (isBlank(bytes[at] as number)) at++;
    const valueStart = at;
    while (isText(bytes[at] as number)) at++;
    if (at + 1 >= end || bytes[at] !== CR || bytes[at + 1] !== LF) return false;
    let valueEnd = at;
    while (valueEnd > valueStart && isBlank(bytes[valueEnd - 1] as number)) valueEnd--;
    receiver.field(name, text.slice(valueStart - start, valueEnd - start));
    at += 2;
  }
  return true;
}

/** Reports whether a line begins with that name and a colon. */
function isNameAt({ bytes: name }: HeaderName, bytes: Buffer, at: number): boolean {
  for (let i = 0; i < name.length; i++) if (name[i] !== bytes[at + i]) return false;
  return bytes[at + name.length] === COLON;
}

/** Reports whether a byte is a space or a tab. */
export const isBlank = (code: number): boolean => code === 32 || code === 9;

/** Reports whether a byte may occur in a field value. */
export const isText = (code: number): boolean => (code >= 32 && code !== 127) || code === 9;
