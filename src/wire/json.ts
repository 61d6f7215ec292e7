import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  ESCAPES,
  EXPECT_COLON,
  EXPECT_END,
  EXPECT_FIRST_KEY,
  EXPECT_FIRST_VALUE,
  EXPECT_KEY,
  EXPECT_SEPARATOR,
  EXPECT_VALUE,
  EXPECTED_TEXTS,
  HEX,
  JsonError,
  LITERALS,
  LOWER_U,
  NUMBER_MAY_END,
  NUMBER_STEPS,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACES,
  skipPlain,
  unexpectedByte,
} from "./grammar.ts";
import { type JsonKind, MemberList, type Scan, ScanResult } from "./members.ts";
import { recentName } from "./recent-texts.ts";
import { Utf8Validator } from "./utf8.ts";
import {
  ESCAPED_NAME,
  ESCAPED_VALUE,
  LONG_VALUE,
  MAX_NAME,
  MAX_PIECE,
  type Nesting,
  startBits,
  Window,
  watchBits,
} from "./window.ts";

export { JsonError, type JsonFault } from "./grammar.ts";
export type { JsonKind, Member, Scan } from "./members.ts";

/** The limits of a scan, and what it checks and keeps. */
export interface ScannerOptions {
  /** Maximum nesting depth; default 128. */
  maxDepth?: number;
  /** Maximum number of member names at all levels; default 50,000. */
  maxKeys?: number;
  /** Whether names of more than 16,383 bytes are accepted; default false. */
  longNames?: boolean;
  /** Maximum members of the top-level object; default unlimited. */
  maxMembers?: number;
  /** Maximum values at all levels, checked at the end of each piece; default unlimited. */
  maxValues?: number;
  /** Whether a top-level name may occur twice; default `refuse`. */
  duplicates?: "refuse" | "allow";
  /** Whether a top-level name may hold half of a surrogate pair, as names at deeper levels may; default `refuse`. */
  surrogates?: "refuse" | "allow";
  /** Top-level members whose value bytes are kept while the text is scanned. */
  capture?: readonly string[];
  /** Maximum bytes of a captured value; a longer one is not kept; default 1 MiB. */
  captureLimit?: number;
  /** Whether strings are checked completely, or only at their start; default `start`. */
  strings?: "start" | "whole";
}

/**
 * For answers, which are read as they are. They may have any number of names: one for each token and its alternatives, where
 * logprobs are requested; levels are limited only so that they take little memory.
 */
export const ANSWER_OPTIONS = {
  ...{ maxKeys: 2 ** 31 - 1, maxDepth: 10_000, longNames: true },
  ...{ duplicates: "allow", surrogates: "allow" },
} as const satisfies ScannerOptions;

/**
 * Bytes at the start of a string value that are checked for control characters and escapes. After them only the end is searched,
 * natively: a member's span is correct whatever a long text contains, and the provider checks the text.
 */
const CHECKED = 256;
/** If the byte at this distance is white space too, there may be a long run of it, which is skipped many bytes at a time. */
const LONG_BLANK = 16;
/** More than a string can have. */
const UNLIMITED = 1 << 30;

const EMPTY_WINDOW = new Window(Buffer.alloc(0));

// The kind of token that the end of a piece has cut.
const NONE = 0;
const STRING = 1;
const NUMBER = 2;
const LITERAL = 3;

/**
 * Finds the positions of the top-level members of a JSON text while its pieces arrive, with arbitrary boundaries, without
 * building values. Checks the whole grammar (RFC 8259), strict UTF-8 without a byte order mark, depth, number and length of
 * names, and that no top-level name occurs twice after unescaping. Lone surrogates written as escapes are valid JSON and pass,
 * except in a top-level name, which some parsers would read as another name.
 */
export class Scanner implements Nesting {
  // The position in the grammar, for `skipInside`.
  expect = EXPECT_VALUE;
  depth = 0;
  inObject = false;
  keys = 0;
  values = 0;
  seen = 0;
  readonly outer: boolean[] = [];
  readonly maxDepth: number;
  readonly maxKeys: number;

