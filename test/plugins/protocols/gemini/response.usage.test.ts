import t from "tap";
import { usageMetadata } from "../../../../plugins/protocols/gemini/response.usage.ts";
import { usage } from "../../../../plugins/protocols/gemini/usage.ts";
import { recorded } from "../../../support/recorded.ts";

t.test("sums become the vendor's parts", async (t) => {
  const told = usageMetadata({
    in: { total: 107, cached: 60, toolUse: 7, audio: 5 },
    out: { total: 50, reasoning: 30 },
    tier: "default",
    raw: 0,
  });
  t.strictSame(told, {
    promptTokenCount: 100,
    cachedContentTokenCount: 60,
    candidatesTokenCount: 20,
    toolUsePromptTokenCount: 7,
    thoughtsTokenCount: 30,
    totalTokenCount: 157,
    promptTokensDetails: [{ modality: "AUDIO", tokenCount: 5 }],
    serviceTier: "standard",
  });
});

t.test("what nobody told is left out, and nothing is negative", async (t) => {
  t.strictSame(usageMetadata({ in: {}, out: {}, tier: "scale", raw: 0 }), {});
  t.strictSame(usageMetadata({ in: { total: 1 }, out: { total: 1, reasoning: 3 }, raw: 0 }), {
    promptTokenCount: 1,
    candidatesTokenCount: 0,
    thoughtsTokenCount: 3,
    totalTokenCount: 2,
  });
});

const answers = recorded("gemini").filter(({ status, kinds }) => status === 200 && !kinds.includes("stream"));

t.test("recorded counts survive", { skip: answers.length === 0 && "no recordings" }, async (t) => {
  for (const { id, body } of answers.filter(({ kinds }) => !kinds.includes("json_array_stream"))) {
    const json = JSON.parse(body) as { usageMetadata: Record<string, unknown> };
    const read = usage(json);
    const counts = Object.entries(json.usageMetadata).filter(([name]) => name.endsWith("TokenCount"));
    if (read) t.match(usageMetadata(read), Object.fromEntries(counts), id);
  }
});
