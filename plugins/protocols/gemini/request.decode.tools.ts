import {
  asList,
  asObject,
  type Conversation,
  defined,
  entryOf,
  type JsonObject,
  parseExact,
  RawJson,
  type Tool,
  writeJson,
} from "model-gateway/protocol";
import { toolConfig } from "./support.choice.ts";
import { NAME, type ProtoFields, wrong } from "./wire.ts";

/** Members of a tool that search the web. */
const SEARCHES = ["googleSearch", "googleSearchRetrieval"] as const;

/** Decodes tools and the tool choice. */
export function readTools(request: ProtoFields): Pick<Conversation, "tools" | "toolChoice"> {
  const tools = (request.objects("tools") ?? []).flatMap((holder) => [
    ...readFunctions(holder),
    ...readSearches(holder),
    ...readServerTools(holder),
  ]);
  return { tools, ...defined({ toolChoice: toolConfig.read(request) }) };
}

function readFunctions(holder: ProtoFields): Tool[] {
  return (holder.objects("functionDeclarations") ?? []).map((declared) => {
    declared.declareSelf("tools");
    const name = declared.text("name") ?? wrong(declared.path("name"), "is missing");
    const description = declared.text("description");
    const parameters = readSchema(declared, "parameters", "parametersJsonSchema");
    declared.rest();
    return { kind: "function", at: declared.at, name, ...defined({ description, parameters }) };
  });
}

/** Returns a schema in either dialect as JSON Schema. */
export function readSchema(fields: ProtoFields, openapi: string, json: string): RawJson | undefined {
  const plain = fields.raw(json);
  if (plain) return plainSchema(plain);
  const source = fields.raw(openapi);
  return source && jsonSchema(source);
}

function readSearches(holder: ProtoFields): Tool[] {
  return SEARCHES.flatMap((member): Tool[] => {
    const search = holder.object(member);
    if (!search) return [];
    search.declareSelf("web_search");
    const blocked = search.texts("excludeDomains");
    search.rest();
    const paths = defined({ blocked: blocked && search.path("excludeDomains") });
    return [{ kind: "web_search", at: search.at, apart: true, paths, ...defined({ blocked }) }];
  });
}

/** Decodes all other members as tools that the vendor runs itself, including unknown ones. */
function readServerTools(holder: ProtoFields): Tool[] {
  holder.rest("tools_server");
  const left = holder.untaken().filter(([, json]) => json !== null);
  return left.map(([name, json]): Tool => ({ kind: "server", at: holder.path(name), protocol: NAME, name, json }));
}

/** The vendor's type names, by number, because some clients send enums as numbers. [F] */
const TYPE_NAMES: readonly string[] = ["", "string", "number", "integer", "boolean", "array", "object", "null"];
/** Numbers that proto JSON writes as strings, because they are 64 bits wide. */
const WIDE = ["maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"];
/** Members in snake case with another spelling in JSON Schema, or with schemas as values. */
const CAMEL: Readonly<Record<string, string>> = {
  property_ordering: "propertyOrdering",
  any_of: "anyOf",
  max_items: "maxItems",
  min_items: "minItems",
  max_length: "maxLength",
  min_length: "minLength",
  max_properties: "maxProperties",
  min_properties: "minProperties",
  additional_properties: "additionalProperties",
  prefix_items: "prefixItems",
};

/**
 * Converts a schema in the vendor's subset of OpenAPI 3.0 to JSON Schema: types in lower case, `nullable` as a type, numbers
 * instead of strings, properties in the order of `propertyOrdering`. Unknown keywords are kept.
 */
export function jsonSchema(openapi: RawJson): RawJson {
  return new RawJson(writeJson(translated(parseExact(openapi.text))));
}

/**
 * Returns a schema from a JSON Schema field: unchanged, except for types in upper case, which only this vendor accepts there.
 * [F: a client sends `responseJsonSchema` with `"OBJECT"`]
 */
