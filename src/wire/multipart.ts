import { CR, LF } from "./grammar.ts";
import type { ByteSpan } from "./splice.ts";
import { ByteSearch } from "./window.ts";

/** Maximum bytes of a part's head. */
const MAX_HEAD = 8192;
const MAX_PARTS = 1000;
/** Maximum bytes of a short field's value, and of one read by a FieldReader: an id. */
const [MAX_SHORT_VALUE, MAX_ID_VALUE] = [64, 128];

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const PARAMETER = String.raw`[ \t]*;[ \t]*(${TOKEN})=(${TOKEN}|"[^"\\\x00-\x1f\x7f-\uffff]*")`;
const CONTENT_TYPE = new RegExp(String.raw`^multipart/form-data((?:${PARAMETER})+)[ \t]*$`, "i");
const PARAMETERS = new RegExp(PARAMETER, "g");
/** Matches no encoded word of RFC 2047 (`=?utf-8?q?…?=`), which Tomcat, ASP.NET and Python's email package decode. */
const BOUNDARY = /^(?!.*=\?)[0-9A-Za-z'()+_,./:=?-]{1,70}$/;
/** Character sets in which the letters of a name have the same bytes. */
const CHARSETS = "(?:utf-?8|us-ascii|iso-8859-1)";
const CHARSET = new RegExp(`^${CHARSETS}$`, "i");
/** Matches a part's content type with another one, or with one that parsers could read differently. */
const OTHER_CHARSET = new RegExp(String.raw`charset(?!=(?:${CHARSETS}|"${CHARSETS}")[ \t]*(?:;|$))`, "i");

/** Matches, in a part's head, a control character or half a line break. */
const CONTROL = /(?![\t\r\n\x80-\x9f])\p{Cc}|\r(?!\n)|(?<!\r)\n/u;
const LINE = /^([A-Za-z-]+):[ \t]*((?:[^ \t].*)?)$/s;
// Names that some parsers read differently: with a semicolon or an equals sign (also in encoded words, as for BOUNDARY), behind a
// byte order mark or a tab, and with brackets but no quotes.
const DISPOSITION = /^form-data; *name=(?:"(?!\xef\xbb\xbf)([^"\\%;=]*)"|([\w.-]+)) *(;.*)?$/i;
// An empty filename makes a file to some parsers, and a text to others.
const FILE = new RegExp(
  String.raw`^(?:; *filename=(?:"(?:[^"\\]|\\[^"\\])+"|${TOKEN}))?(?:; *filename\*=utf-8''[!#$&+.^_|~0-9A-Za-z%-]+)?$`,
  "i",
);
const TEXT_TYPE = /^text\/plain(?:[ \t]*;[ \t]*charset=(?:"([^"]*)"|([^\s"]*)))?[ \t]*$/i;

/** A form that is malformed, or that two parsers could read differently. */
export class FormError extends Error {
  override readonly name = "FormError";

  /**
   * @param at offset in the form
   * @param field the field at fault, if it is one
   */
  constructor(
    message: string,
    readonly at: number,
    readonly field?: string,
  ) {
    super(message);
  }
}

/**
 * Returns the boundary that a content-type names; undefined where it is not that of a form, or where parsers could read another
 * one: a duplicate boundary, a quoted pair, an unknown parameter.
 */
export function parseBoundary(contentType: string): string | undefined {
  const [, parameters] = CONTENT_TYPE.exec(contentType) ?? [];
  if (parameters === undefined) return undefined;
  const values = new Map<string, string>();
  for (const [, name = "", value = ""] of parameters.matchAll(PARAMETERS)) {
    const key = name.toLowerCase();
    if (values.has(key) || (key !== "boundary" && key !== "charset")) return undefined;
    values.set(key, value.replaceAll('"', ""));
  }
  const boundary = values.get("boundary") ?? "";
  return BOUNDARY.test(boundary) && CHARSET.test(values.get("charset") ?? "utf-8") ? boundary : undefined;
}

/** Reads short text fields besides the one that is searched, each time they occur, and longer values as they arrive. */
export interface FieldReader {
  wants(name: string): boolean;
  read(name: string, value: string): void;
  /** Returns what receives the value of a part, also of a file; undefined: nothing does. */
  receiver?(name: string, part: FormPart): ValueReceiver | undefined;
}

