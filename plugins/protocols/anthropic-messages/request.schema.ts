import {
  asList,
  asObject,
  type EncodeContext,
  type JsonObject,
  parseExact,
  RawJson,
  writeJson,
} from "model-gateway/protocol";

/** Formats of strings that answers can be held to. [S: the SDK's schema transform] */
const FORMATS: ReadonlySet<unknown> = new Set(
  "date-time time date duration email hostname uri ipv4 ipv6 uuid".split(" "),
);

/** Keywords that answers can be held to, besides those looked at below. [S, D: structured outputs] */
const KNOWN: ReadonlySet<string> = new Set(
  "type title description enum const default anyOf allOf $ref $defs definitions items properties required pattern".split(
    " ",
  ),
);

/**
 * A schema that an answer is held to. The vendor refuses keywords that it cannot hold an answer to: those are told to the
 * model in the description instead, and the client is told. A schema without them goes on as the text it came as.
 */
export function heldSchema(schema: RawJson, path: string, terms: EncodeContext): RawJson {
  const fitting = new Fitting();
  const fitted = fitting.schema(parseExact(schema.text), "");
  if (fitting.closed) terms.change(path, "no member but those it names");
  if (fitting.union) terms.change(path, "oneOf as anyOf");
  if (fitting.unheld.length > 0) terms.change(path, `the model is told of ${some(fitting.unheld)}, not held to it`);
  return fitting.changed ? new RawJson(writeJson(fitted)) : schema;
}

/** Places that one notice names. */
const NAMED = 5;

function some(places: readonly string[]): string {
  const more = places.length - NAMED;
  return places.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** The value as an object; a number of many digits is none. */
const objectOf = (value: unknown): JsonObject | undefined => (value instanceof RawJson ? undefined : asObject(value));

class Fitting {
  changed = false;
  /** An object was open, which none may be. */
  closed = false;
  /** A choice was to have exactly one match. */
  union = false;
  /** The places of keywords that an answer cannot be held to. */
  readonly unheld: string[] = [];

  schema(value: unknown, at: string): unknown {
    const schema = objectOf(value);
    if (!schema) return value;
    const out: JsonObject = {};
    const told: [name: string, member: unknown][] = [];
    for (const name in schema)
      if (!this.keyword(name, schema, at, out)) told.push([name, this.tell(schema[name], `${at}.${name}`)]);
    if (schema["type"] === "object" || schema["properties"] !== undefined) this.close(schema, out);
    if (told.length > 0) {
      const described = typeof out["description"] === "string" ? `${out["description"]}\n\n` : "";
      out["description"] = described + writeJson(Object.fromEntries(told));
    }
    return out;
  }

  /** False for what an answer cannot be held to. */
  private keyword(name: string, schema: JsonObject, at: string, out: JsonObject): boolean {
    const here = `${at}.${name}`;
    const member = schema[name];
    if (name === "properties" || name === "$defs" || name === "definitions") out[name] = this.each(member, here);
    else if (name === "items") out[name] = this.schema(member, here);
    else if (name === "anyOf" || name === "allOf")
      out[name] = asList(member).map((each, i) => this.schema(each, `${here}.${i}`));
    else if (name === "oneOf" && !Object.hasOwn(schema, "anyOf")) this.oneOf(member, here, out);
    else if (
      name === "format" ? FORMATS.has(member) : name === "minItems" ? member === 0 || member === 1 : KNOWN.has(name)
    )
      out[name] = member;
    else if (name === "$schema") this.changed = true;
    else return name === "additionalProperties";
    return true;
  }

  private each(member: unknown, at: string): JsonObject {
    const schemas = Object.entries(objectOf(member) ?? {});
    return Object.fromEntries(schemas.map(([name, schema]) => [name, this.schema(schema, `${at}.${name}`)]));
  }

  private oneOf(member: unknown, at: string, out: JsonObject): void {
    this.changed = true;
    this.union = true;
    out["anyOf"] = asList(member).map((each, i) => this.schema(each, `${at}.${i}`));
  }

  private tell(member: unknown, at: string): unknown {
    this.changed = true;
    this.unheld.push(at.slice(1));
    return member;
  }

  /** Objects must be closed. One that is open for named kinds of values cannot be said: the vendor judges. */
  private close(schema: JsonObject, out: JsonObject): void {
    const open = schema["additionalProperties"];
    out["additionalProperties"] = objectOf(open) ?? false;
    if (open === false || objectOf(open)) return;
    this.changed = true;
    this.closed = true;
  }
}
