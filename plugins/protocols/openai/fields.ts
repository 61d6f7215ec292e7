import { asObject, type Feature, GatewayError, type JsonObject, RawJson, type Said } from "model-gateway";

/** A 400 that names a field of the client's. */
export const wrong = (param: string, message: string): GatewayError =>
  new GatewayError("invalid_field", { message, param });

/**
 * The members of one object of a request. Each is taken by its name; what nobody took is said to be lost, and is kept
 * for the same protocol. A member that is null counts as absent, and stays with what nobody took.
 */
export class Fields {
  private readonly taken = new Set<string>();
  private readonly left = new Set<string>();

  /** @param at the client's path of the object; "" for the body itself. */
  constructor(
    readonly of: JsonObject,
    readonly at: string,
    readonly said: Said[],
  ) {}

  /** The client's path of a member. */
  path(name: string): string {
    return this.at === "" ? name : `${this.at}.${name}`;
  }

  /** Declares that a member says something besides plain turns. */
  say(name: string, feature: Feature): void {
    this.said.push({ feature, path: this.path(name) });
  }

  /** A member of any kind; undefined where it is absent or null. */
  any(name: string): unknown {
    const value = this.of[name];
    if (value === undefined || value === null) return undefined;
    this.taken.add(name);
    return value;
  }

  /** @throws GatewayError when it is no string. */
  text(name: string): string | undefined {
    const value = this.any(name);
    if (value === undefined || typeof value === "string") return value;
    throw wrong(this.path(name), `${this.path(name)} must be a string.`);
  }

  /** @throws GatewayError when it is no number. */
  number(name: string): number | undefined {
    const value = this.any(name);
    if (value === undefined || typeof value === "number") return value;
    throw wrong(this.path(name), `${this.path(name)} must be a number.`);
  }

  /** @throws GatewayError when it is no boolean. */
  flag(name: string): boolean | undefined {
    const value = this.any(name);
    if (value === undefined || typeof value === "boolean") return value;
    throw wrong(this.path(name), `${this.path(name)} must be true or false.`);
  }

  /** @throws GatewayError when it is no list. */
  list(name: string): readonly unknown[] | undefined {
    const value = this.any(name);
    if (value === undefined || Array.isArray(value)) return value;
    throw wrong(this.path(name), `${this.path(name)} must be a list.`);
  }

  /** A member as an object with members of its own. @throws GatewayError when it is none. */
  object(name: string): Fields | undefined {
    const value = this.any(name);
    if (value === undefined) return undefined;
    return fieldsOf(value, this.path(name), this.said);
  }

  /** A member that only the same protocol understands: it stays with what nobody took, and is said with a feature. */
  leave(name: string, feature?: Feature): void {
    const value = this.of[name];
    if (value === undefined || value === null || this.left.has(name)) return;
    if (feature !== undefined) this.say(name, feature);
    this.left.add(name);
  }

  /** What nobody took; each member that is more than null is said with this feature. */
  rest(feature: Feature = "other"): JsonObject {
    const rest: JsonObject = {};
    for (const [name, value] of Object.entries(this.of)) {
      if (this.taken.has(name) && !this.left.has(name)) continue;
      rest[name] = value;
      if (value !== null && !this.left.has(name)) this.say(name, feature);
    }
    return rest;
  }
}

/** The members of a value. @throws GatewayError when it is no object. */
export function fieldsOf(value: unknown, at: string, said: Said[]): Fields {
  const object = value instanceof RawJson ? undefined : asObject(value);
  if (!object) throw wrong(at, `${at} must be an object.`);
  return new Fields(object, at, said);
}
