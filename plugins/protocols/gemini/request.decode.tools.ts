import {
  asList,
  asObject,
  type Conversation,
  dropUndefined,
  type JsonObject,
  ownProperty,
  parseExact,
  RawJson,
  type Tool,
  writeJson,
} from "model-gateway/protocol";
import { toolConfig } from "./support.choice.ts";
import { GEMINI, type ProtoFields } from "./wire.ts";

/** Members of a tool that search the web. */
const SEARCH_MEMBERS = ["googleSearch", "googleSearchRetrieval"] as const;

/** Decodes tools and the tool choice. */
export function readTools(request: ProtoFields): Pick<Conversation, "tools" | "toolChoice"> {
  const tools = (request.objects("tools") ?? []).flatMap((tool) => [
    ...readFunctions(tool),
    ...readSearches(tool),
    ...readServerTools(tool),
  ]);
  return { tools, ...dropUndefined({ toolChoice: toolConfig.read(request) }) };
}

function readFunctions(tool: ProtoFields): Tool[] {
  return (tool.objects("functionDeclarations") ?? []).map((declaration) => {
    declaration.declareSelf("tools");
    const name = declaration.text("name") ?? declaration.refuse("name", "is missing.");
    const description = declaration.text("description");
    const parameters = readSchema(declaration, "parameters", "parametersJsonSchema");
    declaration.declareUnread();
    return { kind: "function", at: declaration.ownPath, name, ...dropUndefined({ description, parameters }) };
  });
}

/** Returns a schema in either dialect as JSON Schema. */
export function readSchema(fields: ProtoFields, openapiMember: string, jsonSchemaMember: string): RawJson | undefined {
  const jsonSchema = fields.raw(jsonSchemaMember);
  if (jsonSchema) return normalizeSchema(jsonSchema);
  const openapiSchema = fields.raw(openapiMember);
  return openapiSchema && openapiToJsonSchema(openapiSchema);
}

function readSearches(tool: ProtoFields): Tool[] {
  return SEARCH_MEMBERS.flatMap((member): Tool[] => {
    const search = tool.object(member);
    if (!search) return [];
    search.declareSelf("web_search");
    const blocked = search.texts("excludeDomains");
    search.declareUnread();
    const paths = dropUndefined({ blocked: blocked && search.path("excludeDomains") });
    return [{ kind: "web_search", at: search.ownPath, apart: true, paths, ...dropUndefined({ blocked }) }];
  });
}

/** Decodes all other members as tools that the vendor runs itself, including unknown ones. */
function readServerTools(tool: ProtoFields): Tool[] {
  tool.declareUnread("tools_server");
  const unread = tool.unreadMembers().filter(([, json]) => json !== null);
  return unread.map(([name, json]): Tool => ({ kind: "server", at: tool.path(name), protocol: GEMINI, name, json }));
}

