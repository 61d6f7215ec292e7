import { editDistance } from "../core/edit-distance.ts";

/** Returns the word that was probably meant, or undefined if none is similar. */
export function nearest(word: string, words: Iterable<string>): string | undefined {
  const name = word.toLowerCase();
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of words) {
    const other = candidate.toLowerCase();
    if (other === name) return candidate;
    const maxEdits = Math.max(1, Math.floor(Math.min(name.length, candidate.length) / 3));
    // Each edit changes the length by one at most: this spares most comparisons.
    if (Math.abs(other.length - name.length) > maxEdits) continue;
    const edits = editDistance(name, other);
    if (edits <= maxEdits && edits < least) {
      best = candidate;
      least = edits;
    }
  }
  return best;
}

/**
 * Returns how a message about an unknown word ends: with the one that was probably meant.
 * @param otherwise the end where none is similar
 */
export function suggestion(word: string, words: Iterable<string>, otherwise = "."): string {
  const near = nearest(word, words);
  return near === undefined ? otherwise : `, did you mean ${JSON.stringify(near)}?`;
}

/** Returns the message for an unknown name: with the one that was probably meant, or else with the existing ones. */
export function unknownNameMessage(kind: string, word: string, words: Iterable<string>): string {
  const known = [...words];
  const near = nearest(word, known);
  return near === undefined ? knownNamesMessage(kind, word, known) : didYouMeanMessage(kind, word, near);
}

/** Returns the message when it is clear what was meant. */
export const didYouMeanMessage = (kind: string, word: string, meant: string): string =>
  `unknown ${kind} ${JSON.stringify(word)}, did you mean ${JSON.stringify(meant)}?`;

/** Maximum number of names that are shown. */
const MAX_SUGGESTED = 12;

/** Returns the message when it is not clear: the first existing names, and how many more there are. */
export function knownNamesMessage(kind: string, word: string, known: readonly string[]): string {
  const shown =
    known.length === 0
      ? "none is known"
      : `known: ${known.slice(0, MAX_SUGGESTED).join(", ")}${known.length > MAX_SUGGESTED ? ` and ${known.length - MAX_SUGGESTED} more` : ""}`;
  return `unknown ${kind} ${JSON.stringify(word)}; ${shown}`;
}
