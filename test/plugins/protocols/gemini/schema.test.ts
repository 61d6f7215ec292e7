import t from "tap";
import { jsonSchema, plainSchema } from "../../../../plugins/protocols/gemini/schema.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { recordedRequests } from "./request.asked.ts";

const translated = (schema: unknown): string => jsonSchema(new RawJson(JSON.stringify(schema))).text;

t.test("types are in lower case, nullable is a type, and numbers in strings are numbers", async (t) => {
  t.equal(translated({ type: "STRING", nullable: true, minLength: "3" }), '{"type":["string","null"],"minLength":3}');
  t.equal(
    translated({ type: "ARRAY", items: { type: "NUMBER" }, max_items: "4" }),
    '{"type":"array","items":{"type":"number"},"maxItems":4}',
  );
  t.equal(
    translated({ type: 6, properties: { a: { type: 1 } } }),
    '{"type":"object","properties":{"a":{"type":"string"}}}',
  );
  t.equal(
    translated({ type: "INTEGER", maxLength: "9007199254740993" }),
    '{"type":"integer","maxLength":9007199254740993}',
  );
});

t.test("properties stand in the order that was asked for, the others behind them", async (t) => {
  const properties = { a: { type: "STRING" }, b: { type: "BOOLEAN" }, c: { type: "NULL" } };
  const made = translated({ type: "OBJECT", properties, propertyOrdering: ["c", "a", "gone"], required: ["a"] });
  t.equal(
    made,
    '{"type":"object","properties":{"c":{"type":"null"},"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a"]}',
  );
  t.equal(translated({ properties, property_ordering: ["b"] }).indexOf('"b"'), 15);
});

t.test("an alternative or a list of values admits null, too", async (t) => {
  t.equal(
    translated({ anyOf: [{ type: "STRING" }, { type: "INTEGER" }], nullable: true }),
    '{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}',
  );
  t.equal(
    translated({ type: "STRING", format: "enum", enum: ["a"], nullable: true }),
    '{"type":["string","null"],"enum":["a",null]}',
  );
  t.equal(translated({ type: "INTEGER", format: "enum", enum: ["101", "-1"] }), '{"type":"integer","enum":[101,-1]}');
});

t.test("an example becomes one of the examples, and what is not known stays", async (t) => {
  t.equal(translated({ type: "STRING", example: "x", "x-own": 1 }), '{"type":"string","x-own":1,"examples":["x"]}');
  t.equal(translated({ type: "TYPE_UNSPECIFIED", description: "STRING" }), '{"description":"STRING"}');
});

t.test("a property may be called like a keyword", async (t) => {
  t.equal(
    translated({
      type: "OBJECT",
      properties: { type: { type: "STRING" }, nullable: { type: "BOOLEAN" }, items: { type: "STRING" } },
    }),
    '{"type":"object","properties":{"type":{"type":"string"},"nullable":{"type":"boolean"},"items":{"type":"string"}}}',
  );
});

t.test("a JSON Schema is unchanged, in its own text", async (t) => {
  const text = '{ "type":"object","oneOf":[{"$ref":"#/$defs/a"}],\n "$defs":{"a":{"pattern":"^A+$","minimum":1.0}} }';
  t.equal(plainSchema(new RawJson(text)).text, text);
  const example = '{"type":"object","properties":{"type":{"type":"string","default":{"type":"OBJECT"}}}}';
  t.equal(plainSchema(new RawJson(example)).text, example);
});

t.test("types in upper case are no JSON Schema, wherever they stand", async (t) => {
  const schema = { type: "OBJECT", properties: { a: { type: "ARRAY", items: { type: "STRING" } } } };
  t.equal(
    plainSchema(new RawJson(JSON.stringify(schema))).text,
    '{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}',
  );
  const held = { type: "STRING" };
  for (const schema of [
    { anyOf: [held] },
    { oneOf: [held] },
    { allOf: [held] },
    { prefixItems: [held] },
    { additionalProperties: held },
    { $defs: { a: held } },
    { type: "array", items: held },
    { type: ["STRING", "NULL"] },
  ])
    t.notMatch(plainSchema(new RawJson(JSON.stringify(schema))).text, /[A-Z]{4}/, JSON.stringify(schema));
});

const recorded = recordedRequests();

t.test(
  "every recorded schema becomes one of JSON Schema",
  { skip: recorded.length === 0 && "no recordings" },
  async (t) => {
    let found = 0;
    for (const { id, body } of recorded)
      for (const schema of schemas(body)) {
        found++;
        const made = translated(schema);
        t.notMatch(made, /"type":(?:"[A-Z]|\d)|"nullable"|"property_?[oO]rdering"/, id);
        t.equal(translated(JSON.parse(made)), made, `${id} again`);
      }
    t.ok(found > 80);
  },
);

/** All values of members that hold a schema in the vendor's dialect. */
function* schemas(value: unknown): Generator<unknown> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    if (/^(?:parameters|response_?schema)$/i.test(name)) yield member;
    else yield* schemas(member);
  }
}

t.test("a property and a keyword may be named __proto__, and what is no list stays as it is", async (t) => {
  const proto = '"__proto__":{"type":"string"}';
  const schema = `{"type":"OBJECT","properties":{${proto}},${proto},"anyOf":{},"enum":"x"}`;
  t.equal(jsonSchema(new RawJson(schema)).text, schema.replace("OBJECT", "object"));
});
