import { readFileSync } from "node:fs";
import { BACKSLASH, BYTE_CLASSES, ESCAPES, findByte, HEX, NUMBER_MAY_END, NUMBER_STEPS, QUOTE } from "./grammar.ts";

/** The state of a scanner between two tokens. */
export interface Nesting {
  /** What may come next. */
  expect: number;
  /** Number of open containers. */
  depth: number;
  inObject: boolean;
  /** For each enclosing container, whether it is an object. */
  readonly outer: boolean[];
  /** Number of names so far. */
  keys: number;
  /** Containers and commas so far: the number of values is at most their sum plus one. */
  values: number;
  /** The bits of watches whose name or short value may have been passed. */
  seen: number;
  readonly maxDepth: number;
  readonly maxKeys: number;
}

/** Maximum bytes of a piece: as much as a socket delivers at once. */
export const MAX_PIECE = 65_536;
/**
 * Maximum bytes of a name. V8 hashes longer strings by their length alone: parsing an object that has two thousand of them takes
 * twenty seconds instead of ten milliseconds.
 */
export const MAX_NAME = 16_383;
/** Returned by `stringEnd` for invalid input. */
export const FAULT = -1;

// Offsets in the memory of window.wat.
const OUTER = 64;
const PIECE = 4096;
/** Open containers that fit there; deeper texts are read by the scanner itself. */
const MAX_DEPTH = 400;
/** A search reads 32 bytes at a time, and is stopped by quotes placed after the piece. */
const GUARD_BYTES = 64;
/** The bits of watched texts, by hash; each table has 4096 words. */
const [NAMES, VALUES_SEEN] = [73_728, 90_112] as const;
const NEEDLE = 106_496;
/** The bits of watched starts of values, by hash; of the start of a watched short value this one too. */
const STARTS = 107_520;
const SHORT_VALUE = 1 << 31;
const SLOTS = 4096;
/** Bytes of a value, including its opening quote, from which it is too long to be watched. */
export const LONG_VALUE = 200;
/** Set in `seen` where a name, also at the top level, or a short value, contains a `\u` and may be any text. */
export const [ESCAPED_NAME, ESCAPED_VALUE] = [1 << 31, 1 << 30] as const;

/** The part of the WebAssembly API used here; node's types leave it to those of browsers. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: unknown };
};

const wasm = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(new URL("./window.wasm", import.meta.url))))
  .exports as {
  memory: { buffer: ArrayBuffer };
  pass(from: number, to: number, maxDepth: number, maxKeys: number, checked: number): number;
  end(from: number, checked: number): number;
  blanks(from: number): number;
  find(from: number, to: number, length: number, pair: number): number;
  blank(from: number, to: number): number;
  text(from: number): number;
};
const memory = new Uint8Array(wasm.memory.buffer);
const words = new DataView(wasm.memory.buffer);
const [EXPECT, DEPTH, IN_OBJECT, KEYS, VALUES, SEEN] = [0, 1, 2, 3, 4, 5] as const;
const state = new Int32Array(memory.buffer, 0, 6);
const watchedNames = new Int32Array(memory.buffer, NAMES, SLOTS);
const watchedValues = new Int32Array(memory.buffer, VALUES_SEEN, SLOTS);
const watchedStarts = new Int32Array(memory.buffer, STARTS, SLOTS);
memory.set(BYTE_CLASSES, 512);
memory.set(ESCAPES, 768);
memory.set(HEX, 1024);
memory.set(NUMBER_STEPS, 1280);
memory.set(NUMBER_MAY_END.map(Number), 3584);

/** Returns the table index of a value's first two bytes, with the same hash as window.wat. */
const startSlot = (first: number, second: number): number => (first << 4) ^ second;

/** Returns the table index of a text, with the same hash as window.wat. */
const watchSlot = (length: number, first: number, last: number, lastButOne: number): number =>
  ((lastButOne + (last << 8)) * 37 + first * 301 + length * 1123) & (SLOTS - 1);

