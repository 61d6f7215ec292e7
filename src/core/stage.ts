import { Frame } from "../wire/frame.ts";

/**
 * Receives the frames of one response, in order. Returning nothing or the same frame passes it unchanged; a frame or a list of
 * frames replaces it; an empty list drops it. State is kept in the closure.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a stage that only looks has no return statement
export type Stage = (frame: Frame) => Frame | readonly Frame[] | void;

/** Passes a frame through the stages, beginning with stage `from`, and appends the resulting frames to `out`. */
export function runStages(stages: readonly Stage[], frame: Frame, out: Frame[], from = 0): void {
  let current = frame;
  for (let i = from; i < stages.length; i++) {
    const result = (stages[i] as Stage)(current);
    if (result === undefined || result === current) continue;
    if (result instanceof Frame) {
      current = result;
      continue;
    }
    for (const each of result) runStages(stages, each, out, i + 1);
    return;
  }
  out.push(current);
}
