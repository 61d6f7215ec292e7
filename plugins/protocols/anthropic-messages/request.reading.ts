import {
  asObject,
  type CacheMark,
  type Feature,
  type FeatureUse,
  GatewayError,
  type IncomingRequest,
  type JsonObject,
  RawJson,
} from "model-gateway/protocol";
import { without } from "./words.ts";

/** What a part's, tool's or turn's `native` holds: members our words do not have, and which form the source used. */
export interface OwnForm {
  rest?: JsonObject;
  /** Content was a string, not a list of blocks. */
  string?: boolean;
  /** There was no content at all. */
  bare?: boolean;
  /** The block was of this type, which became a part of another kind. */
  as?: string;
  /** A thought bore a signature, which the conversation may have lost since. */
  signed?: boolean;
  /** Lengths of the texts that were joined to one. */
  cuts?: number[];
  /** Members of the block's source, of its citations. */
  source?: JsonObject;
  citations?: JsonObject[];
}

const TTLS: ReadonlySet<unknown> = new Set(["5m", "1h"]);

const isText = (value: unknown): value is string => typeof value === "string";
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
const isNumber = (value: unknown): value is number => typeof value === "number";
const isObject = (value: unknown): value is JsonObject => !(value instanceof RawJson) && asObject(value) !== undefined;
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);
const isObjects = (value: unknown): value is JsonObject[] => Array.isArray(value) && value.every(isObject);

/** The path of a member of what stands at a path; the body's own is empty. */
const below = (at: string, name: string): string => (at === "" ? name : `${at}.${name}`);

/** What one request's readers share: what was said, how faults are told, and whether the source's forms are kept. */
export class Reading {
  readonly uses: FeatureUse[] = [];

  constructor(readonly asked: IncomingRequest) {}

  say(feature: Feature, path: string): void {
    this.uses.push({ feature, path });
  }

  /** @throws GatewayError that names the client's field */
  wrong(path: string, what: string): never {
    throw new GatewayError("invalid_field", { message: `${path} ${what}`, param: path });
  }

  /** A member that must be a string. */
  text(object: JsonObject, name: string, at: string): string {
    const value = object[name];
    return typeof value === "string" ? value : this.wrong(`${at}.${name}`, "must be a string.");
  }

  /** A member that is a string where it is there. */
  maybeText(object: JsonObject, name: string, at: string): string | undefined {
    return this.maybe(object, name, at, isText, "must be a string.");
  }

  /** A member that is true or false where it is there. */
  flag(object: JsonObject, name: string, at: string): boolean | undefined {
    return this.maybe(object, name, at, isFlag, "must be true or false.");
  }

  /** A member that is a number where it is there. */
  number(object: JsonObject, name: string, at: string): number | undefined {
    return this.maybe(object, name, at, isNumber, "must be a number that a double holds.");
  }

  /** A member that is an object where it is there. */
  object(object: JsonObject, name: string, at: string): JsonObject | undefined {
    return this.maybe(object, name, at, isObject, "must be an object.");
  }

  /** A member that is a list of strings where it is there. */
  texts(object: JsonObject, name: string, at: string): string[] | undefined {
    return this.maybe(object, name, at, isTexts, "must be a list of strings.");
  }

  /** A member that is a list of objects where it is there. */
  objects(object: JsonObject, name: string, at: string): JsonObject[] | undefined {
    return this.maybe(object, name, at, isObjects, "must be a list of objects.");
  }

  /** A member of another type is refused; between equals it is none that was read, and its vendor judges it. */
  private maybe<T>(
    object: JsonObject,
    name: string,
    at: string,
    fits: (value: unknown) => value is T,
    must: string,
  ): T | undefined {
    const value = object[name];
    if (fits(value)) return value;
    if (value === undefined || value === null || this.asked.native) return undefined;
    return this.wrong(below(at, name), must);
  }

  /** Says that there are members nobody here knows. */
  others(object: JsonObject, known: readonly string[], at: string): void {
    for (const name in object) if (!known.includes(name) && object[name] !== null) this.say("other", below(at, name));
  }

  /** A cache mark; undefined where there is none. A time that is not known is the vendor's usual one, and said. */
  mark(object: JsonObject, at: string): CacheMark | undefined {
    const control = this.object(object, "cache_control", at);
    if (!control) return undefined;
    const path = below(at, "cache_control");
    const ttl = this.maybeText(control, "ttl", path);
    this.say("cache_mark", path);
    this.others(control, control["type"] === "ephemeral" ? ["type", "ttl"] : ["ttl"], path);
    if (TTLS.has(ttl)) return { ttl: ttl as "5m" | "1h" };
    if (ttl !== undefined) this.say("other", `${path}.ttl`);
    return {};
  }

  /**
   * The `native` of something that was read from an object: the members that are not among `taken`. Nothing unless it is
   * asked for. A cache mark counts as taken when the mark holds all of it.
   */
  native(object: JsonObject, taken: readonly string[], form: OwnForm = {}): { native?: OwnForm } {
    if (!this.asked.native) return {};
    const rest = without(object, plainMark(object["cache_control"]) ? [...taken, "cache_control"] : taken);
    return { native: rest ? { ...form, rest } : form };
  }
}

function plainMark(value: unknown): boolean {
  const control = asObject(value);
  if (control?.["type"] !== "ephemeral") return false;
  return Object.keys(control).every((name) => name === "type" || (name === "ttl" && TTLS.has(control["ttl"])));
}
