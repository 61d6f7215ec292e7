import { parseExact, RawJson } from "./exact.ts";
import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COMMA, LOWER_U, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from "./grammar.ts";
import type { JsonObject } from "./values.ts";

/** Bytes of a part. */
const MAX_PART = 256 * 1024;
/** Maximum depth of a text that is parsed in parts: each level is kept until it closes. */
const MAX_DEPTH = 10_000;
/** The same for `parseExact`. */
const MAX_EXACT_DEPTH = 512;
/** Objects and arrays of a text that is parsed in parts: each takes up to 30 times its bytes. */
const MAX_HOLDERS = 4_000_000;
const NONE: ReadonlySet<string> = new Set();

/** An object or array whose end has not been found. */
interface Level {
  isObject: boolean;
  /** The offset of its bracket. */
  start: number;
  /** Where the elements begin that have not been parsed, and where the current one does. */
  from: number;
  element: number;
  /** The elements that have been parsed. */
  value: unknown[] | JsonObject | undefined;
  /** Whether the current element is among them, because it was too long to be parsed with others. */
  isSet: boolean;
  /** Whether it is the value of a raw member; undefined: not known yet. */
  isRaw: boolean | undefined;
}

/**
 * Parses the bytes of a JSON text as `JSON.parse` does, in steps: it yields after each. Lists, objects and strings that are longer
 * than a part are parsed in parts. Brackets, commas and the ends of strings are searched, and what stands between them is left to
 * the engine.
 * @param raw if given, as `parseExact` does
 * @param maxPart bytes that are parsed together; at least those of an escape, which are six
 * @throws SyntaxError also for a text nested deeper than 10,000 levels, and for one with over 4,000,000 objects and arrays
 */
export function* parseInSteps(
  bytes: Buffer,
  raw?: ReadonlySet<string>,
  maxPart = MAX_PART,
): Generator<undefined, unknown, undefined> {
  if (bytes.length > maxPart) return yield* new PartReader(bytes, raw, maxPart).read();
  return raw ? parseExact(bytes.toString(), raw) : JSON.parse(bytes.toString());
}

class PartReader {
  /** Open levels, of which the first is the text itself. Reused: a text has many objects. */
  private readonly levels: Level[] = [];
  private depth = -1;
  /** Objects and arrays so far, without the level of the text itself. */
  private holders = -1;
  /** The depth down to which no level is the value of a raw member, as far as that is known. */
  private plainDepth = 0;
  private readonly maxDepth: number;

  constructor(
    private readonly bytes: Buffer,
    private readonly raw: ReadonlySet<string> | undefined,
    private readonly maxPart: number,
  ) {
    this.maxDepth = raw ? MAX_EXACT_DEPTH : MAX_DEPTH;
    this.open(-1, false);
  }

  *read(): Generator<undefined, unknown, undefined> {
    const { length } = this.bytes;
    for (let i = 0; i < length; ) {
      i = this.scan(i, i + this.maxPart);
      if (this.bytes[i] === QUOTE) i = (yield* this.longString(i)) + 1;
      else if (i < length && this.isLongEnd(i)) yield* this.closeLong(++i);
      yield;
    }
    if (this.depth > 0) this.fail(length);
    const level = this.current;
    this.parseElements(level, length);
    const values = level.value as unknown[];
    return values.length === 1 ? values[0] : this.fail(length);
  }

