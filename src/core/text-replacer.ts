import { emptyMatchError, PartialMatch } from "../wire/partial-match.ts";
import type { TextKind } from "./protocol.ts";

/** What to search for in the texts of a request or a response. */
export interface TextMatch {
  /** Must not match the empty string. Every match counts, with or without the flag `g`; `y` has no effect. */
  pattern: RegExp;
  /**
   * Characters of the longest match, including lookahead; longer matches may be missed. Lookbehind may reach as far back, and 256
   * characters in any case.
   */
  maxLength: number;
  /** Default: all kinds. */
  kinds?: readonly TextKind[];
}

/** @throws TypeError for anything but a pattern and a length: short texts would not show a wrong one */
export function checkTextMatch({ pattern, maxLength }: TextMatch): void {
  if (!(pattern instanceof RegExp)) throw new TypeError("The pattern must be a regular expression.");
  if (!Number.isSafeInteger(maxLength) || maxLength < 1)
    throw new TypeError(`maxLength must be a number of characters from 1 on, not ${maxLength}.`);
}

/** Returns the replacement of a match. Called once for each. */
export type Replace = (match: string) => string;

/**
 * Returns what a plugin's function gives for a text.
 * @throws TypeError for anything but a string, such as the promise of one
 */
function checkReplacement(replacement: unknown): string {
  if (typeof replacement === "string") return replacement;
  // Its rejection would have no handler, which ends the process.
  if (replacement instanceof Promise) replacement.catch(() => {});
  throw new TypeError("The function that replaces texts must return a string, and not a promise.");
}

/** A text in progress: takes its pieces, and returns their output as soon as that is final. */
export interface TextOutput {
  /** @param raw the source of each character, where it differs from the character itself */
  push(text: string, raw?: readonly string[]): string;
  /** Ends the text. Returns the rest of the output. */
  end(): string;
  /** True while a part of the text is held back for what follows. */
  readonly isPending: boolean;
  /** How many characters at the start of the last output were held back before and are unchanged. */
  readonly carriedOver: number;
}

/** Characters before the held-back text that are kept for lookbehind. */
const LOOK_BACK = 256;

/** A pattern compiled for texts that arrive in pieces. */
export class TextPattern {
  readonly expression: RegExp;
  readonly partial: PartialMatch;
  readonly maxLength: number;
  /** Characters kept for lookbehind, plus one that shows whether the text begins there. */
  readonly lookbehind: number;

  /**
   * @throws SyntaxError for a pattern that matches the empty string
   * @throws TypeError as `checkTextMatch`
   */
  constructor(match: TextMatch) {
    checkTextMatch(match);
    const { pattern, maxLength } = match;
    this.expression = new RegExp(pattern.source, `${pattern.flags.replace(/[gy]/g, "")}g`);
    this.partial = new PartialMatch(pattern);
    this.maxLength = maxLength;
    this.lookbehind = Math.max(maxLength, LOOK_BACK) + 1;
  }
}

/**
 * Replaces what a pattern matches in a text that arrives in pieces, with the same result as for the whole text, however it is
 * cut. What could still become a match is held back until the next piece.
 */
export class TextReplacer implements TextOutput {
  /** The original text before `open`, for lookbehind. */
  private before = "";
  private open = "";
  private rawOpen: readonly string[] | undefined;
  carriedOver = 0;

  constructor(
    private readonly pattern: TextPattern,
    private readonly replace: Replace,
    private readonly encode: (text: string) => string = (text) => text,
  ) {}

  get isPending(): boolean {
    return this.open !== "";
  }

  push(text: string, raw?: readonly string[]): string {
    return this.read(this.open + text, raw && [...(this.rawOpen ?? []), ...raw], true);
  }

  end(): string {
    const rest = this.read(this.open, this.rawOpen, false);
    this.before = "";
    return rest;
  }

  private read(text: string, raw: readonly string[] | undefined, more: boolean): string {
    const { expression, partial, maxLength: longest, lookbehind } = this.pattern;
    const start = this.before.length;
    const all = this.before + text;
    const plain = (from: number, to: number): string =>
      raw ? raw.slice(from - start, to - start).join("") : all.slice(from, to);
    const waited = this.open.length;
    let out = "";
    let at = start;
    this.carriedOver = 0;
    let open = more ? partial.partialStart(all, Math.max(at, all.length - longest)) : all.length;
    for (;;) {
      expression.lastIndex = at;
      const found = expression.exec(all);
      const until = found ? Math.min(found.index, open) : open;
      if (at === start) this.carriedOver = plain(start, Math.min(until, start + waited)).length;
      if (!found || found.index >= open) {
        out += plain(at, open);
        at = open;
        break;
      }
      // The constructor finds only a pattern that matches an empty text; this may be `(?=a)`.
      if (found[0] === "") throw emptyMatchError(expression);
      out += plain(at, found.index) + this.encode(checkReplacement(this.replace(found[0])));
      at = found.index + found[0].length;
      // A match that ends before the open part does not change where that begins.
      if (at > open) open = partial.partialStart(all, at);
    }
    this.before = all.slice(Math.max(0, at - lookbehind), at);
    this.open = all.slice(at);
    this.rawOpen = raw?.slice(at - start);
    return out;
  }
}

