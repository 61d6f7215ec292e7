/** The query of a request target, kept as the original pairs, so that unchanged pairs are sent upstream byte for byte. */
export class Query {
  private pairs: { name: string; value: string; raw: string }[];

  /** @throws URIError on an invalid escape */
  constructor(text = "") {
    this.pairs = text === "" ? [] : text.split("&").map(parsePair);
  }

  get(name: string): string | null {
    for (const pair of this.pairs) if (pair.name === name) return pair.value;
    return null;
  }

  /** Whether it has no pair, as that of nearly every request. */
  get isEmpty(): boolean {
    return this.pairs.length === 0;
  }

  /** Returns the values of every pair of that name. */
  all(name: string): string[] {
    return this.pairs.flatMap((pair) => (pair.name === name ? [pair.value] : []));
  }

  has(name: string): boolean {
    return this.pairs.some((pair) => pair.name === name);
  }

  /** Removes every pair of that name. */
  delete(name: string): void {
    if (this.has(name)) this.pairs = this.pairs.filter((pair) => pair.name !== name);
  }

  /** Removes every pair whose name is wanted; returns their names. */
  removeWhere(isRemoved: (name: string) => boolean): string[] {
    if (this.isEmpty) return [];
    const removed = this.pairs.filter(({ name }) => isRemoved(name));
    if (removed.length > 0) this.pairs = this.pairs.filter((pair) => !removed.includes(pair));
    return removed.map(({ name }) => name);
  }

  /** Returns a query in which one name stands for another. */
  renamed(from: string, to: string): Query {
    const query = new Query();
    query.pairs = this.pairs.map((pair) =>
      pair.name === from ? { name: to, value: pair.value, raw: pairText(to, pair.value) } : pair,
    );
    return query;
  }

  entries(): (readonly [name: string, value: string])[] {
    return this.pairs.map(({ name, value }) => [name, value] as const);
  }

  names(): string[] {
    return this.isEmpty ? [] : this.pairs.map((pair) => pair.name);
  }

  /** Returns the first name that occurs twice, if any. @param names ignores all other names */
  repeated(names?: readonly string[]): string | undefined {
    if (this.pairs.length < 2) return undefined;
    const seen = new Set<string>();
    for (const { name } of this.pairs) {
      if (seen.has(name) && (names?.includes(name) ?? true)) return name;
      seen.add(name);
    }
    return undefined;
  }

  /** Returns the text with another value for a name, if that occurs. */
  with(name: string, value: string): string {
    const pair = pairText(name, value);
    return this.pairs.map((other) => (other.name === name ? pair : other.raw)).join("&");
  }

  /** Returns the text, without the question mark. */
  toString(): string {
    return this.isEmpty ? "" : this.pairs.map((pair) => pair.raw).join("&");
  }
}

/** Returns a text without its percent escapes; unchanged if one of them is broken. */
export function decodeOrKeep(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns a text with the character of its byte in place of each percent escape, whatever the bytes together mean. */
export const decodeBytes = (text: string): string =>
  text.includes("%")
    ? text.replaceAll(/%[0-9a-f]{2}/gi, (byte) => String.fromCharCode(Number(`0x${byte.slice(1)}`)))
    : text;

const pairText = (name: string, value: string): string => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;

const decode = (text: string): string => decodeURIComponent(text.replaceAll("+", " "));

function parsePair(raw: string): { name: string; value: string; raw: string } {
  const equals = raw.indexOf("=");
  return equals < 0
    ? { name: decode(raw), value: "", raw }
    : { name: decode(raw.slice(0, equals)), value: decode(raw.slice(equals + 1)), raw };
}
