import t from "tap";
import { normalizeSchema, openapiToJsonSchema } from "../../../../plugins/protocols/gemini/request.decode.tools.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { gathered } from "../../../support/gathered.ts";
import { read, recordedRequests, refusal, usesOf } from "./requests.ts";

const tools = (...list: unknown[]) => read({ contents: [], tools: list }).tools;
const choice = (functionCallingConfig: unknown) =>
  read({ contents: [], toolConfig: { functionCallingConfig } }).toolChoice;

t.test("functions are read with their schemas as JSON Schema", async (t) => {
  const schema = '{"type":"object","properties":{"a":{"minimum":1.0}}}';
  const { tools: both } = read(
    `{"contents":[],"tools":[{"function_declarations":[
      {"name":"f","description":"d","parametersJsonSchema":${schema}},
      {"name":"g","parameters":{"type":"OBJECT","properties":{"b":{"type":"INTEGER"}}}},
      {"name":"h"}]}]}`,
  );
  t.match(both, [
    {
      kind: "function",
      name: "f",
      description: "d",
      parameters: { text: schema },
      at: "tools.0.function_declarations.0",
    },
    { name: "g", parameters: { text: '{"type":"object","properties":{"b":{"type":"integer"}}}' } },
    { name: "h", parameters: undefined },
  ]);
});

t.test("Google Search is web search, any other tool is the vendor's own", async (t) => {
  t.match(tools({ googleSearch: { excludeDomains: ["a.com"] } }, { code_execution: {}, newTool: { a: 1 } }), [
    {
      kind: "web_search",
      blocked: ["a.com"],
      at: "tools.0.googleSearch",
      paths: { blocked: "tools.0.googleSearch.excludeDomains" },
      apart: true,
    },
    { kind: "server", protocol: "gemini", name: "code_execution", at: "tools.1.code_execution" },
    { kind: "server", name: "newTool", json: { a: 1 } },
  ]);
  const search = { googleSearch: { timeRangeFilter: {} } };
  t.same(usesOf({ tools: [search, { urlContext: {} }, { functionDeclarations: [{ name: "f", response: {} }] }] }), [
    "web_search tools.0.googleSearch",
    "other tools.0.googleSearch.timeRangeFilter",
    "tools_server tools.1.urlContext",
    "tools tools.2.functionDeclarations.0",
    "other tools.2.functionDeclarations.0.response",
  ]);
});

t.test("modes are a choice among tools", async (t) => {
  t.same(choice({ mode: "AUTO" }), { mode: "auto" });
  t.same(choice({ mode: "none" }), { mode: "none" });
  t.same(choice({ mode: "ANY" }), { mode: "required" });
  t.same(choice({ mode: "ANY", allowedFunctionNames: ["f"] }), { mode: "named", name: "f" });
  t.same(choice({ mode: "ANY", allowed_function_names: ["f", "g"] }), {
    mode: "allowed",
    required: true,
    names: ["f", "g"],
  });
  t.same(choice({ mode: "VALIDATED" }), { mode: "auto" });
  t.same(choice({ mode: "VALIDATED", allowedFunctionNames: ["f"] }), {
    mode: "allowed",
    required: false,
    names: ["f"],
  });
  t.equal(choice({}), undefined);
  t.match(
    refusal(() => choice({ mode: "SOME" })),
    { param: "toolConfig.functionCallingConfig.mode" },
  );
});

t.test("effects of a mode beyond the choice are declared", async (t) => {
  t.same(usesOf({ toolConfig: { functionCallingConfig: { mode: "VALIDATED" }, retrievalConfig: {} } }), [
    "tool_choice toolConfig.functionCallingConfig",
    "other toolConfig.functionCallingConfig.mode",
    "other toolConfig.retrievalConfig",
  ]);
});

const translated = (schema: unknown): string => openapiToJsonSchema(new RawJson(JSON.stringify(schema))).text;

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
    translated({ type: "INTEGER", minimum: 1, maximum: 2.5, minLength: 3 }),
    '{"type":"integer","minimum":1,"maximum":2.5,"minLength":3}',
  );
  t.equal(
    translated({ type: "INTEGER", maxLength: "9007199254740993" }),
    '{"type":"integer","maxLength":9007199254740993}',
  );
});

t.test("properties are in the requested order, the others after them", async (t) => {
  const properties = { a: { type: "STRING" }, b: { type: "BOOLEAN" }, c: { type: "NULL" } };
  const made = translated({ type: "OBJECT", properties, propertyOrdering: ["c", "a", "gone"], required: ["a"] });
  t.equal(
    made,
    '{"type":"object","properties":{"c":{"type":"null"},"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a"]}',
  );
  t.equal(translated({ properties, property_ordering: ["b"] }).indexOf('"b"'), 15);
});

t.test("alternatives or a list of values allow null, too", async (t) => {
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

t.test("an example becomes one of the examples, and unknown members stay", async (t) => {
  t.equal(translated({ type: "STRING", example: "x", "x-own": 1 }), '{"type":"string","x-own":1,"examples":["x"]}');
  t.equal(translated({ type: "TYPE_UNSPECIFIED", description: "STRING" }), '{"description":"STRING"}');
});

t.test("a property may be named like a keyword", async (t) => {
  t.equal(
    translated({
      type: "OBJECT",
      properties: { type: { type: "STRING" }, nullable: { type: "BOOLEAN" }, items: { type: "STRING" } },
    }),
    '{"type":"object","properties":{"type":{"type":"string"},"nullable":{"type":"boolean"},"items":{"type":"string"}}}',
  );
});

t.test("a JSON Schema keeps its own text", async (t) => {
  const text = '{ "type":"object","oneOf":[{"$ref":"#/$defs/a"}],\n "$defs":{"a":{"pattern":"^A+$","minimum":1.0}} }';
  t.equal(normalizeSchema(new RawJson(text)).text, text);
  const example = '{"type":"object","properties":{"type":{"type":"string","default":{"type":"OBJECT"}}}}';
  t.equal(normalizeSchema(new RawJson(example)).text, example);
});

t.test("types in upper case are not JSON Schema, wherever they are", async (t) => {
  const schema = { type: "OBJECT", properties: { a: { type: "ARRAY", items: { type: "STRING" } } } };
  t.equal(
    normalizeSchema(new RawJson(JSON.stringify(schema))).text,
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
    t.notMatch(normalizeSchema(new RawJson(JSON.stringify(schema))).text, /[A-Z]{4}/, JSON.stringify(schema));
});

const recorded = recordedRequests();

gathered(
  t,
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

t.test(
  "a property and a keyword may be named __proto__, and a value that should be a list stays unchanged",
  async (t) => {
    const proto = '"__proto__":{"type":"string"}';
    const schema = `{"type":"OBJECT","properties":{${proto}},${proto},"anyOf":{},"enum":"x"}`;
    t.equal(openapiToJsonSchema(new RawJson(schema)).text, schema.replace("OBJECT", "object"));
  },
);
