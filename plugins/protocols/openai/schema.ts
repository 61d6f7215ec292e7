import { asList, asObject } from "model-gateway/protocol";

/** Keywords that the vendor enforces, besides annotations. It refuses or ignores schemas with others. */
const ENFORCED_KEYWORDS = new Set([
  ...["type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs"],
  ...["title", "description"],
]);
/** Maximum numbers of members and levels of a schema that the vendor has always accepted. */
const [MAX_MEMBERS, MAX_LEVELS] = [100, 5];

/**
 * Reports whether the vendor can enforce a schema strictly: an object at its root, and in every object all members required
 * and no others allowed. [S: Structured Outputs, "Supported schemas"]
 */
export function canEnforceSchema(schema: unknown): boolean {
  const root = asObject(schema);
  const members = { remaining: MAX_MEMBERS };
  return root?.["type"] === "object" && root["anyOf"] === undefined && isEnforceable(root, MAX_LEVELS, members);
}

function isEnforceable(schema: unknown, levels: number, members: { remaining: number }): boolean {
  const keywords = asObject(schema);
  if (!keywords || levels < 0 || Object.keys(keywords).some((keyword) => !ENFORCED_KEYWORDS.has(keyword))) return false;
  const { properties, required, additionalProperties: additional, items, anyOf, $defs } = keywords;
  const inner = asObject(properties) ?? {};
  const names = Object.keys(inner);
  members.remaining -= names.length;
  if (members.remaining < 0) return false;
  if (isObjectSchema(keywords)) {
    const requiredNames = new Set(asList(required));
    if (additional !== false || names.some((name) => !requiredNames.has(name))) return false;
  }
  const subschemas = [
    ...Object.values(inner),
    ...(items === undefined ? [] : [items]),
    ...asList(anyOf),
    ...Object.values(asObject($defs) ?? {}),
  ];
  return subschemas.every((subschema) => isEnforceable(subschema, levels - 1, members));
}

const isObjectSchema = ({ type, properties }: Readonly<Record<string, unknown>>): boolean =>
  properties !== undefined || type === "object" || asList(type).includes("object");
