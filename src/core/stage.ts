import { Frame } from "../wire/frame.ts";

/**
 * Sees the frames of one answer, in order. Nothing or the same frame: it passes untouched. A frame or a list of frames
 * takes its place; an empty list drops it. State lives in the closure.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a stage that only looks has no return statement
export type Stage = (frame: Frame) => Frame | readonly Frame[] | void;

/** Adds to `out` what is left of a frame behind the last stage. @param from the stage it comes to first */
export function passStages(stages: readonly Stage[], frame: Frame, out: Frame[], from = 0): void {
  let current = frame;
  for (let i = from; i < stages.length; i++) {
    const result = (stages[i] as Stage)(current);
    if (result === undefined || result === current) continue;
    if (result instanceof Frame) {
      current = result;
      continue;
    }
    for (const each of result) passStages(stages, each, out, i + 1);
    return;
  }
  out.push(current);
}