/** The vendor's type names, by number, because some clients send enums as numbers. [F] */
const TYPE_NAMES: readonly string[] = ["", "string", "number", "integer", "boolean", "array", "object", "null"];
/** Numbers that proto JSON writes as strings, because they are 64 bits wide. */
const INT64_MEMBERS = ["maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"];
/** Members in snake case with another spelling in JSON Schema, or with schemas as values. */
const CAMEL_CASE: Readonly<Record<string, string>> = {
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
export function openapiToJsonSchema(openapi: RawJson): RawJson {
  return new RawJson(writeJson(convertSchema(parseExact(openapi.text))));
}

/**
 * Returns a schema from a JSON Schema field: unchanged, except for types in upper case, which only this vendor accepts there.
 * [F: a client sends `responseJsonSchema` with `"OBJECT"`]
 */
export function normalizeSchema(schema: RawJson): RawJson {
  return /"type"\s*:\s*(?:\[\s*)?"[A-Z]+"/.test(schema.text) && hasUppercaseType(schema.value)
    ? openapiToJsonSchema(schema)
    : schema;
}

/** Reports whether the schema itself, or one in it, has a type in upper case; a property's example does not count. */
function hasUppercaseType(schema: unknown): boolean {
  const members = asObject(schema);
  if (!members) return false;
  const types = [members["type"]].flat();
  if (types.some((type) => typeof type === "string" && type !== typeName(type))) return true;
  for (const name of SCHEMA_MAPS) if (Object.values(asObject(members[name]) ?? {}).some(hasUppercaseType)) return true;
  for (const name of SCHEMA_LISTS) if (asList(members[name]).some(hasUppercaseType)) return true;
  return SINGLE_SCHEMAS.some((name) => hasUppercaseType(members[name]));
}

/** Members of a schema that are schemas by name, lists of schemas, or one schema. */
const SCHEMA_MAPS = ["properties", "$defs", "defs"];
const SCHEMA_LISTS = ["anyOf", "oneOf", "allOf", "prefixItems"];
const SINGLE_SCHEMAS = ["items", "additionalProperties"];

function convertSchema(schema: unknown): unknown {
  const source = asObject(schema);
  if (!source || source instanceof RawJson) return schema;
  // Not assigned member by member: a schema may have one named `__proto__`.
  const converted: JsonObject = Object.fromEntries(
    Object.entries(source).flatMap(([spelling, value]) => {
      const name = ownProperty(CAMEL_CASE, spelling) ?? spelling;
      const isConverted = CONVERTED_MEMBERS.has(name) || (name === "format" && value === "enum");
      return isConverted ? [] : [[name, convertMember(name, value, source)]];
    }),
  );
  if (source["example"] !== undefined && converted["examples"] === undefined)
    converted["examples"] = [source["example"]];
  if (source["nullable"] === true) allowNull(converted);
  const order = asList(source["propertyOrdering"] ?? source["property_ordering"]);
  if (order.length > 0 && asObject(converted["properties"]))
    converted["properties"] = orderProperties(converted["properties"], order);
  return converted;
}

/** Converted instead: `nullable` to the type, the order to that of the properties. */
const CONVERTED_MEMBERS: ReadonlySet<string> = new Set(["nullable", "propertyOrdering", "example"]);

function convertMember(name: string, value: unknown, schema: JsonObject): unknown {
  if (name === "type") return typeName(value);
  if (SCHEMA_MAPS.includes(name)) return convertSchemaMap(value);
  if (SINGLE_SCHEMAS.includes(name)) return convertSchema(value);
  if (SCHEMA_LISTS.includes(name)) return Array.isArray(value) ? value.map(convertSchema) : value;
  if (INT64_MEMBERS.includes(name) || ((name === "minimum" || name === "maximum") && isNumericString(value)))
    return parseNumber(value);
  if (name === "enum" && Array.isArray(value) && isNumberType(schema["type"])) return value.map(parseNumber);
  return value;
}

const convertSchemaMap = (schemas: unknown): JsonObject =>
  Object.fromEntries(Object.entries(asObject(schemas) ?? {}).map(([name, schema]) => [name, convertSchema(schema)]));

function typeName(type: unknown): unknown {
  if (typeof type === "number") return TYPE_NAMES[type] || undefined;
  if (Array.isArray(type)) return type.map(typeName);
  if (typeof type !== "string" || type === "TYPE_UNSPECIFIED") return undefined;
  return TYPE_NAMES.includes(type.toLowerCase()) ? type.toLowerCase() : type;
}

const isNumberType = (type: unknown): boolean => ["integer", "number"].includes(String(typeName(type)));

const isNumericString = (value: unknown): value is string =>
  typeof value === "string" && /^-?\d+(?:\.\d+)?$/.test(value);

/** Returns the number in a string; RawJson if a double cannot represent it. */
const parseNumber = (value: unknown): unknown =>
  isNumericString(value) ? parseExact(value.replace(/^(-?)0+(?=\d)/, "$1")) : value;

/** Allows null as a value: as a type, as an alternative, and in the enum. */
function allowNull(schema: JsonObject): void {
  const { type } = schema;
  if (type !== undefined) schema["type"] = [...new Set([...(Array.isArray(type) ? type : [type]), "null"])];
  else if (Array.isArray(schema["anyOf"])) schema["anyOf"] = [...schema["anyOf"], { type: "null" }];
  if (Array.isArray(schema["enum"]) && !schema["enum"].includes(null)) schema["enum"] = [...schema["enum"], null];
}

/** Returns the properties in the given order, followed by the others. */
function orderProperties(properties: unknown, order: readonly unknown[]): JsonObject {
  const source = asObject(properties) ?? {};
  const ordered = order.filter((name): name is string => typeof name === "string" && Object.hasOwn(source, name));
  return Object.fromEntries([...new Set([...ordered, ...Object.keys(source)])].map((name) => [name, source[name]]));
}
