import t from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

const { storedResponses } = protocol;

t.test("a coding agent's session headers are sent upstream", async (t) => {
  for (const name of [
    "originator",
    "session-id",
    "session_id",
    "thread-id",
    "x-client-request-id",
    "x-codex-*",
    "x-openai-*",
  ]) {
    t.ok(protocol.headers.includes(name), name);
  }
});

t.test(
  "responses stream when requested; counting and compacting never do, and counting generates nothing",
  async (t) => {
    const operations = protocol.paths.map((path) => protocol.locate(path, "", new URLSearchParams())?.operation);
    t.same(
      operations.map((operation) => [
        operation?.name,
        operation?.upstream("any"),
        operation?.streams,
        operation?.generates,
      ]),
      [
        ["response", "/responses", "asked", true],
        ["input_tokens", "/responses/input_tokens", false, false],
        ["compact", "/responses/compact", false, true],
      ],
    );
  },
);

t.test("answers and counts are translated, compacting is not", async (t) => {
  const tasks = protocol.paths.map((path) => protocol.locate(path, "", new URLSearchParams())?.operation.task);
  t.same(tasks, ["generate", "count", undefined]);
  t.ok(protocol.translation?.count);
});

t.test("it recognises everything below its path", async (t) => {
  for (const path of ["/responses", "/v1/responses/resp_1/cancel", "/v1/v1/responses"]) {
    t.ok(protocol.recognises(path, new HeaderList()), path);
  }
  t.notOk(protocol.recognises("/v1/responsesx", new HeaderList()));
});

t.test("a stored response can be read, cancelled, deleted, and its input listed", async (t) => {
  const asked = {
    "GET resp_1": "retrieve",
    "DELETE resp_1": "delete",
    "GET resp_1/input_items": "input_items",
    "POST resp_1/cancel": "cancel",
  };
  for (const [request, name] of Object.entries(asked)) {
    const [method = "", rest = ""] = request.split(" ");
    const operation = storedResponses?.locate(method, rest);
    t.match(operation, { name, method, body: "none", generates: false, storedResponseId: "resp_1" });
    t.equal(operation?.upstream("any"), `/responses/${rest}`);
  }
});

t.test("nothing else can, nor can an id that could be another path", async (t) => {
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
    t.equal(storedResponses?.locate(method, rest), undefined, `${method} ${rest}`);
});
