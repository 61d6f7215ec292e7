import t from "tap";
import { ending } from "../../../../plugins/protocols/openai-images/stream.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { asEvent } from "../../../support/openai-recordings.ts";

t.test("a completed picture makes a stream whole, a partial one does not", async (t) => {
  t.equal(ending(asEvent({ type: "image_generation.completed", b64_json: "aGk=" })), "complete");
  t.equal(ending(asEvent({ b64_json: "aGk=", type: "image_edit.completed" })), "complete");
  t.equal(ending(asEvent({ type: "image_generation.partial_image", b64_json: "aGk=" })), undefined);
});

t.test("the event's name counts where the data has no type", async (t) => {
  t.equal(ending(new Frame("event", Buffer.from("event: image_edit.completed\ndata: {}\n\n"))), "complete");
});

t.test("an error is a failure", async (t) => {
  t.equal(ending(asEvent({ type: "error", error: { message: "no" } })), "error");
});

t.test("a prompt that speaks of an end does not end anything", async (t) => {
  t.equal(ending(asEvent({ type: "image_edit.partial_image", revised_prompt: "image_edit.completed" })), undefined);
});
