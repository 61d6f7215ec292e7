import t from "tap";
import { fields, support } from "../../../../plugins/protocols/openai-chat/support.ts";
import { FEATURES, supportOf } from "../../../../src/translation/features.ts";

t.test("each field names a feature that there is", async (t) => {
  for (const [field, feature] of fields) t.ok(Object.hasOwn(FEATURES, feature), field);
});

t.test("of the features that its own requests have, these it refuses from others", async (t) => {
  const own = new Set(fields.map(([, feature]) => feature));
  const refused = [...own].filter((feature) => supportOf(support, feature).support === "refused");
  t.same(refused.sort(), ["audio_out", "cache_handle", "file_url", "logit_bias", "store", "tools_server_needed"]);
});