  private readonly utf8 = new Utf8Validator();
  private readonly capture: readonly string[] | undefined;
  private readonly captureLimit: number;
  private readonly checked: number;
  private readonly members = new MemberList();
  private readonly unique: boolean;
  private readonly wellFormed: boolean;
  private readonly maxName: number;
  private readonly maxMembers: number;
  private readonly maxValues: number;
  private window = EMPTY_WINDOW;
  /** Bytes before the current piece. */
  private base = 0;
  private token = NONE;
  /**
   * Within a string: 1 after a backslash, missing hex digits plus 1 after `\u`. Within a number or literal: the state reached.
   */
  private progress = 0;
  private literal = LITERALS.null;
  private kind: JsonKind = "null";
  private start = 0;
  private finish = 0;
  /** The name of the current top-level member. */
  private name = "";
  private stringStart = 0;
  /** Of the current string: its first two bytes, if a piece has cut it behind them; whether it contains a `\u`. */
  private firstByte = 0;
  private secondByte = 0;
  /** The last two bytes before the current piece, for a string whose end is cut. */
  private last = 0;
  private lastButOne = 0;
  private escaped = false;
  private numberStart = 0;
  /** The current string is so long that only its end is searched. */
  private seeksEnd = false;
  private keyStart = 0;
  private valueStart = 0;
  private valueKind: JsonKind = "null";
  /** Parts of a top-level name that spans pieces. */
  private nameParts: Buffer[] | undefined;
  /** Parts of the value that is being captured. */
  private captureParts: Buffer[] | undefined;
  private captures: Map<string, Buffer> | undefined;

  constructor(options: ScannerOptions = {}) {
    this.maxDepth = options.maxDepth ?? 128;
    this.maxKeys = options.maxKeys ?? 50_000;
    this.maxName = options.longNames ? Infinity : MAX_NAME;
    this.maxMembers = options.maxMembers ?? Infinity;
    this.maxValues = options.maxValues ?? Infinity;
    this.unique = options.duplicates !== "allow";
    this.wellFormed = options.surrogates !== "allow";
    this.capture = options.capture;
    this.captureLimit = options.captureLimit ?? 1 << 20;
    this.checked = options.strings === "whole" ? UNLIMITED : CHECKED;
  }

  /**
   * Takes the next piece.
   * @throws JsonError; the scanner must not be used afterwards
   */
  push(piece: Buffer): void {
    if (piece.length === 0) return;
    const invalidOffset = this.utf8.push(piece);
    if (invalidOffset >= 0) throw new JsonError("utf8", invalidOffset, "The text is not UTF-8");
    try {
      for (let offset = 0; offset < piece.length; offset += MAX_PIECE)
        this.read(piece.length <= MAX_PIECE ? piece : piece.subarray(offset, offset + MAX_PIECE));
    } catch (error) {
      if (error instanceof JsonError && (this.depth > 1 || (this.depth === 1 && this.expect <= EXPECT_VALUE)))
        error.member = this.name;
      throw error;
    }
  }

  /** Reads the next bytes, at most MAX_PIECE. */
  private read(piece: Buffer): void {
    const window = new Window(piece);
    this.window = window;
    let i = this.token === NONE ? 0 : this.resume(piece);
    const end = piece.length;
    while (i < end) {
      if (this.depth > 1) {
        i = window.skipInside(i, this, this.checked);
        if (i === end) break;
      }
      const byte = piece[i] as number;
      if (SPACES[byte] === 1) i = SPACES[piece[i + LONG_BLANK] ?? 0] === 1 ? window.blanksEnd(i) : i + 1;
      else if (this.expect <= EXPECT_VALUE) i = this.value(piece, i, byte);
      else i = this.punctuation(piece, i, byte);
    }
    if (this.nameParts) this.nameParts.push(piece.subarray(Math.max(0, this.keyStart - this.base)));
    if (this.captureParts) this.capturePiece(piece, end);
    if (this.token === STRING && this.stringStart + 1 >= this.base) {
      const start = this.stringStart - this.base;
      if (start >= 0) this.firstByte = piece[start] ?? 0;
      this.secondByte = piece[start + 1] ?? 0;
    }
    this.lastButOne = end > 1 ? (piece[end - 2] as number) : this.last;
    this.last = piece[end - 1] as number;
    this.base += end;
    if (this.values > this.maxValues) throw new JsonError("values", this.base, `More than ${this.maxValues} values`);
    this.window = EMPTY_WINDOW;
  }

  /** Whether the value is complete: only white space may follow. */
  get done(): boolean {
    return this.expect === EXPECT_END;
  }

