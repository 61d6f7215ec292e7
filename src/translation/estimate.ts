import type { Conversation, Media, Part } from "./conversation.ts";
import { contentOf, likelyTokensOf } from "./media-content.ts";
import { endsStep, runAtOnce, type Steps } from "./steps.ts";
import { type CountBudget, countBudget, countPieces, tokensOfText } from "./text-tokens.ts";

/**
 * Estimates a request's tokens; rather too many than too few.
 * @param body its JSON text, or the byte length of that
 */
export const estimateRequestTokens = (conversation: Conversation, body: string | number): number =>
  runAtOnce(estimateRequestTokensInSteps(conversation, body));

/** Does the same in steps. */
export function estimateRequestTokensInSteps(conversation: Conversation, body: string | number): Steps<number> {
  const budget = countBudget();
  return estimateTokensInSteps(conversation, body, (media) => tokensOfMedia(media, budget), budget);
}

/**
 * Estimates a request's tokens in steps, with those of its media counted in any way.
 * @param tokensOf returns the tokens of media
 * @param budget of all texts of the request
 */
export function* estimateTokensInSteps(
  conversation: Conversation,
  body: string | number,
  tokensOf: (part: Media) => number,
  budget: CountBudget,
): Steps<number> {
  const text = typeof body === "string" ? body : "";
  /** The end of the text counted so far, media excluded; and how often media were not found in the text. */
  let at = 0;
  let misses = 0;
  /** Of what is subtracted: sharing the other would make samples of one of two texts that are nearly the same. */
  const missedBudget = countBudget();
  let bytes = typeof body === "number" ? body : Buffer.byteLength(body);
  let found = 0;
  let tokens = 0;
  let n = 0;
  for (const { parts } of conversation.turns)
    for (const part of withInner(parts)) {
      if (endsStep(n++)) yield;
      if (part.kind !== "media") continue;
      const base64 = "base64" in part.source ? part.source.base64 : "";
      bytes -= base64.length;
      const from = misses < MAX_MISSES ? findBase64(base64, text, at) : -1;
      if (from >= 0) {
        found += countPieces(text.slice(at, from), budget);
        at = from + base64.length;
      } else if (base64 !== "" && text !== "") {
        // Some clients escape the slashes of base64.
        misses++;
        found -= countPieces(base64, missedBudget);
      }
      tokens += tokensOf(part);
    }
  found += countPieces(text.slice(at), budget);
  return tokensOfText(bytes, found) + tokens;
}

/**
 * Yields the parts, and those of tools' results. No generator within another function: V8 makes a hidden class for each, which keeps
 * what that function refers to, the whole body, until it marks the heap.
 */
function* withInner(parts: readonly Part[]): Generator<Part> {
  for (const part of parts) {
    yield part;
    if (part.kind === "tool_result") yield* withInner(part.parts);
  }
}

const tokensOfMedia = ({ media, source }: Media, budget: CountBudget): number =>
  likelyTokensOf(media, contentOf("base64" in source ? source.base64 : ""), budget);

/** Estimates the tokens of a request's media, which is everything but text. */
export function estimateMediaTokens({ turns }: Conversation): number {
  const budget = countBudget();
  const ofPart = (part: Part): number => {
    if (part.kind === "tool_result") return sum(part.parts.map(ofPart));
    if (part.kind !== "media" || "text" in part.source) return 0;
    return tokensOfMedia(part, budget);
  };
  return sum(turns.flatMap(({ parts }) => parts.map(ofPart)));
}

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

/** Media usually are at the next match of their beginning: the text is not searched more often than this without a match. */
const MAX_MISSES = 3;
/** Characters of base64 to search for: with long needles a search may take the product of both lengths. */
const SEARCHED_LENGTH = 16;

/** Returns the position of base64 in a text after an offset; -1: not at the first match of its beginning. */
function findBase64(base64: string, text: string, from: number): number {
  if (base64 === "" || text === "") return -1;
  const at = text.indexOf(base64.slice(0, SEARCHED_LENGTH), from);
  return at >= 0 && text.startsWith(base64, at) ? at : -1;
}
