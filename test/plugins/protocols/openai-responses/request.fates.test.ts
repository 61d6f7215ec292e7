import t from "tap";
import { fields, support } from "../../../../plugins/protocols/openai-responses/support.ts";
import { FEATURES, supportOf } from "../../../../src/translation/features.ts";

t.test("what would change the answer is refused, not dropped", async (t) => {
  for (const feature of ["stop", "video", "audio_out", "logit_bias", "stored_state", "background", "store"] as const)
    t.equal(supportOf(support, feature).support, "refused", feature);
});

t.test(
  "each field says a feature that there is, and no field stands in the table twice with the same one",
  async (t) => {
    for (const [field, feature] of fields) t.ok(feature in FEATURES, field);
    t.equal(new Set(fields.map((row) => row.join())).size, fields.length);
  },
);
