import { PartialMatch } from "../wire/partial-match.ts";

/** What is looked for in a text. */
export interface TextMatch {
  /** Must not match where nothing is. Every match counts, with or without the flag `g`; `y` has no effect. */
  pattern: RegExp;
  /**
   * Characters of the longest match, with what it looks ahead at; of a longer one nothing is promised. It may look back at as
   * many, and at 256 in any case.
   */
  longest: number;
}

/** What shall stand in place of a match. Called once for each. */
export type Replace = (match: string) => string;

/** A text on its way: takes its pieces, and gives what has become of them as soon as that is certain. */
export interface TextOutput {
  /** @param raw how each character is written in the source, where that differs from the characters themselves */
  push(text: string, raw?: readonly string[]): string;
  /** The text has ended. */
  end(): string;
  /** True while something of it waits for what follows. */
  readonly waits: boolean;
  /** How much of the last answer, from its beginning, is what had waited and stays as it is written. */
  readonly back: number;
}

/** Characters in front of what is open that are kept for patterns that look back. */
const LOOK_BACK = 256;

/** A pattern made ready for texts that come in pieces. */
export class TextPattern {
  readonly expression: RegExp;
  readonly partial: PartialMatch;
  readonly longest: number;
  /** Characters that it may look back at, and one that tells whether the text begins there. */
  readonly behind: number;

  /** @throws SyntaxError for a pattern that matches nothing at all */
  constructor({ pattern, longest }: TextMatch) {
    this.expression = new RegExp(pattern.source, `${pattern.flags.replace(/[gy]/g, "")}g`);
    this.partial = new PartialMatch(pattern);
    this.longest = longest;
    this.behind = Math.max(longest, LOOK_BACK) + 1;
  }
}

/**
 * Replaces what a pattern matches in a text that comes in pieces: the same as in the whole text, however it is cut. What
 * could still become a match waits for the next piece.
 */
export class TextReplacer implements TextOutput {
  /** What has been given away in front of `open`, for patterns that look back. */
  private before = "";
  private open = "";
  private rawOpen: readonly string[] | undefined;
  back = 0;

  constructor(
    private readonly pattern: TextPattern,
    private readonly replace: Replace,
    private readonly encode: (text: string) => string = (text) => text,
  ) {}

  get waits(): boolean {
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
    const { expression, partial, longest, behind } = this.pattern;
    const start = this.before.length;
    const all = this.before + text;
    const plain = (from: number, to: number): string =>
      raw ? raw.slice(from - start, to - start).join("") : all.slice(from, to);
    const waited = this.open.length;
    let out = "";
    let at = start;
    this.back = 0;
    let open = more ? partial.openAt(all, Math.max(at, all.length - longest)) : all.length;
    for (;;) {
      expression.lastIndex = at;
      const found = expression.exec(all);
      const until = found ? Math.min(found.index, open) : open;
      if (at === start) this.back = plain(start, Math.min(until, start + waited)).length;
      if (!found || found.index >= open) {
        out += plain(at, open);
        at = open;
        break;
      }
      out += plain(at, found.index) + this.encode(this.replace(found[0]));
      at = found.index + found[0].length;
      // A match in front of where another could begin changes nothing there.
      if (at > open) open = partial.openAt(all, at);
    }
    this.before = all.slice(Math.max(0, at - behind), at);
    this.open = all.slice(at);
    this.rawOpen = raw?.slice(at - start);
    return out;
  }
}

/** Gives a whole text to a function, and what that makes of it in its place. */
export class WholeText implements TextOutput {
  readonly back = 0;
  private text = "";
  private raw: readonly string[] | undefined;

  constructor(
    private readonly map: Replace,
    private readonly encode: (text: string) => string = (text) => text,
  ) {}

  get waits(): boolean {
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
    const mapped = this.map(text);
    return mapped === text ? (raw?.join("") ?? text) : this.encode(mapped);
  }
}

/** As it stands in a JSON string. */
export const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

/**
 * JSON text that comes in pieces, cut anywhere: each string in it that is a value is a text of its own; names of members and
 * all else pass as they are written. What is not JSON passes too.
 */
export class JsonText implements TextOutput {
  /** Of each open container, whether it is an object. */
  private readonly objects: boolean[] = [];
  private named = false;
  private inside: "value" | "name" | undefined;
  /** An escape that has not come whole. */
  private part = "";
  private text = "";
  private raw: string[] = [];
  /** What waits has not been heard of since. */
  private waiting = false;
  back = 0;

  /** @param leaf takes the strings, one after the other; must escape what it puts in */
  constructor(private readonly leaf: TextOutput) {}

  get waits(): boolean {
    return this.part !== "" || this.leaf.waits;
  }

  push(text: string): string {
    let out = "";
    this.waiting = this.leaf.waits;
    this.back = 0;
    for (let i = 0; i < text.length; i++)
      out += this.inside ? this.within(text[i] as string) : this.between(text[i] as string);
    return out + this.given();
  }

  end(): string {
    const { part } = this;
    this.part = "";
    return (this.inside === "value" ? this.given() + this.ended() : "") + part;
  }

  private between(char: string): string {
    if (char === "{" || char === "[") this.objects.push(char === "{");
    else if (char === "}" || char === "]") this.objects.pop();
    else if (char === '"') this.inside = this.objects.at(-1) && !this.named ? "name" : "value";
    if (char === ":") this.named = true;
    else if (char === "," || char === "{") this.named = false;
    return char;
  }

  private within(char: string): string {
    if (this.part !== "") return this.escaping(char);
    if (char === "\\") this.part = char;
    else if (char !== '"') return this.take(char, char);
    else {
      const out = this.inside === "value" ? this.given() + this.ended() : "";
      this.inside = undefined;
      return out + char;
    }
    return "";
  }

  private escaping(char: string): string {
    const written = this.part + char;
    if (written.startsWith("\\u") && written.length < 6) {
      this.part = written;
      return "";
    }
    this.part = "";
    return this.take(meaning(written), written);
  }

  private take(char: string, raw: string): string {
    if (this.inside === "name") return raw;
    this.text += char;
    this.raw.push(raw);
    return "";
  }

  /** What the leaf gives for what has been collected. */
  private given(): string {
    if (this.text === "") return "";
    const { text, raw } = this;
    this.text = "";
    this.raw = [];
    return this.heard(this.leaf.push(text, raw));
  }

  private ended(): string {
    return this.heard(this.leaf.end());
  }

  private heard(out: string): string {
    if (this.waiting) this.back = this.leaf.back;
    this.waiting = false;
    return out;
  }
}

/** The character of an escape; a broken one stands for a character that no text holds. */
function meaning(written: string): string {
  try {
    return JSON.parse(`"${written}"`) as string;
  } catch {
    return "\uffff";
  }
}
