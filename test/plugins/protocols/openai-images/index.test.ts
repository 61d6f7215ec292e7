import t from "tap";
import protocol from "../../../../plugins/protocols/openai-images/index.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { asEvent } from "../../../support/recorded.ts";

const { ending } = protocol;

t.test("images from prompts come as JSON, images from images as forms", async (t) => {
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

t.test("it recognises its three paths and no other image path", async (t) => {
  for (const path of ["/images/generations", "/v1/images/edits", "/v1/images/variations"]) {
    t.ok(protocol.recognises(path, new HeaderList()), path);
  }
  t.notOk(protocol.recognises("/images/logo.png", new HeaderList()));
});

t.test("a completed image makes a stream complete, a partial one does not", async (t) => {
  t.equal(ending(asEvent({ type: "image_generation.completed", b64_json: "aGk=" })), "complete");
  t.equal(ending(asEvent({ type: "image_generation.completed", moderation: { error: {} } })), "complete");
  t.equal(ending(asEvent({ b64_json: "aGk=", type: "image_edit.completed" })), "complete");
  t.equal(ending(asEvent({ type: "image_generation.partial_image", b64_json: "aGk=" })), undefined);
});

t.test("the event's name counts where the data has no type", async (t) => {
  t.equal(ending(new Frame("event", Buffer.from("event: image_edit.completed\ndata: {}\n\n"))), "complete");
});

t.test("an error is a failure", async (t) => {
  t.equal(ending(asEvent({ type: "error", error: { message: "no" } })), "error");
});

t.test("a prompt that mentions an end does not end anything", async (t) => {
  t.equal(ending(asEvent({ type: "image_edit.partial_image", revised_prompt: "image_edit.completed" })), undefined);
});
