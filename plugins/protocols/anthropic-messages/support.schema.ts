import {
  asList,
  asObject,
  asText,
  decodeOrKeep,
  type EncodeContext,
  type JsonObject,
  objectParameters,
  parseExact,
  RawJson,
  writeJson,
} from "model-gateway/protocol";

/** Members whose value is not a schema. */
const VALUES: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"]);
/** The same, with those whose schemas count only where a `$ref` refers to them. */
const NO_SUBSCHEMAS: ReadonlySet<string> = new Set([...VALUES, "$defs", "definitions"]);

const objectOf = (value: unknown): JsonObject | undefined => (value instanceof RawJson ? undefined : asObject(value));

/** Returns why the vendor cannot enforce a schema, after "a schema that"; undefined: it can, perhaps in another form. */
export function whyUnenforceable(schema: unknown): string | undefined {
  const selfRef = selfReference(schema);
  if (selfRef !== undefined) return `contains itself (${selfRef})`;
  const map = findMap(schema, []);
  return map && `allows members of any name (${map.join(".") || "at its root"})`;
}

/**
 * Reports whether an object's members may have any name and match one schema. The vendor allows only named members, so that it
 * would always be empty.
 */
const isOpenMap = ({ additionalProperties, properties }: JsonObject): boolean =>
  hasMembers(additionalProperties) && !hasMembers(properties);

const hasMembers = (value: unknown): boolean => Object.keys(objectOf(value) ?? {}).length > 0;

/** Returns the path of the first such object in a schema. @param path of the value; grows and shrinks while it is searched */
function findMap(value: unknown, path: string[], isNamed = false): readonly string[] | undefined {
  const object = Array.isArray(value) ? (value as unknown as JsonObject) : objectOf(value);
  if (!object) return undefined;
  if (!isNamed && !Array.isArray(value) && isOpenMap(object)) return path;
  for (const name in object) {
    if (!isNamed && VALUES.has(name)) continue;
    path.push(name);
    const found = findMap(object[name], path, !isNamed && SCHEMAS_BY_NAME.has(name));
    if (found) return found;
    path.pop();
  }
  return undefined;
}

/** Members that hold schemas by name. */
const SCHEMAS_BY_NAME: ReadonlySet<string> = new Set(["properties", "$defs", "definitions"]);

/** Schemas of tools that the vendor enforces in one request, and their members that may be missing or have several types. [D] */
const MAX_ENFORCED = { tools: 20, optional: 24, unions: 16 };

/**
 * Characters of the schemas in one request from which on they are not looked at, which would hold up others: the vendor does not
 * compile a tenth of it ("The compiled grammar is too large"). [D: its SDK's issue 1185]
 */
const MAX_SEARCHED = 256 * 1024;

/** Reports whether the schema of an answer is too long to be enforced. */
export const isTooLong = ({ text }: RawJson): boolean => text.length > MAX_SEARCHED;

/** The schemas that are enforced in one request. The vendor refuses it where it has more than are compiled. */
export class EnforcedSchemas {
  private counts: typeof MAX_ENFORCED | undefined;
  private searched: number;

  /** @param format of the answer, which is always enforced */
  constructor(private readonly format: RawJson | undefined) {
    this.searched = format?.text.length ?? 0;
  }

  /** Reports whether the schema of one more tool may be looked at, and added. */
  hasRoom({ text }: RawJson): boolean {
    if (this.counts?.tools === MAX_ENFORCED.tools || this.searched + text.length > MAX_SEARCHED) return false;
    this.searched += text.length;
    return true;
  }

  /** Adds the schema of a tool. Returns false, and adds nothing, where it would be too much. */
  add(schema: RawJson): boolean {
    const { optional, unions } = countMembers(schema.value);
    this.counts ??= { tools: 0, ...countMembers(this.format?.value) };
    const { counts } = this;
    const sums = { tools: counts.tools + 1, optional: counts.optional + optional, unions: counts.unions + unions };
    if (sums.tools > MAX_ENFORCED.tools || sums.optional > MAX_ENFORCED.optional || sums.unions > MAX_ENFORCED.unions)
      return false;
    Object.assign(counts, sums);
    return true;
  }
}

