import t from "tap";
import { REFUSALS } from "../../src/core/errors.ts";
import { LIFE_STEPS } from "../../src/core/life-steps.ts";
import { PHASES } from "../../src/core/plugin.ts";

t.test("the steps are the engine's two and then every phase in order", async (t) => {
  t.same(Object.keys(LIFE_STEPS), ["head", "path", ...PHASES]);
});

t.test("requests can end at each step that documents it, and at no other", async (t) => {
  const used = new Set<string>(Object.values(REFUSALS).map(({ step }) => step));
  for (const [step, entry] of Object.entries(LIFE_STEPS)) t.equal(used.has(step), "ending" in entry, step);
});
