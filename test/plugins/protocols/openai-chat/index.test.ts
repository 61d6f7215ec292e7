import t from "tap";
import protocol from "../../../../plugins/protocols/openai-chat/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("it is the dialect for callers that show none", async (t) => {
  t.equal(protocol.isDefault, true);
});

t.test("its one operation generates, and streams when asked", async (t) => {
  const located = protocol.locate("/v1/chat/completions", "", new URLSearchParams());
  t.match(located?.operation, { name: "chat", body: "json", streams: "asked", framing: "sse", generates: true });
  t.equal(located?.operation.upstream("any"), "/chat/completions");
});

t.test("it recognises its path wherever it is mounted", async (t) => {
  for (const path of ["/chat/completions", "/v1/v1/chat/completions", "/v1beta/openai/chat/completions"]) {
    t.ok(protocol.recognises(path, new HeaderList()), path);
  }
  for (const path of ["/v1/completions", "/v1/chat/completionsx", "/v1/responses"]) {
    t.notOk(protocol.recognises(path, new HeaderList()), path);
  }
});

t.test("functions beside an effort belong to Responses; the newer models refuse them here", async (t) => {
  const tools = [{ type: "function", function: { name: "one" } }];
  const wants = (body: object) => protocol.better?.isNeededFor(body as Record<string, unknown>);
  t.equal(protocol.better?.protocol, "openai-responses");
  t.equal(wants({ tools, reasoning_effort: "low" }), true);
  t.equal(wants({ tools, reasoning_effort: "none" }), false);
  t.equal(wants({ tools }), false);
  t.equal(wants({ reasoning_effort: "low" }), false);
  t.equal(wants({ tools: [{ type: "custom", custom: { name: "one" } }], reasoning_effort: "low" }), false);
});
