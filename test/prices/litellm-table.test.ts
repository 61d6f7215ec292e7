import t from "tap";
import { unpackLiteLlm } from "../../src/prices/litellm-table.ts";

t.test("each name of a stored model has its facts, without what is unknown", (t) => {
  const stored = {
    version: "1",
    abilities: ["tools", "vision"],
    models: [
      [["a:one", "a:two"], [1], 1000, null, { input: 1, output: 2 }],
      [["a:three"], [], null, 50],
    ],
  } as const;
  const model = { context: 1000, can: ["vision"], price: { input: 1, output: 2 } };
  t.same(unpackLiteLlm(stored), {
    version: "1",
    models: { "a:one": model, "a:two": model, "a:three": { output: 50 } },
  });
  t.end();
});
