import type { Attempt } from "model-gateway";
import { valueAt } from "./value-at.ts";

/** A member's name, followed by the member names and indices that lead to a value. */
type CountPath = readonly (string | number)[];

/**
 * Returns the most output tokens that a request allows for all of its responses together; undefined: it sets no limit, or not as a
 * plain number, or other models may respond too.
 */
export function requestedOutput({
  protocol: { output },
  body,
}: Pick<Attempt, "protocol" | "body">): number | undefined {
  if (!output || (output.fallbackModels !== undefined && body.member(output.fallbackModels))) return undefined;
  const at = ([name, ...further]: CountPath): unknown =>
    body.member(String(name)) && valueAt(body.uniqueValue(String(name)), further);
  // Of several limits a provider may apply any.
  const limits = output.tokens.map(at).filter((limit) => limit !== undefined && limit !== null);
  const counts = output.multipliers
    .map(at)
    .filter((count) => count !== undefined && count !== null && !(typeof count === "string" && WORD.test(count)));
  if (limits.length === 0 || !limits.every(isCount)) return undefined;
  // A list is of texts with a response each, or is one text as tokens.
  const [lists, numbers] = [counts.filter((count) => Array.isArray(count)), counts.filter(isCount)];
  if (lists.length + numbers.length < counts.length) return undefined;
  const times = lists.reduce((all, { length }) => all * Math.max(1, length), Math.max(1, ...numbers));
  // Some servers accept a fraction, and tokens have whole prices.
  return Math.ceil(Math.max(...limits) * times);
}

/** A prompt that is one text has a word at least; of digits in a string it is unknown how a server reads them. */
const WORD = /\p{L}{2}/u;

const isCount = (value: unknown): value is number => typeof value === "number" && value > 0;
