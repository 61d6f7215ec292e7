import { distance } from "../core/marketplace.ts";

/** The word that was probably meant, or undefined when none is near. */
export function nearest(word: string, words: Iterable<string>): string | undefined {
  const name = word.toLowerCase();
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of words) {
    const edits = distance(name, candidate.toLowerCase());
    const most = Math.max(1, Math.floor(Math.min(name.length, candidate.length) / 3));
    if (edits <= most && edits < least) {
      best = candidate;
      least = edits;
    }
  }
  return best;
}

/** A sentence for a name that does not exist: with the one that was probably meant, else with those that exist. */
export function unknown(kind: string, word: string, words: Iterable<string>): string {
  const known = [...words];
  const near = nearest(word, known);
  return near === undefined ? unlike(kind, word, known) : misspelt(kind, word, near);
}

/** The sentence when it is clear what was meant. */
export const misspelt = (kind: string, word: string, meant: string): string =>
  `unknown ${kind} ${JSON.stringify(word)}, did you mean ${JSON.stringify(meant)}?`;

/** Names that are shown. */
const SHOWN = 12;

/** The sentence when it is not: the first names that exist, and how many more there are. */
export function unlike(kind: string, word: string, known: readonly string[]): string {
  const shown =
    known.length === 0
      ? "none is known"
      : `known: ${known.slice(0, SHOWN).join(", ")}${known.length > SHOWN ? ` and ${known.length - SHOWN} more` : ""}`;
  return `unknown ${kind} ${JSON.stringify(word)}; ${shown}`;
}
