import { setImmediate as nextTurn } from "node:timers/promises";
import { GatewayError } from "../core/errors.ts";
import { RawJson, writeJson } from "../wire/exact.ts";
import { parseInSteps } from "../wire/parse-in-steps.ts";
import type { JsonObject } from "../wire/values.ts";
import type { Event } from "./events.ts";

/** Long work that pauses between its steps, to give other work a turn. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/**
 * Bytes of a request or a whole response from which it is read and written in many turns of the event loop: the work grows with the
 * bytes, and blocks other requests.
 */
export const LARGE_BODY_BYTES = 256 * 1024;

/** Elements of a list per step. */
const ELEMENTS_A_STEP = 512;

/** Elements of a list that are serialized together, and characters of texts after which a step ends earlier. */
const [WRITTEN_TOGETHER, MAX_STEP_LENGTH] = [64, 1 << 20];
/** Characters of a text that are processed together; a longer one is cut. */
const MAX_TEXT_LENGTH = 1 << 18;

/** Reports whether a step ends with the element at this index. */
export const endsStep = (n: number): boolean => n % ELEMENTS_A_STEP === ELEMENTS_A_STEP - 1;

/** Runs all steps at once. */
export function runAtOnce<Result>(steps: Steps<Result>): Result {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Runs each step in a turn of the event loop of its own. @param turn resolves in a later one */
export async function runInTurns<Result>(
  steps: Steps<Result>,
  turn: () => Promise<unknown> = nextTurn,
): Promise<Result> {
  let step = steps.next();
  while (!step.done) {
    await turn();
    step = steps.next();
  }
  return step.value;
}

/** Runs the first step at once, and each further one in a turn of its own; a promise only where there is more than one. */
export function runFirstAtOnce<Result>(steps: Steps<Result>): Result | Promise<Result> {
  const first = steps.next();
  return first.done ? first.value : nextTurn().then(() => runInTurns(steps));
}

/** Steps that are always done in one turn: no ordinary small body has more; and milliseconds of further ones. */
const [FEW_STEPS, MAX_TURN] = [16, 10];

/** Runs steps at once for as long as others may wait, and what is left in turns of its own; a promise only for these. */
export function runBriefly<Result>(steps: Steps<Result>, turn: () => Promise<unknown>): Result | Promise<Result> {
  const began = performance.now();
  let step = steps.next();
  for (let n = 1; !step.done; n++) {
    if (n > FEW_STEPS && performance.now() - began > MAX_TURN) return turn().then(() => runInTurns(steps, turn));
    step = steps.next();
  }
  return step.value;
}

/** Bytes from which a large body waits for others of its kind only, which may take seconds: smaller ones do not wait for it. */
const HUGE_BODY_BYTES = 4 * 1024 * 1024;

/** The last work on a large and on a huge body. */
const last: { large: Promise<unknown>; huge: Promise<unknown> } = { large: Promise.resolve(), huge: Promise.resolve() };

/**
 * Does work on a large body once all such work before it has ended: values that are parsed take many times the memory of their
 * bytes, which nobody counts.
 */
export function oneAtATime<Result>(bytes: number, work: () => Promise<Result>): Promise<Result> {
  const kind = bytes < HUGE_BODY_BYTES ? "large" : "huge";
  const result = last[kind].then(work);
  // Without the result: it would stay in memory until the next large body.
  last[kind] = result.then(noResult, noResult);
  return result;
}

const noResult = (): void => {};

/** Returns a list in parts of so many elements; any other value as it is. */
function* partsOf(value: unknown, length: number): Iterable<unknown> {
  if (!Array.isArray(value)) yield value;
  else for (let start = 0; start < value.length; start += length) yield value.slice(start, start + length);
}

/** Returns a text in pieces of at most `length` characters: itself where it is not long. Surrogate pairs are not cut. */
export function* piecesOfText(text: string, length: number = MAX_TEXT_LENGTH): Iterable<string> {
  let from = 0;
  while (text.length - from > length) {
    let end = from + length;
    if (isHighSurrogate(text.charCodeAt(end - 1))) end--;
    yield text.slice(from, end);
    from = end;
  }
  yield text.slice(from);
}

/** Returns the bytes of a text in UTF-8, in steps. */
export function* bytesInSteps(text: string): Steps<Buffer[]> {
  const bytes: Buffer[] = [];
  for (const [n, piece] of [...piecesOfText(text)].entries()) {
    bytes.push(Buffer.from(piece));
    if (endsPieces(n)) yield;
  }
  return bytes;
}

/** Joins pieces of bytes, in steps. @param length of all together */
export function* joinInSteps(pieces: readonly Buffer[], length: number): Steps<Buffer> {
  const joined = Buffer.allocUnsafeSlow(length);
  let [at, written] = [0, 0];
  for (const piece of pieces) {
    at += piece.copy(joined, at);
    if (at - written < MAX_STEP_LENGTH) continue;
    written = at;
    yield;
  }
  return joined;
}

/** Reports whether a step ends with the piece of a text at this index. */
const endsPieces = (n: number): boolean => n % (MAX_STEP_LENGTH / MAX_TEXT_LENGTH) === 0;

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;

/** Gives the events of a response to a function, in steps. */
export function* forEachEvent(events: Iterable<Event>, act: (event: Event) => void): Steps<void> {
  let length = 0;
  let n = 0;
  for (const event of events) {
    act(event);
    length += lengthOf(event);
    if (length < MAX_STEP_LENGTH && !endsStep(n++)) continue;
    length = 0;
    yield;
  }
}

function lengthOf(event: Event): number {
  if (event.type === "media") return event.base64?.length ?? 0;
  return event.type === "text" || event.type === "arguments" ? event.text.length : 0;
}

/** Serializes a value like `writeJson`, in steps where a list or a text anywhere in it is long. */
export function* writeJsonInSteps(value: unknown): Steps<string> {
  if (!isLong(value)) return writeJson(value ?? null);
  if (typeof value === "string") return yield* writingText(value);
  if (Array.isArray(value)) return yield* writingList(value);
  // Strings are appended to each other, which copies none of them: `join` would copy all of a long one at each level.
  let text = "";
  for (const [name, member] of Object.entries(value as JsonObject))
    if (member !== undefined)
      text += `${text === "" ? "" : ","}${JSON.stringify(name)}:${yield* writeJsonInSteps(member)}`;
  return `{${text}}`;
}

function* writingText(value: string): Steps<string> {
  let text = "";
  for (const [n, piece] of [...piecesOfText(value)].entries()) {
    text += JSON.stringify(piece).slice(1, -1);
    if (endsPieces(n)) yield;
  }
  return `"${text}"`;
}

function* writingList(list: readonly unknown[]): Steps<string> {
  let text = "";
  let written = 0;
  for (let start = 0; start < list.length; start += WRITTEN_TOGETHER) {
    const elements = list.slice(start, start + WRITTEN_TOGETHER);
    if (start > 0) text += ",";
    if (elements.some(isLong))
      for (const [n, each] of elements.entries()) text += `${n > 0 ? "," : ""}${yield* writeJsonInSteps(each)}`;
    else text += writeJson(elements).slice(1, -1);
    const end = start + WRITTEN_TOGETHER;
    if (end >= list.length || (text.length - written < MAX_STEP_LENGTH && !endsStep(end - 1))) continue;
    written = text.length;
    yield;
  }
  return `[${text}]`;
}

function isLong(value: unknown): boolean {
  if (typeof value === "string") return value.length > MAX_TEXT_LENGTH;
  if (typeof value !== "object" || value === null || value instanceof RawJson) return false;
  if (Array.isArray(value)) return value.length > WRITTEN_TOGETHER || value.some(isLong);
  for (const name in value) if (isLong((value as JsonObject)[name])) return true;
  return false;
}

/**
 * Parses the body of a whole response, as `parseInSteps`.
 * @throws GatewayError `upstream_invalid`
 */
function* parseResponse(bytes: Buffer, raw?: ReadonlySet<string>): Steps<unknown> {
  try {
    return yield* parseInSteps(bytes, raw);
  } catch (cause) {
    throw new GatewayError("upstream_invalid", { cause });
  }
}

/** What a codec needs to work in steps. */
export const Steps = {
  endsStep,
  partsOf,
  forEachEvent,
  parsingJson: parseResponse,
  writingJson: writeJsonInSteps,
};