/** Counts the members of a schema that may be missing, and those that have several types. */
function countMembers(schema: unknown): { optional: number; unions: number } {
  const counts = { optional: 0, unions: 0 };
  addMembers(schema, counts);
  return counts;
}

/** @param isNamed whether the value has schemas by name */
function addMembers(value: unknown, counts: ReturnType<typeof countMembers>, isNamed = false): void {
  for (const each of asList(value)) addMembers(each, counts);
  const object = objectOf(value);
  if (!object) return;
  if (!isNamed) {
    const { properties, required, type, anyOf, oneOf } = object;
    const names = new Set(asList(required));
    for (const name in objectOf(properties)) if (!names.has(name)) counts.optional++;
    if (asList(type).length > 1 || (anyOf ?? oneOf) !== undefined) counts.unions++;
  }
  for (const name in object)
    if (isNamed || !VALUES.has(name)) addMembers(object[name], counts, !isNamed && SCHEMAS_BY_NAME.has(name));
}

/** A schema that is being searched, or an object with schemas by property. */
interface SearchedSchema {
  readonly object: JsonObject;
  readonly isPropertyMap: boolean;
  /** The `$ref` that leads to it; undefined: it is a part of the one before. */
  readonly ref?: string;
}

/** Returns a `$ref` through which a schema contains itself; undefined: there is none. External schemas are not followed. */
function selfReference(schema: unknown): string | undefined {
  const root = objectOf(schema);
  if (!root) return undefined;
  // Each once, and iteratively: a schema may be a part of many others, and a chain of references as long as the schema.
  const [seenSchemas, seenMaps] = [new Set<JsonObject>(), new Set<JsonObject>()];
  const [openSchemas, openMaps] = [new Set<JsonObject>(), new Set<JsonObject>()];
  const path = [
    { schema: { object: root, isPropertyMap: false } as SearchedSchema, inner: innerSchemas(root, false, root) },
  ];
  openSchemas.add(root);
  for (let last = path.at(-1); last; last = path.at(-1)) {
    const next = last.inner.pop();
    if (!next) {
      path.pop();
      (last.schema.isPropertyMap ? openMaps : openSchemas).delete(last.schema.object);
      continue;
    }
    const { object, isPropertyMap, ref } = next;
    const [seen, open] = isPropertyMap ? [seenMaps, openMaps] : [seenSchemas, openSchemas];
    if (open.has(object)) return ref ?? path.findLast(({ schema }) => schema.ref !== undefined)?.schema.ref;
    if (seen.has(object)) continue;
    seen.add(object);
    open.add(object);
    path.push({ schema: next, inner: innerSchemas(object, isPropertyMap, root) });
  }
  return undefined;
}

/** Returns the schemas directly in a schema, and the targets of its references, the first one last. */
function innerSchemas(object: JsonObject, isPropertyMap: boolean, root: JsonObject): SearchedSchema[] {
  const found: SearchedSchema[] = [];
  const add = (value: unknown, isMap: boolean): void => {
    const inner = objectOf(value);
    if (inner) found.push({ object: inner, isPropertyMap: isMap });
    else for (const element of asList(value)) add(element, false);
  };
  for (const name in object) {
    const member = object[name];
    const target = name === "$ref" && typeof member === "string" ? resolvePointer(member, root) : undefined;
    if (target) found.push({ object: target, isPropertyMap: false, ref: member as string });
    if (isPropertyMap || !NO_SUBSCHEMAS.has(name)) add(member, name === "properties" && !isPropertyMap);
  }
  return found.reverse();
}

