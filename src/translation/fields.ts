import { GatewayError } from "../core/errors.ts";
import { parseExact, RawJson } from "../wire/exact.ts";
import { asObject, entryOf, type JsonObject } from "../wire/values.ts";
import type { IncomingRequest } from "./codec.ts";
import type { FeatureUse } from "./conversation.ts";
import type { Feature } from "./features.ts";

/** Members whose value is JSON that only a vendor needs to understand. */
const RAW: ReadonlySet<string> = new Set(["parameters", "schema"]);

const NONE: Readonly<Record<string, Feature>> = {};

/** A 400 that names a field of the client's. */
export const invalidField = (param: string, message: string, hint?: string): GatewayError =>
  new GatewayError("invalid_field", { message, param, ...(hint === undefined ? {} : { hint }) });

/**
 * The members of one object of a request. Each is taken by its name; what nobody took is declared to be lost. A member
 * that is null counts as absent.
 */
export class Fields {
  /** Few: a set of them for each object of a large request costs more than to look through them. */
  private readonly taken: string[] = [];
  /** Most objects have neither. */
  private left: Set<string> | undefined;
  private children: Map<string, Fields> | undefined;
  private settled = false;

  /**
   * @param at the client's path of the object; "" for the body itself
   * @param uses told what the members say
   */
  constructor(
    readonly of: JsonObject,
    readonly at: string,
    readonly uses: FeatureUse[],
  ) {}

  /** The client's path of a member. */
  path(name: string): string {
    const spelled = this.spelling(name);
    return this.at === "" ? spelled : `${this.at}.${spelled}`;
  }

  /** True when there is such a member, and it is not null. */
  has(name: string): boolean {
    return (this.of[this.spelling(name)] ?? undefined) !== undefined;
  }

  /** Declares that a member says something besides plain turns. @param hint what to do where it is refused */
  declare(name: string, feature: Feature, hint?: string): void {
    this.uses.push({ feature, path: this.path(name), ...(hint === undefined ? {} : { hint }) });
  }

  /** Declares that the object itself says something besides plain turns. @param hint what to do where it is refused */
  declareSelf(feature: Feature, hint?: string): void {
    this.uses.push({ feature, path: this.at, ...(hint === undefined ? {} : { hint }) });
  }

  /** A member of any kind; undefined where it is absent or null. */
  any(name: string): unknown {
    return this.take(name, (value): value is unknown => value !== undefined, "");
  }

  /** @throws GatewayError when it is no string. */
  text(name: string): string | undefined {
    return this.take(name, isText, "a string");
  }

  /** A member that must be there. @throws GatewayError when it is no string, or absent. */
  required(name: string): string {
    const text = this.text(name);
    if (text === undefined) throw invalidField(this.path(name), `${this.path(name)} must be a string.`);
    return text;
  }

