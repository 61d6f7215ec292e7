import t from "tap";
import type { Conversation, ReasoningConfig } from "../../../../src/translation/conversation.ts";
import type { Feature } from "../../../../src/translation/features.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { plain, read, written } from "./request.asking.ts";

const uses = (feature: Feature, path: string) => ({ uses: [{ feature, path }] });
const thinking: Pick<Conversation, "uses"> = {
  uses: [
    { feature: "reasoning_effort", path: "effort" },
    { feature: "reasoning_budget", path: "budget" },
    { feature: "reasoning_summary", path: "summary" },
  ],
};
const refused = (conversation: Conversation, param: string, facts = {}) => ({
  act: () => written(conversation, facts),
  error: { code: "not_translatable", status: 400, param },
});

t.test("nothing is kept, and reasoning comes back encrypted", async (t) => {
  t.same(written(plain({ turns: [] })).body, {
    model: "any",
    input: [],
    store: false,
    include: ["reasoning.encrypted_content"],
  });
  t.equal(written(plain({ stream: true })).body["stream"], true);
});

t.test("a model that does not think is not asked for its thoughts", async (t) => {
  const wishes: [ReasoningConfig, string[]][] = [
    [{ effort: "low" }, ["effort"]],
    [{ budget: 2048, show: true }, ["budget", "summary"]],
    [{ budget: -1 }, ["budget"]],
    [{ effort: "high", summary: "auto" }, ["effort", "summary"]],
    [{ show: true }, ["summary"]],
  ];
  for (const [reasoning, lost] of wishes) {
    const { body, losses } = written(plain({ reasoning, ...thinking }), { thinking: "none" });
    t.same([body["include"], body["reasoning"]], [undefined, undefined]);
    t.same(losses.dropped, lost);
  }
});

t.test("nothing is lost where such a model is asked not to think", async (t) => {
  const wishes: ReasoningConfig[] = [
    { effort: "none" },
    { effort: "none", show: true },
    { budget: 0 },
    { show: false },
    {},
  ];
  for (const reasoning of wishes) {
    const { body, losses } = written(plain({ reasoning, ...thinking }), { thinking: "none" });
    t.equal(body["reasoning"], undefined);
    t.same(losses.dropped, [], JSON.stringify(reasoning));
  }
});

t.test("a request to count holds only what counts", async (t) => {
  const conversation = plain({
    task: "count",
    turns: [{ role: "user", at: "m", parts: [{ kind: "text", text: "Hi", at: "m" }] }],
    temperature: 1,
    maxTokens: 100,
    metadata: { a: "b" },
    reasoning: { effort: "low" },
  });
  const { body, operation } = written(conversation);
  t.equal(operation.upstream("any"), "/responses/input_tokens");
  t.same(body, {
    model: "any",
    input: [{ type: "message", role: "user", content: "Hi" }],
    reasoning: { effort: "low" },
  });
});

t.test("numbers that say how to answer", async (t) => {
  const { body } = written(plain({ temperature: 1.5, topP: 0.5, maxTokens: 100, logprobs: 3 }));
  t.match(body, {
    temperature: 1.5,
    top_p: 0.5,
    max_output_tokens: 100,
    top_logprobs: 3,
    include: ["reasoning.encrypted_content", "message.output_text.logprobs"],
  });
  t.notOk("top_logprobs" in written(plain({ logprobs: 0 })).body);
});

t.test("limits that the vendor does not take are changed with a notice", async (t) => {
  const few = written(plain({ maxTokens: 1, ...uses("max_tokens", "max_tokens") }));
  t.equal(few.body["max_output_tokens"], 16);
  t.match(few.losses.notices, [/^max_tokens: 16 is sent/]);
  const many = written(plain({ maxTokens: 128_000 }), { output: 8_192 });
  t.equal(many.body["max_output_tokens"], 8_192);
  t.equal(many.losses.notices.length, 1);
});

t.test("what would change the answer is refused with the client's own path", async (t) => {
  const cases = [
    refused(
      plain({ choices: 2, ...uses("choices", "generationConfig.candidateCount") }),
      "generationConfig.candidateCount",
    ),
    refused(plain({ temperature: 2.5, ...uses("temperature", "temperature") }), "temperature"),
    refused(plain({ maxTokens: 0, ...uses("max_tokens", "max_tokens") }), "max_tokens"),
    refused(plain(uses("prefill", "messages.1")), "messages.1", { prefill: false }),
  ];
  for (const { act, error } of cases) t.throws(act, error, error.param);
  t.same(written(plain({ choices: 1 })).losses.dropped, []);
});