  /** Reads on up to an offset; returns where it is, or that of the first quote of a long string or the bracket that closes a long level. */
  private scan(from: number, to: number): number {
    const { bytes } = this;
    const end = Math.min(to, bytes.length);
    let i = from;
    for (; i < end; i++) {
      const byte = bytes[i];
      if (byte === QUOTE) {
        const stringEnd = this.plainEnd(i + 1);
        if (bytes[stringEnd] !== QUOTE) break;
        i = stringEnd;
      } else if (byte === COMMA) this.comma(i);
      else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) this.open(i, byte === OPEN_OBJECT);
      else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
        if (this.isLongEnd(i)) break;
        this.close(i);
      }
    }
    return i;
  }

  /** Whether the current level is too long to be parsed with its neighbours, and a byte closes it. */
  private isLongEnd(at: number): boolean {
    const { value, start } = this.current;
    const byte = this.bytes[at];
    return (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) && (value !== undefined || at - start > this.maxPart);
  }

  private get current(): Level {
    return this.levels[this.depth] as Level;
  }

  private open(start: number, isObject: boolean): void {
    if (++this.depth > this.maxDepth) this.fail(start);
    if (++this.holders > MAX_HOLDERS) throw new SyntaxError(`The JSON has over ${MAX_HOLDERS} objects and arrays.`);
    const from = start + 1;
    const level = this.levels[this.depth];
    if (!level)
      this.levels.push({ isObject, start, from, element: from, value: undefined, isSet: false, isRaw: undefined });
    else {
      level.isObject = isObject;
      level.start = start;
      level.from = level.element = from;
      level.value = level.isRaw = undefined;
      level.isSet = false;
    }
  }

  private close(at: number): void {
    if (this.depth === 0 || this.current.isObject !== (this.bytes[at] === CLOSE_OBJECT)) this.fail(at);
    this.depth--;
    if (this.plainDepth > this.depth) this.plainDepth = this.depth;
  }

  private comma(at: number): void {
    const level = this.current;
    if (level.isSet || (at - level.from > this.maxPart && !this.isInRaw())) {
      this.parseElements(level, at, true);
      level.from = at + 1;
      level.isSet = false;
    }
    level.element = at + 1;
  }

  /** Closes the current level, which is too long to be parsed with its neighbours. */
  private *closeLong(end: number): Generator<undefined, void, undefined> {
    const level = this.current;
    const isInRaw = this.isInRaw();
    const { start, isRaw } = level;
    if (!isInRaw) this.parseElements(level, end - 1);
    const { value } = level;
    this.close(end - 1);
    if (!isInRaw) this.set(value, start, end);
    if (!isRaw) return;
    const part = this.bytes.subarray(start, end);
    // Only checks it: `parseExact` keeps its text.
    yield* parseInSteps(part, undefined, this.maxPart);
    this.set(new RawJson(part.toString()), start, end);
  }

  /** Parses the elements of a level up to an offset, which have not been parsed yet. @param beforeComma there must be one */
  private parseElements(level: Level, end: number, beforeComma = false): void {
    const { isObject, from, value } = level;
    const text = this.bytes.toString("utf8", from, end);
    if (level.isSet) {
      if (!isBlank(text)) this.fail(from);
      return;
    }
    if ((beforeComma || value !== undefined) && isBlank(text)) this.fail(from);
    const parsed = this.parse(isObject ? `{${text}}` : `[${text}]`) as unknown[] | JsonObject;
    if (value === undefined) level.value = parsed;
    else if (Array.isArray(value)) for (const element of parsed as unknown[]) value.push(element);
    else for (const name in parsed) setMember(value, name, (parsed as JsonObject)[name]);
  }

  private parse(text: string): unknown {
    return this.raw ? parseExact(text, this.raw) : JSON.parse(text);
  }

  /** Makes a parsed value the current element of the current level. */
  private set(value: unknown, start: number, end: number): void {
    const level = this.current;
    const { element } = level;
    if (level.isSet) this.fail(start);
    if (element > level.from) this.parseElements(level, element - 1, true);
    level.value ??= level.isObject ? {} : [];
    if (!Array.isArray(level.value)) setMember(level.value, this.nameAt(element, start), value);
    else if (isBlank(this.bytes.toString("utf8", element, start))) level.value.push(value);
    else this.fail(element);
    level.from = end;
    level.isSet = true;
  }

  /** Returns the name of a member, whose value begins at an offset. */
  private nameAt(from: number, valueStart: number): string {
    const [name] = Object.keys(JSON.parse(`{${this.bytes.toString("utf8", from, valueStart)}null}`) as JsonObject);
    return name ?? this.fail(from);
  }

  /** Whether the current level is in a raw member, whose text is kept. */
  private isInRaw(): boolean {
    const { raw = NONE, levels } = this;
    if (raw.size === 0) return false;
    // Each level is looked at once: a text may have many elements deep below the top.
    for (; this.plainDepth < this.depth; this.plainDepth++) {
      const [outer, level] = [levels[this.plainDepth] as Level, levels[this.plainDepth + 1] as Level];
      level.isRaw ??= outer.isObject && raw.has(this.nameAt(outer.element, level.start));
      if (level.isRaw) return true;
    }
    return false;
  }

  /** Reads a string that is longer than a part; returns the offset of its last quote. */
  private *longString(start: number): Generator<undefined, number, undefined> {
    const { bytes } = this;
    const level = this.current;
    const isName = () => level.isObject && isBlank(bytes.toString("utf8", level.element, start));
    // In this order: in a raw member the text before the string may be long.
    const isKept = !this.isInRaw() && !isName();
    let text = "";
    let from = start + 1;
    for (;;) {
      const plainEnd = this.plainEnd(from);
      if (plainEnd >= bytes.length) this.fail(start);
      const isLast = bytes[plainEnd] === QUOTE;
      const end = isLast ? plainEnd : characterStart(bytes, plainEnd);
      if (isKept) text += JSON.parse(`"${bytes.toString("utf8", from, end)}"`) as string;
      from = end;
      if (isLast) break;
      yield;
    }
    if (isKept) this.set(text, start, from + 1);
    return from;
  }

  /** Returns the offset of the quote that ends a string; after more than a part, that of a byte which is not within an escape. */
  private plainEnd(from: number): number {
    const { bytes } = this;
    const end = Math.min(from + this.maxPart, bytes.length);
    let i = from;
    while (i < end && bytes[i] !== QUOTE) i += bytes[i] !== BACKSLASH ? 1 : bytes[i + 1] === LOWER_U ? 6 : 2;
    return i;
  }

  private fail(at: number): never {
    throw new SyntaxError(`This is not JSON at offset ${at}.`);
  }
}

/** Sets a member as `JSON.parse` does, also one with the name `__proto__`. */
function setMember(object: JsonObject, name: string, value: unknown): void {
  if (name !== "__proto__") object[name] = value;
  else Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

const isBlank = (text: string): boolean => /^[ \t\r\n]*$/.test(text);

/** Returns the offset at which the character of UTF-8 begins that a byte belongs to; the same where it belongs to none. */
function characterStart(bytes: Buffer, at: number): number {
  for (let i = at; i > at - 4 && (bytes[i] as number) >= 0x80; i--) if ((bytes[i] as number) >= 0xc0) return i;
  return at;
}
