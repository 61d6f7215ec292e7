import t from "tap";
import protocol from "../../../../plugins/protocols/openai-embeddings/index.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("its one operation never streams", async (t) => {
  const located = protocol.locate("/v1/embeddings", "", new URLSearchParams());
  t.match(located?.operation, { name: "embeddings", body: "json", streams: false, generates: true });
  t.equal(located?.operation.upstream("any"), "/embeddings");
});

t.test("it recognises its path", async (t) => {
  t.ok(protocol.recognises("/engines/e/embeddings", new HeaderList()));
  t.notOk(protocol.recognises("/v1beta/models/m:batchEmbedContents", new HeaderList()));
});

t.test("without streams no frame ends anything", async (t) => {
  const frame = new Frame("piece", Buffer.from('{"usage":{"prompt_tokens":1},"error":{}}'));
  t.equal(protocol.ending(frame), undefined);
  t.equal(protocol.holdsUsage(frame), false);
});
