import t from "tap";
import { INPUT_TOKENS, RESPONSE, requestsCompaction } from "../../../../plugins/protocols/openai-responses/wire.ts";

t.test("one operation generates, one counts", async (t) => {
  t.same([RESPONSE.task, RESPONSE.upstream("any")], ["generate", "/responses"]);
  t.same([INPUT_TOKENS.task, INPUT_TOKENS.upstream("any")], ["count", "/responses/input_tokens"]);
  t.same([INPUT_TOKENS.streams, INPUT_TOKENS.generates], [false, false]);
});

t.test("the last item can request a compaction", async (t) => {
  const hi = { role: "user", content: "Hi" };
  const trigger = { type: "compaction_trigger" };
  t.ok(requestsCompaction([hi, trigger]));
  for (const input of [[trigger, hi], [hi], [], "Hi", undefined]) t.notOk(requestsCompaction(input));
});