export function plainSchema(schema: RawJson): RawJson {
  return /"type"\s*:\s*(?:\[\s*)?"[A-Z]+"/.test(schema.text) && upper(schema.value) ? jsonSchema(schema) : schema;
}

/** Reports whether the schema itself, or one in it, has a type in upper case; a property's example does not count. */
function upper(schema: unknown): boolean {
  const members = asObject(schema);
  if (!members) return false;
  const types = [members["type"]].flat();
  if (types.some((type) => typeof type === "string" && type !== typeName(type))) return true;
  for (const name of NAMED) if (Object.values(asObject(members[name]) ?? {}).some(upper)) return true;
  for (const name of LISTS) if (asList(members[name]).some(upper)) return true;
  return SINGLE.some((name) => upper(members[name]));
}

/** Members of a schema that are schemas by name, lists of schemas, or one schema. */
const NAMED = ["properties", "$defs", "defs"];
const LISTS = ["anyOf", "oneOf", "allOf", "prefixItems"];
const SINGLE = ["items", "additionalProperties"];

function translated(schema: unknown): unknown {
  const source = asObject(schema);
  if (!source || source instanceof RawJson) return schema;
  // Not assigned member by member: a schema may have one named `__proto__`.
  const made: JsonObject = Object.fromEntries(
    Object.entries(source).flatMap(([spelling, value]) => {
      const name = entryOf(CAMEL, spelling) ?? spelling;
      const left = DROPPED.has(name) || (name === "format" && value === "enum");
      return left ? [] : [[name, member(name, value, source)]];
    }),
  );
  if (source["example"] !== undefined && made["examples"] === undefined) made["examples"] = [source["example"]];
  if (source["nullable"] === true) admitNull(made);
  const order = asList(source["propertyOrdering"] ?? source["property_ordering"]);
  if (order.length > 0 && asObject(made["properties"])) made["properties"] = ordered(made["properties"], order);
  return made;
}

/** Converted instead: `nullable` to the type, the order to that of the properties. */
const DROPPED: ReadonlySet<string> = new Set(["nullable", "propertyOrdering", "example"]);

function member(name: string, value: unknown, schema: JsonObject): unknown {
  if (name === "type") return typeName(value);
  if (NAMED.includes(name)) return each(value);
  if (SINGLE.includes(name)) return translated(value);
  if (LISTS.includes(name)) return Array.isArray(value) ? value.map(translated) : value;
  if (WIDE.includes(name) || ((name === "minimum" || name === "maximum") && isNumeric(value))) return numeric(value);
  if (name === "enum" && Array.isArray(value) && isNumber(schema["type"])) return value.map(numeric);
  return value;
}

const each = (schemas: unknown): JsonObject =>
  Object.fromEntries(Object.entries(asObject(schemas) ?? {}).map(([name, schema]) => [name, translated(schema)]));

function typeName(type: unknown): unknown {
  if (typeof type === "number") return TYPE_NAMES[type] || undefined;
  if (Array.isArray(type)) return type.map(typeName);
  if (typeof type !== "string" || type === "TYPE_UNSPECIFIED") return undefined;
  return TYPE_NAMES.includes(type.toLowerCase()) ? type.toLowerCase() : type;
}

const isNumber = (type: unknown): boolean => ["integer", "number"].includes(String(typeName(type)));

const isNumeric = (value: unknown): value is string => typeof value === "string" && /^-?\d+(?:\.\d+)?$/.test(value);

/** Returns the number in a string; RawJson where a double cannot hold it. */
const numeric = (value: unknown): unknown =>
  isNumeric(value) ? parseExact(value.replace(/^(-?)0+(?=\d)/, "$1")) : value;

/** Allows null as a value: as a type, as an alternative, and in the enum. */
function admitNull(schema: JsonObject): void {
  const { type } = schema;
  if (type !== undefined) schema["type"] = [...new Set([...(Array.isArray(type) ? type : [type]), "null"])];
  else if (Array.isArray(schema["anyOf"])) schema["anyOf"] = [...schema["anyOf"], { type: "null" }];
  if (Array.isArray(schema["enum"]) && !schema["enum"].includes(null)) schema["enum"] = [...schema["enum"], null];
}

/** Returns the properties in the given order, followed by the others. */
function ordered(properties: unknown, order: readonly unknown[]): JsonObject {
  const source = asObject(properties) ?? {};
  const named = order.filter((name): name is string => typeof name === "string" && Object.hasOwn(source, name));
  return Object.fromEntries([...new Set([...named, ...Object.keys(source)])].map((name) => [name, source[name]]));
}
