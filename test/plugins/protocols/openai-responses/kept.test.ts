import t from "tap";
import { kept } from "../../../../plugins/protocols/openai-responses/kept.ts";
import { Frame } from "../../../../src/wire/frame.ts";

t.test("a kept response is read, ended, deleted, and its input listed", async (t) => {
  const asked = {
    "GET resp_1": "retrieve",
    "DELETE resp_1": "delete",
    "GET resp_1/input_items": "input_items",
    "POST resp_1/cancel": "cancel",
  };
  for (const [request, name] of Object.entries(asked)) {
    const [method = "", rest = ""] = request.split(" ");
    const operation = kept.locate(method, rest);
    t.match(operation, { name, method, body: "none", generates: false, kept: "resp_1" });
    t.equal(operation?.upstream("any"), `/responses/${rest}`);
  }
});

t.test("nothing else is, and no id that could be another path", async (t) => {
  for (const [method, rest] of [
    ["POST", "resp_1"],
    ["DELETE", "resp_1/input_items"],
    ["GET", "resp_1/cancel"],
    ["GET", ""],
    ["GET", "resp_1/"],
    ["GET", "resp%2F1"],
    ["GET", "../models"],
    ["GET", "resp_1?x"],
    ["GET", "x".repeat(129)],
    ["constructor", "resp_1"],
  ] as const)
    t.equal(kept.locate(method, rest), undefined, `${method} ${rest}`);
});

t.test("the id is in the first event, or at the start of a whole response", async (t) => {
  const event = 'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n';
  t.equal(kept.id(new Frame("event", Buffer.from(event))), "resp_1");
  t.equal(kept.id(new Frame("piece", Buffer.from('{\n  "id": "resp_2",\n  "object"'))), "resp_2");
  t.equal(kept.id(new Frame("piece", Buffer.from('{"object":"response"'))), undefined);
  t.equal(kept.id(new Frame("event", Buffer.from("data: [DONE]\n\n"))), undefined);
});
