import t from "tap";
import { decodeRequest } from "../../../../plugins/protocols/openai-completions/request.decode.ts";
import { fields } from "../../../../plugins/protocols/openai-completions/support.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { recorded } from "../../../support/recorded.ts";
import { asked } from "../openai-chat/fixture.ts";

const read = (body: object) => runAtOnce(decodeRequest(asked({ model: "m", prompt: "Once", ...body })));

t.test("a prompt is the text of a user", async (t) => {
  const turns = [{ role: "user", at: "prompt", parts: [{ kind: "text", text: "Once", at: "prompt" }] }];
  t.same(read({}).turns, turns);
  t.same(read({ prompt: ["Once"] }).turns, turns);
});

t.test("members declare the features that they require", async (t) => {
  const conversation = read({
    max_tokens: 5,
    stop: ["x"],
    n: 2,
    logprobs: 3,
    user: "u",
    echo: true,
    stream_options: {},
    odd: 1,
  });
  t.match(conversation, { maxTokens: 5, stop: ["x"], choices: 2, logprobs: 3, user: "u" });
  t.same(conversation.uses.map(({ feature, path }) => `${feature} ${path}`).sort(), [
    "choices n",
    "cosmetic stream_options",
    "logprobs logprobs",
    "max_tokens max_tokens",
    "other odd",
    "stop stop",
    "user user",
  ]);
});

t.test("what no chat model can do is refused with the client's path", async (t) => {
  const refused = (body: object, param: string) => t.throws(() => read(body), { code: "invalid_field", param }, param);
  refused({ prompt: [1, 2, 3] }, "prompt");
  refused({ prompt: [[1], [2]] }, "prompt");
  refused({ prompt: ["a", "b"] }, "prompt");
  refused({ prompt: undefined }, "prompt");
  refused({ suffix: "the end" }, "suffix");
  refused({ best_of: 3 }, "best_of");
});

t.test("every recorded request is decoded, or refused for its prompt or suffix", async (t) => {
  const known = new Set(fields.map(([, feature]) => feature));
  for (const { id, request, status } of recorded("openai-completions")) {
    if (!request || status >= 300) continue;
    try {
      for (const { feature } of runAtOnce(decodeRequest(asked(request))).uses)
        t.ok(known.has(feature), `${id} ${feature}`);
    } catch (error) {
      t.match((error as { param?: string }).param, /^(prompt|suffix)$/, id);
    }
  }
});
