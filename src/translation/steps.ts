import { setImmediate as nextTurn } from "node:timers/promises";
import { RawJson, writeJson } from "../wire/exact.ts";
import type { JsonObject } from "../wire/values.ts";

/** Long work that pauses between its steps, to give other work a turn. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/**
 * Bytes of a request from which it is read and written in many ticks of the event loop: the work grows with the bytes, and blocks
 * other requests.
 */
export const LARGE_REQUEST_BYTES = 256 * 1024;

/** Elements of a list per step. */
const STEP = 512;

/** Elements of a list that are serialized together, and characters of JSON after which a step ends earlier. */
const [WRITTEN_TOGETHER, MAX_STEP_LENGTH] = [64, 1 << 20];

/** Reports whether a step ends with the element at this index. */
export const endsStep = (n: number): boolean => n % STEP === STEP - 1;

/** Runs all steps at once. */
export function runAtOnce<Result>(steps: Steps<Result>): Result {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Runs each step in an event-loop tick of its own. @param turn resolves in a later tick */
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

/** Serializes an object like `writeJson`, in steps where a list anywhere in it is long. */
export const writeJsonInSteps = (object: JsonObject): Steps<string> => writingValue(object);

function* writingValue(value: unknown): Steps<string> {
  if (!holdsLongList(value)) return writeJson(value ?? null);
  if (Array.isArray(value)) return yield* writingList(value);
  // Strings are appended to each other, which copies none of them: `join` would copy all of a long one at each level.
  let text = "";
  for (const [name, member] of Object.entries(value as JsonObject))
    if (member !== undefined) text += `${text === "" ? "" : ","}${JSON.stringify(name)}:${yield* writingValue(member)}`;
  return `{${text}}`;
}

function* writingList(list: readonly unknown[]): Steps<string> {
  let text = "";
  let written = 0;
  for (let start = 0; start < list.length; start += WRITTEN_TOGETHER) {
    const elements = list.slice(start, start + WRITTEN_TOGETHER);
    if (start > 0) text += ",";
    if (elements.some(holdsLongList))
      for (const [n, each] of elements.entries()) text += `${n > 0 ? "," : ""}${yield* writingValue(each)}`;
    else text += writeJson(elements).slice(1, -1);
    const end = start + WRITTEN_TOGETHER;
    if (end >= list.length || (text.length - written < MAX_STEP_LENGTH && !endsStep(end - 1))) continue;
    written = text.length;
    yield;
  }
  return `[${text}]`;
}

function holdsLongList(value: unknown): boolean {
  if (typeof value !== "object" || value === null || value instanceof RawJson) return false;
  if (Array.isArray(value)) return value.length > WRITTEN_TOGETHER || value.some(holdsLongList);
  for (const name in value) if (holdsLongList((value as JsonObject)[name])) return true;
  return false;
}

/** What a codec needs to work in steps. */
export const Steps = { atOnce: runAtOnce, endsStep, writingJson: writeJsonInSteps };
