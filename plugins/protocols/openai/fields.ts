import {
  asObject,
  type Feature,
  type FeatureUse,
  GatewayError,
  type IncomingRequest,
  type JsonObject,
  parseExact,
  RawJson,
} from "model-gateway/protocol";

/** Members whose value is JSON that only a vendor needs to understand. */
const RAW: ReadonlySet<string> = new Set(["parameters", "schema"]);

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

  /**
   * @param at the client's path of the object; "" for the body itself
   * @param lenient whether a member of a wrong kind counts as absent: where only the vendor that reads it shall judge
   */
  constructor(
    readonly of: JsonObject,
    readonly at: string,
    readonly uses: FeatureUse[],
    private readonly lenient = false,
  ) {}

  /** The client's path of a member. */
  path(name: string): string {
    return this.at === "" ? name : `${this.at}.${name}`;
  }

  /** Declares that a member says something besides plain turns. */
  say(name: string, feature: Feature): void {
    this.uses.push({ feature, path: this.path(name) });
  }

  /** A member of any kind; undefined where it is absent or null. */
  any(name: string): unknown {
    return this.take(name, (value): value is unknown => value !== undefined, "");
  }

  /** @throws GatewayError when it is no string. */
  text(name: string): string | undefined {
    return this.take(name, (value) => typeof value === "string", "a string");
  }

  /** @throws GatewayError when it is no number. */
  number(name: string): number | undefined {
    return this.take(name, (value) => typeof value === "number", "a number");
  }

  /** @throws GatewayError when it is no boolean. */
  flag(name: string): boolean | undefined {
    return this.take(name, (value) => typeof value === "boolean", "true or false");
  }

  /** @throws GatewayError when it is no list. */
  list(name: string): readonly unknown[] | undefined {
    return this.take(name, (value): value is unknown[] => Array.isArray(value), "a list");
  }

  /** A member as an object with members of its own. @throws GatewayError when it is none. */
  object(name: string): Fields | undefined {
    const object = this.take(name, isObject, "an object");
    return object && new Fields(object, this.path(name), this.uses, this.lenient);
  }

  private take<T>(name: string, is: (value: unknown) => value is T, kind: string): T | undefined {
    const value = this.of[name];
    if (value === undefined || value === null) return undefined;
    if (is(value)) {
      this.taken.add(name);
      return value;
    }
    if (this.lenient) return undefined;
    throw wrong(this.path(name), `${this.path(name)} must be ${kind}.`);
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
    const rest = Object.entries(this.of).filter(([name]) => !this.taken.has(name) || this.left.has(name));
    for (const [name, value] of rest) if (value !== null && !this.left.has(name)) this.say(name, feature);
    return Object.fromEntries(rest);
  }
}

/** Whether a value has members: a number that came as text has none. */
export const isObject = (value: unknown): value is JsonObject =>
  !(value instanceof RawJson) && asObject(value) !== undefined;

/** The members of a request's body. @throws GatewayError `invalid_json` */
export function bodyOf({ text, native }: IncomingRequest, uses: FeatureUse[]): Fields {
  try {
    return new Fields(asObject(parseExact(text, RAW)) ?? {}, "", uses, native);
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
}

/** The members of a value. @throws GatewayError when it is no object. */
export function fieldsOf(value: unknown, at: string, uses: FeatureUse[], lenient = false): Fields {
  if (!isObject(value)) throw wrong(at, `${at} must be an object.`);
  return new Fields(value, at, uses, lenient);
}
