import { GatewayError } from "../core/errors.ts";
import { parseExact, RawJson } from "../wire/exact.ts";
import { asObject, type JsonObject, ownProperty } from "../wire/values.ts";
import type { IncomingRequest } from "./codec.ts";
import type { FeatureUse } from "./conversation.ts";
import type { Feature } from "./features.ts";

/** Members whose value is raw JSON that only a vendor needs to understand. */
export const RAW_REQUEST_MEMBERS: ReadonlySet<string> = new Set(["parameters", "schema"]);

const NONE: Readonly<Record<string, Feature>> = {};

/** Names read of one object from which a Set is faster than searching a list; a client may send many, as labels. */
const MANY_NAMES = 64;

/** Types of media in all protocols, known or not. */
const MEDIA_TYPE = /^(?:input_)?(?:image|audio|video|file|document)(?:_url)?$/;

/** Returns a 400 that names a field of the client's. */
export const invalidField = (param: string, message: string, hint?: string): GatewayError =>
  new GatewayError("invalid_field", { message, param, ...(hint === undefined ? {} : { hint }) });

/**
 * The members of one object of a request. Each is read by its name; unread members are declared as lost. A member that is null
 * counts as absent.
 */
export class Fields {
  /**
   * Names read so far. An array, because they are few: for a large request's many objects, a Set each costs more than a
   * search.
   */
  private readonly readNames: string[] = [];
  /** Allocated on use: most objects need neither. */
  private ignoredNames: Set<string> | undefined;
  private children: Map<string, Fields> | undefined;
  private unreadDeclared = false;

  /**
   * @param ownPath the client's path of the object; "" for the body itself
   * @param uses receives the features that members declare
   */
  constructor(
    readonly members: JsonObject,
    readonly ownPath: string,
    readonly uses: FeatureUse[],
  ) {}

  /** Returns the client's path of a member. */
  path(name: string): string {
    const spelling = this.spelling(name);
    return this.ownPath === "" ? spelling : `${this.ownPath}.${spelling}`;
  }

  /** Reports whether a member exists, and is not null. */
  has(name: string): boolean {
    return (this.members[this.spelling(name)] ?? undefined) !== undefined;
  }

  /** Declares that a member uses a feature. */
  declare(name: string, feature: Feature): void {
    this.uses.push({ feature, path: this.path(name) });
  }

  /** Declares that the object itself uses a feature. @param hint how to fix it where it is refused */
  declareSelf(feature: Feature, hint?: string): void {
    this.uses.push({ feature, path: this.ownPath, ...(hint === undefined ? {} : { hint }) });
  }

  /**
   * Declares an object of a type that the protocol does not have. An image, a file or a recording is refused: without it the
   * answer would be about something else.
   */
  declareForeign(type: string): void {
    if (MEDIA_TYPE.test(type))
      this.declareSelf("foreign_media", "Send it in the form that the protocol of this path has.");
    else this.declareSelf("foreign_block");
  }

  /** Returns a member of any kind; undefined where it is absent or null. */
  any(name: string): unknown {
    return this.take(name, (value): value is unknown => value !== undefined, "");
  }

  /** Returns a string. @throws GatewayError for another type. */
  text(name: string): string | undefined {
    return this.take(name, isText, "a string");
  }

  /** Returns a required string. @throws GatewayError for another type, or where it is absent. */
  required(name: string): string {
    const text = this.text(name);
    return text ?? this.refuse(name, "must be a string.");
  }

