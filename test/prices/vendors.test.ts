import { findProvider } from "@pydantic/genai-prices";
import t from "tap";
import { VENDORS, vendorAt } from "../../src/prices/vendors.ts";

t.test("a vendor is known by its host", async (t) => {
  const at = (url: string) => vendorAt(new URL(url));
  t.equal(at("https://api.openai.com/v1"), "openai");
  t.equal(at("https://generativelanguage.googleapis.com/v1beta"), "google");
  t.equal(at("https://europe-west1-aiplatform.googleapis.com/v1"), "google");
  t.equal(at("https://acme.openai.azure.com/openai/v1"), "azure");
  t.equal(at("https://bedrock-runtime.eu-central-1.amazonaws.com"), "aws");
});

t.test("a host that only looks like a vendor's is nobody's", async (t) => {
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
