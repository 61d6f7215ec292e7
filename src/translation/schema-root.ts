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
 * Returns a function's parameters with an object at their root: vendors refuse a schema without `type: "object"`, which some
 * clients omit, or that only refers to it.
 */
export function objectParameters(parameters: RawJson): RawJson {
  const root = asObject(parameters.value);
  if (!root || Object.keys(root).length === 0) return NO_PARAMETERS;
  if (root["type"] !== undefined) return parameters;
  const inlined = root["$ref"] === undefined ? undefined : inlineRoot(parseExact(parameters.text) as JsonObject);
  return inlined
    ? new RawJson(writeJson({ ...inlined, type: "object" }))
    : new RawJson(parameters.text.replace("{", '{"type":"object",'));
}
