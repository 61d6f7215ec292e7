import t from "tap";
import { FEATURES, type Feature, type SupportTable, supportOf } from "../../src/translation/features.ts";

t.test("a feature's support has its note, where there is one", async (t) => {
  const support = { seed: "dropped", stop: ["refused", "it cannot stop"] } as unknown as SupportTable;
  t.same(supportOf(support, "seed"), { support: "dropped" });
  t.same(supportOf(support, "stop"), { support: "refused", note: "it cannot stop" });
});

t.test("every feature has a description", async (t) => {
  const features = Object.keys(FEATURES) as Feature[];
  for (const feature of features) t.match(FEATURES[feature], /^[a-z].*[a-z]$/i, feature);
  t.equal(new Set(features.map((feature) => FEATURES[feature])).size, features.length);
});
