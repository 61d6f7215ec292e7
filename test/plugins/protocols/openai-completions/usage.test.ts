import { isDeepStrictEqual } from "node:util";
import t from "tap";
import protocol from "../../../../plugins/protocols/openai-completions/index.ts";
import { readUsage } from "../../../../plugins/protocols/openai-completions/usage.ts";
import { asEvent, eventsIn, jsonOf, recorded } from "../../../support/recorded.ts";

t.test("every part of a full report is decoded", async (t) => {
  const usage = {
    prompt_tokens: 10,
    completion_tokens: 5,
    prompt_tokens_details: { cached_tokens: 40, audio_tokens: 1 },
    completion_tokens_details: {
      reasoning_tokens: 2,
      audio_tokens: 3,
      accepted_prediction_tokens: 4,
      rejected_prediction_tokens: 0,
    },
  };
  t.strictSame(readUsage({ usage, service_tier: "default" }), {
    in: { total: 10, cached: 10, audio: 1 },
    out: { total: 5, reasoning: 2, audio: 3, acceptedPrediction: 4, rejectedPrediction: 0 },
    tier: "default",
    raw: usage,
  });
});

t.test("unreported values are absent, and null keeps what was known", async (t) => {
  const first = readUsage({ usage: { prompt_tokens: 3 } });
  t.strictSame(first, { in: { total: 3 }, out: {}, raw: { prompt_tokens: 3 } });
  t.equal(readUsage({ usage: null }, first), first);
});

t.test("vendors report cached tokens and costs in members of their own, as in Chat", async (t) => {
  const deepseek = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010, prompt_cache_hit_tokens: 900 };
  t.match(readUsage({ usage: deepseek }), { in: { total: 1000, cached: 900 }, out: { total: 10 } });
  const openrouter = { prompt_tokens: 3, completion_tokens: 4, cost: 0.5, completion_tokens_details: null };
  t.match(readUsage({ usage: openrouter }), { in: { total: 3 }, out: { total: 4 }, providerCost: 500_000_000 });
  const written = { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cache_write_tokens: 5 } };
  t.match(readUsage({ usage: written }), { in: { total: 9, write: { unsplit: 5 } } });
});

t.test("the usage of every recorded answer is read", async (t) => {
  const wrong: string[] = [];
  for (const { id, kinds, status, body } of recorded("openai-completions")) {
    if (status >= 300) continue;
    // None of the recorded requests for a stream asked for usage.
    const fine = kinds.includes("stream")
      ? !eventsIn(body).some((frame) => protocol.holdsUsage(frame))
      : isRead(jsonOf(body) as { usage: { prompt_tokens: number; completion_tokens: number } });
    if (!fine) wrong.push(id);
  }
  t.same(wrong, []);
});

function isRead(json: { usage: { prompt_tokens: number; completion_tokens: number } }): boolean {
  const usage = readUsage(json);
  const frame = asEvent(json);
  const totals = usage?.in.total === json.usage.prompt_tokens && usage.out.total === json.usage.completion_tokens;
  return totals && protocol.holdsUsage(frame) && isDeepStrictEqual(readUsage(frame.json()), usage);
}
