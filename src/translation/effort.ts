import type { Effort } from "./conversation.ts";

/**
 * Tokens for thinking that stand for an effort: the most that still read as it. What stands for more than `high`
 * differs by vendor.
 */
export const EFFORT_TOKENS = {
  none: 0,
  minimal: 1024,
  low: 4096,
  medium: 12_288,
  high: 24_576,
} as const satisfies Partial<Record<Effort, number>>;

const LADDER = Object.entries(EFFORT_TOKENS) as [Effort, number][];

/** The effort that a number of tokens stands for. */
export const effortOfTokens = (tokens: number): Effort => LADDER.find(([, most]) => tokens <= most)?.[0] ?? "xhigh";
