import t from "tap";
import JsonSchema from "../../examples/json-schema.ts";
import { drive } from "../../src/testing.ts";

const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
/** How each protocol asks for it. */
const ASKED: Record<string, Record<string, unknown>> = {
  "openai-chat": { response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema } } },
  "openai-responses": { text: { format: { type: "json_schema", name: "place", strict: true, schema } } },
  "anthropic-messages": { output_config: { format: { type: "json_schema", schema } } },
  gemini: { generationConfig: { responseMimeType: "application/json", responseJsonSchema: schema } },
};

t.test(
  "a response is sent only when it matches the schema, in every protocol, streamed or whole, translated or not",
  async (t) => {
    await using driven = await drive(JsonSchema);
    t.same(driven.protocols.toSorted(), Object.keys(ASKED).toSorted());
    for (const protocol of driven.protocols)
      for (const model of ["any", ...driven.protocols])
        for (const stream of [false, true]) {
          const about = `${protocol} → ${model}, ${stream ? "streamed" : "whole"}`;
          const ask = (text: string) =>
            driven.ask({ protocol, model, stream, chunkBytes: 9, body: ASKED[protocol] ?? {} }, text);
          t.match(await ask('{"city":"Rome"}'), { status: 200, text: '{"city":"Rome"}', outcome: "completed" }, about);
          for (const [text, message] of [
            ['{"city":7}', /city \(invalid_type\)/],
            ['{"city":"Rome","more":1}', /unrecognized_keys/],
            ['{"city":"Ro', /it is no JSON/],
          ] as const) {
            const broken = await ask(text);
            t.match(broken, { status: 502, error: { code: "schema_broken", message } }, `${about}: ${text}`);
            t.notMatch(broken.body.toString(), /Ro/, "not a byte of it was sent");
          }
        }
  },
);

t.test(
  "calls, responses without a schema and errors pass; a schema that cannot be checked is refused at once",
  async (t) => {
    await using driven = await drive(JsonSchema, { options: { bytes: 5000 } });
    const body = ASKED["openai-chat"] ?? {};
    const called = await driven.ask({ protocol: "openai-chat", body }, { call: { name: "f", arguments: {} } });
    t.match(called, { status: 200, calls: [{ name: "f" }] });
    t.match(await driven.ask({ protocol: "openai-chat" }, "no JSON"), { status: 200, text: "no JSON" });
    t.match(await driven.ask({ protocol: "openai-chat", body }, { status: 400, body: { error: {} } }), { status: 400 });
    const large = await driven.ask({ protocol: "openai-chat", body }, JSON.stringify({ city: "x".repeat(6000) }));
    t.equal(large.status, 502);
    const odd = {
      generationConfig: {
        responseMimeType: "application/json",
        responseSchema: { type: "OBJECT", properties: { a: { type: "STRING", nullable: true } } },
      },
    };
    const google = (text: string) => driven.ask({ protocol: "gemini", body: odd }, text);
    t.match([await google('{"a":null}'), await google('{"a":1}')], [{ status: 200 }, { status: 502 }]);
    const strange = {
      response_format: { type: "json_schema", json_schema: { name: "a", schema: { type: "strange" } } },
    };
    t.match(await driven.ask({ protocol: "openai-chat", body: strange }), { status: 400, sent: { length: 0 } });
  },
);

t.test("a schema with a regular expression is refused, at any depth; a property of that name is not", async (t) => {
  await using driven = await drive(JsonSchema);
  const ask = (a: object) =>
    driven.ask(
      {
        protocol: "openai-chat",
        body: { response_format: { type: "json_schema", json_schema: { name: "x", schema: { properties: { a } } } } },
      },
      '{"a":{"pattern":"aaaaaaaa!"}}',
    );
  for (const patterned of [{ pattern: "^(a+)+$" }, { patternProperties: { "^(a+)+$": { type: "string" } } }]) {
    const error = { code: "invalid_field", message: /without pattern, patternProperties and __proto__/ };
    t.match(await ask(patterned), { status: 400, sent: { length: 0 }, error });
    t.match(await ask({ properties: { a: { type: "array", items: patterned } } }), {
      status: 400,
      sent: { length: 0 },
    });
  }
  t.match(await ask({ type: "object", properties: { pattern: { type: "string" } } }), { status: 200 });
});

