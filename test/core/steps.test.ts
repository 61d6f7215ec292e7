import t from "tap";
import { REFUSALS } from "../../src/core/errors.ts";
import { PHASES } from "../../src/core/plugin.ts";
import { STEPS } from "../../src/core/steps.ts";

t.test(
  "the steps are the engine's two and then every phase in its order, and each ends requests in some way",
  async (t) => {
    t.same(Object.keys(STEPS), ["head", "path", ...PHASES]);
    const used = new Set(Object.values(REFUSALS).map(({ step }) => step));
    for (const step of Object.keys(STEPS)) t.ok(used.has(step as keyof typeof STEPS), step);
  },
);
