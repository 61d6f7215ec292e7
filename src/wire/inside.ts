import {
  AFTER,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COLON_BYTE,
  COMMA,
  FIRST_KEY,
  FIRST_VALUE,
  KEY,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  SPACES,
  VALUE,
} from "./grammar.ts";
import type { Window } from "./window.ts";

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
  readonly maxDepth: number;
  readonly maxKeys: number;
}

/**
 * Passes over tokens as long as they lie inside of a top-level member, where nothing is to be remembered: nearly all tokens
 * of a conversation. Stops before whatever is not plain: a number or word, a token that the piece cuts, a fault, the end of
 * the member; the scanner's own way goes on from there. All in local variables, for a third of the time.
 * @param checked bytes of a string value that are checked
 * @returns the first byte that was not passed
 */
export function passInside(window: Window, from: number, nesting: Nesting, checked: number): number {
  const { bytes, length } = window;
  const { outer, maxDepth, maxKeys } = nesting;
  let { expect, depth, inObject, keys } = nesting;
  let i = from;
  while (i < length) {
    const byte = bytes[i] as number;
    let next = i + 1;
    if (byte === QUOTE) {
      if (expect > KEY || (expect > VALUE && keys === maxKeys)) break;
      const isValue = expect <= VALUE;
      const end = window.stringEnd(next, isValue ? next + checked : length);
      if (end < 0 || end >= length) break;
      next = end + 1;
      if (!isValue) keys++;
      expect = isValue ? AFTER : COLON;
    } else if (byte === COMMA) {
      if (expect !== AFTER) break;
      expect = inObject ? KEY : VALUE;
    } else if (byte === COLON_BYTE) {
      if (expect !== COLON) break;
      expect = VALUE;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      if (expect > VALUE || depth === maxDepth) break;
      outer[depth++] = inObject;
      inObject = byte === OPEN_OBJECT;
      expect = inObject ? FIRST_KEY : FIRST_VALUE;
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      const first = inObject ? FIRST_KEY : FIRST_VALUE;
      if (inObject !== (byte === CLOSE_OBJECT) || (expect !== AFTER && expect !== first) || depth === 2) break;
      inObject = outer[--depth] as boolean;
      expect = AFTER;
    } else if (SPACES[byte] === 0) break;
    i = next;
  }
  nesting.expect = expect;
  nesting.depth = depth;
  nesting.inObject = inObject;
  nesting.keys = keys;
  return i;
}
