import { Body, notForm, notJson } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import { JsonError, type Scan, Scanner, type ScannerOptions } from "../wire/json.ts";
import { boundaryOf, FormError, FormScanner } from "../wire/multipart.ts";
import type { NamedObject, NamedObjects } from "./named.ts";

/** Finds the objects that a pass-through body names, while it arrives and at its end. */
export interface PassingBody {
  /** It can only be parsed without a content-encoding. */
  readonly plain: boolean;
  /** Parses a piece. @throws GatewayError for ambiguous input */
  push(bytes: Buffer): readonly NamedObject[];
  /** Called when the whole body has arrived. @throws GatewayError for ambiguous input */
  end(): readonly NamedObject[];
}

const NONE: readonly NamedObject[] = [];
const [OBJECT, ARRAY] = [..."{["].map((each) => each.charCodeAt(0));
/** White space, and the byte order marks of UTF-8, UTF-16 and UTF-32: some JSON parsers accept all of them. */
const BEFORE_JSON: ReadonlySet<number> = new Set([...Buffer.from(" \t\r\n"), 0, 0xef, 0xbb, 0xbf, 0xfe, 0xff]);
/** Limit of such leading bytes. */
const LEAD = 4096;
const ANY = 2 ** 31 - 1;
/** Limits of a body that is parsed because it may contain names: a larger one would block the thread for long. */
const PARSED: ScannerOptions = { maxKeys: 50_000, maxValues: 400_000 };

/** Types that vendors read as files and not as JSON, though each line may be JSON. */
const FILE =
  /^(?:multipart\/|audio\/|image\/|video\/|application\/(?:octet-stream|pdf|zip|sdp|x-ndjson|jsonl)\b|text\/csv\b)/i;
const FORM = /^multipart\/form-data\b/i;
const PAIRS = /^application\/x-www-form-urlencoded\b/i;

/**
 * Returns the parser for a body of a content type.
 * @param limit bytes of JSON at most
 * @throws GatewayError `unsupported_media_type` for a form whose boundary is ambiguous
 */
export function passingBody(type: string, naming: readonly NamedObjects[], limit: number): PassingBody {
  if (!FORM.test(type)) return new PassingJson(naming, limit, FILE.test(type), PAIRS.test(type));
  const boundary = boundaryOf(type);
  if (boundary !== undefined) return new PassingForm(boundary, naming);
  throw new GatewayError("unsupported_media_type", {
    message: "The boundary of the form cannot be read for sure.",
    hint: "Give content-type the parameter boundary, once, with letters and digits, and at most charset=utf-8 beside it.",
  });
}

/** JSON, whatever its content type says; anything else names nothing. */
class PassingJson implements PassingBody {
  private readonly pieces: Buffer[] = [];
  private readonly scanner = new Scanner({ maxKeys: ANY });
  readonly plain: boolean;
  private length = 0;
  private state: "unknown" | "json" | "other" = "unknown";
  private told = false;
  /** The objects that the first value of a file names. */
  private first = NONE;

  /**
   * @param file whether it may be a file that begins like JSON
   * @param pairs whether it may be a URL-encoded form, which is refused
   */
  constructor(
    private readonly naming: readonly NamedObjects[],
    private readonly limit: number,
    private readonly file: boolean,
    private readonly pairs: boolean,
  ) {
    this.plain = !file;
  }

  push(bytes: Buffer): readonly NamedObject[] {
    if (this.state === "other") return NONE;
    const known = this.state === "json";
    if (!known) this.begin(bytes);
    this.length += bytes.length;
    if (this.length > this.limit) {
      if (!this.file) throw new GatewayError("body_too_large");
      this.letPass();
    }
    this.pieces.push(bytes);
    this.look(known ? [bytes] : this.pieces);
    if (this.first.length > 0) return this.first;
    // Some parsers act on a value as soon as it is whole, whatever follows.
    return this.state === "json" && !this.file && this.scanner.done ? this.names() : NONE;
  }

  end(): readonly NamedObject[] {
    return this.state === "json" ? this.names() : NONE;
  }

  private names(): readonly NamedObject[] {
    if (this.told) return NONE;
    this.told = true;
    const scan = this.scan(() => this.scanner.end());
    return scan ? this.namesIn(scan, this.pieces) : NONE;
  }

  private namesIn(scan: Scan, pieces: readonly Buffer[]): readonly NamedObject[] {
    const seeing = this.naming.filter((each) => each.maySee(scan));
    if (seeing.length === 0) return NONE;
    this.bound(pieces);
    const body = new Body(pieces, scan);
    const naming = seeing.filter((each) => each.mayName(body));
    if (naming.length === 0) return NONE;
    const json = body.uniqueJson();
    return naming.flatMap((each) => each.in(json));
  }

  private begin(bytes: Buffer): void {
    const first = bytes.find((byte) => !BEFORE_JSON.has(byte));
    if (first === undefined && this.length + bytes.length <= LEAD) return;
    if (first === undefined && !this.file) throw new GatewayError("invalid_json");
    this.state = first === OBJECT || first === ARRAY ? "json" : "other";
    if (this.state === "other" && this.pairs) throw new GatewayError("unsupported_media_type");
  }

  private look(pieces: readonly Buffer[]): void {
    if (this.state === "other") this.letPass();
    if (this.state !== "json") return;
    this.scan(() => {
      for (const piece of pieces) this.scanner.push(piece);
    });
  }

  private letPass(): void {
    this.state = "other";
    this.pieces.length = 0;
  }

  /** @throws GatewayError for invalid JSON, unless it is a file */
  private scan<Result>(act: () => Result): Result | undefined {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      if (!this.file) throw notJson(error);
      this.first = this.firstValue(error.offset);
      this.letPass();
      return undefined;
    }
  }

  /** Returns the objects that a file's first JSON value names: a parser that takes one value never sees what follows. */
  private firstValue(end: number): readonly NamedObject[] {
    const value = Buffer.concat(this.pieces).subarray(0, end);
    const scanner = new Scanner({ maxKeys: ANY });
    try {
      scanner.push(value);
      return this.namesIn(scanner.end(), [value]);
    } catch (error) {
      if (error instanceof JsonError) return NONE;
      throw error;
    }
  }

  /** @throws GatewayError for a body over the limits of parsing */
  private bound(pieces: readonly Buffer[]): void {
    const scanner = new Scanner(PARSED);
    this.scan(() => {
      for (const piece of pieces) scanner.push(piece);
      scanner.end();
    });
  }
}

/** Decodes a field's name, in which the scanner makes each byte a character. */
const utf8 = (name: string): string => Buffer.from(name, "latin1").toString();

/** A form, whose text fields are checked by their names. */
class PassingForm implements PassingBody {
  readonly plain = true;
  private found: NamedObject[] = [];
  private readonly scanner: FormScanner;

  constructor(boundary: string, naming: readonly NamedObjects[]) {
    this.scanner = new FormScanner(boundary, undefined, 0, {
      wants: (name) => naming.some((each) => each.namedByField(utf8(name))),
      read: (name, value) => this.found.push(...naming.flatMap((each) => each.ofField(utf8(name), value))),
    });
  }

  push(bytes: Buffer): readonly NamedObject[] {
    return this.reading(() => this.scanner.push(bytes));
  }

  end(): readonly NamedObject[] {
    return this.reading(() => this.scanner.end());
  }

  private reading(act: () => void): readonly NamedObject[] {
    try {
      act();
    } catch (error) {
      if (!(error instanceof FormError)) throw error;
      throw notForm(error);
    }
    return this.found.splice(0);
  }
}
