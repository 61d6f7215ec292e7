import { parseExact, RawJson, writeJson } from "../wire/exact.ts";
import { asObject, asText, type JsonObject } from "../wire/values.ts";

export const isObjectSchema = (root: JsonObject): boolean =>
  root["type"] === "object" || root["properties"] !== undefined;

/**
 * Returns a schema whose root only refers to an object among its own definitions, like those of recursive models, with that
 * object inlined at its root; undefined for other schemas. Vendors that require an object do not follow the reference.
 */
export function inlineRoot(root: JsonObject): JsonObject | undefined {
  const [, section = "", name = ""] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(asText(root["$ref"]) ?? "") ?? [];
  const schema = asObject(asObject(root[section])?.[name]);
  if (!schema || schema instanceof RawJson || !isObjectSchema(schema)) return undefined;
  const { $ref: _, ...siblings } = root;
  return { ...schema, ...siblings };
}

/** The schema of a function without arguments. */
const NO_PARAMETERS = new RawJson('{"type":"object","properties":{}}');

/**
 * Returns a function's parameters with an object at their root and `items` in each array: vendors refuse a schema without `type: "object"`,
 * `properties` or `items`, which some clients omit, or that only refers to an object.
 * @param refused members at the root that the vendor refuses, and with them the request: they are moved into the description, where
 * the model reads them
 */
export const objectParameters = (parameters: RawJson, refused: readonly string[] = []): RawJson =>
  withItems(objectRoot(parameters, refused));

function objectRoot(parameters: RawJson, refused: readonly string[]): RawJson {
  const root = asObject(parameters.value);
  if (!root || Object.keys(root).length === 0) return NO_PARAMETERS;
  const described = refused.filter((name) => Object.hasOwn(root, name));
  if (described.length > 0) return objectRoot(describeMembers(parameters, described), []);
  const { type, properties = null } = root;
  // Arguments are never null, and vendors take no list of types here: "got 'type: ["object", "null"]'".
  if (type === null || (Array.isArray(type) && type.includes("object")))
    return objectRoot(new RawJson(writeJson({ ...(parseExact(parameters.text) as JsonObject), type: "object" })), []);
  const isObject = type === undefined || type === "object";
  const lacksProperties = properties === null && isObject && !OTHER_ROOTS.some((name) => name in root);
  const exact = () => parseExact(parameters.text) as JsonObject;
  const inlined = type === undefined && root["$ref"] !== undefined ? inlineRoot(exact()) : undefined;
  if (inlined) return new RawJson(writeJson({ ...inlined, type: "object" }));
  if (lacksProperties && "properties" in root)
    return new RawJson(writeJson({ ...exact(), type: "object", properties: {} }));
  const added = (type === undefined ? '"type":"object",' : "") + (lacksProperties ? '"properties":{},' : "");
  return added === "" ? parameters : new RawJson(parameters.text.replace("{", `{${added}`));
}

/** Members at the root that tell which properties an object has. */
const OTHER_ROOTS = ["$ref", "oneOf", "anyOf", "allOf"];

function describeMembers({ text }: RawJson, names: readonly string[]): RawJson {
  const { description, ...root } = parseExact(text) as JsonObject;
  const described = Object.fromEntries(names.map((name) => [name, root[name]]));
  for (const name of names) delete root[name];
  const own = typeof description === "string" ? `${description}\n\n` : "";
  return new RawJson(writeJson({ ...root, description: own + writeJson(described) }));
}

/** Members whose values are no schemas, and those that have schemas by name. */
const VALUES: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"]);
const SCHEMAS_BY_NAME: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "definitions"]);

/** Returns a schema in which each array has `items`: without them any value is one, and so it is with `{}`. */
function withItems(schema: RawJson): RawJson {
  if (!schema.text.includes('"array"') || !someSchema(schema.value, isBareArray)) return schema;
  const root = parseExact(schema.text);
  someSchema(root, (each) => {
    if (isBareArray(each)) each["items"] = {};
    return false;
  });
  return new RawJson(writeJson(root));
}

const isBareArray = ({ type, items }: JsonObject): boolean =>
  items === undefined && (type === "array" || (Array.isArray(type) && type.includes("array")));

/**
 * Reports whether a schema or one within it meets a condition. No generator: in a large schema it takes ten times as long.
 * @param isNamed whether the value has schemas by name
 */
function someSchema(value: unknown, meets: (schema: JsonObject) => boolean, isNamed = false): boolean {
  if (typeof value !== "object" || value === null || value instanceof RawJson) return false;
  if (Array.isArray(value)) return value.some((each) => someSchema(each, meets));
  const object = value as JsonObject;
  if (!isNamed && meets(object)) return true;
  for (const name in object) {
    if (!isNamed && VALUES.has(name)) continue;
    if (someSchema(object[name], meets, !isNamed && SCHEMAS_BY_NAME.has(name))) return true;
  }
  return false;
}
