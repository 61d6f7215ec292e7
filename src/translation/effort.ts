import type { Effort } from "./conversation.ts";

/**
 * Thinking tokens for each effort: the maximum that is still read as that effort. The meaning of more than `high` differs by
 * vendor.
 */
export const EFFORT_TOKENS = {
  none: 0,
  minimal: 1024,
  low: 4096,
  medium: 12_288,
  high: 24_576,
} as const satisfies Partial<Record<Effort, number>>;

const LADDER = Object.entries(EFFORT_TOKENS) as [Effort, number][];

/** Returns the effort that a number of tokens stands for. */
export const effortOfTokens = (tokens: number): Effort => LADDER.find(([, most]) => tokens <= most)?.[0] ?? "xhigh";
