/** Stands for the character that has not come yet: one that no text holds (a noncharacter of Unicode). */
const NEXT = "\uffff";
const END = "(?![^])";
const QUANTIFIER = /^(?:[*+?]|\{\d+(?:,\d*)?\})\??/;
const ESCAPE = /^\\(?:k<[^>]*>|[pP]\{[^}]*\}|u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[1-9]\d*|[\s\S])/;
const GROUP = /^\((?:\?(?:<[=!]|[=!:]|<[^>]*>|[a-z-]*:))?/;

/**
 * Finds where in a text a match of a pattern begins that more text could complete, lengthen or undo.
 * @throws SyntaxError for a pattern that matches nothing at all
 */
export class PartialMatch {
  private readonly partial: RegExp;
  private readonly unicode: boolean;

  constructor(pattern: RegExp) {
    if (new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, "")).test(""))
      throw new SyntaxError(`${pattern} also matches where nothing is.`);
    const flags = pattern.flags.replace(/[gyd]/g, "");
    this.unicode = /[uv]/.test(flags);
    const source = new Opened(pattern.source, this.unicode, flags.includes("v")).alternatives();
    this.partial = new RegExp(`(?:${source})${END}`, `${flags}g`);
  }

  /** The first such place from `from` on; the text's length when there is none. */
  openAt(text: string, from: number): number {
    // Half of a character is as good as none.
    const half = this.unicode && /[\ud800-\udbff]$/.test(text);
    this.partial.lastIndex = from;
    const found = this.partial.exec((half ? text.slice(0, -1) : text) + NEXT);
    return Math.min(found?.index ?? text.length, text.length);
  }
}

/**
 * Writes a pattern anew, so that it also matches where the text ends in the middle of it: every place that wants a
 * character also takes the one that has not come, and none behind that.
 */
class Opened {
  private at = 0;

  constructor(
    private readonly source: string,
    private readonly unicode: boolean,
    private readonly sets: boolean,
  ) {}

  /** Up to the end of the group or of the pattern. */
  alternatives(): string {
    let out = "";
    for (;;) {
      const rest = this.source.slice(this.at);
      const next = rest[0];
      if (next === undefined || next === ")") return out;
      const quantifier = QUANTIFIER.exec(rest)?.[0];
      if (next === "|" || next === "^" || quantifier) out += this.take(quantifier ?? next);
      else if (next === "(") out += this.group();
      else if (next === "[") out += open(this.take(this.classAt(rest)));
      else if (next === "\\") out += this.escape(this.take((ESCAPE.exec(rest) as RegExpExecArray)[0]));
      else out += open(this.take(this.unicode ? String.fromCodePoint(rest.codePointAt(0) as number) : next));
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
    // What looks ahead and cannot see enough may turn out either way.
    if (opening === "(?=" || opening === "(?!") return `(?:${opening}${written})|(?=(?:${inner})${END})[^]*)`;
    return `${opening}${inner})`;
  }

  private escape(written: string): string {
    // What it repeats may come in part.
    return /^\\(?:k<|[1-9])/.test(written) ? `(?:${written}|[^]*)` : open(written);
  }

  /** A character class with its brackets. */
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

const open = (atom: string): string => `(?:${atom}|${NEXT}|${END})`;
