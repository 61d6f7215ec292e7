import type { Effort } from "./conversation.ts";

/**
 * Reasoning tokens for each effort: the maximum that is still read as that effort. The meaning of more than `high` differs by
 * vendor.
 */
const TOKENS = {
  none: 0,
  minimal: 1024,
  low: 4096,
  medium: 12_288,
  high: 24_576,
} as const satisfies Partial<Record<Effort, number>>;

const EFFORT_LEVELS = Object.entries(TOKENS) as [Effort, number][];

/** Converts between an effort and a number of reasoning tokens. */
export const ReasoningBudget = {
  tokens: TOKENS,
  /** Returns the effort that corresponds to a number of tokens. */
  effortOf: (tokens: number): Effort => EFFORT_LEVELS.find(([, maxTokens]) => tokens <= maxTokens)?.[0] ?? "xhigh",
};