/** What a part's head says of its value. */
export interface FormPart {
  /** It has a filename. */
  readonly isFile: boolean;
  /** Its content type, or the default one. */
  readonly type: string;
  /** The content type names another character set than UTF-8, or one that is alike in ASCII. */
  readonly hasOtherCharset: boolean;
}

/** Receives a part's value in pieces. */
export interface ValueReceiver {
  push(bytes: Buffer): void;
  end(): void;
}

type State = "start" | "delimiter" | "head" | "value" | "closed";

/**
 * Parses a multipart/form-data body while its pieces arrive, with arbitrary boundaries, and finds the value of one short text
 * field. Refuses everything that form parsers are known to read differently, instead of choosing a reading: what passes is
 * unambiguous.
 */
export class FormScanner {
  /** The position of the field's value in the form; set once the value is complete. */
  found: ByteSpan | undefined;
  /**
   * The end of the bytes that have been checked: before the field's value until that is complete, before the delimiter of a part
   * until the part's head is known, and before the last delimiter until the form has ended.
   */
  checkedUntil = 0;

  /** Values of `otherFields` so far; one that is not a short text is empty. */
  readonly texts = new Map<string, string>();
  /** Number of parts with a filename so far. */
  files = 0;

  private readonly delimiter: Buffer;
  private readonly shortLimit: number;
  private readonly search: ByteSearch;
  private state: State = "start";
  /** Bytes not yet checked, and their offset in the form. */
  private unchecked: Buffer = Buffer.alloc(0);
  private offset = 0;
  private parts = 0;
  /** Of the current part: the start of its value, its declared length, and whether it is the searched field. */
  private start = 0;
  private declaredLength: number | undefined;
  private isSearched = false;
  /** The name of the current part, if it is one of `otherFields`. */
  private currentField: string | undefined;
  private receiver: ValueReceiver | undefined;

  /**
   * @param field the name of the field to find; undefined: none
   * @param maxLength maximum bytes of its value, which must be printable ASCII
   * @param otherFields lower-case names of other short fields to read, each at most once; or a reader for them
   * @param whyRefused returns why a field may not occur in the form, as the end of a sentence
   * @param receiverOf returns what receives the value of a part that is neither; with a reader that reader's own is used
   */
  constructor(
    boundary: string,
    private readonly field: string | undefined,
    private readonly maxLength: number,
    private readonly otherFields: readonly string[] | FieldReader = [],
    private readonly whyRefused: (name: string) => string | undefined = () => undefined,
    private readonly receiverOf: FieldReader["receiver"] = undefined,
  ) {
    this.shortLimit = "wants" in otherFields ? MAX_ID_VALUE : MAX_SHORT_VALUE;
    this.delimiter = Buffer.from(`--${boundary}`, "latin1");
    this.search = new ByteSearch(this.delimiter);
  }

  /**
   * Takes the next piece.
   * @throws FormError; the scanner must not be used afterwards
   */
  push(piece: Buffer): void {
    this.unchecked =
      this.unchecked.length === 0 || this.skipSeam(piece) ? piece : Buffer.concat([this.unchecked, piece]);
    while (this.step());
  }

  /**
   * Skips the unchecked end of a long value, if no delimiter spans the boundary of the pieces: concatenating the whole next piece
   * costs more than checking the seam.
   */
  private skipSeam(piece: Buffer): boolean {
    const { unchecked: rest, delimiter } = this;
    const overlap = delimiter.length + 1;
    if (this.state !== "value" || this.isSearched || this.currentField !== undefined || piece.length < 4 * overlap)
      return false;
    if (this.search.indexIn(Buffer.concat([rest, piece.subarray(0, overlap)])) >= 0) return false;
    this.receiver?.push(rest);
    this.offset += rest.length;
    this.checkedUntil = this.offset;
    return true;
  }

  /**
   * Ends the form.
   * @throws FormError when it is incomplete
   */
  end(): void {
    if (this.state !== "closed" || this.unchecked.length % 2 !== 0) this.fail("It ends before its last delimiter");
    this.checkedUntil = this.offset + this.unchecked.length;
  }

