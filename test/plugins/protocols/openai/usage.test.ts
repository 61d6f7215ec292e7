import t from "tap";
import { includeUsage, providerCost, stateTokens, writeUsage } from "../../../../plugins/protocols/openai/usage.ts";
import { readUsage } from "../../../../plugins/protocols/openai-chat/usage.ts";

t.test("what is encoded is decoded as the same", async (t) => {
  const usage = {
    in: { total: 160, cached: 100, write: { unsplit: 50 }, audio: 1, image: 2, video: 3 },
    out: { total: 70, reasoning: 30, audio: 4, image: 5, acceptedPrediction: 6, rejectedPrediction: 7 },
  };
  const raw = writeUsage({ ...usage, raw: {} });
  t.same(readUsage({ usage: raw }), { ...usage, raw });
});

t.test("an ambiguous request for usage is written anew", async (t) => {
  const stream = (stream_options: object) => ({ stream: true, stream_options });
  t.notOk(includeUsage.missing(stream({ include_usage: true })));
  const spelled = stream({ include_usage: true, INCLUDE_USAGE: false, include_obfuscation: false });
  t.ok(includeUsage.missing(spelled));
  t.same(JSON.parse(includeUsage.member(spelled).json), { include_obfuscation: false, include_usage: true });
});

t.test(
  "unknown values are left out, but for those that clients require: totals, and one of each details",
  async (t) => {
    t.same(writeUsage({ in: {}, out: {}, raw: {} }), {
      ...{ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
    t.match(writeUsage({ in: { audio: 2 }, out: {}, raw: {} }), {
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 2 },
    });
  },
);

t.test("a state's reasoning is known by its length, without what states of its vendor have besides", async (t) => {
  const state = (start: string, length: number) => start.padEnd(length, "x");
  t.equal(stateTokens(state("gAAAAAB", 1000 + 620)), 100);
  t.equal(stateTokens(state("rsn_", 710 + 620)), 100);
  t.equal(stateTokens(state("U/t0uV2P", 620)), 100);
  for (const short of [state("gAAAAAB", 440), state("rsn_", 9), ""]) t.equal(stateTokens(short), 0);
});

t.test("a provider's own cost is no less than nothing: the counter of costs would fall", async (t) => {
  t.same([{ cost_in_usd_ticks: 50 }, { cost: 0.5 }].map(providerCost), [5, 500_000_000]);
  for (const raw of [{ cost_in_usd_ticks: -50 }, { cost: -0.5 }, { cost: { total_cost: -1 } }])
    t.equal(providerCost(raw), undefined);
});