  /**
   * Ends the text.
   * @throws JsonError when it is incomplete
   */
  end(): Scan {
    if (this.token === NUMBER && NUMBER_MAY_END[this.progress]) this.closeValue(Buffer.alloc(0), 0);
    const invalidOffset = this.utf8.end();
    if (invalidOffset >= 0) throw new JsonError("utf8", invalidOffset, "The text is not UTF-8");
    if (this.expect === EXPECT_END) return new ScanResult(this.kind, this.members, this.start, this.finish, this.seen);
    if (this.depth === 0 && this.token === NONE) throw new JsonError("empty", this.base, "No value: the text ends");
    const expected = this.token === NONE ? EXPECTED_TEXTS[this.expect] : undefined;
    throw new JsonError("syntax", this.base, "The text ends too early", expected);
  }

  /** Returns the bytes of a captured member's value once it is complete. */
  captured(name: string): Buffer | undefined {
    return this.captures?.get(name);
  }

  /** Reads the first byte of a value, or the bracket that closes an empty array. */
  private value(piece: Buffer, i: number, byte: number): number {
    if (byte === QUOTE) {
      this.openValue(i, "string");
      return this.string(piece, i + 1);
    }
    if (byte === OPEN_OBJECT) return this.open(i, true);
    if (byte === OPEN_ARRAY) return this.open(i, false);
    if (byte === CLOSE_ARRAY && this.expect === EXPECT_FIRST_VALUE) return this.close(piece, i);
    this.progress = 0;
    if (NUMBER_STEPS[byte] !== 0) {
      this.openValue(i, "number");
      this.numberStart = this.base + i;
      return this.number(piece, i);
    }
    const literalKind = byte === 116 ? "true" : byte === 102 ? "false" : byte === 110 ? "null" : undefined;
    if (literalKind === undefined) throw this.unexpected(piece, i);
    this.openValue(i, literalKind);
    this.literal = LITERALS[literalKind];
    return this.literalValue(piece, i);
  }