  /** Parses one element of the grammar; returns false if more bytes are needed. */
  private step(): boolean {
    switch (this.state) {
      case "start":
        return this.readStart();
      case "delimiter":
        return this.readDelimiter();
      case "head":
        return this.readPartHead();
      case "value":
        return this.readPartValue();
      case "closed":
        // Some clients send one more line break.
        if (!"\r\n\r\n".startsWith(this.unchecked.toString("latin1", 0, 5)))
          this.fail("Something follows its last delimiter");
        return false;
    }
  }

  private readStart(): boolean {
    const { unchecked: rest, delimiter } = this;
    const prefixLength = rest[0] === CR ? 2 : 0;
    if (rest.length < prefixLength + delimiter.length) return false;
    if (prefixLength > 0 && rest[1] !== LF) this.fail("It does not begin with its boundary");
    if (rest.compare(delimiter, 0, delimiter.length, prefixLength, prefixLength + delimiter.length) !== 0)
      this.fail("It does not begin with its boundary");
    this.advance(prefixLength + delimiter.length);
    this.state = "delimiter";
    return true;
  }

  private readDelimiter(): boolean {
    if (this.unchecked.length < 2) return false;
    const next = this.unchecked.toString("latin1", 0, 2);
    if (next === "\r\n") this.state = "head";
    else if (next === "--" && this.parts > 0) this.state = "closed";
    else this.fail("Its boundary is followed by something else than a line break");
    this.advance(2);
    if (this.state === "head" && ++this.parts > MAX_PARTS) this.fail(`It has more than ${MAX_PARTS} parts`);
    return true;
  }

  private readPartHead(): boolean {
    const end = this.unchecked.indexOf("\r\n\r\n");
    if (end > MAX_HEAD || (end < 0 && this.unchecked.length > MAX_HEAD + 3))
      this.fail(`A part's head is longer than ${MAX_HEAD} bytes`);
    if (end < 0) return false;
    this.readHead(this.unchecked.toString("latin1", 0, end));
    this.advance(end + 4);
    this.start = this.offset;
    this.state = "value";
    return true;
  }

  private readPartValue(): boolean {
    const { unchecked: rest, delimiter } = this;
    const delimiterStart = this.search.indexIn(rest);
    if (delimiterStart < 0) {
      // The line break and all but one byte of the delimiter may be at the end already.
      const certain = rest.length - delimiter.length - 1;
      if (this.isSearched && this.offset + certain - this.start > this.maxLength) this.tooLong();
      if (this.currentField !== undefined && this.offset + certain - this.start > this.shortLimit) this.read(undefined);
      if (!this.isSearched && this.currentField === undefined && certain > 0) {
        this.receiver?.push(rest.subarray(0, certain));
        this.advance(certain);
        this.checkedUntil = this.offset;
      }
      return false;
    }
    if (delimiterStart < 2 || rest[delimiterStart - 2] !== CR || rest[delimiterStart - 1] !== LF)
      this.fail("Its boundary stands within a part's value", this.offset + delimiterStart);
    const end = this.offset + delimiterStart - 2;
    if (this.declaredLength !== undefined && this.declaredLength !== end - this.start)
      this.fail("A part is not as long as its content-length says", this.start);
    if (this.isSearched) this.setFound(rest.toString("latin1", 0, delimiterStart - 2), end);
    else if (this.currentField !== undefined)
      this.read(delimiterStart - 2 > this.shortLimit ? undefined : rest.toString("latin1", 0, delimiterStart - 2));
    this.receiver?.push(rest.subarray(0, delimiterStart - 2));
    this.receiver?.end();
    this.receiver = undefined;
    this.checkedUntil = end;
    this.advance(delimiterStart + delimiter.length);
    this.state = "delimiter";
    return true;
  }

  private setFound(value: string, end: number): void {
    const { field = "", start } = this;
    if (value.length > this.maxLength) this.tooLong();
    if (value === "") throw new FormError(`${field} is empty.`, start, field);
    if (!/^[\x21-\x7e]+$/.test(value))
      throw new FormError(`${field} holds something else than printable ASCII.`, start, field);
    this.found = { start, end };
    this.isSearched = false;
  }

