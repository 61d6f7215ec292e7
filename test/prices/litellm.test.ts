import { statSync } from "node:fs";
import t from "tap";
import { litellmModel, litellmVersion } from "../../src/prices/litellm.ts";

t.test("the table is small, has its version, and its notice is there", async (t) => {
  t.match(litellmVersion(), /^\d+\.\d+\.\d+/);
  const size = (name: string) => statSync(new URL(`../../src/prices/${name}`, import.meta.url)).size;
  t.ok(size("litellm.json") < 600_000);
  t.ok(size("litellm.LICENSE") > 1000);
});

t.test("a model is found by the vendor's name, with a date too; others are not", async (t) => {
  t.match(litellmModel("openai", "gpt-5.4-mini"), { output: 128_000, price: { input: 0.75, batch: { input: 0.375 } } });
  t.same(litellmModel("openai", "gpt-5.4-mini-2026-03-01"), litellmModel("openai", "gpt-5.4-mini"));
  const audio = litellmModel("openai", "gpt-4o-audio-preview");
  t.same(audio, litellmModel("openai", "gpt-4o-audio-preview-2025-06-03"), "the latest date, where there is no other");
  t.match(audio, { price: { input_audio: 40, output_audio: 80 } });
  t.match(litellmModel("google", "gemini-3.1-pro-preview"), { price: { above: [{ tokens: 200_000, input: 4 }] } });
  t.equal(litellmModel("openai", "gpt-5.4-mini-foo"), undefined);
  t.equal(litellmModel("openai", "claude-opus-5"), undefined, "each vendor has its own");
  t.equal(litellmModel("__proto__", "x"), undefined);
});
