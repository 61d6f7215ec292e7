import { parseExact, RawJson, writeJson } from "../wire/exact.ts";
import { asObject, type JsonObject } from "../wire/values.ts";

export const isObjectSchema = (root: JsonObject): boolean =>
  root["type"] === "object" || root["properties"] !== undefined;

/**
 * Returns a schema whose root only refers to an object among its own definitions, like those of recursive models, with that
 * object inlined at its root; undefined for other schemas. Vendors that require an object do not follow the reference.
 */
export function inlineRoot(root: JsonObject): JsonObject | undefined {
  const [, section = "", name = ""] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(String(root["$ref"])) ?? [];
  const schema = asObject(asObject(root[section])?.[name]);
  if (!schema || schema instanceof RawJson || !isObjectSchema(schema)) return undefined;
  const { $ref: _, ...siblings } = root;
  return { ...schema, ...siblings };
}

/** The schema of a function without arguments. */
const NO_PARAMETERS = new RawJson('{"type":"object","properties":{}}');

/**
 * Returns a function's parameters with an object at their root: vendors refuse a schema without `type: "object"` or `properties`, which
 * some clients omit, or that only refers to one.
 * @param refused members at the root that the vendor refuses, and with them the request: they are moved into the description, where
 * the model reads them
 */
export function objectParameters(parameters: RawJson, refused: readonly string[] = []): RawJson {
  const root = asObject(parameters.value);
  if (!root || Object.keys(root).length === 0) return NO_PARAMETERS;
  const described = refused.filter((name) => Object.hasOwn(root, name));
  if (described.length > 0) return objectParameters(describeMembers(parameters, described));
  const { type, properties } = root;
  const inlined =
    type === undefined && root["$ref"] !== undefined
      ? inlineRoot(parseExact(parameters.text) as JsonObject)
      : undefined;
  if (inlined) return new RawJson(writeJson({ ...inlined, type: "object" }));
  const lacksProperties = (properties ?? undefined) === undefined && (type === undefined || type === "object");
  if (properties === null && lacksProperties)
    return new RawJson(writeJson({ ...(parseExact(parameters.text) as JsonObject), type: "object", properties: {} }));
  const added = (type === undefined ? '"type":"object",' : "") + (lacksProperties ? '"properties":{},' : "");
  return added === "" ? parameters : new RawJson(parameters.text.replace("{", `{${added}`));
}

function describeMembers({ text }: RawJson, names: readonly string[]): RawJson {
  const { description, ...root } = parseExact(text) as JsonObject;
  const described = Object.fromEntries(names.map((name) => [name, root[name]]));
  for (const name of names) delete root[name];
  const own = typeof description === "string" ? `${description}\n\n` : "";
  return new RawJson(writeJson({ ...root, description: own + writeJson(described) }));
}
