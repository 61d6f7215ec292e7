import { runInNewContext } from "node:vm";

/** Characters of a text on which work that grows with the square of the length would take hours. */
const LENGTH = 1_000_000;
/** Far more than linear work takes on any machine: only work without end is stopped. */
const MAX_MS = 20_000;

/** Texts in which a pattern that tries each position again has most to do: one part many times, and an end that matches nothing. */
export const hostileTexts = (parts: readonly string[], before = "", after = "\n\0"): string[] =>
  parts.map((part) => before + part.repeat(LENGTH / part.length) + after);

/** Runs work whose time must not grow faster than its input. @throws if it does not end */
export function runLinear(run: () => unknown): void {
  runInNewContext("run()", { run }, { timeout: MAX_MS });
}

/** Returns how many characters of texts work goes through one by one. */
export function charactersRead(work: () => void): number {
  const { charCodeAt } = String.prototype;
  let count = 0;
  String.prototype.charCodeAt = function (this: string, at) {
    count++;
    return charCodeAt.call(this, at);
  };
  try {
    work();
  } finally {
    Object.assign(String.prototype, { charCodeAt });
  }
  return count;
}
