import { asObject, GatewayError, type JsonObject, RawJson } from "model-gateway/protocol";

/** How a source wrote an object, so that it can be written the same way again. */
export interface Form {
  /** Its members that the vocabulary has words for: the name in camel case, and how it was spelled. */
  names: Record<string, string>;
  /** Its other members. */
  rest: JsonObject;
  /** Values in another of their forms: enums in lower case, numbers as strings. */
  spelled: Record<string, unknown>;
  /** Lists that were written as their only element. */
  single: string[];
}

/** The other spelling of a name: `thinkingLevel` is `thinking_level`. */
export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** A table by names in camel case, for both spellings of them. */
export const spelledBoth = <T>(table: Readonly<Record<string, T>>): Readonly<Record<string, T>> =>
  Object.fromEntries(
    Object.entries(table).flatMap(([name, value]) => [
      [name, value],
      [snake(name), value],
    ]),
  );

/** Refuses a value of the client's. */
export function wrong(path: string, must: string, hint?: string): never {
  throw new GatewayError("invalid_field", {
    message: `${path} ${must}.`,
    param: path,
    ...(hint === undefined ? {} : { hint }),
  });
}

/**
 * The members of an object, read by their names in camel case and found in snake case, too: the vendor takes both in
 * every place (proto JSON). [F: 106 of 747 requests are in snake case] A null is a member that is not there. What was not
 * read by the end is what the vocabulary has no word for.
 */
export class Members {
  private readonly names: Record<string, string> = {};
  private readonly spelled: Record<string, unknown> = {};
  private readonly single: string[] = [];

  private constructor(
    private readonly json: JsonObject,
    readonly at: string,
  ) {}

  /** @throws GatewayError `invalid_field` where it is no object. */
  static of(json: unknown, at: string): Members {
    const object = json instanceof RawJson ? undefined : asObject(json);
    return new Members(object ?? wrong(at === "" ? "The body" : at, "must be an object"), at);
  }

  /** The object itself. */
  get source(): JsonObject {
    return this.json;
  }

  has(name: string): boolean {
    return (this.json[this.spelling(name)] ?? null) !== null;
  }

  /** The path of a member, as the client spelled it. */
  path(name: string): string {
    return this.at === "" ? this.spelling(name) : `${this.at}.${this.spelling(name)}`;
  }

  get(name: string): unknown {
    const spelling = this.spelling(name);
    const value = this.json[spelling];
    if (value === undefined || value === null) return undefined;
    this.names[name] = spelling;
    return value;
  }

  /** Leaves a member that was read among those that the vocabulary has no word for. */
  keep(name: string): void {
    delete this.names[name];
  }

  text(name: string): string | undefined {
    const value = this.get(name);
    return value === undefined || typeof value === "string" ? value : wrong(this.path(name), "must be a string");
  }

  flag(name: string): boolean | undefined {
    const value = this.get(name);
    return value === undefined || typeof value === "boolean" ? value : wrong(this.path(name), "must be true or false");
  }

  /** A number; proto JSON takes it as a string, too. One of more digits than a double has is rounded. */
  number(name: string): number | undefined {
    const value = this.get(name);
    if (value === undefined || typeof value === "number") return value;
    const text = value instanceof RawJson ? value.text : value;
    const number = typeof text === "string" && text.trim() !== "" ? Number(text) : Number.NaN;
    if (!Number.isFinite(number)) wrong(this.path(name), "must be a number");
    this.spelled[name] = value;
    return number;
  }

  /** A member of an enum in upper case, as which it is written; undefined for the unspecified one, which is kept. */
  word(name: string): string | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    const word = value.toUpperCase();
    if (word.endsWith("UNSPECIFIED")) this.keep(name);
    else if (word !== value) this.spelled[name] = value;
    return word.endsWith("UNSPECIFIED") ? undefined : word;
  }

  /** The objects of a list; a single one may stand for it. [F: `parts` as an object] */
  list(name: string): Members[] | undefined {
    const value = this.get(name);
    const path = this.path(name);
    if (value === undefined) return undefined;
    if (Array.isArray(value)) return value.map((each, n) => Members.of(each, `${path}.${n}`));
    if (!asObject(value)) wrong(path, "must be a list");
    this.single.push(name);
    return [Members.of(value, path)];
  }

  texts(name: string): string[] | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    const all = Array.isArray(value) && value.every((each) => typeof each === "string");
    return all ? (value as string[]) : wrong(this.path(name), "must be a list of strings");
  }

  object(name: string): Members | undefined {
    const value = this.get(name);
    return value === undefined ? undefined : Members.of(value, this.path(name));
  }

  /** An object whose text stays as it came. */
  raw(name: string): RawJson | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    return value instanceof RawJson && value.text.startsWith("{") ? value : wrong(this.path(name), "must be an object");
  }

  /** Remembers the case of words that were not read by `word`. */
  respell(name: string): void {
    this.spelled[name] = this.get(name);
  }

  /** The names, as spelled, of members that nobody has read. */
  left(): string[] {
    const read = new Set(Object.values(this.names));
    return Object.keys(this.json).filter((name) => !read.has(name) && this.json[name] !== null);
  }

  form(): Form {
    const read = new Set(Object.values(this.names));
    const rest = Object.fromEntries(Object.entries(this.json).filter(([name]) => !read.has(name)));
    return { names: this.names, rest, spelled: this.spelled, single: this.single };
  }

  private spelling(name: string): string {
    if (Object.hasOwn(this.json, name)) return name;
    const other = snake(name);
    return Object.hasOwn(this.json, other) ? other : name;
  }
}

/** An object in the form its source had; without a form as it is made, in camel case. */
export function shaped(made: JsonObject, form: Form | undefined): JsonObject {
  if (!form) return made;
  const object: JsonObject = {};
  for (const [name, spelling] of Object.entries(form.names)) {
    const value = made[name];
    if (value === undefined) continue;
    object[spelling] = form.single.includes(name) ? (value as unknown[])[0] : spelledAs(value, form.spelled[name]);
  }
  return { ...object, ...form.rest };
}

/** The source's spelling, as long as it still says the same. */
function spelledAs(value: unknown, source: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(source)) return value.map((each, n) => spelledAs(each, source[n]));
  const text = source instanceof RawJson ? source.text : source;
  if (typeof text !== "string") return value;
  if (typeof value === "number") return Number(text) === value ? source : value;
  return typeof value === "string" && value.toLowerCase() === text.toLowerCase() ? source : value;
}
