import { readFileSync } from "node:fs";
import { waitForUpdate } from "@pydantic/genai-prices";
import t from "tap";
import { extractGenai, genaiExtractText } from "../../src/prices/genai-extract.ts";
import type { GenaiVendor } from "../../src/prices/genai-table.ts";
import { VENDORS } from "../../src/prices/vendors.ts";

const text = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

t.test("the committed extract and notice are those of the installed package: npm run prices makes them", async (t) => {
  const { version } = JSON.parse(text("node_modules/@pydantic/genai-prices/package.json")) as { version: string };
  const cut = extractGenai((await waitForUpdate()) as unknown as GenaiVendor[], version, VENDORS);
  t.ok(text("src/prices/genai.json") === genaiExtractText(cut));
  t.equal(text("src/prices/genai.LICENSE"), text("node_modules/@pydantic/genai-prices/LICENSE"));
});

t.test("other vendors, and descriptions for people, are left out", async (t) => {
  const model = { id: "m", match: { starts_with: "m" }, prices: { input_mtok: 1 } };
  const all = [
    { id: "known", name: "Known", models: [{ ...model, description: "long", context_window: 9 }] },
    { id: "other", models: [model] },
  ];
  const cut = extractGenai(all, "1.2.3", ["known"]);
  t.same(cut, { version: "1.2.3", vendors: [{ id: "known", models: [{ ...model, context_window: 9 }] }] });
});

t.test("a rule that matches the model's id alone is left out", async (t) => {
  const models = [{ equals: "m" }, { or: [{ equals: "m" }] }, { or: [{ equals: "m" }, { equals: "n" }] }].map(
    (match) => ({ id: "m", match, prices: {} }),
  );
  const [vendor] = extractGenai([{ id: "known", models }], "1", ["known"]).vendors;
  t.same(
    vendor?.models.map(({ match }) => match),
    [undefined, undefined, { or: [{ equals: "m" }, { equals: "n" }] }],
  );
});
