import t from "tap";
import { RawJson } from "../../../../src/wire/exact.ts";
import { INPUT, read, says } from "./request.asking.ts";

t.test("reasoning: how hard, and whether it shows", async (t) => {
  const conversation = read({ ...INPUT, reasoning: { effort: "xhigh", summary: "auto" } });
  t.same(conversation.reasoning, { effort: "xhigh", summary: "auto", show: true });
  t.same(says(conversation), ["reasoning_effort reasoning.effort", "reasoning_summary reasoning.summary"]);
  t.same(says(read({ ...INPUT, reasoning: { context: "current_turn", mode: "pro" } })), [
    "other reasoning.context",
    "other reasoning.mode",
  ]);
});

t.test("the form of the answer", async (t) => {
  const format = { type: "json_schema", name: "n", description: "d", strict: true, schema: { type: "object" } };
  const conversation = read({ ...INPUT, text: { verbosity: "low", format } });
  t.equal(conversation.verbosity, "low");
  t.same(conversation.format, {
    kind: "schema",
    name: "n",
    description: "d",
    strict: true,
    schema: new RawJson('{"type":"object"}'),
  });
  t.same(says(conversation), [
    "verbosity text.verbosity",
    "json_schema text.format",
    "json_schema_strict text.format.strict",
  ]);
  t.same(read({ ...INPUT, text: { format: { type: "json_object" } } }).format, { kind: "json" });
});

t.test("likelihoods are asked for in two places", async (t) => {
  const include = ["message.output_text.logprobs"];
  t.equal(read({ ...INPUT, include }).logprobs, 0);
  t.equal(read({ ...INPUT, include, top_logprobs: 5 }).logprobs, 5);
  t.equal(read({ ...INPUT, top_logprobs: 0 }).logprobs, undefined);
  t.same(says(read({ ...INPUT, include: ["file_search_call.results"] })), ["other include.0"]);
});

t.test("labels, caches and tiers", async (t) => {
  const conversation = read({
    ...INPUT,
    prompt_cache_key: "k",
    safety_identifier: "s",
    user: "u",
    metadata: { a: "b" },
    service_tier: "flex",
    prompt_cache_options: { ttl: "30m" },
  });
  const { cacheKey, user, metadata, tier, cache } = conversation;
  t.same([cacheKey, user, metadata, tier, cache], ["k", "s", { a: "b" }, "flex", { ttl: "30m" }]);
  t.same(says(conversation), [
    "metadata metadata",
    "cache_key prompt_cache_key",
    "user safety_identifier",
    "tier service_tier",
    "cache_mark prompt_cache_options",
    "other user",
  ]);
});

t.test("where only marks count, nothing is marked as a whole", async (t) => {
  const conversation = read({ ...INPUT, prompt_cache_options: { mode: "explicit", ttl: "30m" } });
  t.equal(conversation.cache, undefined);
  t.same(says(conversation), ["cosmetic prompt_cache_options"]);
});
