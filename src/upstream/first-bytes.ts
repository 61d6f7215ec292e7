import { Frame } from "../wire/frame.ts";
import { peeked } from "./peeked.ts";
import type { UpstreamResponse } from "./response.ts";

/** Bytes that are waited for: an error is short, and an answer that is longer is none. */
const LARGEST = 4 * 1024;
/** The bytes of a mark of order, which some servers put before JSON, beside those of white space. */
const SKIPPED: ReadonlySet<number> = new Set([...Buffer.from(" \t\r\n"), 0xef, 0xbb, 0xbf]);
const OBJECT = 0x7b;
const ARRAY = 0x5b;
const ERROR = Buffer.from("error");
/** A quick look: members that say that nothing has failed are null. */
const MAY_FAIL = /"error"\s*:\s*[{"]|"object"\s*:\s*"error"/;

/** What stands in the place of an answer: nothing, no JSON, or what may be an error, as it would stand in a stream. */
type NoAnswer = "empty" | "unreadable" | Frame;

/**
 * What a whole response is instead of an answer in JSON, as far as its beginning tells; undefined: it may be one. All of it
 * stays to be read.
 * @param array an array is an answer too
 * @param limit milliseconds after which it is taken for one
 */
export function noAnswer(response: UpstreamResponse, array: boolean, limit: number): Promise<NoAnswer | undefined> {
  return peeked<NoAnswer>(response, limit, (settle, pieces, last, whole) => {
    const first = beginning(pieces);
    if (first === undefined) return last && settle(whole ? "empty" : undefined);
    if (first !== OBJECT && !(array && first === ARRAY)) return settle("unreadable");
    if (last) return settle(whole ? failure(pieces) : undefined);
    return lengthOf(pieces) > LARGEST && settle();
  });
}

/** The first byte that says something. */
function beginning(pieces: readonly Buffer[]): number | undefined {
  for (const piece of pieces) for (const byte of piece) if (!SKIPPED.has(byte)) return byte;
  return undefined;
}

const lengthOf = (pieces: readonly Buffer[]): number => pieces.reduce((sum, { length }) => sum + length, 0);

/** An object that may be nothing but an error: answers that tell of one besides say what they are. */
function failure(pieces: readonly Buffer[]): NoAnswer | undefined {
  if (lengthOf(pieces) > LARGEST) return undefined;
  const [only] = pieces;
  const bytes = only && pieces.length === 1 ? only : Buffer.concat(pieces);
  // Nearly all are answers, and say no such word.
  if (!bytes.includes(ERROR)) return undefined;
  const text = bytes.toString();
  if (!MAY_FAIL.test(text)) return undefined;
  try {
    const told = JSON.parse(text) as { object?: unknown };
    if (told.object !== undefined && told.object !== "error") return undefined;
    return new Frame("event", Buffer.from(`data: ${JSON.stringify(told)}\n\n`));
  } catch {
    return undefined;
  }
}
