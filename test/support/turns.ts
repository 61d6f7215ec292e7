import type { Teardown } from "./listen.ts";

/** Counts turns of the event loop until the test ends. Returns the function that gives their number so far. */
export function turnCounter(t: Teardown): () => number {
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  t.teardown(() => clearImmediate(next));
  return () => turns;
}

/** Returns how many turns of the event loop something takes. */
export async function countTurns(t: Teardown, act: () => Promise<unknown>): Promise<number> {
  const turns = turnCounter(t);
  await act();
  return turns();
}
