import { Body, invalidFormError, invalidJsonError } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { RequestFiles } from "../core/object-members.ts";
import { EQUALS, OPEN_ARRAY, OPEN_OBJECT } from "../wire/grammar.ts";
import { JsonError, type Scan, Scanner, type ScannerOptions } from "../wire/json.ts";
import { FormError, type FormPart, FormScanner, parseBoundary, type ValueReceiver } from "../wire/multipart.ts";
import { FormValueFinder } from "./form-value-finder.ts";
import type { BodyReferenceFinder, ObjectReference, ReferenceFinder } from "./reference-finder.ts";
import { RequestFileFinder } from "./request-file-finder.ts";
import { RequestLines } from "./request-lines.ts";

const NO_REFERENCES: readonly ObjectReference[] = [];
/** White space, and the byte order marks of UTF-8, UTF-16 and UTF-32: some JSON parsers accept all of them. */
const BEFORE_JSON: ReadonlySet<number> = new Set([...Buffer.from(" \t\r\n"), 0, 0xef, 0xbb, 0xbf, 0xfe, 0xff]);
/** Limit of such leading bytes. */
const MAX_LEADING_BYTES = 4096;
/** Limit of JSON in a form's field: it is buffered. */
const MAX_JSON_FIELD = 512 * 1024;
const UNLIMITED = 2 ** 31 - 1;
/** Limits of a body that is parsed because it may contain names: a larger one would block the thread for long. */
const PARSE_LIMITS = { maxKeys: 50_000, maxValues: 400_000 } as const satisfies ScannerOptions;

/** Faults of JSON that other readers accept, so that a file with one may name what is not found here. */
const LENIENT: ReadonlySet<JsonError["fault"]> = new Set(["duplicate", "name", "depth", "keys", "values"]);

/** White space of JSON. */
const SPACE = "[ \\t\\r\\n]";
const BLANK = new RegExp(`^${SPACE}*$`);
/**
 * The beginnings of JSON, or of white space before it, behind the byte order mark of UTF-8 and in UTF-16 and UTF-32: the mark,
 * which may be missing but for UTF-8, and the zeros on both sides of a character.
 */
const OTHER_JSON = [
  ["\\xef\\xbb\\xbf", "", ""],
  ["(?:\\xff\\xfe)?", "", "\\0"],
  ["(?:\\xfe\\xff)?", "\\0", ""],
  ["(?:\\xff\\xfe\\0\\0)?", "", "\\0{3}"],
  ["(?:\\0\\0\\xfe\\xff)?", "\\0{3}", ""],
].map(
  ([mark, before, after]) =>
    new RegExp(`^${mark}(?:${before}${SPACE}${after})*(?:${before}[{[]${after && "(?:\\0|$)"}|[\\0 \\t\\r\\n]{0,3}$)`),
);

/** Types that vendors read as files and not as JSON, though each line may be JSON. */
const FILE =
  /^(?:(?:audio|image|video)\/|application\/(?:octet-stream|pdf|zip|sdp|x-ndjson|jsonl)\b|text\/csv\b|(?:application|text)\/(?:[\w.-]+\+)?xml\b)/i;
const MULTIPART = /^multipart\//i;
const FORM = /^multipart\/form-data\b/i;
const URL_ENCODED = /^application\/x-www-form-urlencoded\b/i;
/** Another character set than one in which every reader finds the same names. */
const OTHER_CHARSET = /;\s*charset\s*=(?!\s*"?(?:utf-?8|us-ascii)"?\s*(?:;|$))/i;

/**
 * What a request may send besides JSON and forms: nothing; a file, by its type; anything; or only a file, a piece of an upload.
 * Vendors read JSON in any other type too, or in none.
 */
type AllowedContent = "json" | "file" | "any" | "piece";

/**
 * Returns the parser for a body of a content type.
 * @param limit bytes of JSON at most, also of each line
 * @param requestFiles how forms upload files whose lines are requests
 * @param onBuffered called with the bytes of JSON that are kept until it can be parsed
 * @throws GatewayError `unsupported_media_type` for a form whose boundary is ambiguous
 */
export function bodyReferenceFinder(
  type: string,
  finders: readonly ReferenceFinder[],
  limit: number,
  allowed: AllowedContent = "file",
  requestFiles?: RequestFiles,
  onBuffered: (bytes: number) => void = () => {},
): BodyReferenceFinder {
  if (allowed === "piece" || !FORM.test(type))
    return new JsonReferenceFinder(finders, limit, type, allowed, onBuffered);
  const boundary = parseBoundary(type);
  if (boundary !== undefined) {
    const file =
      requestFiles && new RequestFileFinder(requestFiles, requestLines(requestFiles.field, finders, limit, onBuffered));
    return new FormReferenceFinder(boundary, finders, file, limit, onBuffered);
  }
  throw new GatewayError("unsupported_media_type", {
    message: "The boundary of the form cannot be read for sure.",
    hint: "Give content-type the parameter boundary, once, with letters and digits, and at most charset=utf-8 beside it.",
  });
}

