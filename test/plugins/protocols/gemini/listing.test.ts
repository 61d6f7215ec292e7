import t from "tap";
import { listing } from "../../../../plugins/protocols/gemini/listing.ts";

const fast = {
  id: "acme/fast",
  name: "Fast",
  description: "Quick.",
  created: 1,
  context: 400_000,
  output: 8000,
  can: ["reasoning"],
  price: {},
};
const methods = ["generateContent", "streamGenerateContent", "countTokens"];

t.test("models are listed in the vendor's shape", async (t) => {
  const one = {
    name: "models/acme/fast",
    version: "1",
    displayName: "Fast",
    description: "Quick.",
    inputTokenLimit: 400_000,
    outputTokenLimit: 8000,
    supportedGenerationMethods: methods,
    thinking: true,
  };
  t.same(listing.list([fast]), { models: [one] });
  t.same(listing.one(fast), one);
});

t.test("what is not known of a model is left out", async (t) => {
  t.same(listing.one({ id: "echo", name: "Echo", created: 1, can: [], price: {} }), {
    name: "models/echo",
    version: "1",
    displayName: "Echo",
    supportedGenerationMethods: methods,
  });
});
