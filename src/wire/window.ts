import { readFileSync } from "node:fs";
import { BACKSLASH, CLASSES, ESCAPES, findByte, HEX, QUOTE, STEPS, WHOLE } from "./grammar.ts";

/** Where a scanner is between two tokens. */
export interface Nesting {
  /** What may come next. */
  expect: number;
  /** Containers that are open. */
  depth: number;
  inObject: boolean;
  /** Whether the containers around the current one are objects. */
  readonly outer: boolean[];
  /** Names so far. */
  keys: number;
  /** Containers and commas so far: there are no more values than these together, and one. */
  values: number;
  /** The bits of those who watch for a name or a short value that may have been passed. */
  seen: number;
  readonly maxDepth: number;
  readonly maxKeys: number;
}

/** Longest piece, in bytes: as much as a socket gives at once. */
export const LONGEST = 65_536;
/** What `stringEnd` answers for what is wrong. */
export const FAULT = -1;

// Where things lie in the memory of window.wat.
const OUTER = 64;
const PIECE = 4096;
/** Open containers that it has room for; deeper texts take the scanner's own way. */
const DEEPEST = 400;
/** A search looks at 32 bytes at a time, and ends at one of these quotes behind the piece. */
const BEYOND = 64;
/** The bits of watched texts, by their hash; each table has 4096 words. */
const [NAMES, VALUES_SEEN] = [73_728, 90_112] as const;
const SOUGHT = 106_496;
const SLOTS = 4096;
/** Bytes of a value, its first quote included, that is too long to be watched for. */
export const LONG_VALUE = 200;
/** Set in `seen` where a name, or a short value, holds a `\u` and may be any. */
export const [ESCAPED_NAME, ESCAPED_VALUE] = [1 << 31, 1 << 30] as const;

/** What of the engine's own interface is used here; the types of node leave it to those of browsers. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: unknown };
};

const machine = new WebAssembly.Instance(
  new WebAssembly.Module(readFileSync(new URL("./window.wasm", import.meta.url))),
).exports as {
  memory: { buffer: ArrayBuffer };
  pass(from: number, to: number, maxDepth: number, maxKeys: number, checked: number): number;
  end(from: number, checked: number): number;
  blanks(from: number): number;
  find(from: number, to: number, length: number, pair: number): number;
};
const memory = new Uint8Array(machine.memory.buffer);
const [EXPECT, DEPTH, IN_OBJECT, KEYS, VALUES, SEEN] = [0, 1, 2, 3, 4, 5] as const;
const state = new Int32Array(memory.buffer, 0, 6);
const watchedNames = new Int32Array(memory.buffer, NAMES, SLOTS);
const watchedValues = new Int32Array(memory.buffer, VALUES_SEEN, SLOTS);
memory.set(CLASSES, 512);
memory.set(ESCAPES, 768);
memory.set(HEX, 1024);
memory.set(STEPS, 1280);
memory.set(WHOLE.map(Number), 3584);

/** The word of a text's hash, as window.wat has it. */
const slot = (length: number, first: number, last: number, lastButOne: number): number =>
  ((lastButOne + (last << 8)) * 37 + first * 301 + length * 1123) & (SLOTS - 1);

/** Lets scans set `bit` where they pass one of these texts: a name, or a short value. Others may share its hash. */
export function watchFor(texts: readonly string[], bit: number, kind: "name" | "value"): void {
  const table = kind === "name" ? watchedNames : watchedValues;
  for (const text of texts) {
    const bytes = Buffer.from(text);
    // Other characters have escapes besides `\u`.
    if (!/^[\w.\u017f\u212a-]{2,198}$/.test(text)) throw new RangeError(`"${text}" cannot be watched for`);
    const at = slot(bytes.length, bytes[0] as number, bytes.at(-1) as number, bytes.at(-2) as number);
    table[at] = (table[at] as number) | bit;
  }
}

/** The bits of those who watch for a string of which this is known. */
export function seenAs(
  kind: "name" | "value",
  length: number,
  first: number,
  last: number,
  lastButOne: number,
): number {
  return (kind === "name" ? watchedNames : watchedValues)[slot(length, first, last, lastButOne)] as number;
}

