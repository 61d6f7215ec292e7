import { setImmediate as nextTurn } from "node:timers/promises";

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