/** Collects a whole text and replaces it by the result of a function. */
export class WholeTextOutput implements TextOutput {
  readonly carriedOver = 0;
  private text = "";
  private raw: readonly string[] | undefined;

  constructor(
    private readonly map: Replace,
    private readonly encode: (text: string) => string = (text) => text,
  ) {}

  get isPending(): boolean {
    return this.text !== "";
  }

  push(text: string, raw?: readonly string[]): string {
    this.text += text;
    if (raw) this.raw = this.raw ? this.raw.concat(raw) : raw;
    return "";
  }

  end(): string {
    const { text, raw } = this;
    this.text = "";
    this.raw = undefined;
    const mapped = checkReplacement(this.map(text));
    return mapped === text ? (raw?.join("") ?? text) : this.encode(mapped);
  }
}

/** Returns the text escaped for a JSON string. */
export const escapeJson = (text: string): string => JSON.stringify(text).slice(1, -1);

/**
 * JSON text that arrives in pieces with arbitrary boundaries: each string value is a text of its own; member names and everything
 * else pass as written. Text that is not JSON passes too.
 */
export class JsonTextOutput implements TextOutput {
  /** For each open container, whether it is an object. */
  private readonly objects: boolean[] = [];
  private afterColon = false;
  private inside: "value" | "name" | undefined;
  /** An incomplete escape sequence. */
  private partialEscape = "";
  private text = "";
  private raw: string[] = [];
  /** True from the start of a push with held-back text until the leaf's next output. */
  private waiting = false;
  carriedOver = 0;

  /** @param leaf takes the strings one after the other; must escape its replacements */
  constructor(private readonly leaf: TextOutput) {}

  get isPending(): boolean {
    return this.partialEscape !== "" || this.leaf.isPending;
  }

  push(text: string): string {
    let out = "";
    this.waiting = this.leaf.isPending;
    this.carriedOver = 0;
    for (let i = 0; i < text.length; i++)
      out += this.inside ? this.readInString(text[i] as string) : this.readOutside(text[i] as string);
    return out + this.flushText();
  }

  end(): string {
    const { partialEscape: part } = this;
    this.partialEscape = "";
    return (this.inside === "value" ? this.flushText() + this.endString() : "") + part;
  }

  private readOutside(char: string): string {
    if (char === "{" || char === "[") this.objects.push(char === "{");
    else if (char === "}" || char === "]") this.objects.pop();
    else if (char === '"') this.inside = this.objects.at(-1) && !this.afterColon ? "name" : "value";
    if (char === ":") this.afterColon = true;
    else if (char === "," || char === "{") this.afterColon = false;
    return char;
  }

  private readInString(char: string): string {
    if (this.partialEscape !== "") return this.readEscape(char);
    if (char === "\\") this.partialEscape = char;
    else if (char !== '"') return this.addChar(char, char);
    else {
      const out = this.inside === "value" ? this.flushText() + this.endString() : "";
      this.inside = undefined;
      return out + char;
    }
    return "";
  }

  private readEscape(char: string): string {
    const written = this.partialEscape + char;
    if (written.startsWith("\\u") && written.length < 6) {
      this.partialEscape = written;
      return "";
    }
    this.partialEscape = "";
    return this.addChar(unescapeChar(written), written);
  }

  private addChar(char: string, raw: string): string {
    if (this.inside === "name") return raw;
    this.text += char;
    this.raw.push(raw);
    return "";
  }

  /** Returns the leaf's output for the collected text. */
  private flushText(): string {
    if (this.text === "") return "";
    const { text, raw } = this;
    this.text = "";
    this.raw = [];
    return this.trackCarriedOver(this.leaf.push(text, raw));
  }

  private endString(): string {
    return this.trackCarriedOver(this.leaf.end());
  }

  private trackCarriedOver(out: string): string {
    if (this.waiting) this.carriedOver = this.leaf.carriedOver;
    this.waiting = false;
    return out;
  }
}

/** Returns the character of an escape; for an invalid one a noncharacter that no text contains. */
function unescapeChar(written: string): string {
  try {
    return JSON.parse(`"${written}"`) as string;
  } catch {
    return "\uffff";
  }
}
