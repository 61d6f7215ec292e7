import t from "tap";
import {
  enforceableSchema,
  whyUnenforceable,
} from "../../../../plugins/protocols/anthropic-messages/support.schema.ts";
import { type EncodeContext } from "../../../../src/translation/codec.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { runLinear } from "../../../support/linear-work.ts";

const selfReference = (schema: unknown) => /^contains itself \((.*)\)$/.exec(whyUnenforceable(schema) ?? "")?.[1];

const node = { type: "object", properties: { next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] } } };

t.test("a recursive schema is reported by its reference", async (t) => {
  t.equal(selfReference({ $ref: "#/$defs/node", $defs: { node } }), "#/$defs/node");
  t.equal(selfReference({ type: "object", properties: { a: { items: { $ref: "#" } } } }), "#");
  t.equal(selfReference({ properties: { a: { properties: { b: { $ref: "#/properties/a" } } } } }), "#/properties/a");
  const definitions = { "a/b": { items: { $ref: "#/definitions/c" } }, c: { $ref: "#/definitions/a~1b" } };
  t.equal(
    selfReference({ $ref: "#/definitions/a%2Fb", definitions }),
    undefined,
    "an escaped slash is not part of the name",
  );
  t.equal(selfReference({ $ref: "#/definitions/a~1b", definitions }), "#/definitions/a~1b");
  t.equal(selfReference({ anyOf: [{ $ref: "#/anyOf/0" }] }), "#/anyOf/0");
  const properties = { $ref: { type: "string" }, enum: { $ref: "#" } };
  t.equal(selfReference({ properties }), "#", "names of properties are not keywords");
});

t.test("other references are not recursive", async (t) => {
  const pair = { properties: { a: { $ref: "#/$defs/leaf" }, b: { $ref: "#/$defs/leaf" } }, $defs: { leaf: {} } };
  t.equal(selfReference(pair), undefined, "one twice");
  t.equal(selfReference({ type: "string", $defs: { node } }), undefined, "an unused one");
  t.equal(selfReference({ const: { $ref: "#" }, enum: [{ $ref: "#" }], properties: { $ref: {} } }), undefined);
  for (const $ref of ["https://example.org/a.json", "#node", "#/$defs/none", "#/%/x", 1])
    t.equal(selfReference({ $ref }), undefined);
  for (const schema of [true, null, "x", [{ $ref: "#" }]]) t.equal(selfReference(schema), undefined);
});

t.test("a long chain of references takes little time", async (t) => {
  const long = 100_000;
  const $defs = Object.fromEntries(Array.from({ length: long }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]));
  t.equal(selfReference({ $ref: "#/$defs/d0", $defs }), undefined);
  t.equal(
    selfReference({ $ref: "#/$defs/d0", $defs: { ...$defs, [`d${long}`]: { $ref: "#/$defs/d7" } } }),
    "#/$defs/d7",
  );
});

t.test("a part of many schemas that are referred to is searched once", async (t) => {
  const properties = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`p${i}`, {}]));
  let schema: JsonObject = { properties };
  const references: JsonObject[] = [];
  for (let level = 1; level <= 500; level++) {
    schema = { items: schema };
    references.push({ $ref: `#${"/items".repeat(level)}` });
  }
  t.doesNotThrow(() => runLinear(() => selfReference({ ...schema, allOf: references })));
  t.equal(
    selfReference({ allOf: [{ $ref: "#/$defs/a/items" }], $defs: { a: { items: { $ref: "#/$defs/a" } } } }),
    "#/$defs/a",
  );
});

t.test("an object whose members may have any name is reported by its place", async (t) => {
  const map = { type: "object", additionalProperties: { type: "integer" } };
  const why = (place: string) => `allows members of any name (${place})`;
  t.equal(whyUnenforceable(map), why("at its root"));
  t.equal(whyUnenforceable({ type: "object", properties: { tags: map } }), why("properties.tags"));
  t.equal(whyUnenforceable({ anyOf: [{ type: "null" }, { items: map }] }), why("anyOf.1.items"));
  t.equal(whyUnenforceable({ properties: { default: map } }), why("properties.default"));
  t.equal(whyUnenforceable({ $ref: "#/$defs/a", $defs: { a: map } }), why("$defs.a"));
  for (const additionalProperties of [true, false, {}, undefined])
    t.equal(whyUnenforceable({ type: "object", additionalProperties }), undefined);
  t.equal(whyUnenforceable({ ...map, properties: { a: {} } }), undefined, "it has named members");
  t.equal(whyUnenforceable({ type: "object", default: map, const: map, enum: [map], examples: [map] }), undefined);
  t.equal(whyUnenforceable({ properties: { additionalProperties: { type: "string" } } }), undefined, "a name");
});

