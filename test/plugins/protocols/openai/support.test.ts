import t from "tap";
import { SAMPLING_SETTINGS } from "../../../../plugins/protocols/openai/support.ts";
import type { Conversation, FeatureUse } from "../../../../src/translation/conversation.ts";
import { Fields } from "../../../../src/translation/fields.ts";
import { readSettings, writeSettings } from "../../../../src/translation/settings.ts";
import { terms } from "../openai-chat/fixture.ts";

function read(body: Record<string, unknown>) {
  const uses: FeatureUse[] = [];
  const into: Conversation = { protocol: "any", task: "generate", stream: false, turns: [], tools: [], uses };
  readSettings(SAMPLING_SETTINGS, new Fields(body, "", uses), into);
  return { into, uses: uses.map(({ feature, path }) => `${feature} ${path}`) };
}

const written = (body: Record<string, unknown>, context = terms()) =>
  writeSettings(SAMPLING_SETTINGS, read(body).into, context);

t.test("the newer name of the limit takes precedence over the older", async (t) => {
  const { into, uses } = read({ max_tokens: 1, max_completion_tokens: 2 });
  t.equal(into.maxTokens, 2);
  t.same(uses, ["max_tokens max_completion_tokens"]);
  t.equal(read({ max_tokens: 1, max_completion_tokens: null }).into.maxTokens, 1);
});

t.test("default values require no feature", async (t) => {
  t.same(read({ n: 1, stop: [], frequency_penalty: 0, presence_penalty: 0, logit_bias: {} }).uses, []);
  for (const top_k of [0, -1]) t.match(read({ top_k }), { uses: { length: 0 }, into: { topK: undefined } });
});

t.test("stop is one text or a list of them", async (t) => {
  t.same(read({ stop: "x" }).into.stop, ["x"]);
  t.same(read({ stop: ["x", "y"] }).into.stop, ["x", "y"]);
  t.throws(() => read({ stop: [1] }), { code: "invalid_field", param: "stop" });
  t.throws(() => read({ seed: "x" }), { code: "invalid_field", param: "seed" });
});

t.test("decoded settings are encoded under the newer names, except those that no other vendor supports", async (t) => {
  const body = { temperature: 1, top_p: 0.5, frequency_penalty: 0, presence_penalty: 1, seed: 7, n: 2 };
  const rest = { max_tokens: 5, stop: "x", top_k: 3, logit_bias: { 1: 2 } };
  t.same(written({ ...body, ...rest }, terms({}, "gpt-4o")), { ...body, max_completion_tokens: 5, stop: ["x"] });
  t.same(written({ ...body, ...rest }), { ...body, max_tokens: 5, stop: ["x"] }, "which only OpenAI's models take");
  t.same(written({ stop: [], n: 1 }), {}, "what is the default everywhere is left out");
});

t.test("what the vendor does not accept is refused, or dropped where its model accepts no sampling", async (t) => {
  const refused: [object, string][] = [
    [{ temperature: 2.5 }, "temperature"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ stop: ["a", "b", "c", "d", "e"] }, "stop"],
  ];
  for (const [body, param] of refused) t.throws(() => written({ ...body }), { code: "invalid_field", param });
  const context = terms({ sampling: false });
  t.same(written({ temperature: 1, top_p: 0.5, seed: 7 }, context), { seed: 7 });
  t.same(context.losses.dropped, ["temperature", "top_p"]);
});
