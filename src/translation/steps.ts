import { setImmediate as nextTurn } from "node:timers/promises";
import { writeJson } from "../wire/exact.ts";
import type { JsonObject } from "../wire/values.ts";

/** Long work that pauses between its steps, to give other work a turn. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Elements of a list per step. */
const STEP = 512;

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

/** Serializes an object like `writeJson`, in steps where a member is a long list. */
export function* writeJsonInSteps(object: JsonObject): Steps<string> {
  if (!Object.values(object).some((member) => Array.isArray(member) && member.length > STEP)) return writeJson(object);
  const members: string[] = [];
  for (const [name, member] of Object.entries(object)) {
    if (member === undefined) continue;
    const text: string = Array.isArray(member) ? yield* writingList(member) : writeJson(member);
    members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(",")}}`;
}

function* writingList(list: readonly unknown[]): Steps<string> {
  const texts: string[] = [];
  for (let start = 0; start < list.length; start += STEP) {
    texts.push(writeJson(list.slice(start, start + STEP)).slice(1, -1));
    yield;
  }
  return `[${texts.join(",")}]`;
}

/** What a codec needs to work in steps. */
export const Steps = { atOnce: runAtOnce, endsStep, writingJson: writeJsonInSteps };
