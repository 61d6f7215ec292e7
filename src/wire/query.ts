/** The query of a request target, pair by pair as it was written, so that what nobody touched goes upstream unchanged. */
export class Query {
  private readonly pairs: { name: string; value: string; raw: string }[];

  /** @throws URIError on a broken escape. */
  constructor(text = "") {
    this.pairs = text === "" ? [] : text.split("&").map(parsePair);
  }

  get(name: string): string | null {
    return this.pairs.find((pair) => pair.name === name)?.value ?? null;
  }

  has(name: string): boolean {
    return this.pairs.some((pair) => pair.name === name);
  }

  /** Removes every pair of that name. */
  delete(name: string): void {
    for (let i = this.pairs.length - 1; i >= 0; i--) if (this.pairs[i]?.name === name) this.pairs.splice(i, 1);
  }

  names(): string[] {
    return this.pairs.map((pair) => pair.name);
  }

  /** The first name that occurs twice, if any. @param among looks at no other names */
  repeated(among?: readonly string[]): string | undefined {
    if (this.pairs.length < 2) return undefined;
    const names = this.names();
    return names.find((name, i) => names.indexOf(name) !== i && (among?.includes(name) ?? true));
  }

  /** The text with another value for a name, where it has that. */
  with(name: string, value: string): string {
    const pair = `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
    return this.pairs.map((each) => (each.name === name ? pair : each.raw)).join("&");
  }

  /** The text, without the question mark. */
  toString(): string {
    return this.pairs.map((pair) => pair.raw).join("&");
  }
}

const decode = (text: string): string => decodeURIComponent(text.replaceAll("+", " "));

function parsePair(raw: string): { name: string; value: string; raw: string } {
  const equals = raw.indexOf("=");
  return equals < 0
    ? { name: decode(raw), value: "", raw }
    : { name: decode(raw.slice(0, equals)), value: decode(raw.slice(equals + 1)), raw };
}
