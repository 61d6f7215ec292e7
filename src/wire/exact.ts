import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from "./grammar.ts";

/**
 * Lossless reading and writing of JSON: objects that need not be understood here (a tool's arguments, a schema) keep their
 * original text, and numbers that a double cannot hold keep their digits.
 */

/** A part of a JSON text, kept as its source. */
export class RawJson {
  private parsed: { value: unknown } | undefined;

  constructor(readonly text: string) {}

  /** The value, parsed once; numbers beyond a double's precision are rounded. */
  get value(): unknown {
    this.parsed ??= { value: JSON.parse(this.text) };
    return this.parsed.value;
  }

  /** Used by `JSON.stringify`, which loses numbers that a double cannot hold; `writeJson` does not. */
  toJSON(): unknown {
    return this.value;
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LOWER_T = 116;
const LOWER_F = 102;
const LOWER_N = 110;
const DIGIT_0 = 48;
const DIGIT_9 = 57;
/** Digits of an integer that every double holds. */
const SAFE_DIGITS = 15;
const NONE: ReadonlySet<string> = new Set();
/** Maximum depth, as the reader is recursive. */
const MAX_DEPTH = 512;

/**
 * Parses JSON text. An object or array that is a member named in `raw` becomes a RawJson, as does a number that a double cannot
 * hold: too large, too small, or an integer with too many digits. Members named `__proto__` are plain members; of duplicate
 * members the last one is kept.
 * @throws SyntaxError with the offset
 */
export function parseExact(text: string, raw: ReadonlySet<string> = NONE): unknown {
  return new ExactReader(text, raw).readDocument();
}

/**
 * Length up to which strings, mostly names, are read here: V8 copies such slices, where longer ones keep the whole text alive.
 */
const MAX_COPIED_LENGTH = 12;

function isUnescaped(text: string, from: number, to: number): boolean {
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i);
    if (code < 32 || code === BACKSLASH) return false;
  }
  return true;
}

class ExactReader {
  private offset = 0;
  private depth = 0;

  constructor(
    private readonly text: string,
    private readonly raw: ReadonlySet<string>,
  ) {}

  readDocument(): unknown {
    const value = this.value();
    this.space();
    if (this.offset < this.text.length) this.fail();
    return value;
  }

  private value(): unknown {
    this.space();
    switch (this.text.charCodeAt(this.offset)) {
      case OPEN_OBJECT:
        return this.object();
      case OPEN_ARRAY:
        return this.array();
      case QUOTE:
        return this.string();
      case LOWER_T:
        return this.word("true", true);
      case LOWER_F:
        return this.word("false", false);
      case LOWER_N:
        return this.word("null", null);
      default:
        return this.shortInteger() ?? this.number();
    }
  }

  private object(): unknown {
    const object: Record<string, unknown> = {};
    this.open();
    if (!this.close(CLOSE_OBJECT)) {
      do {
        this.space();
        if (this.text.charCodeAt(this.offset) !== QUOTE) this.fail();
        const name = this.string();
        this.space();
        this.expect(COLON);
        const value = this.raw.has(name) ? this.rawValue() : this.value();
        if (name === "__proto__")
          Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
        else object[name] = value;
      } while (this.next(CLOSE_OBJECT));
    }
    this.depth--;
    return object;
  }

  private array(): unknown[] {
    const array: unknown[] = [];
    this.open();
    if (!this.close(CLOSE_ARRAY)) {
      do array.push(this.value());
      while (this.next(CLOSE_ARRAY));
    }
    this.depth--;
    return array;
  }

  private rawValue(): unknown {
    this.space();
    const from = this.offset;
    const first = this.text.charCodeAt(from);
    if (first !== OPEN_OBJECT && first !== OPEN_ARRAY) return this.value();
    this.skipContainer();
    const text = this.text.slice(from, this.offset);
    JSON.parse(text);
    return new RawJson(text);
  }