function enforceable(schema: JsonObject | string) {
  const changed: string[] = [];
  const change = (path: string, why: string) => changed.push(`${path}: ${why}`);
  const context = { change };
  const before = new RawJson(typeof schema === "string" ? schema : JSON.stringify(schema));
  const after = enforceableSchema(before, "format", context as unknown as EncodeContext);
  return { after: after.value, text: after.text, same: after === before, changed };
}

t.test("a schema that the vendor can enforce is sent unchanged", async (t) => {
  const { same, changed } = enforceable({
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
  const { after, changed } = enforceable({
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

t.test("patterns that it cannot enforce are described, like that of an address by Zod", async (t) => {
  const patterned = (pattern: string) => enforceable({ type: "string", pattern }).after;
  for (const pattern of ["^(?:a|b)\\d{2}$", "^[^\\\\]+\\\\b$", "a?=b"])
    t.same(patterned(pattern), { type: "string", pattern });
  for (const pattern of ["^(?!\\.)a", "(?=a)", "(?<=a)b", "(?<!a)b", "\\bword", "(a)\\1", "(?<n>a)\\k<n>"])
    t.same(patterned(pattern), { type: "string", description: JSON.stringify({ pattern }) });
});

t.test("objects are closed and oneOf becomes anyOf, which is declared", async (t) => {
  const { after, changed } = enforceable({ oneOf: [{ type: "object", properties: {} }, { type: "string" }] });
  t.same(after, { anyOf: [{ type: "object", properties: {}, additionalProperties: false }, { type: "string" }] });
  t.same(changed, ["format: only the named members are allowed", "format: oneOf as anyOf"]);
});

t.test("an object with named members is closed, whatever its type and whatever its other members match", async (t) => {
  const properties = { a: { type: "string" } };
  for (const additionalProperties of [true, {}, { type: "integer" }])
    for (const type of ["object", ["object", "null"]]) {
      const { after, changed } = enforceable({ type, properties, additionalProperties });
      t.same(after, { type, properties, additionalProperties: false });
      t.same(changed, ["format: only the named members are allowed"]);
    }
  t.match(enforceable({ type: ["object", "null"] }).after, { additionalProperties: false });
});

t.test("beside anyOf, which is enforced, oneOf is described, whichever comes first", async (t) => {
  const oneOf = [{ type: "string" }];
  const anyOf = [{ type: "integer" }];
  const description = JSON.stringify({ oneOf });
  for (const schema of [
    { oneOf, anyOf },
    { anyOf, oneOf },
  ]) {
    const { after, changed } = enforceable(schema);
    t.same(after, { anyOf, description });
    t.same(changed, ["format: not enforced, only described to the model: oneOf"]);
  }
});

t.test("a property and a keyword may be named __proto__, and numbers keep their digits", async (t) => {
  const proto = '"__proto__":{"const":12345678901234567890}';
  const { text, changed } = enforceable(`{"properties":{${proto}},${proto},"maximum":12345678901234567890}`);
  const told = `{${proto},"maximum":12345678901234567890}`;
  t.equal(text, `{"properties":{${proto}},"additionalProperties":false,"description":${JSON.stringify(told)}}`);
  t.match(changed[1], /described to the model: __proto__, maximum/);
});

t.test("keywords below long names take little memory: a notice names few of them", async (t) => {
  const properties = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`p${i}`, { minLength: 1 }]));
  let schema: JsonObject = { properties };
  // As long as the body of a request may have them.
  for (let level = 0; level < 10; level++) schema = { properties: { ["n".repeat(60_000)]: schema } };
  const raw = new RawJson(JSON.stringify(schema));
  let [taken, notice] = [0, ""];
  const before = process.memoryUsage().heapUsed;
  const change = (_: string, why: string) => {
    if (!why.startsWith("not enforced")) return;
    taken = process.memoryUsage().heapUsed - before;
    notice = why;
  };
  enforceableSchema(raw, "format", { change } as EncodeContext);
  t.ok(notice.endsWith(" and 995 more"));
  t.ok(taken < 200 * 1024 * 1024, `${taken} bytes`);
});
