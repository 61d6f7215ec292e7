/** The bytes of JSON (RFC 8259): their meaning, as tables, and functions that skip many of them quickly. */

export const LF = 10;
export const CR = 13;
export const SPACE = 32;
export const QUOTE = 34;
export const BACKSLASH = 92;

function byteTable(bytes: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of Buffer.from(bytes)) table[byte] = 1;
  return table;
}

export const SPACES = byteTable(" \t\n\r");
export const HEX = byteTable("0123456789abcdefABCDEF");
/** Characters allowed after a backslash, besides `u`. */
export const ESCAPES = byteTable('"\\/bfnrt');
/** Bytes that stand for themselves in a string. */
const PLAIN = byteTable("").map((_, byte) => (byte < 32 || byte === QUOTE || byte === BACKSLASH ? 0 : 1));

// What may come next between two tokens; up to VALUE it is a value, from there up to KEY a name.
export const EXPECT_FIRST_VALUE = 0;
export const EXPECT_VALUE = 1;
export const EXPECT_FIRST_KEY = 2;
export const EXPECT_KEY = 3;
export const EXPECT_COLON = 4;
export const EXPECT_SEPARATOR = 5;
export const EXPECT_END = 6;

/** Descriptions of what may come next, in the order of the constants. */
export const EXPECTED_TEXTS = [
  "a value or ]",
  "a value",
  'a name in double quotes or "}"',
  "a name in double quotes",
  "a colon",
  "a comma or a closing bracket",
  "nothing more",
];

export const COMMA = 44;
export const COLON = 58;
export const EQUALS = 61;
export const OPEN_ARRAY = 91;
export const CLOSE_ARRAY = 93;
export const LOWER_U = 117;
export const OPEN_OBJECT = 123;
export const CLOSE_OBJECT = 125;

export const LITERALS = { true: Buffer.from("true"), false: Buffer.from("false"), null: Buffer.from("null") };

const [MINUS, ZERO, DIGITS, POINT, FRACTION, EXPONENT, SIGN, POWER] = [1, 2, 3, 4, 5, 6, 7, 8] as const;

/**
 * The state machine of a number: `NUMBER_STEPS[256 * state + byte]` is the next state, 0 if the byte is not part of the number.
 */
export const NUMBER_STEPS = new Uint8Array(9 * 256);
/** Whether a number may end in a state. */
export const NUMBER_MAY_END = [false, false, true, true, false, true, false, false, true];

function addTransition(from: readonly number[], bytes: string, to: number): void {
  for (const state of from) for (const byte of Buffer.from(bytes)) NUMBER_STEPS[256 * state + byte] = to;
}
addTransition([0], "-", MINUS);
addTransition([0, MINUS], "0", ZERO);
addTransition([0, MINUS], "123456789", DIGITS);
addTransition([DIGITS], "0123456789", DIGITS);
addTransition([ZERO, DIGITS], ".", POINT);
addTransition([POINT, FRACTION], "0123456789", FRACTION);
addTransition([ZERO, DIGITS, FRACTION], "eE", EXPONENT);
addTransition([EXPONENT], "+-", SIGN);
addTransition([EXPONENT, SIGN, POWER], "0123456789", POWER);

/**
 * Skips the bytes that stand for themselves in a string, up to `to`. A separate function: inlined by hand it takes twice as long.
 */
export function skipPlain(bytes: Buffer, from: number, to: number): number {
  const plain = PLAIN;
  let i = from;
  while (i < to && plain[bytes[i] as number] === 1) i++;
  return i;
}

/** Returns the next position of a byte, or the length. */
export function findByte(bytes: Buffer, byte: number, from: number): number {
  const index = bytes.indexOf(byte, from);
  return index < 0 ? bytes.length : index;
}

/** What a byte begins between two tokens; 0 for none. The order is that of the block table in window.wat. */
export const BYTE_CLASSES = new Uint8Array(256);
for (const [i, bytes] of [" \t\n\r", '"', ",", ":", "{[", "}]", "-0123456789", "tfn"].entries())
  for (const byte of Buffer.from(bytes)) BYTE_CLASSES[byte] = i + 1;

/** What is wrong with a JSON text: its grammar or encoding, a limit that it exceeds, a name that occurs twice, or that it is empty. */
export type JsonFault = "syntax" | "utf8" | "depth" | "keys" | "name" | "values" | "duplicate" | "empty";

/** An error in a JSON text, and its byte offset. */
export class JsonError extends Error {
  override readonly name = "JsonError";
  /** The top-level member whose value contains the error, if any. */
  member: string | undefined;
  constructor(
    readonly fault: JsonFault,
    readonly offset: number,
    problem: string,
    expected?: string,
  ) {
    super(`${problem} at byte ${offset}${expected === undefined ? "" : `; expected ${expected}`}.`);
  }
}

/** Returns the error for a byte that is not allowed at its position. */
export function unexpectedByte(byte: number, offset: number, expected: string | undefined): JsonError {
  const described =
    byte > 32 && byte < 127 ? `"${String.fromCharCode(byte)}"` : `byte 0x${byte.toString(16).padStart(2, "0")}`;
  const bomHint = offset === 0 && byte === 0xef ? " (a byte order mark?)" : "";
  return new JsonError("syntax", offset, `Unexpected ${described}${bomHint}`, expected);
}
