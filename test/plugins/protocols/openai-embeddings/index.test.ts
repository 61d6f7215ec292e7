import t from "tap";
import protocol from "../../../../plugins/protocols/openai-embeddings/index.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("its name is its folder's", async (t) => {
  t.equal(protocol.name, "openai-embeddings");
});

t.test("a path it does not list is none of its operations", async (t) => {
  for (const path of ["/v1", "/v1/models", `${protocol.paths[0]}/x`, "constructor"]) {
    t.equal(protocol.locate(path, "", new URLSearchParams()), undefined);
  }
});

t.test("a provider sees the credential as a bearer token", async (t) => {
  t.same(protocol.credential("secret"), ["authorization", "Bearer secret"]);
});

t.test("headers that name the client's organisation stay here", async (t) => {
  const passes = (name: string) =>
    protocol.headers.some((entry) => (entry.endsWith("*") ? name.startsWith(entry.slice(0, -1)) : entry === name));
  for (const name of ["openai-organization", "openai-project", "authorization", "cookie", "host"])
    t.notOk(passes(name), name);
  for (const name of ["openai-beta", "idempotency-key", "x-stainless-os"]) t.ok(passes(name), name);
});

t.test("its one operation never streams", async (t) => {
  const located = protocol.locate("/v1/embeddings", "", new URLSearchParams());
  t.match(located?.operation, { name: "embeddings", body: "json", streams: false, generates: true });
  t.equal(located?.operation.upstream("any"), "/embeddings");
});

t.test("it recognises its path", async (t) => {
  t.ok(protocol.recognises("/engines/e/embeddings", new HeaderList()));
  t.notOk(protocol.recognises("/v1beta/models/m:batchEmbedContents", new HeaderList()));
});

t.test("where nothing streams no frame ends anything", async (t) => {
  const frame = new Frame("piece", Buffer.from('{"usage":{"prompt_tokens":1},"error":{}}'));
  t.equal(protocol.ending(frame), undefined);
  t.equal(protocol.holdsUsage(frame), false);
});
