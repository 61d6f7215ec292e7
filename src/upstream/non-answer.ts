import type { Attempt } from "../core/attempt.ts";
import type { MaybePromise } from "../core/plugin.ts";
import { Frame } from "../wire/frame.ts";
import { OPEN_ARRAY, OPEN_OBJECT } from "../wire/grammar.ts";
import { joinPieces, totalLength } from "../wire/pieces.ts";
import { peekResponse } from "./peek-response.ts";
import type { UpstreamResponse } from "./response.ts";

/** Maximum bytes of a body that is read: an error is short, so a longer response is none. */
const MAX_ERROR_TEXT = 4 * 1024;
/** Bytes of white space, and of a byte order mark, which some servers send before JSON. */
const SKIPPED: ReadonlySet<number> = new Set([...Buffer.from(" \t\r\n"), 0xef, 0xbb, 0xbf]);
/** "error" without its first letter: the search stops at each letter of this kind, and that one is the most frequent of all. */
const ERROR_WORD = Buffer.from("rror");
/** A quick test: `error` members of successful responses are null. */
const MAY_FAIL = /"error"\s*:\s*[{"]|"object"\s*:\s*"error"/;

/** What a response is instead of an answer: empty, not JSON, or a possible error, in the form of a stream's event. */
export type NonAnswer = "empty" | "unreadable" | Frame;

/**
 * Finds out from its beginning whether a non-streamed response is something else than a JSON answer; undefined: it may be an
 * answer. Consumes nothing.
 * @param allowArray an array is an answer too
 * @param limit milliseconds after which it counts as an answer
 * @param attempt told the number of bytes that have arrived of a response that broke off, or was given up, meanwhile
 */
export function detectNonAnswer(
  response: UpstreamResponse,
  allowArray: boolean,
  limit: number,
  attempt: Pick<Attempt, "unreadBytes">,
): MaybePromise<NonAnswer | undefined> {
  const { whole } = response;
  return whole ? judgeWhole(whole, allowArray) : judgeBeginning(response, allowArray, limit, attempt);
}

function judgeBeginning(
  response: UpstreamResponse,
  allowArray: boolean,
  limit: number,
  attempt: Pick<Attempt, "unreadBytes">,
): MaybePromise<NonAnswer | undefined> {
  // Of the pieces at the beginning, how many have nothing to read: some servers send line breaks while they work.
  let blank = 0;
  return peekResponse<NonAnswer>(response, limit, (settle, pieces, last, isComplete) => {
    if (last && isComplete) return settle(judgeWhole(pieces, allowArray));
    if (last) attempt.unreadBytes = totalLength(pieces);
    let first: number | undefined;
    for (; blank < pieces.length; blank++) {
      first = pieces[blank]?.find(isRead);
      if (first !== undefined) break;
    }
    if (first !== undefined && !isJsonStart(first, allowArray)) return settle("unreadable");
    return (last || (first !== undefined && totalLength(pieces) > MAX_ERROR_TEXT)) && settle();
  });
}

function judgeWhole(pieces: readonly Buffer[], allowArray: boolean): NonAnswer | undefined {
  for (const piece of pieces) {
    const first = piece.find(isRead);
    if (first !== undefined) return isJsonStart(first, allowArray) ? possibleError(pieces) : "unreadable";
  }
  return "empty";
}

const isRead = (byte: number): boolean => !SKIPPED.has(byte);

const isJsonStart = (byte: number, allowArray: boolean): boolean =>
  byte === OPEN_OBJECT || (allowArray && byte === OPEN_ARRAY);

/** Returns an object that may be only an error. Answers that contain an error besides have another `object` type. */
function possibleError(pieces: readonly Buffer[]): NonAnswer | undefined {
  if (totalLength(pieces) > MAX_ERROR_TEXT) return undefined;
  const bytes = joinPieces(pieces);
  // Nearly all responses are answers, without this word.
  if (!bytes.includes(ERROR_WORD)) return undefined;
  const text = bytes.toString();
  if (!MAY_FAIL.test(text)) return undefined;
  try {
    const parsed = JSON.parse(text) as { object?: unknown };
    if (parsed.object !== undefined && parsed.object !== "error") return undefined;
    return new Frame("event", Buffer.from(`data: ${JSON.stringify(parsed)}\n\n`));
  } catch {
    return undefined;
  }
}
