/** Represents the character that has not arrived yet: a noncharacter of Unicode, which no text contains. */
const MISSING_CHAR = "\uffff";
const END = "(?![^])";
const QUANTIFIER = /^(?:[*+?]|\{\d+(?:,\d*)?\})\??/;
const ESCAPE = /^\\(?:k<[^>]*>|[pP]\{[^}]*\}|u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[1-9]\d*|[\s\S])/;
const GROUP = /^\((?:\?(?:<[=!]|[=!:]|<[^>]*>|[a-z-]*:))?/;

/**
 * Finds the start of a match that more text could complete, extend or invalidate.
 * @throws SyntaxError for a pattern that can match the empty string
 */
export class PartialMatch {
  private readonly partial: RegExp;
  private readonly unicode: boolean;

  constructor(pattern: RegExp) {
    if (new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, "")).test(""))
      throw new SyntaxError(`${pattern} also matches where nothing is.`);
    const flags = pattern.flags.replace(/[gyd]/g, "");
    this.unicode = /[uv]/.test(flags);
    const source = new PartialPattern(pattern.source, this.unicode, flags.includes("v")).alternatives();
    this.partial = new RegExp(`(?:${source})${END}`, `${flags}g`);
  }

  /** Returns the first such position from `from` on; the text's length when there is none. */
  partialStart(text: string, from: number): number {
    // Half a surrogate pair counts as not yet received.
    const half = this.unicode && /[\ud800-\udbff]$/.test(text);
    this.partial.lastIndex = from;
    const found = this.partial.exec((half ? text.slice(0, -1) : text) + MISSING_CHAR);
    return Math.min(found?.index ?? text.length, text.length);
  }
}

/**
 * Rewrites a pattern so that it also matches where the text ends in the middle of a match: every place that requires a character
 * also accepts the missing one, and nothing after it.
 */
class PartialPattern {
  private at = 0;

  constructor(
    private readonly source: string,
    private readonly unicode: boolean,
    private readonly sets: boolean,
  ) {}

  /** Rewrites up to the end of the group or of the pattern. */
  alternatives(): string {
    let out = "";
    for (;;) {
      const rest = this.source.slice(this.at);
      const next = rest[0];
      if (next === undefined || next === ")") return out;
      const quantifier = QUANTIFIER.exec(rest)?.[0];
      if (next === "|" || next === "^" || quantifier) out += this.take(quantifier ?? next);
      else if (next === "(") out += this.group();
      else if (next === "[") out += orMissing(this.take(this.classAt(rest)));
      else if (next === "\\") out += this.escape(this.take((ESCAPE.exec(rest) as RegExpExecArray)[0]));
      else out += orMissing(this.take(this.unicode ? String.fromCodePoint(rest.codePointAt(0) as number) : next));
    }
  }

  private take(text: string): string {
    this.at += text.length;
    return text;
  }

  private group(): string {
    const opening = this.take((GROUP.exec(this.source.slice(this.at)) as RegExpExecArray)[0]);
    const from = this.at;
    const inner = this.alternatives();
    const written = this.source.slice(from, this.at);
    this.at++;
    if (opening.startsWith("(?<=") || opening.startsWith("(?<!")) return `${opening}${written})`;
    // A lookahead that cannot see enough text may succeed or fail.
    if (opening === "(?=" || opening === "(?!") return `(?:${opening}${written})|(?=(?:${inner})${END})[^]*)`;
    return `${opening}${inner})`;
  }

  private escape(written: string): string {
    // A backreference may be incomplete.
    return /^\\(?:k<|[1-9])/.test(written) ? `(?:${written}|[^]*)` : orMissing(written);
  }

  /** Returns a character class with its brackets. */
  private classAt(rest: string): string {
    let depth = 0;
    for (let i = 0; i < rest.length; i++) {
      if (rest[i] === "\\") i++;
      else if (rest[i] === "[" && (depth === 0 || this.sets)) depth++;
      else if (rest[i] === "]" && --depth === 0) return rest.slice(0, i + 1);
    }
    return rest;
  }
}

const orMissing = (atom: string): string => `(?:${atom}|${MISSING_CHAR}|${END})`;
