import t from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("what a coding agent says of its session goes upstream", async (t) => {
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

t.test("responses stream when asked; counting and compacting never do, and counting generates nothing", async (t) => {
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
});

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
