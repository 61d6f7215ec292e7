import t from "tap";
import { INPUT_TOKENS, RESPONSE } from "../../../../plugins/protocols/openai-responses/request.operations.ts";

t.test("one asks for an answer, one counts", async (t) => {
  t.same([RESPONSE.task, RESPONSE.upstream("any")], ["generate", "/responses"]);
  t.same([INPUT_TOKENS.task, INPUT_TOKENS.upstream("any")], ["count", "/responses/input_tokens"]);
  t.same([INPUT_TOKENS.streams, INPUT_TOKENS.generates], [false, false]);
});
