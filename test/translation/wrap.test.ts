import t from "tap";
import type { Event } from "../../src/translation/events.ts";
import { ResponseUnwrapper, type WrapKind, wrapFormat } from "../../src/translation/wrap.ts";
import { RawJson } from "../../src/wire/exact.ts";
import { at, candidate, chatStream, chunk, type Sent, send } from "../golden/sharp-cases.ts";
import { gathered } from "../support/gathered.ts";
import { hostileTexts, runLinear } from "../support/linear-work.ts";

const schemaOf = (schema: object, more = {}, objectsOnly = true) => {
  const wrapping = wrapFormat({ kind: "schema", schema: new RawJson(JSON.stringify(schema)), ...more }, objectsOnly);
  return wrapping && { schema: JSON.parse(wrapping.format.schema?.text ?? ""), wrapped: wrapping.wrapped };
};

t.test("an object is sent unchanged, and any schema where the vendor accepts all", async (t) => {
  for (const schema of [{ type: "object" }, { properties: { a: {} } }]) t.equal(schemaOf(schema), undefined);
  t.match(schemaOf({ $ref: "#/$defs/a", $defs: { a: { type: "array" } } }), { wrapped: "json" });
  t.equal(schemaOf({ type: "array" }, {}, false), undefined);
  t.equal(wrapFormat({ kind: "json" }, true), undefined);
  t.equal(wrapFormat(undefined, true), undefined);
});

t.test("an object that the root refers to is moved to the root", async (t) => {
  const node = { type: "object", properties: { next: { $ref: "#/$defs/Node" } } };
  const root = { $ref: "#/$defs/Node", $defs: { Node: node } };
  t.same(schemaOf(root), { schema: { ...node, $defs: { Node: node } }, wrapped: undefined });
  t.equal(schemaOf(root, {}, false), undefined);
  t.same(schemaOf({ $ref: "#/definitions/a", definitions: { a: { properties: {} } } })?.schema.properties, {});
});

