import type { Effort } from "model-gateway/protocol";

/** All efforts that the vendor knows, as the vocabulary names them. [S: ReasoningEffort] */
export const EFFORTS = [
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const satisfies readonly Effort[];

/** Thinking tokens up to which an effort stands; Google's own table has low at 1k, medium at 8k and high at 24k. */
const BUDGETS: readonly (readonly [most: number, effort: Effort])[] = [
  [0, "none"],
  [1024, "minimal"],
  [4096, "low"],
  [12_288, "medium"],
  [24_576, "high"],
];

/** The effort that a number of tokens comes nearest to; undefined where the model shall decide (below 0). */
export function effortFor(budget: number): Effort | undefined {
  return budget < 0 ? undefined : (BUDGETS.find(([most]) => budget <= most)?.[1] ?? "xhigh");
}

/** The effort of a word from outside, if it is one. */
export const effortOf = (word: unknown): Effort | undefined => EFFORTS.find((effort) => effort === word);