/** Whose bytes lie in the memory. */
let laid: Window | undefined;

/**
 * A piece of JSON in which tokens are passed, and the ends of strings found 32 bytes at a time, by window.wat, whose SIMD
 * instructions take a fifth of what the same loop takes here. The piece is copied to where they see it when it is first asked.
 */
export class Window {
  readonly length: number;

  /** @param bytes at most LONGEST */
  constructor(readonly bytes: Buffer) {
    this.length = bytes.length;
  }

  /**
   * Passes over tokens as long as they lie inside of a top-level member, where nothing is to be remembered: nearly all
   * tokens of a conversation. Stops before whatever is not plain: a token that the piece cuts, a fault, the end of the
   * member; the scanner's own way goes on from there.
   * @param checked bytes of a string value that are checked
   * @returns the first byte that was not passed
   */
  passInside(from: number, nesting: Nesting, checked: number): number {
    const { outer } = nesting;
    if (nesting.depth > DEEPEST) return from;
    this.lay();
    state[EXPECT] = nesting.expect;
    state[DEPTH] = nesting.depth;
    state[IN_OBJECT] = nesting.inObject ? 1 : 0;
    state[KEYS] = nesting.keys;
    state[VALUES] = nesting.values;
    state[SEEN] = nesting.seen;
    for (let i = 0; i < nesting.depth; i++) memory[OUTER + i] = outer[i] ? 1 : 0;
    const maxDepth = Math.min(nesting.maxDepth, DEEPEST);
    const to = machine.pass(PIECE + from, PIECE + this.length, maxDepth, nesting.maxKeys, checked) - PIECE;
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
   * Where the quote stands that ends a string, from inside of it. The length where the bytes end before, one more where they
   * end behind a backslash.
   * @param checked up to where escapes and control characters are checked; behind it only the end is sought
   * @returns FAULT for a control character, a wrong escape or a `\u` that the piece cuts, in front of `checked`
   */
  stringEnd(from: number, checked = 0): number {
    this.lay();
    const end = machine.end(PIECE + from, PIECE + checked);
    return end < 0 ? FAULT : end - PIECE;
  }

  /** The same without a copy, for a piece that is probably plain; where an escaped quote comes first, minus the place behind it. */
  leap(from: number): number {
    const { bytes } = this;
    const quote = findByte(bytes, QUOTE, from);
    let run = quote;
    while (run > from && bytes[run - 1] === BACKSLASH) run--;
    if (((quote - run) & 1) === 0) return quote;
    return quote === this.length ? quote + 1 : -(quote + 1);
  }

  /** The first byte from one on that is no white space, or the length. */
  blanksEnd(from: number): number {
    this.lay();
    return machine.blanks(PIECE + from) - PIECE;
  }

  private lay(): void {
    if (laid === this) return;
    laid = this;
    memory.set(this.bytes, PIECE);
    memory.fill(QUOTE, PIECE + this.length, PIECE + this.length + BEYOND);
  }
}

/** A short text that is sought in bytes: node's own search is slow where much of what it meets begins like it. */
export class Sought {
  /** Where two bytes of it stand that differ, if any do: of such pairs no two overlap. */
  private readonly pair: number;

  /** @param text of 2 to 1024 bytes */
  constructor(private readonly text: Buffer) {
    this.pair = Math.max(
      0,
      text.findIndex((byte, i) => i + 1 < text.length && byte !== text[i + 1]),
    );
  }

  /** Where it stands first; -1 where it does not. */
  in(bytes: Buffer): number {
    const { text, pair } = this;
    laid = undefined;
    memory.set(text, SOUGHT);
    // Blocks overlap by what could be cut.
    for (let base = 0; base + text.length <= bytes.length; base += LONGEST - text.length + 1) {
      const length = Math.min(LONGEST, bytes.length - base);
      memory.set(length === bytes.length ? bytes : bytes.subarray(base, base + length), PIECE);
      const found = machine.find(PIECE, PIECE + length, text.length, pair) - PIECE;
      if (found < length) return base + found;
    }
    return -1;
  }
}
