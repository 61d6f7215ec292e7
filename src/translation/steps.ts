import { setImmediate as nextTurn } from "node:timers/promises";
import { writeJson } from "../wire/exact.ts";
import type { JsonObject } from "../wire/values.ts";

/** Long work that halts between its steps, where others may have their turn. */
export type Steps<Result> = Generator<undefined, Result, undefined>;

/** Elements of a list that one step reads or writes. */
const STEP = 512;

/** Whether a step ends with the element of this number. */
export const endsStep = (n: number): boolean => n % STEP === STEP - 1;

/** All steps in one go. */
export function atOnce<Result>(steps: Steps<Result>): Result {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Each step in a turn of the event loop of its own. @param turn gives the others theirs */
export async function inTurns<Result>(steps: Steps<Result>, turn: () => Promise<unknown> = nextTurn): Promise<Result> {
  let step = steps.next();
  while (!step.done) {
    await turn();
    step = steps.next();
  }
  return step.value;
}

/** What `writeJson` makes of an object, in steps where one of its members is a long list. */
export function* writingJson(object: JsonObject): Steps<string> {
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
  for (let at = 0; at < list.length; at += STEP) {
    texts.push(writeJson(list.slice(at, at + STEP)).slice(1, -1));
    yield;
  }
  return `[${texts.join(",")}]`;
}

/** What a codec needs to go by steps. */
export const Steps = { atOnce, endsStep, writingJson };
