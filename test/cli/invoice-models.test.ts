import t from "tap";
import { WEB_SEARCH_NAME } from "../../src/cli/billed-parts.ts";
import { InvoiceModels, withoutDate } from "../../src/cli/invoice-models.ts";

t.test("the date of a version is not part of a model's name", async (t) => {
  t.same(
    ["gpt-4o-2024-08-06", "claude-sonnet-4-5-20250929", "Claude 3.5 Sonnet 2024-10-22", "gemini-flash-latest"].map(
      withoutDate,
    ),
    ["gpt-4o", "claude-sonnet-4-5", "claude-3-5-sonnet", "gemini-flash"],
  );
});

t.test("an invoice's model is found with and without its version's date, and by its display name", async (t) => {
  const models = new InvoiceModels(["gpt-5-mini", "claude-sonnet-4-5-20250929", "anthropic/claude-opus-4.7"]);
  t.equal(models.find("gpt-5-mini-2025-08-07"), "gpt-5-mini");
  t.equal(models.find("Claude Sonnet 4.5"), "claude-sonnet-4-5");
  t.equal(models.find("anthropic/claude-opus-4.7"), "anthropic-claude-opus-4-7");
  t.equal(models.find("gpt-5"), undefined);
});

t.test("a line consists of a model's name and words of invoices; the longest name is matched first", async (t) => {
  const models = new InvoiceModels(["gpt-4o", "gpt-4o-mini", "gemini-2.5-flash", "gemini-3-pro-preview"]);
  t.equal(models.find("gpt-4o-mini-2024-07-18, cached input"), "gpt-4o-mini");
  t.equal(models.find("gpt-4o-2024-08-06, output"), "gpt-4o");
  t.equal(models.find("Generate content output token count gemini 2.5 flash short input text"), "gemini-2-5-flash");
  t.equal(models.find("Generate_content_cached_input_token_count_gemini_3_pro_short_image"), "gemini-3-pro-preview");
});

t.test("a name with other words in it is another model", async (t) => {
  const models = new InvoiceModels(["gpt-5", "gemini-2.5-flash"]);
  t.equal(models.find("gpt-5-nano, input"), undefined);
  t.equal(models.find("Generate content input token count gemini 2.5 flash lite text"), undefined);
  t.equal(
    models.find("Generate_content image output token count for Gemini 2.5 Flash Native Image Generation"),
    undefined,
  );
});

t.test("web searches belong to the vendor's tool, whichever model is named beside them", async (t) => {
  const models = new InvoiceModels(["gpt-4o", WEB_SEARCH_NAME]);
  t.equal(models.find("web search tool calls"), "web-search");
  t.equal(models.find("web_search"), "web-search");
  t.equal(models.find("gpt-4o, web search calls"), "web-search");
  t.equal(models.find("file search tool calls"), undefined);
  t.equal(new InvoiceModels(["gpt-4o"]).find("web search tool calls"), undefined);
});

t.test("an operator may map an invoice's names", async (t) => {
  const models = new InvoiceModels(
    ["gemini-2.5-flash-image"],
    new Map([
      ["Flash Native Image", "gemini-2.5-flash-image"],
      ["old", "gone"],
    ]),
  );
  t.equal(models.find("flash native image"), "gemini-2-5-flash-image");
  t.equal(models.has("flash native image"), true);
  t.same([models.find("old"), models.has("old")], ["gone", false]);
});
