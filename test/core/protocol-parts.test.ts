import t from "tap";
import { bearer, eventBytes, fixedPaths, post } from "../../src/core/protocol-parts.ts";
import { Frame } from "../../src/wire/frame.ts";

t.test("a credential is sent as a bearer token", async (t) => {
  t.same(bearer("secret"), ["authorization", "Bearer secret"]);
});

t.test("an event is parsed to what was written", async (t) => {
  const named = new Frame("event", eventBytes({ text: "a\n\nb" }, "note"));
  t.same([named.event, named.json()], ["note", { text: "a\n\nb" }]);
  t.equal(eventBytes({ a: 1 }).toString(), 'data: {"a":1}\n\n');
});

t.test("an operation is a POST of JSON that streams on request, by default", async (t) => {
  const plain = post("chat", "/chat");
  t.match(plain, { name: "chat", method: "POST", body: "json", streams: "asked", framing: "sse", generates: true });
  t.equal(plain.upstream("any"), "/chat");
  t.match(post("count", "/count", { streams: false, generates: false }), { streams: false, generates: false });
});

t.test("each fixed path has its operation, and no other path has one", async (t) => {
  const { paths, locate } = fixedPaths({ "/v1/a": post("a", "/a"), "/v1/b": post("b", "/b") });
  t.same(paths, ["/v1/a", "/v1/b"]);
  t.equal(locate("/v1/b", "", new URLSearchParams())?.operation.name, "b");
  for (const path of ["/v1", "/v1/a/", "constructor"]) t.equal(locate(path, "", new URLSearchParams()), undefined);
});
