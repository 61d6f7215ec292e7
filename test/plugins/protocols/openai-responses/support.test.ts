import t from "tap";
import { fields, support } from "../../../../plugins/protocols/openai-responses/support.ts";
import { FEATURES, supportOf } from "../../../../src/translation/features.ts";
import { INPUT, read, written } from "./requests.ts";

t.test("what would change the answer is refused, not dropped", async (t) => {
  for (const feature of ["stop", "video", "audio_out", "logit_bias", "stored_state", "background", "store"] as const)
    t.equal(supportOf(support, feature).support, "refused", feature);
});

t.test("each field declares an existing feature, and no field is in the table twice with the same one", async (t) => {
  for (const [field, feature] of fields) t.ok(feature in FEATURES, field);
  t.equal(new Set(fields.map((row) => row.join())).size, fields.length);
});

t.test("every setting is encoded as it was decoded", async (t) => {
  const body = {
    temperature: 0.5,
    top_p: 0.9,
    max_output_tokens: 100,
    parallel_tool_calls: false,
    text: {
      verbosity: "low",
      format: { type: "json_schema", name: "n", description: "d", schema: { type: "object" }, strict: true },
    },
    reasoning: { effort: "xhigh", summary: "concise" },
    metadata: { a: "b" },
    prompt_cache_key: "k",
    safety_identifier: "s",
    service_tier: "flex",
    include: ["reasoning.encrypted_content", "message.output_text.logprobs"],
    top_logprobs: 3,
    prompt_cache_options: { mode: "implicit", ttl: "30m" },
    tools: [{ type: "custom", name: "c" }],
    stream: true,
  };
  const { model: _, input: __, store, ...again } = written(read({ ...INPUT, ...body })).body;
  t.same(again, body);
  t.equal(store, false, "nothing is stored");
});
