import t from "tap";
import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

const query = new URLSearchParams();

t.test("finds its two operations, wherever they are mounted", async (t) => {
  t.match(protocol.locate("/v1/messages", "", query), {
    operation: { name: "messages", streams: "asked", generates: true },
  });
  t.match(protocol.locate("/v1/messages/count_tokens", "", query), {
    operation: { name: "count_tokens", streams: false, generates: false },
  });
  t.match(protocol.locate("/eu/v1/messages", "", query), { operation: { name: "messages" } });
  t.equal(protocol.locate("/v1/messages/batches", "", query), undefined);
});

t.test("asks the provider below its version segment, whatever the model is called", async (t) => {
  t.same(
    protocol.paths.map((path) => protocol.locate(path, "", query)?.operation.upstream("any/model")),
    ["/messages", "/messages/count_tokens"],
  );
});

t.test("recognises its clients by their version header or by the path", async (t) => {
  const none = new HeaderList();
  t.ok(protocol.recognises("/", new HeaderList(["Anthropic-Version", "2023-06-01"])));
  t.ok(protocol.recognises("/v1/messages", none));
  t.ok(protocol.recognises("/messages/batches", none));
  t.notOk(protocol.recognises("/v1/chat/completions", none));
  t.notOk(protocol.recognises("/v1/messagesque", none));
});

t.test("shows the provider the key where its documents want it", async (t) => {
  t.same(protocol.credential("secret"), ["x-api-key", "secret"]);
});

t.test("sends a version upstream for clients that name none", async (t) => {
  t.same(protocol.defaults, [["anthropic-version", "2023-06-01"]]);
  t.ok(protocol.headers.includes("anthropic-version"));
});
