import { asObject, type JsonObject, RawJson } from "model-gateway/protocol";

/** Members whose value is not a schema, or is one only where a `$ref` refers to it. */
const NO_SUBSCHEMAS: ReadonlySet<string> = new Set(["const", "default", "enum", "examples", "$defs", "definitions"]);

const objectOf = (value: unknown): JsonObject | undefined => (value instanceof RawJson ? undefined : asObject(value));

/** Returns a `$ref` through which a schema contains itself; undefined: there is none. External schemas are not followed. */
export function selfReference(schema: unknown): string | undefined {
  const root = objectOf(schema);
  if (!root) return undefined;
  const refs = new Map<JsonObject, Map<string, JsonObject>>();
  const refsOf = (of: JsonObject): Map<string, JsonObject> => {
    const known = refs.get(of) ?? refsIn(of, root);
    refs.set(of, known);
    return known;
  };
  // Iterative, because a chain of references may be as long as the schema.
  const ended = new Set<JsonObject>();
  const open = new Set([root]);
  const path = [{ schema: root, left: refsOf(root).entries() }];
  for (let last = path.at(-1); last; last = path.at(-1)) {
    const next = last.left.next();
    if (next.done) {
      path.pop();
      open.delete(last.schema);
      ended.add(last.schema);
      continue;
    }
    const [ref, to] = next.value;
    if (open.has(to)) return ref;
    if (ended.has(to)) continue;
    open.add(to);
    path.push({ schema: to, left: refsOf(to).entries() });
  }
  return undefined;
}

/** Returns the references within a schema, and their targets. */
function refsIn(schema: JsonObject, root: JsonObject): Map<string, JsonObject> {
  const found = new Map<string, JsonObject>();
  const look = (value: unknown, names: boolean): void => {
    if (Array.isArray(value)) for (const each of value) look(each, false);
    const object = objectOf(value);
    if (!object) return;
    for (const [name, member] of Object.entries(object)) {
      const to = name === "$ref" && typeof member === "string" ? resolvePointer(member, root) : undefined;
      if (to) found.set(member as string, to);
      if (names || !NO_SUBSCHEMAS.has(name)) look(member, name === "properties" && !names);
    }
  };
  look(schema, false);
  return found;
}

/** Returns the target of a reference within a schema (`#/$defs/a`). */
function resolvePointer(ref: string, root: JsonObject): JsonObject | undefined {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  let at: unknown = root;
  for (const step of decodePointer(ref).split("/").slice(1)) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(at)) at = at[Number(name)];
    else {
      const object = objectOf(at);
      at = object && Object.hasOwn(object, name) ? object[name] : undefined;
    }
  }
  return objectOf(at);
}

function decodePointer(ref: string): string {
  try {
    return decodeURIComponent(ref);
  } catch {
    return ref;
  }
}