t.test("no member __proto__ escapes the check: a schema with one is refused, and so is an answer", async (t) => {
  await using driven = await drive(JsonSchema);
  const ask = (json: string, text: string) => {
    const body = { response_format: { type: "json_schema", json_schema: { name: "x", schema: JSON.parse(json) } } };
    return driven.ask({ protocol: "openai-chat", body }, text);
  };
  const named = '{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}';
  t.match(await ask(named, "{}"), { status: 400, sent: { length: 0 }, error: { code: "invalid_field" } });
  const strict = '{"type":"object","properties":{"a":{"type":"array"}},"additionalProperties":false}';
  t.match(await ask(strict, '{"a":[]}'), { status: 200 });
  for (const text of ['{"a":[],"__proto__":{"b":1}}', '{"a":[{"\\u005f_proto__":7}]}'])
    t.match(await ask(strict, text), { status: 502, error: { message: /it has a member __proto__/ } }, text);
});

t.test("a schema that is long is refused, and few of many issues are reported", async (t) => {
  await using driven = await drive(JsonSchema);
  const ask = (schema: object, text: string) => {
    const body = { response_format: { type: "json_schema", json_schema: { name: "x", schema } } };
    return driven.ask({ protocol: "openai-chat", body }, text);
  };
  const error = { code: "invalid_field", message: /of 100000 characters/ };
  t.match(await ask({ enum: ["a".repeat(100_000)] }, '"a"'), { status: 400, sent: { length: 0 }, error });
  t.equal((await ask({ enum: ["a".repeat(90_000), "a"] }, '"a"')).status, 200);
  t.match(await ask({ type: "array", prefixItems: Array(5000).fill({}) }, "[]"), { status: 400, sent: { length: 0 } });
  t.equal(
    (await ask({ type: "array", prefixItems: Array(4900).fill({}) }, JSON.stringify(Array(4900).fill(1)))).status,
    200,
  );
  const wrong = await ask({ type: "array", items: { type: "string" } }, JSON.stringify(Array(50).fill(7)));
  t.match(wrong, { status: 502, error: { message: /schema: (?:\d \(invalid_type\)(?:, |\.$)){5}$/ } });
});

t.test("a check that has no end is given up", async (t) => {
  await using driven = await drive(JsonSchema);
  const steps = Array.from({ length: 60 }, (_, n) => [
    `d${n}`,
    { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
  ]);
  const $defs = { ...Object.fromEntries(steps), d60: { type: "string" } };
  const body = {
    response_format: { type: "json_schema", json_schema: { name: "x", schema: { $ref: "#/$defs/d0", $defs } } },
  };
  const ask = (text: string) => driven.ask({ protocol: "openai-chat", body }, text);
  t.match(await ask("7"), { status: 502, error: { message: /cannot be checked in time/ } });
  t.match(await ask('"a word"'), { status: 200 });
});

t.test("the checks of many answers to one request have no more time than that of one", async (t) => {
  await using driven = await drive(JsonSchema);
  // Two answers take a tenth of the time, many several times as much.
  const steps = Array.from({ length: 7 }, (_, n) => [
    `d${n}`,
    { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
  ]);
  const $defs = { ...Object.fromEntries(steps), d7: { type: "string" } };
  const schema = { type: "array", items: { anyOf: [{ $ref: "#/$defs/d0" }, { type: "number" }] }, $defs };
  const body = { n: 128, response_format: { type: "json_schema", json_schema: { name: "x", schema } } };
  const message = { role: "assistant", content: JSON.stringify(Array(50).fill(7)) };
  const choices = (count: number) => ({
    status: 200,
    body: { choices: Array.from({ length: count }, (_, index) => ({ index, message, finish_reason: "stop" })) },
  });
  const ask = (count: number) => driven.ask({ protocol: "openai-chat", body }, choices(count));
  t.match(await ask(2), { status: 200 });
  t.match(await ask(128), { status: 502, error: { message: /cannot be checked in time/ } });
});

t.test("a check that only waited for the processor is repeated", async (t) => {
  await using driven = await drive(JsonSchema);
  const member = "read_by_the_check_of_a_test";
  let reads = 0;
  // Sleeps longer than a check may take, as on a machine that runs other processes.
  const get = () => {
    if (reads++ === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    return "a word";
  };
  // The schema's own member of that name is set as if there were no such getter.
  function set(this: object, value: unknown) {
    Object.defineProperty(this, member, { value, writable: true, enumerable: true, configurable: true });
  }
  Object.defineProperty(Object.prototype, member, { get, set, configurable: true });
  t.teardown(() => Reflect.deleteProperty(Object.prototype, member));
  const schema = { type: "object", properties: { [member]: { type: "string" } }, required: [member] };
  const body = { response_format: { type: "json_schema", json_schema: { name: "x", schema } } };
  t.match(await driven.ask({ protocol: "openai-chat", body }, "{}"), { status: 200 });
  t.equal(reads > 1, true);
});