t.test("any other schema is the only member of an object, and its references keep their targets", async (t) => {
  const schema = {
    type: "array",
    items: { anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#" }, { $ref: "#/items" }, { const: { $ref: 1 } }] },
    $defs: { a: { items: { $ref: "#" } } },
  };
  t.same(schemaOf(schema, { strict: true }), {
    wrapped: "json",
    schema: {
      type: "object",
      properties: {
        value: {
          type: "array",
          items: {
            anyOf: [
              { $ref: "#/$defs/a" },
              { $ref: "#/properties/value" },
              { $ref: "#/properties/value/items" },
              { const: { $ref: 1 } },
            ],
          },
        },
      },
      required: ["value"],
      additionalProperties: false,
      $defs: { a: { items: { $ref: "#/properties/value" } } },
    },
  });
  t.match(schemaOf({ type: "string", enum: ["a"] }, { isPlainText: true }, false), { wrapped: "text" });
});

function unwrapped(wrapped: WrapKind, pieces: readonly string[]): string {
  const unwrapper = new ResponseUnwrapper(wrapped);
  const events: Event[] = [
    { type: "open", block: 0, choice: 0, kind: "text" },
    ...pieces.map((text): Event => ({ type: "text", block: 0, text })),
    { type: "close", block: 0 },
  ];
  const out = events.flatMap((event) => unwrapper.unwrap(event));
  if (out.at(-1)?.type !== "close") throw new Error("The text is not closed.");
  return out.map((event) => (event.type === "text" ? event.text : "")).join("");
}

gathered(t, "the answer comes out as it was written, wherever it is cut", async (t) => {
  const values = ["[]", '[1, {"a":{"b":"}"}}, "} "]', '"x"', "12.50", "null", '{"deep":{"er":{}}}', '"\\u00e9 }\\""'];
  for (const value of values)
    for (const json of [`{"value":${value}}`, ` {\n  "value" : ${value}\n}\n`])
      for (let i = 0; i <= json.length; i++) {
        t.equal(unwrapped("json", [json.slice(0, i), json.slice(i)]), value, `${json} ${i}`);
        t.equal(unwrapped("json", [...json]), value);
      }
  for (const other of ["I cannot.", "[1]", "", '{"other":1}'.padEnd(300), '{"input":"x"}'])
    for (let i = 0; i <= other.length; i++)
      t.equal(unwrapped("json", [other.slice(0, i), other.slice(i)]), other, "other content stays unchanged");
  for (const json of ['{"value":"yes \\u00e9"}', '{ "value" : "yes é" }'])
    t.equal(unwrapped("text", [...json]), "yes é");
});

t.test("what is known not to be the object's end is passed on at once", async (t) => {
  const unwrapper = new ResponseUnwrapper("json");
  const pieces = ['{"value":', '[{"a":', "1}", ", 2", "]}"];
  unwrapper.unwrap({ type: "open", block: 0, choice: 0, kind: "text" });
  const out = pieces.map((text) => unwrapper.unwrap({ type: "text", block: 0, text }));
  t.same(
    out.map(([event]) => event?.type === "text" && event.text),
    [false, '[{"a":', "1", "}, 2", "]"],
  );
});

t.test("the time for white space at the end of an answer grows no faster than the answer", async (t) => {
  const [ending] = hostileTexts([" "], '{"value":[1]}', "") as [string];
  runLinear(() => t.equal(unwrapped("json", [ending]), "[1]"));
  const [spaces] = hostileTexts([" "], '{"value":[1]', "") as [string];
  runLinear(() => t.equal(unwrapped("json", [spaces]), spaces.slice('{"value":'.length)));
  const pieces = spaces.match(/.{1,10}/g) as string[];
  runLinear(() => t.equal(unwrapped("json", pieces), spaces.slice('{"value":'.length)));
  runLinear(() => t.equal(unwrapped("json", [...pieces, "}"]), "[1]"));
});

const LIST = { type: "ARRAY", items: { type: "STRING" } };
const asked = (responseMimeType: string, responseSchema: object) => ({
  contents: [{ role: "user", parts: [{ text: "Name some." }] }],
  generationConfig: { responseMimeType, responseSchema },
});
/** The text that a Gemini client gets of an answer, streamed in pieces and whole. */
const told = (sent: Sent, text: string) => {
  const chunks = [chunk({ role: "assistant", content: "" }), ...[...text].map((content) => chunk({ content }))];
  const values = sent.streamed(chatStream([...chunks, chunk({}, "stop")])).values;
  const choice = { index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" };
  const whole = sent.whole({ id: "c", object: "chat.completion", created: 1, model: "m", choices: [choice] });
  return [values.map((value) => at(value, "candidates.0.content.parts.0.text") ?? "").join(""), textIn(whole)];
};
const textIn = (answer: object) => at(answer as never, "candidates.0.content.parts.0.text");

t.test("a Gemini client gets a list and a bare value from a vendor that only answers objects", async (t) => {
  const list = send("gemini", asked("application/json", LIST), "openai-chat");
  t.match(at(list.body, "response_format.json_schema.schema"), { properties: { value: { type: "array" } } });
  const schema = at(send("gemini", asked("application/json", LIST), "openai-responses").body, "text.format.schema");
  t.match(schema, { type: "object", properties: { value: { type: "array" } } });
  t.same(told(list, '{"value": ["a", "b"]}'), ['["a", "b"]', '["a", "b"]']);
  const word = asked("text/x.enum", { type: "STRING", enum: ["red", "green"] });
  const wrapped = { type: "object", properties: { value: { type: "string", enum: ["red", "green"] } } };
  t.match(at(send("gemini", word, "openai-responses").body, "text.format.schema"), wrapped);
  t.match(at(send("gemini", word, "anthropic-messages").body, "output_config.format.schema"), wrapped);
  t.same(told(send("gemini", word, "openai-chat"), '{"value":"green"}'), ["green", "green"]);
  const held = "generationConfig.responseSchema: the schema is described to the model, not enforced";
  t.same([list.dropped, list.notices], [[], [held]]);
});

t.test("a vendor that accepts any schema gets it unchanged", async (t) => {
  const schema = { type: "array", items: { type: "string" } };
  const format = { type: "json_schema", json_schema: { name: "list", schema } };
  const sent = send("openai-chat", { messages: [{ role: "user", content: "x" }], response_format: format }, "gemini");
  t.same(at(sent.body, "generationConfig.responseJsonSchema"), schema);
  const answer = candidate([{ text: '["a"]' }], "STOP");
  t.equal(at(sent.whole(answer), "choices.0.message.content"), '["a"]');
});