  /** Reads a byte where no value may begin: a name, a colon, a comma, a closing bracket. */
  private punctuation(piece: Buffer, i: number, byte: number): number {
    const expect = this.expect;
    if (expect === EXPECT_SEPARATOR) {
      if (byte === COMMA) {
        this.expect = this.inObject ? EXPECT_KEY : EXPECT_VALUE;
        this.values++;
      } else if (byte === (this.inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) return this.close(piece, i);
      else throw this.unexpected(piece, i);
    } else if (expect === EXPECT_COLON && byte === COLON) this.expect = EXPECT_VALUE;
    else if (expect <= EXPECT_KEY && byte === QUOTE) return this.key(piece, i);
    else if (expect === EXPECT_FIRST_KEY && byte === CLOSE_OBJECT) return this.close(piece, i);
    else throw this.unexpected(piece, i);
    return i + 1;
  }

  private key(piece: Buffer, i: number): number {
    if (++this.keys > this.maxKeys) throw new JsonError("keys", this.base + i, `More than ${this.maxKeys} names`);
    if (this.depth === 1) {
      this.keyStart = this.base + i;
      if (this.members.all.length === this.maxMembers)
        throw new JsonError("keys", this.keyStart, `More than ${this.maxMembers} members of the whole`);
    }
    const next = this.string(piece, i + 1);
    if (this.token === STRING && this.depth === 1) this.nameParts = [];
    return next;
  }

  private open(i: number, isObject: boolean): number {
    this.openValue(i, isObject ? "object" : "array");
    if (this.depth === this.maxDepth)
      throw new JsonError("depth", this.base + i, `Nested deeper than ${this.maxDepth} levels`);
    this.values++;
    this.outer[this.depth++] = this.inObject;
    this.inObject = isObject;
    this.expect = isObject ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
    return i + 1;
  }

  private close(piece: Buffer, i: number): number {
    this.inObject = this.outer[--this.depth] as boolean;
    this.closeValue(piece, i + 1);
    return i + 1;
  }

  private openValue(i: number, kind: JsonKind): void {
    if (this.depth > 1) return;
    this.valueStart = this.base + i;
    this.valueKind = kind;
    if (this.depth === 0) {
      this.start = this.base + i;
      this.kind = kind;
    } else if (this.capture?.includes(this.name) && this.inObject) {
      this.captures?.delete(this.name);
      this.captureParts = [];
    }
  }

  /** Ends a value before the piece's byte `i`. */
  private closeValue(piece: Buffer, i: number): void {
    this.token = NONE;
    this.expect = EXPECT_SEPARATOR;
    if (this.depth > 1) return;
    const end = this.base + i;
    if (this.depth === 0) {
      this.finish = end;
      this.expect = EXPECT_END;
    } else if (this.inObject) {
      const { name, keyStart } = this;
      this.members.add({ name, keyStart, start: this.valueStart, end, kind: this.valueKind });
      if (this.captureParts) this.endCapture(piece, i);
    }
  }

  /** Continues the token that the last piece cut. */
  private resume(piece: Buffer): number {
    if (this.token === STRING) {
      this.checkName(this.base);
      return this.string(piece, 0);
    }
    return this.token === NUMBER ? this.number(piece, 0) : this.literalValue(piece, 0);
  }

  /** Reads the rest of a string from byte `from`; returns where to continue. */
  private string(piece: Buffer, from: number): number {
    const length = piece.length;
    if (this.token === NONE) {
      this.progress = 0;
      this.seeksEnd = false;
      this.escaped = false;
      this.stringStart = this.base + from;
    }
    if (this.seeksEnd) return this.seekEnd(piece, from);
    let i = this.progress > 0 ? this.escape(piece, from) : from;
    const checkedEnd =
      this.expect <= EXPECT_VALUE ? Math.min(this.stringStart + this.checked - this.base, length) : length;
    if (checkedEnd - i > CHECKED && this.expect <= EXPECT_VALUE && this.base + i - this.stringStart >= LONG_VALUE) {
      // A fault, and an escape that the piece cuts, are read below, which takes four times as long.
      const end = this.window.stringEnd(i, checkedEnd);
      if (end >= 0 && end < checkedEnd) return this.closeString(piece, end + 1);
      if (end >= length) {
        this.progress = end > length ? 1 : 0;
        this.token = STRING;
        return length;
      }
    }
    while (i < checkedEnd) {
      i = skipPlain(piece, i, checkedEnd);
      if (i >= checkedEnd) break;
      const byte = piece[i] as number;
      if (byte === QUOTE) return this.closeString(piece, i + 1);
      if (byte !== BACKSLASH)
        throw this.unexpected(piece, i, `\\u${byte.toString(16).padStart(4, "0")} for this control character`);
      if (i + 1 < length && ESCAPES[piece[i + 1] as number] === 1) i += 2;
      else {
        this.progress = 1;
        i = this.escape(piece, i + 1);
      }
    }
    if (i < length) return this.seekEnd(piece, i);
    this.token = STRING;
    return length;
  }

  /** Finds the quote that ends a long string: the first one after an even number of backslashes. */
  private seekEnd(piece: Buffer, from: number): number {
    const end = piece.length;
    this.seeksEnd = true;
    // An escape that the last piece cut: its second byte belongs to the text.
    const start = this.progress > 0 ? from + 1 : from;
    // A string that fills pieces probably has no escapes.
    let i = from === 0 ? this.window.plainStringEnd(start) : this.window.stringEnd(start);
    if (i < 0) i = this.window.stringEnd(-i);
    this.progress = 0;
    if (i < end) return this.closeString(piece, i + 1);
    this.progress = i > end ? 1 : 0;
    this.token = STRING;
    return end;
  }

  /** Reads the rest of an escape after its backslash. */
  private escape(piece: Buffer, from: number): number {
    let i = from;
    for (; i < piece.length && this.progress > 0; i++) {
      const byte = piece[i] as number;
      if (this.progress > 1) {
        if (HEX[byte] === 0) throw this.unexpected(piece, i, "four hex digits after \\u");
        if (--this.progress === 1) this.progress = 0;
      } else if (byte === LOWER_U) {
        this.progress = 5;
        this.escaped = true;
      } else if (ESCAPES[byte] === 1) this.progress = 0;
      else throw this.unexpected(piece, i, 'an escape: one of "\\/bfnrtu after the backslash');
    }
    return i;
  }

  /**
   * Checks the length of a name that ends at a byte of the text, or continues there: a longer one is only meant to cost time.
   * `skipInside` leaves it to the scanner.
   */
  private checkName(end: number): void {
    if (this.expect > EXPECT_VALUE && end - this.stringStart > this.maxName)
      throw new JsonError("name", this.stringStart, `A name of more than ${this.maxName} bytes`);
  }

  private closeString(piece: Buffer, end: number): number {
    this.checkName(this.base + end - 1);
    if (this.depth > 1) this.updateWatches(piece, end);
    if (this.expect <= EXPECT_VALUE) this.closeValue(piece, end);
    else {
      this.token = NONE;
      this.expect = EXPECT_COLON;
      if (this.depth === 1) this.endName(piece, end);
    }
    return end;
  }

  /** Updates the watches for a string below the top level that window.wat has not passed, such as one that spans pieces. */
  private updateWatches(piece: Buffer, end: number): void {
    const isName = this.expect > EXPECT_VALUE;
    const start = this.stringStart - this.base;
    const length = end - 1 - start;
    const first = start < 0 ? this.firstByte : piece[start];
    if (!isName) this.seen |= startBits(first ?? 0, (start + 1 < 0 ? this.secondByte : piece[start + 1]) ?? 0);
    if (!isName && length + 1 >= LONG_VALUE) return;
    if (this.escaped) this.seen |= isName ? ESCAPED_NAME : ESCAPED_VALUE;
    const last = end > 1 ? piece[end - 2] : this.last;
    const lastButOne = end > 2 ? piece[end - 3] : end > 1 ? this.last : this.lastButOne;
    this.seen |= watchBits(isName ? "name" : "value", length, first ?? 0, last ?? 0, lastButOne ?? 0);
  }

  private endName(piece: Buffer, end: number): void {
    if (this.escaped) this.seen |= ESCAPED_NAME;
    if (this.nameParts) {
      this.nameParts.push(piece.subarray(0, end));
      const nameBytes = Buffer.concat(this.nameParts);
      this.nameParts = undefined;
      this.name = recentName(nameBytes, 1, nameBytes.length - 1);
    } else this.name = recentName(piece, this.keyStart - this.base + 1, end - 1);
    // Nothing else than an escape can be half of one in UTF-8.
    if (this.wellFormed && this.escaped && !this.name.isWellFormed())
      throw new JsonError("syntax", this.keyStart, "A name holds half of a surrogate pair");
    if (this.unique && this.members.find(this.name))
      throw new JsonError("duplicate", this.keyStart, `The name ${shortenName(this.name)} occurs twice`);
  }

  private number(piece: Buffer, from: number): number {
    let state = this.progress;
    for (let i = from; i < piece.length; i++) {
      const nextState = NUMBER_STEPS[state * 256 + (piece[i] as number)] as number;
      if (nextState === 0) {
        if (!NUMBER_MAY_END[state]) throw this.unexpected(piece, i, "a digit");
        this.closeValue(piece, i);
        return i;
      }
      state = nextState;
    }
    if (this.base + piece.length - this.numberStart > MAX_PIECE)
      throw new JsonError("values", this.numberStart, `A number of more than ${MAX_PIECE} digits`);
    this.token = NUMBER;
    this.progress = state;
    return piece.length;
  }

  private literalValue(piece: Buffer, from: number): number {
    for (let i = from; i < piece.length; i++) {
      if (piece[i] !== this.literal[this.progress]) throw this.unexpected(piece, i, this.literal.toString());
      if (++this.progress === this.literal.length) {
        this.closeValue(piece, i + 1);
        return i + 1;
      }
    }
    this.token = LITERAL;
    return piece.length;
  }

  private capturePiece(piece: Buffer, to: number): void {
    this.captureParts?.push(piece.subarray(Math.max(0, this.valueStart - this.base), to));
    if (this.base + to - this.valueStart > this.captureLimit) this.captureParts = undefined;
  }

  private endCapture(piece: Buffer, end: number): void {
    this.capturePiece(piece, end);
    if (!this.captureParts) return;
    this.captures ??= new Map();
    this.captures.set(this.name, Buffer.concat(this.captureParts));
    this.captureParts = undefined;
  }

  private unexpected(piece: Buffer, i: number, expected = EXPECTED_TEXTS[this.expect]): JsonError {
    return unexpectedByte(piece[i] as number, this.base + i, expected);
  }
}

/**
 * Scans a complete text.
 * @throws JsonError
 */
export function scan(bytes: Buffer, options?: ScannerOptions): Scan {
  const scanner = new Scanner(options);
  scanner.push(bytes);
  return scanner.end();
}

/** Shortens a name for an error message: it can be long and contain anything. */
const shortenName = (name: string): string => JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name);
