import t from "tap";
import { objectParameters } from "../../src/translation/schema-root.ts";
import { RawJson } from "../../src/wire/exact.ts";

const rewritten = (text: string) => objectParameters(new RawJson(text)).text;

t.test("parameters of an object keep their text", async (t) => {
  for (const text of ['{ "properties": {}, "type": "object" }', '{"type":"string"}']) t.equal(rewritten(text), text);
});

t.test("missing properties are added to an object", async (t) => {
  t.equal(rewritten('{ "type": "object" }'), '{"properties":{}, "type": "object" }');
  t.equal(rewritten('{"type":"object","properties":null,"x":1.5}'), '{"type":"object","properties":{},"x":1.5}');
  t.equal(rewritten('{"additionalProperties":{}}'), '{"type":"object","properties":{},"additionalProperties":{}}');
});

t.test("items are added to each array that has none", async (t) => {
  const inner = '{"type":["array","null"]},"items":{"type":"array","default":{"type":"array"}}';
  t.equal(
    rewritten(`{"type":"object","properties":{"a":${inner},"n":{"type":"string","maxLength":12345678901234567890}}}`),
    `{"type":"object","properties":{"a":{"type":["array","null"],"items":{}},"items":{"type":"array","default":{"type":"array"},"items":{}},"n":{"type":"string","maxLength":12345678901234567890}}}`,
  );
  t.equal(
    rewritten('{"properties":{"a":{"anyOf":[{"type":"array"}]}}}'),
    '{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{}}]}}}',
  );
  const whole = '{"type":"object", "properties":{"type":{"type":"array","items":{"enum":[{"type":"array"}]}}}}';
  t.equal(rewritten(whole), whole);
});

t.test("members that a vendor refuses at the root are described", async (t) => {
  const text = '{"description":"Which.","anyOf":[{"const":1.5}],"properties":{"a":{"anyOf":[]}},"not":{}}';
  const described = '"description":"Which.\\n\\n{\\"anyOf\\":[{\\"const\\":1.5}]}"';
  t.equal(
    objectParameters(new RawJson(text), ["oneOf", "anyOf"]).text,
    `{"type":"object","properties":{"a":{"anyOf":[]}},"not":{},${described}}`,
  );
  t.equal(objectParameters(new RawJson('{"anyOf":[]}'), ["allOf"]).text, '{"type":"object","anyOf":[]}');
});

t.test("a missing type is added", async (t) => {
  t.equal(rewritten('{ "properties": {} }'), '{"type":"object", "properties": {} }');
  t.equal(rewritten("{}"), '{"type":"object","properties":{}}');
  t.equal(
    rewritten('{"x":1.5,"type":["object","null"]}'),
    '{"properties":{},"x":1.5,"type":"object"}',
    "one of several",
  );
  t.equal(rewritten('{"type":null,"properties":{}}'), '{"type":"object","properties":{}}');
  t.equal(rewritten('{"type":["string","null"]}'), '{"type":["string","null"]}');
});

t.test("an object that the root refers to is moved to the root", async (t) => {
  const node = '{"properties":{"id":{"const":12345678901234567890},"next":{"$ref":"#/$defs/Node"}}}';
  t.equal(
    rewritten(`{"$ref":"#/$defs/Node","$defs":{"Node":${node}}}`),
    `${node.slice(0, -1)},"$defs":{"Node":${node}},"type":"object"}`,
  );
  t.equal(rewritten('{"$ref":"https://a/b"}'), '{"type":"object","$ref":"https://a/b"}');
});
