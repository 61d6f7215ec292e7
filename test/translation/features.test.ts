import t from "tap";
import { type Fates, FEATURES, type Feature, fateOf } from "../../src/translation/features.ts";

t.test("a fate is told with its note, where it has one", async (t) => {
  const fates = { seed: "dropped", stop: ["refused", "it cannot stop"] } as unknown as Fates;
  t.same(fateOf(fates, "seed"), { fate: "dropped" });
  t.same(fateOf(fates, "stop"), { fate: "refused", note: "it cannot stop" });
});

t.test("every feature says in words what it is", async (t) => {
  const features = Object.keys(FEATURES) as Feature[];
  for (const feature of features) t.match(FEATURES[feature], /^[a-z].*[a-z]$/i, feature);
  t.equal(new Set(features.map((feature) => FEATURES[feature])).size, features.length);
});
