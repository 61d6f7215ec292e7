import t from "tap";
import { whyUnenforceable } from "../../../../plugins/protocols/anthropic-messages/support.schema.ts";

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
