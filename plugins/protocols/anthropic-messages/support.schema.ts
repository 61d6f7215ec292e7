import { asObject, type JsonObject, RawJson } from "model-gateway/protocol";

/** Members whose value is not a schema, or is one only where a `$ref` refers to it. */
const NO_SUBSCHEMAS: ReadonlySet<string> = new Set(["const", "default", "enum", "examples", "$defs", "definitions"]);

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
export const isOpenMap = ({ additionalProperties, properties }: JsonObject): boolean =>
  hasMembers(additionalProperties) && !hasMembers(properties);

const hasMembers = (value: unknown): boolean => Object.keys(objectOf(value) ?? {}).length > 0;

/** Members whose value is not a schema. */
const VALUES: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"]);

/** Returns the path of the first such object in a schema. */
function findMap(value: unknown, path: readonly string[], isNamed = false): readonly string[] | undefined {
  const object = Array.isArray(value) ? Object.fromEntries(value.entries()) : objectOf(value);
  if (!object) return undefined;
  if (!isNamed && isOpenMap(object)) return path;
  for (const [name, member] of Object.entries(object)) {
    if (!isNamed && VALUES.has(name)) continue;
    const found = findMap(member, [...path, name], !isNamed && SCHEMAS_BY_NAME.has(name));
    if (found) return found;
  }
  return undefined;
}

/** Members that hold schemas by name. */
const SCHEMAS_BY_NAME: ReadonlySet<string> = new Set(["properties", "$defs", "definitions"]);

/** Returns a `$ref` through which a schema contains itself; undefined: there is none. External schemas are not followed. */
function selfReference(schema: unknown): string | undefined {
  const root = objectOf(schema);
  if (!root) return undefined;
  const refs = new Map<JsonObject, Map<string, JsonObject>>();
  const refsOf = (schema: JsonObject): Map<string, JsonObject> => {
    const known = refs.get(schema) ?? refsIn(schema, root);
    refs.set(schema, known);
    return known;
  };
  // Iterative, because a chain of references may be as long as the schema.
  const checked = new Set<JsonObject>();
  const ancestors = new Set([root]);
  const path = [{ schema: root, refs: refsOf(root).entries() }];
  for (let last = path.at(-1); last; last = path.at(-1)) {
    const next = last.refs.next();
    if (next.done) {
      path.pop();
      ancestors.delete(last.schema);
      checked.add(last.schema);
      continue;
    }
    const [ref, target] = next.value;
    if (ancestors.has(target)) return ref;
    if (checked.has(target)) continue;
    ancestors.add(target);
    path.push({ schema: target, refs: refsOf(target).entries() });
  }
  return undefined;
}

/** Returns the references within a schema, and their targets. */
function refsIn(schema: JsonObject, root: JsonObject): Map<string, JsonObject> {
  const targets = new Map<string, JsonObject>();
  const visit = (value: unknown, isPropertyMap: boolean): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, false);
    const object = objectOf(value);
    if (!object) return;
    for (const [name, member] of Object.entries(object)) {
      const target = name === "$ref" && typeof member === "string" ? resolvePointer(member, root) : undefined;
      if (target) targets.set(member as string, target);
      if (isPropertyMap || !NO_SUBSCHEMAS.has(name)) visit(member, name === "properties" && !isPropertyMap);
    }
  };
  visit(schema, false);
  return targets;
}

/** Returns the target of a reference within a schema (`#/$defs/a`). */
function resolvePointer(ref: string, root: JsonObject): JsonObject | undefined {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  let target: unknown = root;
  for (const token of decodePointer(ref).split("/").slice(1)) {
    const name = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(target)) target = target[Number(name)];
    else {
      const object = objectOf(target);
      target = object && Object.hasOwn(object, name) ? object[name] : undefined;
    }
  }
  return objectOf(target);
}

function decodePointer(ref: string): string {
  try {
    return decodeURIComponent(ref);
  } catch {
    return ref;
  }
}