/** Lets scans set `bit` when they pass one of these texts: a name, or a short value. Other texts may have the same hash. */
export function addWatch(texts: readonly string[], bit: number, kind: "name" | "value"): void {
  const table = kind === "name" ? watchedNames : watchedValues;
  for (const text of texts) {
    const bytes = Buffer.from(text);
    // Other characters have escapes besides `\u`.
    if (!/^[\w.\u017f\u212a-]{2,198}$/.test(text)) throw new RangeError(`"${text}" cannot be watched for`);
    const [first = 0, second = 0] = bytes;
    const slot = watchSlot(bytes.length, first, bytes.at(-1) as number, bytes.at(-2) as number);
    table[slot] = (table[slot] as number) | bit;
    if (kind === "value") addStartBit(first, second, SHORT_VALUE);
  }
}

/** Lets scans set `bit` when they pass a value, of any length, that begins with one of these pairs of ASCII characters. */
export function addStartWatch(pairs: readonly string[], bit: number): void {
  for (const pair of pairs) addStartBit(pair.charCodeAt(0), pair.charCodeAt(1), bit);
}

function addStartBit(first: number, second: number, bit: number): void {
  const slot = startSlot(first, second);
  watchedStarts[slot] = (watchedStarts[slot] as number) | bit;
}

/** Returns the bits of the watches that match a value with these first bytes. */
export const startBits = (first: number, second: number): number =>
  (watchedStarts[startSlot(first, second)] as number) & ~SHORT_VALUE;

/** Returns the bits of the watches that match a string with these properties. */
export function watchBits(
  kind: "name" | "value",
  length: number,
  first: number,
  last: number,
  lastButOne: number,
): number {
  return (kind === "name" ? watchedNames : watchedValues)[watchSlot(length, first, last, lastButOne)] as number;
}

/** The window whose bytes are in the memory. */
let loadedWindow: Window | undefined;

/**
 * A piece of JSON in which window.wat skips tokens and finds the ends of strings 32 bytes at a time; its SIMD instructions take a
 * fifth of the time of the same loop in JavaScript. The piece is copied to its memory on first use.
 */
export class Window {
  readonly length: number;

  /** @param bytes at most MAX_PIECE */
  constructor(readonly bytes: Buffer) {
    this.length = bytes.length;
  }

  /**
   * Skips tokens inside a top-level member, where nothing must be recorded: nearly all tokens of a conversation. Stops before
   * anything else: a token that the piece cuts, an error, the end of the member; the scanner itself continues from there.
   * @param checked bytes of a string value that are checked
   * @returns the offset of the first byte that was not skipped
   */
  skipInside(from: number, nesting: Nesting, checked: number): number {
    const { outer } = nesting;
    if (nesting.depth > MAX_DEPTH) return from;
    this.load();
    state[EXPECT] = nesting.expect;
    state[DEPTH] = nesting.depth;
    state[IN_OBJECT] = nesting.inObject ? 1 : 0;
    state[KEYS] = nesting.keys;
    state[VALUES] = nesting.values;
    state[SEEN] = nesting.seen;
    for (let i = 0; i < nesting.depth; i++) memory[OUTER + i] = outer[i] ? 1 : 0;
    const maxDepth = Math.min(nesting.maxDepth, MAX_DEPTH);
    const to = wasm.pass(PIECE + from, PIECE + this.length, maxDepth, nesting.maxKeys, checked) - PIECE;
    const depth = state[DEPTH] as number;
    for (let i = 0; i < depth; i++) outer[i] = memory[OUTER + i] === 1;
    nesting.expect = state[EXPECT] as number;
    nesting.depth = depth;
    nesting.inObject = state[IN_OBJECT] === 1;
    nesting.keys = state[KEYS] as number;
    nesting.values = state[VALUES] as number;
    nesting.seen = state[SEEN] as number;
    return to;
  }

  /**
   * Returns the offset of the quote that ends a string, from inside it. Returns the length if the bytes end before, and one more
   * if they end after a backslash.
   * @param checked offset up to which escapes and control characters are checked; after it only the end is searched
   * @returns FAULT for a control character, an invalid escape or a `\u` that the piece cuts, before `checked`
   */
  stringEnd(from: number, checked = 0): number {
    this.load();
    const end = wasm.end(PIECE + from, PIECE + checked);
    return end < 0 ? FAULT : end - PIECE;
  }

  /**
   * Does the same without a copy, for pieces probably without escapes; at an escaped quote, returns minus the offset after it.
   */
  plainStringEnd(from: number): number {
    const { bytes } = this;
    const quote = findByte(bytes, QUOTE, from);
    let slashStart = quote;
    while (slashStart > from && bytes[slashStart - 1] === BACKSLASH) slashStart--;
    if (((quote - slashStart) & 1) === 0) return quote;
    return quote === this.length ? quote + 1 : -(quote + 1);
  }

