import t from "tap";
import { unknownModelMessage } from "../../src/text/key-models.ts";

t.test("a key may be limited to existing models, by ids or patterns", async (t) => {
  const message = (model: string) => unknownModelMessage(model, ["fast", "fast-2"]);
  t.equal(message("fast"), undefined);
  t.equal(message("fast-*"), undefined);
  t.equal(message("slow-*"), "no model matches slow-*.");
  t.equal(message("fsat"), 'unknown model "fsat", did you mean "fast"?');
});
