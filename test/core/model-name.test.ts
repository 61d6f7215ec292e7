import t from "tap";
import { Body } from "../../src/core/body.ts";
import { checkModel, isSameModel, modelEdits, readModel } from "../../src/core/model-name.ts";
import { scan } from "../../src/wire/json.ts";

const bodyOf = (text: string): Body => new Body([Buffer.from(text)], scan(Buffer.from(text)));
const model = (json: string): Body => bodyOf(`{"model":${json}}`);

t.test("a model's name is compared exactly", async (t) => {
  for (const name of [
    "fast",
    "org/model:v1@2",
    "../../admin",
    "http://evil/x",
    "gpt-4о",
    "gpt-e\u0301",
    "a b",
    "😀",
    "x".repeat(256),
  ])
    t.equal(readModel(model(JSON.stringify(name))), name);
  t.equal(readModel(model('"\\u0066ast"')), "fast");
  t.equal(readModel(bodyOf('{"Model":"dear","model":"cheap"}')), "cheap");
});

t.test("a body that names the model already stays as it is", async (t) => {
  for (const json of ['"7"', "7", "null"]) t.equal(modelEdits(model(json), "7").length, json === '"7"' ? 0 : 1, json);
  t.strictSame(modelEdits(bodyOf("[]"), "7"), []);
});

t.test("refuses an invalid model, and explains how to correct it", async (t) => {
  for (const [body, message] of [
    [bodyOf("{}"), /names no model/],
    [model("1"), "model must be a string, not a number."],
    [model("null"), "model must be a string, not null."],
    [model('["a","b"]'), "model must be a string, not an array."],
    [model("{}"), "model must be a string, not an object."],
    [model('""'), /model is empty/],
    [model('" gpt-x "'), /white space/],
    [model('"gpt-x\\u00a0"'), /white space/],
    [model('"gpt\\u0000x"'), /control character/],
    [model('"gpt\\r\\nX: y"'), /control character/],
    [model('"gpt\u0085x"'), /control character/],
    [model('"\\ud800"'), /surrogate/],
    [model(JSON.stringify("x".repeat(257))), /longer than 256 bytes/],
    [model(JSON.stringify("é".repeat(129))), /longer than 256 bytes/],
    [model(JSON.stringify("x".repeat(100_000))), /longer than 256 bytes/],
  ] as const)
    t.throws(() => readModel(body), { code: "invalid_field", status: 400, param: "model", message });
});

t.test("a name in another place is validated the same way", async (t) => {
  t.equal(checkModel("vendor/any:thing 1"), "vendor/any:thing 1");
  for (const name of ["", " a", "a\n", "a\0b", "\ud800", "x".repeat(257)])
    t.throws(() => checkModel(name), { code: "invalid_field", param: "model" });
});

t.test("of a form, it is the value of the field", async (t) => {
  t.equal(readModel(new Body([Buffer.from("--x painter --x")], undefined, { start: 4, end: 11 })), "painter");
});

t.test("two bodies contain their model at the same place, or not", async (t) => {
  const asks = (json: string): Body => bodyOf(`{ "n":1, ${json} }`);
  t.ok(isSameModel(asks('"model":"a"'), asks('"b":2,"model":"a"')));
  t.ok(isSameModel(asks('"b":1'), asks('"c":1')));
  t.notOk(isSameModel(asks('"model":"a"'), asks('"model":"b"')));
  t.notOk(isSameModel(asks('"model":"a"'), asks('"b":1')));
});