/** Returns the target of a reference within a schema (`#/$defs/a`). */
function resolvePointer(ref: string, root: JsonObject): JsonObject | undefined {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  let target: unknown = root;
  for (const token of decodeOrKeep(ref).split("/").slice(1)) {
    const name = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(target)) target = target[Number(name)];
    else {
      const object = objectOf(target);
      target = object && Object.hasOwn(object, name) ? object[name] : undefined;
    }
  }
  return objectOf(target);
}

const MEMBER_CHARACTERS = "a-zA-Z0-9_.-";
const MAX_MEMBER_LENGTH = 64;

/**
 * Returns a tool's schema with names of arguments that the vendor takes, `^[a-zA-Z0-9_.-]{1,64}$`: it refuses a request in which
 * one tool has another, like `$filter`. Calls are translated back. It does not look at inner names. [S]
 */
export function fitMembers(schema: RawJson, tool: string, path: string, context: EncodeContext): RawJson {
  const names = Object.keys(objectOf(objectOf(schema.value)?.["properties"]) ?? {});
  const members = context.names.fitMembers(tool, names, MEMBER_CHARACTERS, MAX_MEMBER_LENGTH);
  if (!members) return schema;
  context.change(path, "names of its arguments, which this model does not take, are others until the answer");
  const fit = (name: string) => members.fitted.get(name) ?? name;
  const root = asObject(parseExact(schema.text)) ?? {};
  const { properties, required } = root;
  const fitted = Object.entries(objectOf(properties) ?? {}).map(([name, value]) => [fit(name), value]);
  root["properties"] = Object.fromEntries(fitted);
  if (Array.isArray(required)) root["required"] = required.map((name) => (typeof name === "string" ? fit(name) : name));
  return new RawJson(writeJson(root));
}

/** Members that the vendor refuses at the root of a tool's schema, and with it the request. [D] */
const ALTERNATIVES = ["oneOf", "anyOf", "allOf"] as const;

/**
 * Returns a tool's schema without alternatives at its root: they are moved into its description, where the model reads them, and a
 * notice is given. A schema without them is returned as it is.
 */
export function describeAlternatives(schema: RawJson, path: string, context: EncodeContext): RawJson {
  const value = asObject(schema.value) ?? {};
  const names = ALTERNATIVES.filter((name) => Object.hasOwn(value, name));
  if (names.length === 0) return schema;
  context.change(path, `not enforced, only described to the model: ${names.join(", ")} at the root of its schema`);
  return objectParameters(schema, names);
}

/** Returns a schema's description with members that are not enforced. */
const withDescribed = (description: unknown, described: JsonObject): string =>
  (typeof description === "string" ? `${description}\n\n` : "") + writeJson(described);

/** String formats that the vendor enforces. [S: the SDK's schema transform] */
const FORMATS: ReadonlySet<unknown> = new Set(
  "date-time time date duration email hostname uri ipv4 ipv6 uuid".split(" "),
);

/** Keywords that the vendor enforces, besides those handled below. [S, D: structured outputs] */
const ENFORCED_KEYWORDS: ReadonlySet<string> = new Set(
  "type title description enum const default anyOf allOf $ref $defs definitions items properties required".split(" "),
);

