import t from "tap";
import protocol from "../../../../plugins/protocols/openai-images/index.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

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
