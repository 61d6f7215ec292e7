import type { Frame } from "../wire/frame.ts";

/**
 * Sees the frames of one answer, in order. Nothing or the same frame: it passes untouched. A frame or a list of frames
 * takes its place; an empty list drops it. State lives in the closure.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a stage that only looks has no return statement
export type Stage = (frame: Frame) => Frame | readonly Frame[] | void;