/** What the vendor's patterns cannot have: assertions, word boundaries, references ("Invalid regex in pattern field"). [D] */
const UNENFORCED_PATTERN = /\(\?<?[=!]|\\[bBk1-9]/;

/** Reports whether the vendor enforces a keyword with this value. */
function isEnforced(name: string, value: unknown): boolean {
  if (name === "format") return FORMATS.has(value);
  if (name === "minItems") return value === 0 || value === 1;
  // A backslash that is escaped escapes nothing.
  if (name === "pattern") return !UNENFORCED_PATTERN.test((asText(value) ?? "").replaceAll("\\\\", ""));
  return ENFORCED_KEYWORDS.has(name);
}

/**
 * Returns a schema that the vendor can enforce. It refuses keywords that it cannot enforce: those are moved into the
 * description, where the model reads them, and a notice is given. A schema without them keeps its original text.
 */
export function enforceableSchema(schema: RawJson, path: string, context: EncodeContext): RawJson {
  const fitter = new SchemaFitter();
  const fitted = fitter.schema(parseExact(schema.text), "");
  if (fitter.closed) context.change(path, "only the named members are allowed");
  if (fitter.union) context.change(path, "oneOf as anyOf");
  if (fitter.unenforced > 0) context.change(path, `not enforced, only described to the model: ${listPlaces(fitter)}`);
  return fitter.changed ? new RawJson(writeJson(fitted)) : schema;
}

/** Maximum number of places named in one notice. */
const MAX_LISTED = 5;

function listPlaces({ places, unenforced }: SchemaFitter): string {
  const unlisted = unenforced - places.length;
  return places.join(", ") + (unlisted > 0 ? ` and ${unlisted} more` : "");
}

class SchemaFitter {
  changed = false;
  /** Whether an object was open, which the vendor does not allow. */
  closed = false;
  /** Whether a `oneOf` was weakened. */
  union = false;
  /** The number of keywords that the vendor does not enforce. */
  unenforced = 0;
  /** Where the first of them are. Of more, paths would take the length of all names above each, which may be megabytes. */
  readonly places: string[] = [];

  schema(value: unknown, at: string): unknown {
    const schema = objectOf(value);
    if (!schema) return value;
    const out: JsonObject = {};
    const described: [name: string, member: unknown][] = [];
    for (const name in schema)
      if (!this.keyword(name, schema, at, out)) described.push([name, this.describe(schema[name], `${at}.${name}`)]);
    const { type, properties, additionalProperties } = schema;
    if ([type].flat().includes("object") || (properties ?? additionalProperties) !== undefined) this.close(schema, out);
    if (described.length > 0) out["description"] = withDescribed(out["description"], Object.fromEntries(described));
    return out;
  }

  /** Handles a keyword; returns false for one that the vendor does not enforce. */
  private keyword(name: string, schema: JsonObject, at: string, out: JsonObject): boolean {
    const path = `${at}.${name}`;
    const member = schema[name];
    if (name === "properties" || name === "$defs" || name === "definitions") out[name] = this.schemaMap(member, path);
    else if (name === "items") out[name] = this.schema(member, path);
    else if (name === "anyOf" || name === "allOf")
      out[name] = asList(member).map((alternative, i) => this.schema(alternative, `${path}.${i}`));
    else if (name === "oneOf" && !Object.hasOwn(schema, "anyOf")) this.oneOf(member, path, out);
    else if (isEnforced(name, member)) out[name] = member;
    else if (name === "$schema") this.changed = true;
    else return name === "additionalProperties";
    return true;
  }

  private schemaMap(member: unknown, at: string): JsonObject {
    const schemas = Object.entries(objectOf(member) ?? {});
    return Object.fromEntries(schemas.map(([name, schema]) => [name, this.schema(schema, `${at}.${name}`)]));
  }

  private oneOf(member: unknown, at: string, out: JsonObject): void {
    this.changed = true;
    this.union = true;
    out["anyOf"] = asList(member).map((alternative, i) => this.schema(alternative, `${at}.${i}`));
  }

  private describe(member: unknown, at: string): unknown {
    this.changed = true;
    this.unenforced++;
    if (this.places.length < MAX_LISTED) this.places.push(at.slice(1));
    return member;
  }

  /** Closes an object, as required. One without named members is left for `whyUnenforceable`. */
  private close(schema: JsonObject, out: JsonObject): void {
    const additional = schema["additionalProperties"];
    out["additionalProperties"] = isOpenMap(schema) ? additional : false;
    if (additional === false || isOpenMap(schema)) return;
    this.changed = true;
    this.closed = true;
  }
}