  /** One of some words. @throws GatewayError when it is none of them. */
  word<const Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const is = (value: unknown): value is Word => words.some((word) => word === value);
    return this.take(name, is, `one of ${words.join(", ")}`);
  }

  /** @throws GatewayError when it is no number that a double holds. */
  number(name: string): number | undefined {
    return this.take(name, (value) => typeof value === "number", "a number");
  }

  /** A whole number, as RawJson where a double does not hold it. @throws GatewayError when it is no number. */
  integer(name: string): number | RawJson | undefined {
    return this.take(name, (value) => typeof value === "number" || value instanceof RawJson, "a number");
  }

  /** @throws GatewayError when it is no boolean. */
  flag(name: string): boolean | undefined {
    return this.take(name, (value) => typeof value === "boolean", "true or false");
  }

  /** @throws GatewayError when it is no list. */
  list(name: string): readonly unknown[] | undefined {
    return this.take(name, (value): value is unknown[] => Array.isArray(value), "a list");
  }

  /** @throws GatewayError when it is no list of strings. */
  texts(name: string): string[] | undefined {
    return this.take(
      name,
      (value): value is string[] => Array.isArray(value) && value.every(isText),
      "a list of strings",
    );
  }

  /** A member as an object with members of its own, the same one each time. @throws GatewayError when it is none. */
  object(name: string): Fields | undefined {
    const known = this.children?.get(name);
    if (known) return known;
    const object = this.take(name, isObject, "an object");
    const child = object && this.child(object, this.path(name));
    if (!child) return undefined;
    this.children ??= new Map();
    this.children.set(name, child);
    return child;
  }

  /** The objects of a list. @throws GatewayError when it is no list of objects. */
  objects(name: string): Fields[] | undefined {
    return this.list(name)?.map((each, n) => {
      const at = `${this.path(name)}.${n}`;
      if (!isObject(each)) throw invalidField(at, `${at} must be an object.`);
      return this.child(each, at);
    });
  }

  /** A member that only the same protocol understands: it stays with what nobody took, and is declared with a feature. */
  leave(name: string, feature?: Feature): void {
    const spelled = this.spelling(name);
    if ((this.of[spelled] ?? undefined) === undefined || this.left?.has(spelled)) return;
    if (feature !== undefined) this.declare(name, feature);
    this.left ??= new Set();
    this.left.add(spelled);
  }

  /** Leaves members that have a usual value, which says nothing. */
  leaveUsual(usual: Readonly<Record<string, readonly unknown[]>>): void {
    for (const [name, values] of Object.entries(usual))
      if (values.includes(this.of[this.spelling(name)])) this.leave(name);
  }

  /** The members that nobody took, and those that were left. */
  untaken(): [name: string, value: unknown][] {
    return Object.entries(this.of).filter(([name]) => !this.taken.includes(name) || this.left?.has(name));
  }

  /**
   * Declares each member that nobody took and that is more than null, those of objects within too. Once is enough.
   * @param known features of members that are known by name
   */
  rest(feature: Feature = "other", known: Readonly<Record<string, Feature>> = NONE): void {
    if (this.settled) return;
    this.settled = true;
    for (const name of Object.keys(this.of))
      if (!this.taken.includes(name) && !this.left?.has(name) && this.of[name] !== null)
        this.declare(name, entryOf(known, name) ?? feature);
    for (const child of this.children?.values() ?? []) child.rest(feature);
  }

  /** How the client spells a name; a protocol that takes several spellings says so here. */
  protected spelling(name: string): string {
    return name;
  }

  /** The members of an object within this one. */
  protected child(object: JsonObject, at: string): Fields {
    return new Fields(object, at, this.uses);
  }

  protected take<T>(name: string, is: (value: unknown) => value is T, kind: string): T | undefined {
    const spelled = this.spelling(name);
    const value = this.of[spelled];
    if (value === undefined || value === null) return undefined;
    if (is(value)) {
      this.taken.push(spelled);
      return value;
    }
    throw invalidField(this.path(name), `${this.path(name)} must be ${kind}.`);
  }
}

const isText = (value: unknown): value is string => typeof value === "string";

/** Whether a value has members: a number that came as text has none. */
export const isObject = (value: unknown): value is JsonObject =>
  !(value instanceof RawJson) && asObject(value) !== undefined;

/**
 * The members of a request's body.
 * @param raw names of members whose text is kept as it came
 * @throws GatewayError `invalid_json`
 */
export function requestFields({ text }: IncomingRequest, uses: FeatureUse[], raw: ReadonlySet<string> = RAW): Fields {
  let body: JsonObject | undefined;
  try {
    body = asObject(parseExact(text, raw));
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
  if (!body) throw new GatewayError("invalid_json");
  return new Fields(body, "", uses);
}

/** The members of a value. @throws GatewayError when it is no object. */
export function fieldsOf(value: unknown, at: string, uses: FeatureUse[]): Fields {
  if (!isObject(value)) throw invalidField(at, `${at} must be an object.`);
  return new Fields(value, at, uses);
}