  /** Returns the offset of the first byte from `from` that is not white space, or the length. */
  blanksEnd(from: number): number {
    this.load();
    return wasm.blanks(PIECE + from) - PIECE;
  }

  private load(): void {
    if (loadedWindow === this) return;
    loadedWindow = this;
    memory.set(this.bytes, PIECE);
    memory.fill(QUOTE, PIECE + this.length, PIECE + this.length + GUARD_BYTES);
  }
}

/** Bytes in which nearly all heads of messages end: no more is copied before the end of one is known. */
const USUAL_HEAD = 4096;
const BLANK_LINE = Buffer.from("\r\n\r\n");

/**
 * Copies lines up to a blank one to the memory of window.wat, for the functions below: offsets there count from `from`.
 * @param limit maximum bytes of them, up to MAX_PIECE; longer ones are not copied
 * @returns their length with the last one's end, but without the blank line; -1 where that has not come
 */
export function loadLines(bytes: Buffer, from: number, limit: number): number {
  const usual = Math.min(bytes.length - from, USUAL_HEAD);
  copyToPiece(bytes, from, usual);
  let end = wasm.blank(PIECE, PIECE + usual) - PIECE;
  if (end === usual) {
    if (usual < USUAL_HEAD) return -1;
    end = bytes.indexOf(BLANK_LINE, from) - from;
    if (end < 0) return -1;
    if (end + 2 <= limit) copyToPiece(bytes, from, end + 2);
  }
  return end + 2;
}

/** Copies bytes to where pieces of JSON are: the one that is there is copied again when it is needed. */
function copyToPiece(bytes: Buffer, from: number, length: number): void {
  loadedWindow = undefined;
  memory.set(length === bytes.length ? bytes : bytes.subarray(from, from + length), PIECE);
}

/** Returns a byte of the loaded lines. */
export const lineByte = (at: number): number => memory[PIECE + at] as number;

/** Returns the offset of the first byte of the loaded lines from `at` that no value of a header may hold. */
export const valueEnd = (at: number): number => wasm.text(PIECE + at) - PIECE;

/** Text with which a line may begin, four bytes at a time: a byte at a time takes twice as long. */
export class LineStart {
  private readonly words: readonly number[];
  private readonly rest: readonly number[];

  /** @param text in latin1 */
  constructor(text: string) {
    const bytes = Buffer.from(text, "latin1");
    this.words = Array.from({ length: bytes.length >> 2 }, (_, i) => bytes.readInt32LE(4 * i));
    this.rest = [...bytes.subarray(4 * this.words.length)];
  }

  /** Reports whether the loaded lines have it at this offset. */
  isAt(at: number): boolean {
    const { words: expected, rest } = this;
    let offset = PIECE + at;
    for (let i = 0; i < expected.length; i++, offset += 4)
      if (words.getInt32(offset, true) !== expected[i]) return false;
    for (let i = 0; i < rest.length; i++, offset++) if (memory[offset] !== rest[i]) return false;
    return true;
  }
}

/** Searches bytes for a short text: node's own search is slow where many positions begin like it. */
export class ByteSearch {
  /** The offset of two adjacent bytes of it that differ, if any: such pairs never overlap. */
  private readonly pair: number;

  /** @param text of 2 to 1024 bytes */
  constructor(private readonly text: Buffer) {
    this.pair = Math.max(
      0,
      text.findIndex((byte, i) => i + 1 < text.length && byte !== text[i + 1]),
    );
  }

  /** Returns the first position; -1 if there is none. */
  indexIn(bytes: Buffer): number {
    const { text, pair } = this;
    loadedWindow = undefined;
    memory.set(text, NEEDLE);
    // Blocks overlap by the length that could be cut.
    for (let base = 0; base + text.length <= bytes.length; base += MAX_PIECE - text.length + 1) {
      const length = Math.min(MAX_PIECE, bytes.length - base);
      memory.set(length === bytes.length ? bytes : bytes.subarray(base, base + length), PIECE);
      const found = wasm.find(PIECE, PIECE + length, text.length, pair) - PIECE;
      if (found < length) return base + found;
    }
    return -1;
  }
}
