import t from "tap";
import { fields, support } from "../../../../plugins/protocols/openai-chat/support.ts";
import { FEATURES, supportOf } from "../../../../src/translation/features.ts";

t.test("each field names an existing feature", async (t) => {
  for (const [field, feature] of fields) t.ok(Object.hasOwn(FEATURES, feature), field);
});

t.test("these features of its own requests it refuses from other protocols", async (t) => {
  const own = new Set(fields.map(([, feature]) => feature));
  const refused = [...own].filter((feature) => supportOf(support, feature).support === "refused");
  t.same(refused.sort(), [
    ..."audio_out cache_handle file_url foreign_media logit_bias store tools_server_needed video".split(" "),
  ]);
});
