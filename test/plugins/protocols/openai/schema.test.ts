import t from "tap";
import { canEnforceSchema } from "../../../../plugins/protocols/openai/schema.ts";

const object = (properties: object, more: object = {}) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
});

t.test("a schema is strict when it requires all members of every object, and allows no others", async (t) => {
  for (const schema of [
    object({}),
    object({ a: { type: "string" }, b: { type: ["string", "null"], description: "may be none" } }),
    object({ list: { type: "array", items: object({ n: { enum: [1, 2] } }) } }),
    object({ a: { anyOf: [object({ x: { const: 1 } }), { type: "null" }] } }),
    object({ tree: { $ref: "#/$defs/node" } }, { $defs: { node: object({ v: { type: "integer" } }) } }),
  ])
    t.ok(canEnforceSchema(schema), JSON.stringify(schema));
});

t.test("any other one is not enforced", async (t) => {
  let deep: object = { type: "string" };
  for (let i = 0; i < 6; i++) deep = object({ a: deep });
  for (const schema of [
    undefined,
    "x",
    { type: "array", items: { type: "string" } },
    { type: "object" },
    object({ a: { type: "string" } }, { required: [] }),
    object({ a: { type: "string" } }, { additionalProperties: true }),
    object({ a: { type: "object", properties: { b: { type: "string" } } } }),
    object({ a: { type: "string", minLength: 2 } }),
    object({ a: { oneOf: [{ type: "string" }] } }),
    object({}, { anyOf: [object({})] }),
    object({ a: true }),
    deep,
    object(Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`m${n}`, { type: "null" }]))),
  ])
    t.notOk(canEnforceSchema(schema), JSON.stringify(schema)?.slice(0, 100));
});