t.test(
  "an assistant's turn at the end is passed on, with a notice where nobody knows what becomes of it",
  async (t) => {
    const conversation = plain(uses("prefill", "messages.1"));
    t.equal(written(conversation).losses.notices.length, 1);
    t.equal(written(conversation, { prefill: true }).losses.notices.length, 0);
  },
);

t.test("sampling goes where the model takes none", async (t) => {
  const conversation = plain({ temperature: 1, topP: 1, uses: [{ feature: "top_p", path: "topP" }] });
  const { body, losses } = written(conversation, { sampling: false });
  t.same([body["temperature"], body["top_p"]], [undefined, undefined]);
  t.same(losses.dropped, ["temperature", "topP"]);
});

t.test("tokens for thinking become the nearest effort, with a notice", async (t) => {
  const efforts = [0, 1024, 4096, 12_000, 24_576, 31_999, -1].map((budget) => {
    const { body, losses } = written(plain({ reasoning: { budget } }));
    return [(body["reasoning"] as { effort?: string } | undefined)?.effort, losses.notices.length];
  });
  t.same(efforts, [
    ["none", 1],
    ["minimal", 1],
    ["low", 1],
    ["medium", 1],
    ["high", 1],
    ["xhigh", 1],
    [undefined, 0],
  ]);
});

t.test("thoughts are shown where that was asked for", async (t) => {
  t.same(written(plain({ reasoning: { show: true } })).body["reasoning"], { summary: "auto" });
  t.same(written(plain({ reasoning: { show: false } })).body["reasoning"], undefined);
  t.same(written(plain({ reasoning: { summary: "concise", effort: "max" } })).body["reasoning"], {
    summary: "concise",
    effort: "max",
  });
});

t.test("a schema has a name the vendor takes, and says whether it is strict", async (t) => {
  const schema = new RawJson('{"type":"object","maximum":12345678901234567890}');
  const { text } = written(plain({ format: { kind: "schema", schema, name: "my schema!" } }));
  t.match(text, `"format":{"type":"json_schema","name":"my_schema_","schema":${schema.text},"strict":false}`);
  t.match(written(plain({ format: { kind: "schema", schema } })).text, '"name":"answer"');
  t.same(written(plain({ format: { kind: "json" }, verbosity: "low" })).body["text"], {
    format: { type: "json_object" },
    verbosity: "low",
  });
});

t.test("labels: longer ones become a hash, too many are dropped, unknown tiers too", async (t) => {
  const metadata = Object.fromEntries(Array.from({ length: 18 }, (_, i) => [`k${i}`, "v"]));
  const conversation = plain({
    metadata,
    tier: "on_demand",
    user: "u".repeat(65),
    cacheKey: "k",
    uses: [{ feature: "user", path: "metadata.user_id" }],
  });
  const { body, losses } = written(conversation);
  t.match(body["safety_identifier"], /^[0-9a-f]{64}$/);
  t.equal(body["prompt_cache_key"], "k");
  t.equal(Object.keys(body["metadata"] as object).length, 16);
  t.notOk("service_tier" in body);
  t.same(losses.dropped, ["metadata.k16", "metadata.k17", "tier"]);
  t.match(losses.notices, [/^metadata.user_id: /]);
});

t.test("tiers have one meaning under all their names", async (t) => {
  const tiers = ["auto", "standard_only", "STANDARD", "flex", "priority"].map(
    (tier) => written(plain({ tier })).body["service_tier"],
  );
  t.same(tiers, ["auto", "default", "default", "flex", "priority"]);
});

t.test("a choice without tools is not written", async (t) => {
  t.notOk("tool_choice" in written(plain({ toolChoice: { mode: "auto" }, parallel: true })).body);
});

t.test("written without native forms, a request of this protocol still says the same", async (t) => {
  const body = {
    model: "any",
    instructions: "Be brief.",
    input: "Hi",
    tools: [{ type: "function", name: "f", parameters: { type: "object" } }],
    temperature: 0.5,
    stream: true,
  };
  t.same(written(read(body)).body, {
    model: "any",
    input: [
      { type: "message", role: "system", content: "Be brief." },
      { type: "message", role: "user", content: "Hi" },
    ],
    tools: [{ type: "function", name: "f", parameters: { type: "object" }, strict: false }],
    temperature: 0.5,
    store: false,
    include: ["reasoning.encrypted_content"],
    stream: true,
  });
});

t.test("a mark for the whole prompt only says for how long", async (t) => {
  const options = (cache: Conversation["cache"]) => written(plain(cache ? { cache } : {})).body["prompt_cache_options"];
  t.same(options({ ttl: "1h" }), { mode: "implicit", ttl: "12h" });
  t.same([options({}), options({ ttl: "5m" }), options(undefined)], [undefined, undefined, undefined]);
});