  /** Goes to the end of an object or array by its brackets alone. */
  private skipContainer(): void {
    const { text, depth } = this;
    do {
      const code = text.charCodeAt(this.offset);
      if (code === QUOTE) this.offset = this.stringEnd();
      else if (code === OPEN_OBJECT || code === OPEN_ARRAY) this.open();
      else {
        if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) this.depth--;
        else if (Number.isNaN(code)) this.fail();
        this.offset++;
      }
    } while (this.depth > depth);
  }

  /** Returns the offset after the string at the current one. */
  private stringEnd(): number {
    let end = this.offset;
    let slashStart: number;
    do {
      end = this.text.indexOf('"', end + 1);
      if (end < 0) this.fail();
      slashStart = end;
      while (this.text.charCodeAt(slashStart - 1) === BACKSLASH) slashStart--;
    } while ((end - slashStart) % 2 === 1);
    return end + 1;
  }

  private string(): string {
    const from = this.offset;
    this.offset = this.stringEnd();
    const end = this.offset - 1;
    if (end - from <= MAX_COPIED_LENGTH && isUnescaped(this.text, from + 1, end)) return this.text.slice(from + 1, end);
    // JSON.parse checks escapes and control characters.
    return JSON.parse(this.text.slice(from, end + 1)) as string;
  }

  /** Reads the most frequent numbers: non-negative integers that any double holds. Undefined: it is none, or is not over. */
  private shortInteger(): number | undefined {
    const { text, offset } = this;
    let value = 0;
    let end = offset;
    let code = text.charCodeAt(end);
    for (; code >= DIGIT_0 && code <= DIGIT_9; code = text.charCodeAt(++end)) value = 10 * value + (code - DIGIT_0);
    const isOver = code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY;
    const length = end - offset;
    if (!isOver || length === 0 || length > SAFE_DIGITS || (length > 1 && text.charCodeAt(offset) === DIGIT_0))
      return undefined;
    this.offset = end;
    return value;
  }

  private number(): unknown {
    NUMBER.lastIndex = this.offset;
    const source = NUMBER.exec(this.text)?.[0] ?? this.fail();
    this.offset += source.length;
    const value = Number(source);
    return fitsDouble(value, source) ? value : new RawJson(source);
  }

  private word<T>(literal: string, value: T): T {
    if (!this.text.startsWith(literal, this.offset)) this.fail();
    this.offset += literal.length;
    return value;
  }

  private open(): void {
    this.offset++;
    if (++this.depth > MAX_DEPTH) this.fail();
  }

  private close(bracket: number): boolean {
    this.space();
    if (this.text.charCodeAt(this.offset) !== bracket) return false;
    this.offset++;
    return true;
  }

  /** Returns true after a comma, false after the closing bracket. */
  private next(bracket: number): boolean {
    if (this.close(bracket)) return false;
    this.expect(COMMA);
    return true;
  }

  private expect(code: number): void {
    if (this.text.charCodeAt(this.offset) !== code) this.fail();
    this.offset++;
  }

  private space(): void {
    for (; ; this.offset++) {
      const code = this.text.charCodeAt(this.offset);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
    }
  }

  private fail(): never {
    throw new SyntaxError(`This is not JSON at offset ${this.offset}.`);
  }
}

/** A nonzero digit in the mantissa. */
const NONZERO_DIGIT = /^-?[.0]*[1-9]/;

/**
 * Reports whether a double equals a number's source for any reader of doubles, exactly if it is an integer: ids and seeds are
 * read as integers. A fraction is the nearest double for every reader.
 */
function fitsDouble(value: number, source: string): boolean {
  if (value === 0) return !NONZERO_DIGIT.test(source);
  if (!Number.isInteger(value)) return Number.isFinite(value);
  return Number.isSafeInteger(value) || !/^-?\d+$/.test(source);
}

/** Levels at which `holdsRaw` is checked: deeper the check would cost more than it saves. */
const RAW_CHECK_DEPTH = 3;

/** Returns the value as JSON text; RawJson is written with its original text, undefined members are left out. */
export const writeJson = (value: unknown): string => writeValue(value, 0);

function writeValue(value: unknown, level: number): string {
  if (value instanceof RawJson) return value.text;
  // JSON.stringify takes a third of the time, and creates no intermediate strings.
  if (typeof value !== "object" || value === null || (level < RAW_CHECK_DEPTH && !holdsRaw(value)))
    return JSON.stringify(value ?? null);
  let text = "";
  if (Array.isArray(value)) {
    for (const element of value) text += `${text === "" ? "[" : ","}${writeValue(element ?? null, level + 1)}`;
    return text === "" ? "[]" : `${text}]`;
  }
  for (const name in value) {
    const member = (value as Record<string, unknown>)[name];
    if (member !== undefined)
      text += `${text === "" ? "{" : ","}${JSON.stringify(name)}:${writeValue(member, level + 1)}`;
  }
  return text === "" ? "{}" : `${text}}`;
}

function holdsRaw(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (value instanceof RawJson) return true;
  if (Array.isArray(value)) return value.some(holdsRaw);
  for (const name in value) if (holdsRaw((value as Record<string, unknown>)[name])) return true;
  return false;
}
