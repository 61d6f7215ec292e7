import t from "tap";
import { enforceableSchema } from "../../../../plugins/protocols/anthropic-messages/support.ts";
import { type EncodeContext } from "../../../../src/translation/codec.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";

function held(schema: JsonObject | string) {
  const changed: string[] = [];
  const change = (path: string, why: string) => changed.push(`${path}: ${why}`);
  const context = { change };
  const before = new RawJson(typeof schema === "string" ? schema : JSON.stringify(schema));
  const after = enforceableSchema(before, "format", context as unknown as EncodeContext);
  return { after: after.value, text: after.text, same: after === before, changed };
}

t.test("a schema that the vendor can enforce is sent unchanged", async (t) => {
  const { same, changed } = held({
    type: "object",
    properties: {
      a: { type: "array", items: { $ref: "#/$defs/b" }, minItems: 1 },
      c: { anyOf: [{ type: "null" }, { enum: [1] }] },
    },
    $defs: { b: { type: "string", format: "date" } },
    required: ["a"],
    additionalProperties: false,
  });
  t.same([same, changed], [true, []]);
});

t.test("constraints that it cannot enforce are described to the model, and that is declared", async (t) => {
  const { after, changed } = held({
    type: "object",
    properties: {
      age: { type: "integer", minimum: 0, description: "Years" },
      minimum: { type: "string", format: "zip" },
    },
    additionalProperties: false,
  });
  t.same(after, {
    type: "object",
    properties: {
      age: { type: "integer", description: 'Years\n\n{"minimum":0}' },
      minimum: { type: "string", description: '{"format":"zip"}' },
    },
    additionalProperties: false,
  });
  t.same(changed, [
    "format: not enforced, only described to the model: properties.age.minimum, properties.minimum.format",
  ]);
});

t.test("objects are closed and oneOf becomes anyOf, which is declared", async (t) => {
  const { after, changed } = held({ oneOf: [{ type: "object", properties: {} }, { type: "string" }] });
  t.same(after, { anyOf: [{ type: "object", properties: {}, additionalProperties: false }, { type: "string" }] });
  t.same(changed, ["format: only the named members are allowed", "format: oneOf as anyOf"]);
});

t.test("an object with named members is closed, whatever its type and whatever its other members match", async (t) => {
  const properties = { a: { type: "string" } };
  for (const additionalProperties of [true, {}, { type: "integer" }])
    for (const type of ["object", ["object", "null"]]) {
      const { after, changed } = held({ type, properties, additionalProperties });
      t.same(after, { type, properties, additionalProperties: false });
      t.same(changed, ["format: only the named members are allowed"]);
    }
  t.match(held({ type: ["object", "null"] }).after, { additionalProperties: false });
});

t.test("beside anyOf, which is enforced, oneOf is described, whichever comes first", async (t) => {
  const oneOf = [{ type: "string" }];
  const anyOf = [{ type: "integer" }];
  const description = JSON.stringify({ oneOf });
  for (const schema of [
    { oneOf, anyOf },
    { anyOf, oneOf },
  ]) {
    const { after, changed } = held(schema);
    t.same(after, { anyOf, description });
    t.same(changed, ["format: not enforced, only described to the model: oneOf"]);
  }
});

t.test("a property and a keyword may be named __proto__, and numbers keep their digits", async (t) => {
  const proto = '"__proto__":{"const":12345678901234567890}';
  const { text, changed } = held(`{"properties":{${proto}},${proto},"maximum":12345678901234567890}`);
  const told = `{${proto},"maximum":12345678901234567890}`;
  t.equal(text, `{"properties":{${proto}},"additionalProperties":false,"description":${JSON.stringify(told)}}`);
  t.match(changed[1], /described to the model: __proto__, maximum/);
});
