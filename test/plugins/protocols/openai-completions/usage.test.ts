import t from "tap";
import protocol from "../../../../plugins/protocols/openai-completions/index.ts";
import { readUsage } from "../../../../plugins/protocols/openai-completions/usage.ts";
import { asEvent, eventsOf, jsonOf, recordings } from "../../../support/openai-recordings.ts";

t.test("every part of a full report has its place", async (t) => {
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

t.test("what was not reported is absent, and null leaves what was known", async (t) => {
  const first = readUsage({ usage: { prompt_tokens: 3 } });
  t.strictSame(first, { in: { total: 3 }, out: {}, raw: { prompt_tokens: 3 } });
  t.equal(readUsage({ usage: null }, first), first);
});

for (const { id, kinds, status, body } of recordings("openai-completions")) {
  if (status >= 300) continue;
  t.test(id, async (t) => {
    if (kinds.includes("stream")) {
      // None of the recorded requests asked for usage.
      return void t.notOk(eventsOf(body).some((frame) => protocol.holdsUsage(frame)));
    }
    const json = jsonOf(body) as { usage: { prompt_tokens: number; completion_tokens: number } };
    const usage = readUsage(json);
    t.equal(usage?.in.total, json.usage.prompt_tokens);
    t.equal(usage?.out.total, json.usage.completion_tokens);
    t.ok(protocol.holdsUsage(asEvent(json)));
    t.strictSame(readUsage(asEvent(json).json()), usage, "the same from a frame");
  });
}
