import { findProvider } from "@pydantic/genai-prices";
import t from "tap";
import { takesCacheMarks, usesThinkingBudget, VENDORS, vendorAt } from "../../src/prices/vendors.ts";

t.test("a vendor is recognised by its host", async (t) => {
  const at = (url: string) => vendorAt(new URL(url));
  t.equal(at("https://api.openai.com/v1"), "openai");
  t.equal(at("https://generativelanguage.googleapis.com/v1beta"), "google");
  t.equal(at("https://europe-west1-aiplatform.googleapis.com/v1"), "google");
  t.equal(at("https://acme.openai.azure.com/openai/v1"), "azure");
  for (const service of ["services", "models", "inference"])
    t.equal(at(`https://acme.eastus.${service}.ai.azure.com/v1`), "azure", service);
  t.equal(at("https://bedrock-runtime.eu-central-1.amazonaws.com"), "aws");
});

t.test("a host that only resembles a vendor's is no vendor's", async (t) => {
  for (const url of [
    "http://127.0.0.1:8080/v1",
    "https://api.openai.com.evil.example/v1",
    "https://storage.googleapis.com/v1",
    "https://example.com/api.openai.com",
  ])
    t.equal(vendorAt(new URL(url)), undefined, url);
});

t.test("the table of prices has every vendor that a file may name", async (t) => {
  for (const vendor of VENDORS) t.equal(findProvider({ providerId: vendor })?.id, vendor);
});

t.test("models that accept a thinking budget only are recognised by their names", async (t) => {
  for (const model of ["gemini-2.5-flash", "gemini-2.5-pro", "models/gemini-2.5-flash-lite"])
    t.ok(usesThinkingBudget("google", model), model);
  for (const model of ["gemini-3-flash-preview", "gemini-3.6-flash", "gemini-flash-latest", "my-gemini-2.5-flash"])
    t.notOk(usesThinkingBudget("google", model), model);
  for (const minor of ["sonnet-4-5", "sonnet-4-5-20250929", "opus-4-20250514", "opus-4-1", "haiku-4-5", "sonnet-4"])
    t.ok(usesThinkingBudget("anthropic", `claude-${minor}`), minor);
  t.ok(usesThinkingBudget("anthropic", "claude-3-7-sonnet-latest"));
  for (const model of [
    "claude-opus-4-6",
    "claude-opus-4-7-20260416",
    "claude-sonnet-5",
    "claude-haiku-5-5",
    "claude-x",
  ])
    t.notOk(usesThinkingBudget("anthropic", model), model);
  t.ok(usesThinkingBudget("aws", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"));
  t.ok(usesThinkingBudget("aws", "anthropic.claude-3-7-sonnet-20250219-v1:0"));
  t.ok(usesThinkingBudget("google", "claude-sonnet-4-5@20250929"));
  t.notOk(usesThinkingBudget("google", "claude-opus-4-6"));
  t.notOk(usesThinkingBudget(undefined, "claude-sonnet-4-5"), "elsewhere the name may be anything");
});

t.test("OpenAI's models take cache marks from GPT-5.6 on, and those whose names say nothing", async (t) => {
  for (const model of ["gpt-5.6", "gpt-5.6-terra", "gpt-5.10", "gpt-6", "gpt-6-mini", "own-name"])
    t.ok(takesCacheMarks("openai", model), model);
  for (const model of [
    ...[
      "gpt-3.5-turbo",
      "gpt-4o",
      "gpt-4.1-mini",
      "chatgpt-4o-latest",
      "o3",
      "o4-mini",
      "codex-mini-latest",
      "gpt-audio",
    ],
    ...["gpt-5", "gpt-5-mini", "gpt-5-2025-08-07", "gpt-5.1", "gpt-5.5-2026-04-01", "ft:gpt-4o:acme::x"],
  ])
    t.notOk(takesCacheMarks("openai", model), model);
  t.notOk(takesCacheMarks("azure", "gpt-5.6"), "another vendor");
});