/**
 * Returns the reader of a file with a request in each line.
 * @param field the field with the file, for error messages
 * @param limit bytes of a line at most
 */
export function requestLines(
  field: string,
  finders: readonly ReferenceFinder[],
  limit: number,
  onBuffered: (bytes: number) => void = () => {},
): RequestLines {
  return new RequestLines(field, {
    mayRefer: (bytes) => bytes.includes(0) || finders.some((each) => each.mayReferInBytes(bytes)),
    finder: () => new JsonReferenceFinder(finders, limit, "", "json", onBuffered),
  });
}

/** JSON, whatever its content type says; anything else names nothing. */
class JsonReferenceFinder implements BodyReferenceFinder {
  private readonly pieces: Buffer[] = [];
  private readonly scanner = new Scanner({ maxKeys: UNLIMITED });
  /** It may be a file that begins like JSON. */
  private readonly file: boolean;
  /** Its content type is that of a form, which servers may read in JSON too: `["&file_id=file-1&"]` has a field with a value. */
  private readonly mayBeForm: boolean;
  private length = 0;
  private state: "unknown" | "json" | "other" = "unknown";
  private reported = false;
  /** The objects that the first value of a file names. */
  private firstValueReferences = NO_REFERENCES;

  constructor(
    private readonly finders: readonly ReferenceFinder[],
    private readonly limit: number,
    private readonly type: string,
    private readonly allowed: AllowedContent,
    private readonly onBuffered: (bytes: number) => void,
  ) {
    const isFile = FILE.test(type) || (allowed === "any" && MULTIPART.test(type));
    this.file = allowed === "piece" || (allowed !== "json" && isFile);
    this.mayBeForm = allowed !== "piece" && allowed !== "any" && URL_ENCODED.test(type);
  }

  push(bytes: Buffer): readonly ObjectReference[] {
    if (this.state === "other") return NO_REFERENCES;
    const known = this.state === "json";
    if (!known) this.detectKind(bytes);
    if (this.mayBeForm && bytes.includes(EQUALS))
      throw new GatewayError("unsupported_media_type", { hint: "Send JSON with content-type: application/json." });
    this.length += bytes.length;
    this.pieces.push(bytes);
    this.onBuffered(this.length);
    this.scanPieces(known ? [bytes] : this.pieces);
    if (this.firstValueReferences.length > 0) return this.firstValueReferences;
    // Only now: a large piece may have turned out to be no JSON.
    if (this.isTooLong) {
      if (this.allowed !== "piece") throw new GatewayError("body_too_large");
      this.ignoreRest();
    }
    // Some parsers act on a value as soon as it is whole, whatever follows.
    return this.state === "json" && !this.file && this.scanner.done ? this.findAll() : NO_REFERENCES;
  }

  private get isTooLong(): boolean {
    return this.length > this.limit && this.state !== "other";
  }

  end(): readonly ObjectReference[] {
    this.onBuffered(0);
    return this.state === "json" ? this.findAll() : NO_REFERENCES;
  }

  private findAll(): readonly ObjectReference[] {
    if (this.reported) return NO_REFERENCES;
    this.reported = true;
    const scan = this.scan(() => this.scanner.end());
    return scan ? this.findIn(scan, this.pieces) : NO_REFERENCES;
  }

  private findIn(scan: Scan, pieces: readonly Buffer[]): readonly ObjectReference[] {
    const candidates = this.finders.filter((each) => each.mayReferTo(scan, pieces));
    if (candidates.length === 0) return NO_REFERENCES;
    this.checkLimits(pieces);
    const body = new Body(pieces, scan);
    const finders = candidates.filter((each) => each.mayReferInBody(body));
    if (finders.length === 0) return NO_REFERENCES;
    const json = body.uniqueJson();
    return finders.flatMap((each) => each.findInJson(json));
  }

  private detectKind(bytes: Buffer): void {
    const first = bytes.find((byte) => !BEFORE_JSON.has(byte));
    if (first === undefined && this.length + bytes.length <= MAX_LEADING_BYTES) return;
    if (first === undefined && (!this.file || this.isOtherJson([...this.pieces, bytes])))
      throw new GatewayError("invalid_json");
    this.state = first === OPEN_OBJECT || first === OPEN_ARRAY ? "json" : "other";
    if (this.state === "json" && this.allowed !== "piece" && OTHER_CHARSET.test(this.type))
      throw new GatewayError("unsupported_media_type", { hint: "Send JSON in UTF-8." });
    if (this.state === "json") return;
    if (this.mayBeForm) throw new GatewayError("unsupported_media_type");
    if (!this.file && this.allowed !== "any")
      throw new GatewayError("unsupported_media_type", {
        message: `Only JSON can be checked for objects of other keys ${this.allowed === "json" ? "here" : "in this content type"}.`,
        hint: "Send JSON, or a form or file with its content type; or let the operator set open: true on the path.",
      });
  }

  /** Reports whether a body may be JSON that only other readers understand. A piece of an upload is a file to every reader. */
  private isOtherJson(pieces: readonly Buffer[]): boolean {
    const start = Buffer.concat(pieces).toString("latin1", 0, 2 * MAX_LEADING_BYTES);
    return this.allowed !== "piece" && (BLANK.test(start) || OTHER_JSON.some((pattern) => pattern.test(start)));
  }

