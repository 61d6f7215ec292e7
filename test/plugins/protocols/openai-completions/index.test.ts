import t from "tap";
import protocol from "../../../../plugins/protocols/openai-completions/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("its one operation generates, and streams when asked", async (t) => {
  const located = protocol.locate("/v1/completions", "", new URLSearchParams());
  t.match(located?.operation, { name: "completion", body: "json", streams: "asked", framing: "sse", generates: true });
  t.equal(located?.operation.upstream("any"), "/completions");
});

t.test("it recognises its path, and leaves chat's alone", async (t) => {
  for (const path of ["/completions", "/v1/completions", "/v1/completions/"]) {
    t.ok(protocol.recognises(path, new HeaderList()), path);
  }
  t.notOk(protocol.recognises("/v1/chat/completions", new HeaderList()));
});
