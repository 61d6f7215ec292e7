import { BACKSLASH } from "../wire/grammar.ts";

/** Maximum backslashes before a character: in JSON nested in JSON, they are escaped again. */
const MAX_BACKSLASHES = 8;
/** Maximum times that a percent sign is escaped as `%25`, and maximum leading zeros of an HTML character reference. */
const MAX_REPEATS = 4;
const PERCENT = 0x25;
const AMPERSAND = 0x26;
const HASH = 0x23;
const CHARACTER_REFERENCE = /&#(?:0{0,4}([1-9]\d{0,4})|[xX]0{0,4}([1-9a-fA-F][\da-fA-F]{0,3}));/y;
/** Characters with a named HTML entity. */
const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&apos;",
  "+": "&plus;",
  "/": "&sol;",
  "=": "&equals;",
  _: "&lowbar;",
};

/** A prefix of secrets: a node of their trie. */
class Prefix {
  /** The characters that may follow, and the prefixes that they lead to. Nearly always one: a search is faster than a map. */
  private readonly codes: number[] = [];
  private readonly next: Prefix[] = [];
  /** The longer prefixes whose last character has an entity. */
  readonly entities: (readonly [entity: string, next: Prefix])[] = [];
  /** The place in the list of the secret that ends here. */
  rank = Number.POSITIVE_INFINITY;

  constructor(readonly number: number) {}

  /** Returns the prefix that is one character longer, if a secret begins with it. */
  get(code: number): Prefix | undefined {
    const index = this.codes.indexOf(code);
    return index < 0 ? undefined : this.next[index];
  }

  add(code: number, next: Prefix): Prefix {
    this.codes.push(code);
    this.next.push(next);
    const entity = ENTITIES[String.fromCharCode(code)];
    if (entity !== undefined) this.entities.push([entity, next]);
    return next;
  }
}

/**
 * Finds secrets of which each character is plain, or escaped as in JSON, a URL or HTML. Not by a regular expression, which would
 * try each secret at each position with every number of backslashes: seconds for a megabyte of them.
 */
export class SpelledSecrets {
  private readonly root = new Prefix(0);
  private prefixes = 1;
  private text = "";
  /** Where a match may continue, the preferred place last: a prefix of secrets is read up to a position of the text. */
  private readonly open: (readonly [prefix: Prefix, at: number])[] = [];

  /** @param secrets of several that begin at the same position, the first in this list is found */
  constructor(secrets: readonly string[]) {
    for (const [rank, secret] of secrets.entries()) {
      let prefix = this.root;
      for (let at = 0; at < secret.length; at++) {
        const code = secret.charCodeAt(at);
        prefix = prefix.get(code) ?? prefix.add(code, new Prefix(this.prefixes++));
      }
      prefix.rank = Math.min(prefix.rank, rank);
    }
  }

  /** Returns the text with a mask in place of each secret. */
  replace(text: string, mask: string): string {
    this.text = text;
    let clean = "";
    let done = 0;
    // Unless a secret begins with one, each of the backslashes before a character leads to the same matches.
    const skipsRuns = this.root.get(BACKSLASH) === undefined;
    for (let at = 0; at < text.length; ) {
      const run = skipsRuns ? countBackslashes(text, at, text.length) : 0;
      const start = at + Math.max(0, run - MAX_BACKSLASHES);
      const end = this.matchEnd(start);
      if (end === undefined) at += Math.max(1, run);
      else {
        clean += text.slice(done, start) + mask;
        done = at = end;
      }
    }
    this.text = "";
    return done === 0 ? text : clean + text.slice(done);
  }

  /** Returns the end of the secret that begins at `start`. */
  private matchEnd(start: number): number | undefined {
    const { open } = this;
    this.read(this.root, start);
    if (open.length === 0) return undefined;
    let rank = Number.POSITIVE_INFINITY;
    let end: number | undefined;
    let seen: Set<number> | undefined;
    for (let next = open.pop(); next; next = open.pop()) {
      const [prefix, at] = next;
      // Only after a fork several ways can lead to the same place; in a secret with many backslashes that is nearly every one.
      if (open.length > 0) {
        const place = at * this.prefixes + prefix.number;
        if (seen?.has(place)) continue;
        seen = (seen ?? new Set()).add(place);
      }
      if (prefix.rank < rank) [rank, end] = [prefix.rank, at];
      this.read(prefix, at);
    }
    return end;
  }

  /** Adds to `open` each way to read the next character of a secret. */
  private read(prefix: Prefix, at: number): void {
    const code = this.text.charCodeAt(at);
    if (code === BACKSLASH) this.readBackslashes(prefix, at);
    else {
      if (code === PERCENT) this.readPercent(prefix, at + 1);
      else if (code === AMPERSAND) this.readEntity(prefix, at);
      this.add(prefix.get(code), at + 1);
    }
  }

  private readBackslashes(prefix: Prefix, at: number): void {
    const { text } = this;
    const run = countBackslashes(text, at, MAX_BACKSLASHES + 1);
    const end = at + run;
    if (run <= MAX_BACKSLASHES) {
      if (text.startsWith("u", end)) this.add(prefix.get(hexCode(text, end + 1, end + 5)), end + 5);
      this.add(prefix.get(text.charCodeAt(end)), end + 1);
    }
    const backslash = prefix.get(BACKSLASH);
    if (backslash) for (let last = at; last < end; last++) this.add(backslash, last + 1);
  }

  private readPercent(prefix: Prefix, at: number): void {
    for (let i = 0; i <= MAX_REPEATS; i++, at += 2) {
      this.add(prefix.get(hexCode(this.text, at, at + 2)), at + 2);
      if (!this.text.startsWith("25", at)) return;
    }
  }

  private readEntity(prefix: Prefix, at: number): void {
    const { text } = this;
    for (const [name, next] of prefix.entities) if (text.startsWith(name, at)) this.add(next, at + name.length);
    if (text.charCodeAt(at + 1) !== HASH) return;
    CHARACTER_REFERENCE.lastIndex = at;
    const [reference, decimal, hex] = CHARACTER_REFERENCE.exec(text) ?? [];
    if (reference !== undefined) this.add(prefix.get(Number(decimal ?? `0x${hex}`)), at + reference.length);
  }

  private add(prefix: Prefix | undefined, at: number): void {
    if (prefix) this.open.push([prefix, at]);
  }
}

/** Returns the number of backslashes from `at` on, of which at most `limit` count. */
function countBackslashes(text: string, at: number, limit: number): number {
  let count = 0;
  while (count < limit && text.charCodeAt(at + count) === BACKSLASH) count++;
  return count;
}

/** Returns the character code that is written in hexadecimal; -1 if it is not. */
function hexCode(text: string, start: number, end: number): number {
  let code = 0;
  for (let at = start; at < end; at++) {
    const digit = text.charCodeAt(at);
    if (digit >= 0x30 && digit <= 0x39) code = code * 16 + digit - 0x30;
    else {
      const letter = (digit | 0x20) - 0x61;
      if (!(letter >= 0 && letter < 6)) return -1;
      code = code * 16 + letter + 10;
    }
  }
  return code;
}