  /** Returns one of some words. @throws GatewayError for another value. */
  oneOf<const Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const isWord = (value: unknown): value is Word => words.some((word) => word === value);
    return this.take(name, isWord, `one of ${words.join(", ")}`);
  }

  /** Returns a number. @throws GatewayError for another type, or a number that a double cannot hold. */
  number(name: string): number | undefined {
    return this.take(name, (value) => typeof value === "number", "a number");
  }

  /** Returns a number, as RawJson where a double cannot hold it. @throws GatewayError for another type. */
  integer(name: string): number | RawJson | undefined {
    return this.take(name, (value) => typeof value === "number" || value instanceof RawJson, "a number");
  }

  /** Returns a boolean. @throws GatewayError for another type. */
  flag(name: string): boolean | undefined {
    return this.take(name, (value) => typeof value === "boolean", "true or false");
  }

  /** Returns a list. @throws GatewayError for another type. */
  list(name: string): readonly unknown[] | undefined {
    return this.take(name, (value): value is unknown[] => Array.isArray(value), "a list");
  }

  /** Returns a list of strings. @throws GatewayError for another type. */
  texts(name: string): string[] | undefined {
    return this.take(name, isTexts, "a list of strings");
  }

  /** Returns the strings among some members. @throws GatewayError for another type. */
  textMembers<Name extends string>(...names: readonly Name[]): { [Member in Name]?: string } {
    const found = names.map((name) => [name, this.text(name)] as const).filter(([, text]) => text !== undefined);
    return Object.fromEntries(found) as { [Member in Name]?: string };
  }

  /** Returns a list of strings, for a member that may also be one string. @throws GatewayError for another type. */
  textOrTexts(name: string): string[] | undefined {
    return typeof this.members[this.spelling(name)] === "string"
      ? [this.required(name)]
      : this.take(name, isTexts, "a string or a list of strings");
  }

  /** Returns an object's members, the same instance each time. @throws GatewayError for another type. */
  object(name: string): Fields | undefined {
    const existing = this.children?.get(name);
    if (existing) return existing;
    const object = this.take(name, isObject, "an object");
    const child = object && this.child(object, this.path(name));
    if (!child) return undefined;
    this.children ??= new Map();
    this.children.set(name, child);
    return child;
  }

  /** Returns the objects of a list. @throws GatewayError for another type. */
  objects(name: string): Fields[] | undefined {
    return this.list(name)?.map((value, n) => {
      const at = `${this.path(name)}.${n}`;
      if (!isObject(value)) throw invalidField(at, `${at} must be an object.`);
      return this.child(value, at);
    });
  }

  /** Marks a member that only the same protocol understands as unread, and declares the given feature for it. */
  ignore(name: string, feature?: Feature): void {
    const spelling = this.spelling(name);
    if ((this.members[spelling] ?? undefined) === undefined || this.ignoredNames?.has(spelling)) return;
    if (feature !== undefined) this.declare(name, feature);
    this.ignoredNames ??= new Set();
    this.ignoredNames.add(spelling);
  }

  /** Marks members as unread that have a default value, which has no effect. */
  ignoreDefaults(usual: Readonly<Record<string, readonly unknown[]>>): void {
    for (const [name, values] of Object.entries(usual))
      if (values.includes(this.members[this.spelling(name)])) this.ignore(name);
  }

  /** Returns the members that were not read, and those that were ignored. */
  unreadMembers(): [name: string, value: unknown][] {
    const wasRead = this.readTest();
    return Object.entries(this.members).filter(([name]) => !wasRead(name) || this.ignoredNames?.has(name));
  }

  /**
   * Declares each unread member that is not null, also those of nested objects. Only the first call has an effect.
   * @param known features of members with known names
   */
  declareUnread(feature: Feature = "other", known: Readonly<Record<string, Feature>> = NONE): void {
    if (this.unreadDeclared) return;
    this.unreadDeclared = true;
    const wasRead = this.readTest();
    for (const name of Object.keys(this.members))
      if (!wasRead(name) && !this.ignoredNames?.has(name) && this.members[name] !== null)
        this.declare(name, ownProperty(known, name) ?? feature);
    for (const child of this.children?.values() ?? []) child.declareUnread(feature);
  }

  /** Refuses a member. @param problem what follows its path @throws GatewayError `invalid_field` */
  refuse(name: string, problem: string, hint?: string): never {
    const path = this.path(name);
    throw invalidField(path, `${path} ${problem}`, hint);
  }

  /** Refuses the object itself. */
  refuseSelf(problem: string, hint?: string): never {
    throw invalidField(this.ownPath, `${this.ownPath} ${problem}`, hint);
  }

  /** Returns the client's spelling of a name; overridden by a protocol that accepts several spellings. */
  protected spelling(name: string): string {
    return name;
  }

  /** Returns the members of a nested object. */
  protected child(object: JsonObject, at: string): Fields {
    return new Fields(object, at, this.uses);
  }

  /** Returns a test of whether a member has been read so far. */
  private readTest(): (name: string) => boolean {
    const { readNames } = this;
    if (readNames.length < MANY_NAMES) return (name) => readNames.includes(name);
    const names = new Set(readNames);
    return (name) => names.has(name);
  }

  protected take<T>(name: string, isExpected: (value: unknown) => value is T, expected: string): T | undefined {
    const spelling = this.spelling(name);
    const value = this.members[spelling];
    if (value === undefined || value === null) return undefined;
    if (isExpected(value)) {
      this.readNames.push(spelling);
      return value;
    }
    return this.refuse(name, `must be ${expected}.`);
  }
}

const isText = (value: unknown): value is string => typeof value === "string";
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);

/** Reports whether a value is an object. RawJson, which stands for a number, is none. */
export const isObject = (value: unknown): value is JsonObject =>
  !(value instanceof RawJson) && asObject(value) !== undefined;

/**
 * Returns the members of a request's body.
 * @param raw names of members whose original text is kept
 * @throws GatewayError `invalid_json`
 */
export function requestFields(
  request: IncomingRequest,
  uses: FeatureUse[],
  raw: ReadonlySet<string> = RAW_REQUEST_MEMBERS,
): Fields {
  let body: JsonObject | undefined;
  try {
    body = asObject(request.parsed ?? parseExact(request.text, raw));
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
  if (!body) throw new GatewayError("invalid_json");
  return new Fields(body, "", uses);
}

/** Returns the members of a value. @throws GatewayError when it is not an object. */
export function objectFields(value: unknown, at: string, uses: FeatureUse[]): Fields {
  if (!isObject(value)) throw invalidField(at, `${at} must be an object.`);
  return new Fields(value, at, uses);
}
