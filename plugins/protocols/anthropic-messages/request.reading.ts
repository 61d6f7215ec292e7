import {
  type Asked,
  asObject,
  type CacheMark,
  type Feature,
  GatewayError,
  type JsonObject,
  type Said,
} from "model-gateway";
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

/** What one request's readers share: what was said, how faults are told, and whether the source's forms are kept. */
export class Reading {
  readonly said: Said[] = [];

  constructor(readonly asked: Asked) {}

  say(feature: Feature, path: string): void {
    this.said.push({ feature, path });
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

  /** A member that is a number where it is there; said as the feature, which is its name. */
  number(
    object: JsonObject,
    name: "max_tokens" | "temperature" | "top_p" | "top_k" | "budget_tokens",
    path: string,
  ): number | undefined {
    const value = object[name];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "number") return this.wrong(path, "must be a number.");
    this.say(name === "budget_tokens" ? "reasoning_budget" : name, path);
    return value;
  }

  /** Says that there are members nobody here knows. */
  others(object: JsonObject, known: readonly string[], at: string): void {
    for (const name in object) if (!known.includes(name) && object[name] !== null) this.say("other", `${at}.${name}`);
  }

  /** A cache mark; undefined where there is none. */
  mark(object: JsonObject, at: string): CacheMark | undefined {
    const control = asObject(object["cache_control"]);
    if (!control) return undefined;
    this.say("cache_mark", at === "" ? "cache_control" : `${at}.cache_control`);
    return TTLS.has(control["ttl"]) ? { ttl: control["ttl"] as "5m" | "1h" } : {};
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