  /** @param value undefined: too long */
  private read(value: string | undefined): void {
    const { otherFields, start } = this;
    const fieldName = this.currentField as string;
    this.currentField = undefined;
    if (!("wants" in otherFields)) this.texts.set(fieldName, value ?? "");
    else if (value !== undefined) otherFields.read(fieldName, value);
    else
      throw new FormError(
        `The field ${JSON.stringify(fieldName)} is longer than ${this.shortLimit} bytes.`,
        start,
        fieldName,
      );
  }

  private readHead(head: string): void {
    if (CONTROL.test(head)) this.fail("A part's head holds a control character");
    const fields = new Map<string, string>();
    for (const line of head.split("\r\n")) {
      const [, name = "", value = ""] = LINE.exec(line) ?? this.fail("A line of a part's head is malformed");
      const key = name.toLowerCase();
      if (fields.has(key)) this.fail("A part's head names a field twice");
      fields.set(key, value);
    }
    const match = DISPOSITION.exec(fields.get("content-disposition") ?? "");
    if (!match || !FILE.test(match[3] ?? ""))
      this.fail(
        'A part does not begin its content-disposition with form-data; name="…", or goes on with more than filename',
      );
    if (!/^(?:7bit|8bit|binary)$/i.test(fields.get("content-transfer-encoding") ?? "binary"))
      this.fail("A part has a content-transfer-encoding");
    const type = fields.get("content-type") ?? "text/plain";
    // Some parsers search such a part for nested parts.
    if (/^(?:multipart|message)\//i.test(type)) this.fail("A part is made of parts");
    const length = fields.get("content-length");
    if (length !== undefined && !/^\d{1,15}$/.test(length)) this.fail("A part has a malformed content-length");
    this.declaredLength = length === undefined ? undefined : Number(length);
    this.startPart(match[1] ?? match[2] ?? "", match[3] !== undefined, type);
  }

  /** Handles the start of a part. */
  private startPart(name: string, isFile: boolean, type: string): void {
    const { field, offset: at, otherFields } = this;
    if (isFile) this.files++;
    const hasOtherCharset = OTHER_CHARSET.test(type);
    // Parsers that know this name take its value as the character set of all other fields.
    if (name === "_charset_") this.fail("It has a field _charset_");
    // Parsers decode the name as UTF-8.
    const decodedName = Buffer.from(name, "latin1").toString();
    const reason = this.whyRefused(decodedName);
    if (reason !== undefined)
      throw new FormError(`The field ${JSON.stringify(decodedName)} ${reason}.`, at, decodedName);
    const normalizedName = name.trim().replace(/\[.*$/, "").toLowerCase();
    if ("wants" in otherFields) {
      if (!isFile && otherFields.wants(name)) this.currentField = name;
      else this.receiver = otherFields.receiver?.(name, { isFile, type, hasOtherCharset });
    } else if (otherFields.includes(normalizedName)) {
      if (this.texts.has(normalizedName))
        throw new FormError(`The field ${normalizedName} occurs twice.`, at, normalizedName);
      this.currentField = normalizedName;
    }
    if (hasOtherCharset && this.currentField !== undefined)
      throw new FormError(`The field ${JSON.stringify(decodedName)} is in another character set.`, at, decodedName);
    const isOther = this.currentField === undefined && normalizedName !== field;
    if (isOther) this.receiver ??= this.receiverOf?.(name, { isFile, type, hasOtherCharset });
    if (field === undefined || normalizedName !== field) return;
    if (name !== field) throw new FormError(`The field ${JSON.stringify(name)} looks like ${field}.`, at, field);
    if (this.found) throw new FormError(`The field ${field} occurs twice.`, at, field);
    const [text, quoted, bare] = TEXT_TYPE.exec(type) ?? [];
    if (isFile || text === undefined || !CHARSET.test(quoted ?? bare ?? "utf-8"))
      throw new FormError(`The field ${field} is not plain text.`, at, field);
    this.isSearched = true;
  }

  private advance(bytes: number): void {
    this.unchecked = this.unchecked.subarray(bytes);
    this.offset += bytes;
  }

  private tooLong(): never {
    throw new FormError(`${this.field} is longer than ${this.maxLength} bytes.`, this.start, this.field);
  }

  private fail(message: string, at = this.offset): never {
    throw new FormError(`${message}.`, at);
  }
}
