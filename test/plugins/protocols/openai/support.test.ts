import t from "tap";
import { readSampling } from "../../../../plugins/protocols/openai/support.ts";
import { type Conversation, type FeatureUse } from "../../../../src/translation/conversation.ts";
import { Fields } from "../../../../src/translation/fields.ts";

function read(body: Record<string, unknown>) {
  const uses: FeatureUse[] = [];
  const into: Conversation = { protocol: "any", task: "generate", stream: false, turns: [], tools: [], uses: uses };
  const forms: Record<string, unknown> = {};
  readSampling(new Fields(body, "", uses), into, forms);
  return { into, forms, uses: uses.map(({ feature, path }) => `${feature} ${path}`) };
}

t.test("the newer name of the limit goes before the older", async (t) => {
  const { into, forms, uses } = read({ max_tokens: 1, max_completion_tokens: 2 });
  t.equal(into.maxTokens, 2);
  t.same(forms, { max: "max_completion_tokens" });
  t.same(uses, ["max_tokens max_completion_tokens"]);
});

t.test("what is as usual is not said", async (t) => {
  t.same(read({ n: 1, stop: [], frequency_penalty: 0, presence_penalty: 0, logit_bias: {} }).uses, []);
});

t.test("stop is one text or a list of them", async (t) => {
  t.same(read({ stop: "x" }).into.stop, ["x"]);
  t.same(read({ stop: ["x", "y"] }).into.stop, ["x", "y"]);
  t.throws(() => read({ stop: [1] }), { code: "invalid_field", param: "stop" });
  t.throws(() => read({ seed: "x" }), { code: "invalid_field", param: "seed" });
});
