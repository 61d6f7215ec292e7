import t from "tap";
import protocol from "../../../../plugins/protocols/openai-images/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("its name is its folder's", async (t) => {
  t.equal(protocol.name, "openai-images");
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

t.test("pictures from words come as JSON, pictures from pictures as forms", async (t) => {
  const operations = protocol.paths.map((path) => protocol.locate(path, "", new URLSearchParams())?.operation);
  t.same(
    operations.map((operation) => [operation?.name, operation?.upstream("any"), operation?.body, operation?.streams]),
    [
      ["generation", "/images/generations", "json", "asked"],
      ["edit", "/images/edits", "multipart", "asked"],
      ["variation", "/images/variations", "multipart", false],
    ],
  );
});

t.test("it recognises its three paths and no other picture", async (t) => {
  for (const path of ["/images/generations", "/v1/images/edits", "/v1/images/variations"]) {
    t.ok(protocol.recognises(path, new HeaderList()), path);
  }
  t.notOk(protocol.recognises("/images/logo.png", new HeaderList()));
});
