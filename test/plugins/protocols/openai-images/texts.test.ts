import t from "tap";
import { texts } from "../../../../plugins/protocols/openai-images/texts.ts";
import { jsonOf, recorded } from "../../../support/recorded.ts";

t.test("a request's text is its prompt", async (t) => {
  t.same([...texts.request({ prompt: "a red kite", model: "any" })], [{ path: ["prompt"], kind: "user" }]);
  for (const body of [undefined, null, [], {}, { prompt: ["x"] }]) t.same([...texts.request(body)], []);
});

t.test("an answer's are the prompts as the vendor revised them, streamed or whole", async (t) => {
  t.same(
    [...texts.response({ data: [{ b64_json: "aGk=" }, { revised_prompt: "A kite." }, null] })],
    [{ path: ["data", 1, "revised_prompt"], kind: "assistant" }],
  );
  const event = { type: "image_generation.completed", b64_json: "aGk=", revised_prompt: "A kite." };
  t.same([...texts.response(event)], [{ path: ["revised_prompt"], kind: "assistant" }]);
  for (const json of [undefined, null, [], { data: {} }, { type: "error", error: {} }])
    t.same([...texts.response(json)], []);
});

t.test("every revised prompt of the recordings is found", async (t) => {
  for (const { body } of recorded("openai-images")) {
    const told = [...body.matchAll(/"revised_prompt": *"./g)].length;
    t.equal([...texts.response(jsonOf(body))].length, told);
  }
});