  private scanPieces(pieces: readonly Buffer[]): void {
    if (this.state === "other") this.ignoreRest();
    if (this.state !== "json") return;
    this.scan(() => {
      for (const piece of pieces) this.scanner.push(piece);
    });
  }

  private ignoreRest(): void {
    this.state = "other";
    this.pieces.length = 0;
    this.onBuffered(0);
  }

  /** @throws GatewayError for invalid JSON, unless it is a file, and for JSON that cannot be read */
  private scan<Result>(act: () => Result): Result | undefined {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      const hides = this.allowed !== "piece" && LENIENT.has(error.fault);
      if (!this.file || hides || this.isOtherJson(this.pieces)) throw invalidJsonError(error);
      this.firstValueReferences = this.findInFirstValue(error.offset);
      this.ignoreRest();
      return undefined;
    }
  }

  /** Returns the objects that a file's first JSON value names: a parser that takes one value never sees what follows. */
  private findInFirstValue(end: number): readonly ObjectReference[] {
    const value = Buffer.concat(this.pieces).subarray(0, end);
    const scanner = new Scanner({ maxKeys: UNLIMITED });
    try {
      scanner.push(value);
      return this.findIn(scanner.end(), [value]);
    } catch (error) {
      if (error instanceof JsonError) return NO_REFERENCES;
      throw error;
    }
  }

  /** @throws GatewayError for a body over the limits of parsing */
  private checkLimits(pieces: readonly Buffer[]): void {
    // Names and values have more bytes than that together.
    if (this.length < PARSE_LIMITS.maxKeys) return;
    const scanner = new Scanner(PARSE_LIMITS);
    this.scan(() => {
      for (const piece of pieces) scanner.push(piece);
      scanner.end();
    });
  }
}

/** Decodes a field's name, in which the scanner makes each byte a character. */
const utf8 = (name: string): string => Buffer.from(name, "latin1").toString();

/** Names of fields that upload files: what these contain names nothing. */
const UPLOAD_FIELD = /^files?(?:\[\d*\])?$/i;
/** Content types of parts that some vendors read as JSON although they have a filename. */
const JSON_TYPE = /^[\w.-]+\/(?:[\w.-]+\+)?json\b/i;

/**
 * Returns the finder for the value of a form's field whose name does not say that it names an object; undefined: what is uploaded as
 * a file names nothing.
 * @param name its bytes as characters
 * @param limit bytes of JSON at most
 * @throws GatewayError `invalid_field` for one that cannot be read
 */
export function formValueFinder(
  name: string,
  { isFile, type, hasOtherCharset }: FormPart,
  finders: readonly ReferenceFinder[],
  limit: number,
  onBuffered: (bytes: number) => void,
  onFound: (found: readonly ObjectReference[]) => void,
): ValueReceiver | undefined {
  const field = utf8(name);
  if (isFile && (UPLOAD_FIELD.test(field) || !JSON_TYPE.test(type))) return undefined;
  if (hasOtherCharset)
    throw new GatewayError("invalid_field", {
      message: `The field ${field} cannot be checked for objects of other keys: it is in another character set.`,
      hint: "Send it in UTF-8.",
      param: field,
    });
  const most = Math.min(limit, MAX_JSON_FIELD);
  const json = new JsonReferenceFinder(finders, most, "application/octet-stream", "file", onBuffered);
  return new FormValueFinder(field, finders, json, onFound);
}

/** A form, whose fields are checked by their names, and by JSON and ids in their values. */
class FormReferenceFinder implements BodyReferenceFinder {
  private found: ObjectReference[] = [];
  private readonly scanner: FormScanner;

  constructor(
    boundary: string,
    finders: readonly ReferenceFinder[],
    private readonly file: RequestFileFinder | undefined,
    limit: number,
    onBuffered: (bytes: number) => void,
  ) {
    this.scanner = new FormScanner(boundary, undefined, 0, {
      wants: (name) => file?.isPurpose(name) === true || finders.some((each) => each.isReferenceField(utf8(name))),
      read: (name, value) => {
        if (file?.isPurpose(name)) file.setPurpose(value);
        this.found.push(...finders.flatMap((each) => each.findInField(utf8(name), value)));
      },
      receiver: (name, part) =>
        file?.receiver(name, part) ??
        formValueFinder(name, part, finders, limit, onBuffered, (found) => this.found.push(...found)),
    });
  }

  push(bytes: Buffer): readonly ObjectReference[] {
    return this.parse(() => this.scanner.push(bytes));
  }

  end(): readonly ObjectReference[] {
    return this.parse(() => this.scanner.end());
  }

  private parse(act: () => void): readonly ObjectReference[] {
    try {
      act();
    } catch (error) {
      if (!(error instanceof FormError)) throw error;
      throw invalidFormError(error);
    }
    return [...this.found.splice(0), ...(this.file?.take() ?? NO_REFERENCES)];
  }
}
