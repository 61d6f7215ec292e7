import type { Event, Opaque, ResponseSource } from "model-gateway/protocol";
import type { Recording } from "./response.record.ts";

/** A path in a frame. */
export type Path = readonly (string | number)[];

/** What reading a piece of an answer needs of the whole. */
export interface Reading {
  out: Event[];
  readonly source: ResponseSource;
  /** Present where the very same frames are to be written again. */
  readonly record: Recording | undefined;
  /** Characters of state that were kept before an event told them. */
  kept: number;
  /** The number of the next block. */
  next(): number;
  /** Says once that something is left out. */
  lose(path: string): void;
}

/** The text, refusal or reasoning of a choice: one of them grows at a time. */
export interface Growing {
  readonly index: number;
  readonly growing: "text" | "refusal" | "reasoning" | undefined;
  /** The number of the block of that kind that grows; opens one where none does. */
  block(kind: "text" | "refusal" | "reasoning", opening?: { summary?: boolean; redacted?: boolean }): number;
  /** Closes what grows. */
  shut(): void;
}

/** Opaque state that this provider account gave. */
export const stateFrom = ({ account, model }: ResponseSource, kind: string, data: string): Opaque => ({
  protocol: "openai-chat",
  account,
  model,
  kind,
  data,
});
