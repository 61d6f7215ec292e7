import t from "tap";
import { genaiExtractText } from "../../src/prices/genai-extract.ts";
import { type StoredGenaiExtract, unpackGenai } from "../../src/prices/genai-table.ts";

t.test("what is stored is unpacked as it was", async (t) => {
  const constraint = { type: "start_date", start_date: "2026-01-01" } as const;
  const tiered = { base: 1, tiers: [{ start: 200_000, price: 2 }] };
  const models = [
    { id: "a", match: { starts_with: "a" }, context_window: 9, prices: { input_mtok: 1, output_mtok: 0 } },
    { id: "b", prices: { output_mtok: tiered } },
    { id: "c", prices: [{ prices: { input_mtok: 2 } }, { constraint, prices: { cache_read_mtok: 0.5 } }] },
    { id: "d", prices: {} },
  ];
  const extract = { version: "1", vendors: [{ id: "known", fallback_model_providers: ["other"], models }] };
  const stored = genaiExtractText(extract);
  t.same(unpackGenai(JSON.parse(stored) as StoredGenaiExtract), extract);
  t.match(stored, /^\["a",9,\[1,0\],\{"starts_with":"a"\}\],$/m, "one model per line");
});
