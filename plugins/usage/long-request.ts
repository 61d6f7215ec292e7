import type { Body } from "model-gateway";
import { estimateTokens } from "./token-count.ts";

/** Number of samples, evenly distributed, and bytes of each. */
const SAMPLES = 32;
const SAMPLE_BYTES = 1024;

const ESCAPE = /\\(?:u([\da-f]{4})|(.))/gis;
/** Characters of the short escapes that are not the character itself. */
const CONTROLS: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };
const LETTER = /\p{L}/u;

/**
 * Returns about how many tokens parts of a JSON text have, as a usual tokenizer counts them, from samples of it: at a cost that
 * does not grow with its length. Its names and punctuation are counted too, about as many as turns have besides their texts.
 * Undefined where it contains no words.
 * @param spans the parts: together more than the samples
 */
export function sampledTokens(
  body: Pick<Body, "slice">,
  spans: readonly { readonly start: number; readonly end: number }[],
): number | undefined {
  const length = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  const step = length / SAMPLES;
  let [tokens, counted, base, next] = [0, 0, 0, (step - SAMPLE_BYTES) / 2];
  let hasWords = false;
  for (const { start, end } of spans) {
    for (; next < base + end - start; next += step) {
      const from = Math.max(start, Math.floor(start + next - base));
      const bytes = body.slice(from, Math.min(end, from + SAMPLE_BYTES));
      const text = unescaped(bytes.toString());
      hasWords ||= LETTER.test(text);
      tokens += estimateTokens(text);
      counted += bytes.length;
    }
    base += end - start;
  }
  return hasWords ? (tokens / counted) * length : undefined;
}

const unescaped = (text: string): string =>
  text.replace(ESCAPE, (_, code: string | undefined, one = "") =>
    code === undefined ? (CONTROLS[one] ?? one) : String.fromCharCode(Number.parseInt(code, 16)),
  );
