/** Represents the character that has not arrived yet: a noncharacter of Unicode, which no text contains. */
const MISSING_CHAR = "\uffff";
const END = "(?![^])";
const QUANTIFIER = /^(?:[*+?]|\{\d+(?:,\d*)?\})\??/;
const ESCAPE = /^\\(?:k<[^>]*>|[pP]\{[^}]*\}|u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[1-9]\d*|[\s\S])/;
const GROUP = /^\((?:\?(?:<[=!]|[=!:]|<[^>]*>|[a-z-]*:))?/;

/** Returns the error about a pattern that matches the empty string, here or elsewhere. */
export const emptyMatchError = (pattern: RegExp): SyntaxError =>
  new SyntaxError(`The pattern ${pattern} can match the empty string.`);

/**
 * Finds the start of a match that more text could complete, extend or invalidate.
 * @throws SyntaxError for a pattern that can match the empty string
 */
export class PartialMatch {
  private readonly partial: RegExp;
  private readonly unicode: boolean;

  constructor(pattern: RegExp) {
    if (new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, "")).test("")) throw emptyMatchError(pattern);
    const flags = pattern.flags.replace(/[gyd]/g, "");
    this.unicode = /[uv]/.test(flags);
    const source = new PartialPattern(pattern.source, this.unicode, flags.includes("v")).alternatives();
    this.partial = new RegExp(`(?:${source})${END}`, `${flags}g`);
  }

  /** Returns the first such position from `from` on; the text's length when there is none. */
  partialStart(text: string, from: number): number {
    // Half a surrogate pair counts as not yet received.
    const endsInHalfPair = this.unicode && /[\ud800-\udbff]$/.test(text);
    this.partial.lastIndex = from;
    const match = this.partial.exec((endsInHalfPair ? text.slice(0, -1) : text) + MISSING_CHAR);
    return Math.min(match?.index ?? text.length, text.length);
  }
}

/**
 * Rewrites a pattern so that it also matches where the text ends in the middle of a match: every place that requires a character
 * also accepts the missing one, and nothing after it.
 */
class PartialPattern {
  private position = 0;

  constructor(
    private readonly source: string,
    private readonly unicode: boolean,
    private readonly unicodeSets: boolean,
  ) {}

  /** Rewrites up to the end of the group or of the pattern. */
  alternatives(): string {
    let out = "";
    for (;;) {
      const remaining = this.source.slice(this.position);
      const character = remaining[0];
      if (character === undefined || character === ")") return out;
      const quantifier = QUANTIFIER.exec(remaining)?.[0];
      if (character === "|" || character === "^" || quantifier) out += this.take(quantifier ?? character);
      else if (character === "(") out += this.group();
      else if (character === "[") out += orMissing(this.take(this.classAt(remaining)));
      else if (character === "\\") out += this.escape(this.take((ESCAPE.exec(remaining) as RegExpExecArray)[0]));
      else
        out += orMissing(
          this.take(this.unicode ? String.fromCodePoint(remaining.codePointAt(0) as number) : character),
        );
    }
  }

  private take(text: string): string {
    this.position += text.length;
    return text;
  }

  private group(): string {
    const opening = this.take((GROUP.exec(this.source.slice(this.position)) as RegExpExecArray)[0]);
    const from = this.position;
    const inner = this.alternatives();
    const original = this.source.slice(from, this.position);
    this.position++;
    if (opening.startsWith("(?<=") || opening.startsWith("(?<!")) return `${opening}${original})`;
    // A lookahead that cannot see enough text may succeed or fail.
    if (opening === "(?=" || opening === "(?!") return `(?:${opening}${original})|(?=(?:${inner})${END})[^]*)`;
    return `${opening}${inner})`;
  }

  private escape(original: string): string {
    // A backreference may be incomplete.
    return /^\\(?:k<|[1-9])/.test(original) ? `(?:${original}|[^]*)` : orMissing(original);
  }

  /** Returns a character class with its brackets. */
  private classAt(remaining: string): string {
    let depth = 0;
    for (let i = 0; i < remaining.length; i++) {
      if (remaining[i] === "\\") i++;
      else if (remaining[i] === "[" && (depth === 0 || this.unicodeSets)) depth++;
      else if (remaining[i] === "]" && --depth === 0) return remaining.slice(0, i + 1);
    }
    return remaining;
  }
}

const orMissing = (atom: string): string => `(?:${atom}|${MISSING_CHAR}|${END})`;
