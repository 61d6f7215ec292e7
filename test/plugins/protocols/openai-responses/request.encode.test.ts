import t from "tap";
import type {
  Conversation,
  Media,
  Part,
  ReasoningConfig,
  Tool,
  ToolChoice,
  Turn,
} from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import type { Feature } from "../../../../src/translation/features.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { plain, read, written } from "./requests.ts";

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

t.test("nothing is stored, and reasoning is returned encrypted", async (t) => {
  t.same(written(plain({ turns: [] })).body, {
    model: "any",
    input: [],
    store: false,
    include: ["reasoning.encrypted_content"],
  });
  t.equal(written(plain({ stream: true })).body["stream"], true);
});

t.test("a model without reasoning is not asked for it", async (t) => {
  const configs: [ReasoningConfig, string[]][] = [
    [{ effort: "low" }, ["effort"]],
    [{ budget: 2048, show: true }, ["budget", "summary"]],
    [{ budget: -1 }, ["budget"]],
    [{ effort: "high", summary: "auto" }, ["effort", "summary"]],
    [{ show: true }, ["summary"]],
  ];
  for (const [reasoning, lost] of configs) {
    const { body, losses } = written(plain({ reasoning, ...thinking }), { thinking: "none" });
    t.same([body["include"], body["reasoning"]], [undefined, undefined]);
    t.same(losses.dropped, lost);
  }
  const decided = plain({ reasoning: { effort: "high", budget: -1 }, ...uses("reasoning_effort", "thinking") });
  t.same(written(decided, { thinking: "none" }).losses.dropped, ["thinking"]);
  const left = plain({ reasoning: { budget: -1 }, ...uses("reasoning_effort", "thinking") });
  t.same(written(left, { thinking: "none" }).losses.dropped, ["thinking"]);
});

t.test(
  "a model without reasoning by the tables is not asked for it, unless gateway.yaml says that it reasons",
  async (t) => {
    const effort = plain({ reasoning: { effort: "low" }, ...uses("reasoning_effort", "effort") });
    const { body, losses } = written({ ...effort, protocol: "openai-chat" }, { reasons: false });
    t.equal(body["include"], undefined);
    t.same([body["reasoning"], losses.dropped], [{ effort: "low" }, []], "the vendor decides on a request");
    const agent = written(effort, { reasons: false });
    t.same([agent.body["reasoning"], agent.losses.dropped], [undefined, ["effort"]], "agents ask every model");
    t.same(written(effort, {}, "gpt-4.1").losses.dropped, ["effort"], "its name says that it does not reason");
    const included = ["reasoning.encrypted_content"];
    t.same(written(plain(), { reasons: false, thinking: "level" }).body["include"], included);
    t.same(written(plain(), {}).body["include"], included);
  },
);

t.test("xAI's models that take no effort are sent none, which is declared, and their reasoning is shown", async (t) => {
  const asked = (model: string, reasoning: ReasoningConfig) => {
    const { body, losses } = written(plain({ reasoning, ...thinking }), {}, model);
    return [body["reasoning"], losses.dropped];
  };
  for (const model of [
    "grok-4-fast-reasoning",
    "grok-4-1-fast",
    "grok-code-fast-1",
    "grok-4.20-0309-reasoning",
    "grok-3",
  ]) {
    t.same(asked(model, { effort: "high", show: true }), [{ summary: "auto" }, ["effort"]], model);
    t.same(asked(model, { budget: 2048 }), [undefined, ["budget"]], model);
    t.same(asked(model, { budget: -1 }), [undefined, []], model);
  }
  for (const model of ["grok-4.3", "grok-3-mini", "grok-4.20-multi-agent", "x-ai/grok-4-fast"])
    t.same(asked(model, { effort: "high" }), [{ effort: "high" }, []], model);
});

t.test("models that are not OpenAI's get only what their servers take, and the rest is declared", async (t) => {
  const cache = {};
  const conversation = plain({
    turns: [
      { role: "system", parts: [{ kind: "text", text: "Be.", at: "system.0", cache }], at: "system" },
      { role: "developer", parts: [{ kind: "text", text: "Do.", at: "developer.0" }], at: "developer" },
      {
        role: "assistant",
        parts: [
          { kind: "text", text: "One, ", at: "one", citations: [{ url: "https://a.example" }] },
          { kind: "text", text: "two.", at: "two" },
        ],
        at: "assistant",
      },
      {
        role: "user",
        parts: [
          { kind: "tool_result", callId: "c", parts: [{ kind: "text", text: "1", at: "r.0" }], at: "r", cache },
          { kind: "text", text: "Go.", at: "go", cache },
        ],
        at: "user",
      },
    ],
    user: "me",
    metadata: { a: "b" },
    cache: { ttl: "1h" },
    uses: [
      { feature: "cache_mark", path: "cache_control" },
      { feature: "metadata", path: "metadata" },
    ],
  });
  const sent = (model: string) => {
    const { body, losses } = written(conversation, {}, model);
    return { body, dropped: losses.dropped };
  };
  const { body, dropped } = sent("grok-4.3");
  t.same(body["input"], [
    { type: "message", role: "system", content: "Be." },
    { type: "message", role: "system", content: "Do." },
    { type: "message", role: "assistant", content: "One, two." },
    { type: "function_call_output", call_id: "c", output: "1" },
    { type: "message", role: "user", content: "Go." },
  ]);
  t.same(dropped, ["system.0", "one.citations", "r", "go", "metadata", "cache_control"]);
  t.match(body, { user: "me", metadata: undefined, safety_identifier: undefined, prompt_cache_options: undefined });
  const own = sent("gpt-5.6");
  t.match(own.body, { safety_identifier: "me", metadata: { a: "b" }, user: undefined, prompt_cache_options: {} });
  t.same(own.dropped, []);
  t.same(sent("gpt-5.1").dropped, ["system.0", "r", "go", "cache_control"], "it takes no marks");
  t.same(sent("qwen3").body["metadata"], { a: "b" });
});

t.test("nothing is lost where such a model is asked not to reason", async (t) => {
  const configs: ReasoningConfig[] = [
    { effort: "none" },
    { effort: "none", show: true },
    { budget: 0 },
    { show: false },
    {},
  ];
  for (const reasoning of configs) {
    const { body, losses } = written(plain({ reasoning, ...thinking }), { thinking: "none" });
    t.equal(body["reasoning"], undefined);
    t.same(losses.dropped, [], JSON.stringify(reasoning));
    const listed = written(plain({ reasoning, ...thinking }), { reasons: false });
    t.equal(listed.body["reasoning"], undefined, "public tables say that it does not reason");
    t.same(listed.losses, losses);
  }
});

t.test("a request to count contains only what counts", async (t) => {
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

t.test("numeric settings of the answer", async (t) => {
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

t.test("limits that the vendor does not accept are changed with a notice", async (t) => {
  const few = written(plain({ maxTokens: 1, ...uses("max_tokens", "max_tokens") }));
  t.equal(few.body["max_output_tokens"], 16);
  t.match(few.losses.notices, [/^max_tokens: 16 is sent/]);
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

t.test("an assistant turn at the end is passed on, with a notice where its effect is unknown", async (t) => {
  const conversation = plain(uses("prefill", "messages.1"));
  t.equal(written(conversation).losses.notices.length, 1);
  t.equal(written(conversation, { prefill: true }).losses.notices.length, 0);
});

t.test("sampling is dropped where the model accepts none", async (t) => {
  const conversation = plain({ temperature: 1, topP: 1, uses: [{ feature: "top_p", path: "topP" }] });
  const { body, losses } = written(conversation, { sampling: false });
  t.same([body["temperature"], body["top_p"]], [undefined, undefined]);
  t.same(losses.dropped, ["temperature", "topP"]);
});

t.test("a thinking budget becomes the nearest effort, with a notice", async (t) => {
  const efforts = [0, 1024, 4096, 12_000, 24_576, 31_999, -1].map((budget) => {
    const { body, losses } = written(plain({ reasoning: { budget } }));
    return [(body["reasoning"] as { effort?: string } | undefined)?.effort, losses.notices.length];
  });
  t.same(efforts, [
    ["none", 1],
    ["low", 1],
    ["low", 1],
    ["medium", 1],
    ["high", 1],
    ["high", 1],
    [undefined, 0],
  ]);
});

t.test("reasoning is shown where that was requested", async (t) => {
  t.same(written(plain({ reasoning: { show: true } })).body["reasoning"], { summary: "auto" });
  t.same(written(plain({ reasoning: { show: false } })).body["reasoning"], undefined);
  t.same(written(plain({ reasoning: { summary: "concise", effort: "low" } })).body["reasoning"], {
    summary: "concise",
    effort: "low",
  });
});

t.test("a schema has a name that the vendor accepts, and whether it is strict", async (t) => {
  const schema = new RawJson('{"type":"object","maximum":12345678901234567890}');
  const { text } = written(plain({ format: { kind: "schema", schema, name: "my schema!" } }));
  t.match(text, `"format":{"type":"json_schema","name":"my_schema_","schema":${schema.text},"strict":false}`);
  const kept = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}';
  const strictOf = (format: object) =>
    /"strict":(\w+)/.exec(written(plain({ format: { kind: "schema", name: "n", ...format } })).text)?.[1];
  t.equal(strictOf({ schema: new RawJson(kept), alwaysStrict: true }), "true", "for a vendor that always enforces it");
  t.equal(strictOf({ schema, alwaysStrict: true }), "false", "as far as it can be enforced");
  t.equal(strictOf({ schema: new RawJson(kept) }), "false");
  const told = (format: object) =>
    written(plain({ format: { kind: "schema", name: "n", alwaysStrict: true, ...format } })).losses.notices.length;
  t.same([told({ schema }), told({ schema: new RawJson(kept) })], [1, 0], "where it is not, the client is notified");
  t.equal(strictOf({ schema: new RawJson(kept), alwaysStrict: true, strict: false }), "false");
  t.match(written(plain({ format: { kind: "schema", schema } })).text, '"name":"answer"');
  t.same(written(plain({ format: { kind: "json" }, verbosity: "low" })).body["text"], {
    format: { type: "json_object" },
    verbosity: "low",
  });
});

t.test("very many excess labels are dropped in linear time, whatever else the request loses", async (t) => {
  const count = 200_000;
  const metadata = Object.fromEntries(Array.from({ length: count }, (_, n) => [`label-${n}`, "x"]));
  const others = Array.from({ length: count }, (_, n) => ({ feature: "other" as const, path: `include.${n}` }));
  const conversation = plain({ metadata, uses: [...others, { feature: "metadata", path: "metadata" }] });
  runLinear(() => t.equal(Object.keys(written(conversation).body["metadata"] as JsonObject).length, 16));
});

t.test("labels: longer ones become a hash, excess ones are dropped, unknown tiers too", async (t) => {
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

t.test("tiers are the same under all their names", async (t) => {
  const tiers = ["auto", "standard_only", "STANDARD", "flex", "priority"].map(
    (tier) => written(plain({ tier })).body["service_tier"],
  );
  t.same(tiers, [undefined, "default", "default", "flex", "priority"]);
});

t.test("a choice without tools is not written", async (t) => {
  t.notOk("tool_choice" in written(plain({ toolChoice: { mode: "auto" }, parallel: true })).body);
});

t.test("a required call is left to the model where its server refuses one, which is declared", async (t) => {
  const uses: Conversation["uses"] = [{ feature: "tool_choice", path: "choice" }];
  const choice = (toolChoice: ToolChoice, url: string, model: string) => {
    const asked = plain({ tools: [{ kind: "function", name: "f", at: "f" }], toolChoice, uses });
    const { body, losses } = written(asked, {}, model, new URL(url));
    return [body["tool_choice"], losses.notices.join(), (body["tools"] as unknown[] | undefined)?.length];
  };
  const [required, named]: ToolChoice[] = [{ mode: "required" }, { mode: "named", name: "f" }];
  const meta = ["https://api.meta.ai/v1", "muse-spark-1.3"] as const;
  for (const asked of [required, named] as ToolChoice[])
    t.match(choice(asked, ...meta), ["auto", /^choice: a call cannot be required/, 1]);
  t.same(choice({ mode: "auto" }, ...meta), ["auto", "", 1]);
  const none: ToolChoice = { mode: "none" };
  t.match(choice(none, ...meta), [undefined, /^choice: no tools are sent/, undefined], "it has no choice of none");
  const allowed = choice({ mode: "allowed", names: ["f"], required: true }, ...meta);
  t.match(allowed, ["auto", /^tool_choice_allowed: only the allowed tools are sent/, 1]);
  const openai = ["https://api.openai.com/v1", "gpt-5.6"] as const;
  t.same(choice(none, ...openai), ["none", "", 1]);
  t.same(choice(required as ToolChoice, ...openai), ["required", "", 1]);
});

t.test("a required call turns off thinking at DeepSeek, which refuses both together", async (t) => {
  const effort = (more: Partial<Conversation>, host: string) => {
    const asked = plain({ tools: [{ kind: "function", name: "f", at: "f" }], reasoning: { effort: "high" }, ...more });
    const { body, losses } = written(asked, {}, "deepseek-v4-pro", new URL(`https://${host}/v1`));
    return [(body["reasoning"] as { effort: string }).effort, losses.notices.length];
  };
  const toolChoice: ToolChoice = { mode: "required" };
  t.same(effort({ toolChoice, reasoning: {} }, "api.deepseek.com"), ["none", 1]);
  t.same(effort({ toolChoice: { mode: "named", name: "f" } }, "api.deepseek.com"), ["none", 1]);
  for (const required of [true, false])
    t.same(
      effort({ toolChoice: { mode: "allowed", names: ["f"], required } }, "api.deepseek.com"),
      required ? ["none", 1] : ["high", 0],
    );
  t.same(effort({ toolChoice, reasoning: { effort: "none" } }, "api.deepseek.com"), ["none", 0]);
  t.same(effort({}, "api.deepseek.com"), ["high", 0]);
  t.same(effort({ toolChoice }, "models.example"), ["high", 0]);
});

t.test("a request of this protocol has the same content when it is encoded again", async (t) => {
  const body = {
    model: "any",
    instructions: "Be brief.",
    input: "Hi",
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} } }],
    temperature: 0.5,
    stream: true,
  };
  t.same(written(read(body)).body, {
    model: "any",
    input: [
      { type: "message", role: "system", content: "Be brief." },
      { type: "message", role: "user", content: "Hi" },
    ],
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false }],
    temperature: 0.5,
    store: false,
    include: ["reasoning.encrypted_content"],
    stream: true,
  });
});

t.test("a mark for the whole prompt sets only its duration", async (t) => {
  const options = (cache: Conversation["cache"]) => written(plain(cache ? { cache } : {})).body["prompt_cache_options"];
  t.same(options({ ttl: "1h" }), { mode: "implicit", ttl: "12h" });
  t.same([options({}), options({ ttl: "5m" }), options(undefined)], [undefined, undefined, undefined]);
});

const turn = (role: Turn["role"], ...parts: Part[]): Turn => ({ role, parts, at: "messages.0" });
const text = (text: string): Part => ({ kind: "text", text, at: "messages.0.content" });
const call = (id: string, more: object = {}): Part => ({
  kind: "tool_call",
  id,
  name: "f",
  arguments: "{}",
  at: `call ${id}`,
  ...more,
});
const result = (callId: string, parts: Part[], more: object = {}): Part => ({
  kind: "tool_result",
  callId,
  parts,
  at: `result ${callId}`,
  ...more,
});
const thought = (at: string, more: object = {}): Part => ({ kind: "reasoning", at, ...more });
const state = (more: Partial<Opaque> = {}): { opaque: Opaque } => ({
  opaque: { protocol: "openai-responses", kind: "encrypted", data: "gAAAA", ...more },
});
const writeTurns = (...turns: Turn[]) => {
  const { body, losses } = written(plain({ turns }));
  return { items: body["input"] as JsonObject[], dropped: losses.dropped };
};

t.test("one turn of an assistant becomes items in order", async (t) => {
  const { items } = writeTurns(
    turn("assistant", thought("t", state()), text("A"), call("c1"), text("B"), call("c2")),
    turn("user", result("c1", [text("1")]), result("c2", [text("2")]), text("U")),
  );
  t.same(items, [
    { type: "reasoning", summary: [], encrypted_content: "gAAAA" },
    { type: "message", role: "assistant", content: "A" },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "message", role: "assistant", content: "B" },
    { type: "function_call", call_id: "c2", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "1" },
    { type: "function_call_output", call_id: "c2", output: "2" },
    { type: "message", role: "user", content: "U" },
  ]);
});

t.test("blocks of a system message stay separate, and every role keeps its position", async (t) => {
  const { items } = writeTurns(
    turn("system", text("A"), text("B")),
    turn("user", text("U")),
    turn("developer", text("D")),
  );
  t.same(items, [
    {
      type: "message",
      role: "system",
      content: [
        { type: "input_text", text: "A" },
        { type: "input_text", text: "B" },
      ],
    },
    { type: "message", role: "user", content: "U" },
    { type: "message", role: "developer", content: "D" },
  ]);
});

t.test("a call beside an empty text is only a call", async (t) => {
  const { items } = writeTurns(turn("assistant", text(""), call("c1")));
  t.same(
    items.map(({ type }) => type),
    ["function_call"],
  );
});

t.test("a phase stays on the message", async (t) => {
  const { items } = writeTurns({ ...turn("assistant", text("A")), phase: "commentary" });
  t.equal(items[0]?.["phase"], "commentary");
});

t.test("reasoning has its original summary, otherwise the one that the client kept, otherwise its text", async (t) => {
  const summaryOf = (more: object) =>
    writeTurns(turn("assistant", thought("t", more), text("A"))).items[0]?.["summary"];
  const one = (text: string) => [{ type: "summary_text", text }];
  t.same(summaryOf({ ...state({ extra: { summary: ["S"] } }), summary: ["kept"], text: "T" }), one("S"));
  t.same(summaryOf({ ...state(), summary: ["kept"], text: "T" }), one("kept"));
  t.same(summaryOf({ ...state(), text: "T" }), one("T"));
  const { items } = writeTurns(turn("assistant", thought("t", state({ extra: { content: ["Hm."] } })), text("A")));
  t.same(items[0]?.["content"], [{ type: "reasoning_text", text: "Hm." }]);
});

t.test("reasoning without state or of another vendor is left out and declared", async (t) => {
  const { items, dropped } = writeTurns(
    turn("assistant", thought("t0", { text: "T" }), thought("t1", state({ protocol: "gemini" })), text("A")),
  );
  t.same(items, [{ type: "message", role: "assistant", content: "A" }]);
  t.same(dropped, ["t0", "t1"]);
});

t.test("reasoning without the item that followed it is left out and declared", async (t) => {
  const { items, dropped } = writeTurns(
    turn("assistant", thought("t0", state())),
    turn("user", text("U")),
    turn("assistant", thought("t1", state()), thought("t2", state()), call("c1")),
    turn("user", result("c1", [])),
    turn("assistant", thought("t3", state())),
  );
  t.same(
    items.map(({ type }) => type),
    ["message", "reasoning", "reasoning", "function_call", "function_call_output"],
  );
  t.same(dropped.toSorted(), ["t0", "t3"]);
});

t.test("ids and names are made acceptable to the vendor, the same on both sides of a pair", async (t) => {
  const id = "functions.Bash:0";
  const { items } = writeTurns(turn("assistant", call(id, { name: "a.b" })), turn("user", result(id, [text("ok")])));
  t.match(items[0], { call_id: /^[\w-]{1,64}$/, name: /^a_b_\w+$/ });
  t.equal(items[0]?.["call_id"], items[1]?.["call_id"]);
});

t.test("arguments keep their text, missing ones are an empty object, free text is an input", async (t) => {
  const exact = '{"a": 1.0, "b": 12345678901234567890}';
  const { items } = writeTurns(
    turn(
      "assistant",
      call("c1", { arguments: exact }),
      call("c2", { arguments: "" }),
      call("c3", { arguments: "ls", custom: true, namespace: "functions" }),
    ),
  );
  t.same(items, [
    { type: "function_call", call_id: "c1", name: "f", arguments: exact },
    { type: "function_call", call_id: "c2", name: "f", arguments: "{}" },
    { type: "custom_tool_call", call_id: "c3", name: "f", namespace: "functions", input: "ls" },
  ]);
});

t.test("a result with an image is a list of parts", async (t) => {
  const image: Part = { kind: "media", media: "image", mime: "image/png", source: { base64: "iVBO" }, at: "i" };
  const { items } = writeTurns(turn("user", result("c1", [text("a"), image], { custom: true })));
  t.same(items, [
    {
      type: "custom_tool_call_output",
      call_id: "c1",
      output: [
        { type: "input_text", text: "a" },
        { type: "input_image", image_url: "data:image/png;base64,iVBO" },
      ],
    },
  ]);
});

t.test("a result is JSON, empty, or several texts", async (t) => {
  const outputOf = (part: Part) => writeTurns(turn("user", part)).items[0]?.["output"];
  t.equal(outputOf(result("c1", [], { json: '{"a":1.0}' })), '{"a":1.0}');
  t.equal(outputOf(result("c1", [])), "");
  t.same(outputOf(result("c1", [text("a"), text("b")])), [
    { type: "input_text", text: "a" },
    { type: "input_text", text: "b" },
  ]);
});

t.test("an error is mentioned in the text where the text does not", async (t) => {
  const outputOf = (text_: string) =>
    writeTurns(turn("user", result("c1", [text(text_)], { isError: true }))).items[0]?.["output"];
  t.equal(outputOf("no such file"), '{"error":"no such file"}');
  t.equal(outputOf("Error: no such file"), "Error: no such file");
  t.equal(outputOf(""), '{"error":"The tool failed."}');
});

t.test("a mark on a result is on its last part, one on a call is declared", async (t) => {
  const { items, dropped } = writeTurns(
    turn("assistant", call("c1", { cache: {} })),
    turn("user", result("c1", [text("a")], { cache: { ttl: "1h" } })),
  );
  t.same(items[1]?.["output"], [
    { type: "input_text", text: "a", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
  ]);
  t.same(dropped, ["call c1"]);
});

t.test(
  "foreign items and parts of this protocol keep their position, except references to what was not stored",
  async (t) => {
    const foreign = (name: string, at: string): Part => ({
      kind: "foreign",
      protocol: "openai-responses",
      name,
      json: { type: name, id: "x" },
      at,
    });
    const item = (name: string) => foreign(name, "messages.0");
    t.same(writeTurns(turn("assistant", item("web_search_call"), item("item_reference"))).items, [
      { type: "web_search_call", id: "x" },
    ]);
    const part = foreign("input_hologram", "messages.0.content.1");
    t.match(writeTurns(turn("user", text("A"), part), turn("user", result("c1", [part]))).items, [
      { type: "message", content: [{ type: "input_text" }, { type: "input_hologram", id: "x" }] },
      { type: "function_call_output", output: [{ type: "input_hologram", id: "x" }] },
    ]);
    t.same(writeTurns(turn("user", text("A"), { ...part, protocol: "gemini" } as Part)).items, [
      { type: "message", role: "user", content: "A" },
    ]);
  },
);

const writeContent = (role: Turn["role"], ...parts: Part[]) => {
  const { body, losses } = written(plain({ turns: [{ role, parts, at: "m" }] }));
  const [message] = body["input"] as JsonObject[];
  return { content: message?.["content"] as JsonObject[], dropped: losses.dropped };
};
const media = (media: Media["media"], source: Media["source"], more: Partial<Media> = {}): Media => ({
  kind: "media",
  media,
  source,
  at: media,
  ...more,
});

t.test("images of all sources", async (t) => {
  const { content, dropped } = writeContent(
    "user",
    media("image", { base64: "iVBO" }, { mime: "image/png", detail: "high" }),
    media("image", { url: "https://a.example/b" }, { detail: "ultra" }),
    media("image", { url: "data:image/gif;base64,R0lG" }),
    media("image", { id: "file-1", protocol: "openai-chat" }),
  );
  t.same(content, [
    { type: "input_image", detail: "high", image_url: "data:image/png;base64,iVBO" },
    { type: "input_image", image_url: "https://a.example/b" },
    { type: "input_image", image_url: "data:image/gif;base64,R0lG" },
    { type: "input_image", file_id: "file-1" },
  ]);
  t.same(dropped, ["image"]);
});

t.test("files have a name beside their bytes", async (t) => {
  const { content } = writeContent(
    "user",
    media("file", { base64: "JVBE" }, { mime: "application/pdf" }),
    media("file", { base64: "JVBE" }, { mime: "application/pdf", filename: "a.pdf" }),
    media("file", { text: "Süß" }),
    media("file", { url: "https://a.example/c.pdf" }),
    media("file", { base64: "AAAA" }),
  );
  t.same(content, [
    { type: "input_file", filename: "file.pdf", file_data: "data:application/pdf;base64,JVBE" },
    { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBE" },
    { type: "input_file", filename: "file.txt", file_data: "data:text/plain;base64,U8O8w58=" },
    { type: "input_file", file_url: "https://a.example/c.pdf" },
    { type: "input_file", filename: "file.bin", file_data: "data:application/octet-stream;base64,AAAA" },
  ]);
});

t.test("a file by its URL or id has no name, with a notice: the vendor refuses both together", async (t) => {
  const files = [
    media("file", { url: "https://a.example/c.pdf" }, { filename: "c.pdf" }),
    media("file", { id: "file-1", protocol: "openai-chat" }, { filename: "d.pdf" }),
  ];
  const { body, losses } = written(plain({ turns: [{ role: "user", parts: files, at: "m" }] }));
  t.same(body["input"], [
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_file", file_url: "https://a.example/c.pdf" },
        { type: "input_file", file_id: "file-1" },
      ],
    },
  ]);
  t.match(losses.notices, [/is sent without its name$/]);
});

t.test("a text file is text where the model is not OpenAI's: most other servers refuse files", async (t) => {
  const [text, pdf] = [
    media(
      "file",
      { base64: "U8O8w58=" },
      { mime: "text/plain", filename: "a.txt", detail: "high", detailAt: "detail" },
    ),
    media("file", { base64: "JVBE" }, { mime: "application/pdf", detail: "high" }),
  ];
  const { body, losses } = written(
    plain({ turns: [{ role: "user", parts: [text, pdf], at: "m" }] }),
    {},
    "gpt-oss-120b",
  );
  t.match(body["input"], [{ content: [{ type: "input_text", text: "a.txt\n\nSüß" }, { type: "input_file" }] }]);
  t.same(losses.dropped, ["detail"], "of the text only");
});

t.test("audio is wav or mp3", async (t) => {
  const { content } = writeContent("user", media("audio", { base64: "AAAA" }, { mime: "audio/mpeg" }));
  t.same(content, [{ type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } }]);
});

t.test("what the vendor cannot read is refused with its path", async (t) => {
  const refused: [Media, string][] = [
    [media("video", { base64: "AAAA" }), "video"],
    [media("audio", { base64: "AAAA" }, { mime: "audio/flac" }), "audio"],
    [media("audio", { url: "https://a.example/a.wav" }, { mime: "audio/wav" }), "audio"],
    [media("image", { base64: "iVBO" }), "image"],
    [media("image", { text: "x" }), "image"],
    [media("image", { url: "gs://a/b" }), "image"],
    [media("image", { url: "file:///a" }), "image"],
    [media("image", { url: "//a.example/b" }), "image"],
    [media("file", { url: "ftp://a.example/b.pdf" }), "file"],
    [media("file", { id: "files/1", protocol: "gemini" }), "file"],
  ];
  for (const [part, param] of refused)
    t.throws(() => writeContent("user", part), { code: "not_translatable", param }, JSON.stringify(part));
});

t.test("an assistant's content is texts and refusals; images of its own are declared lost", async (t) => {
  const { content, dropped } = writeContent(
    "assistant",
    { kind: "text", text: "A", at: "a" },
    { kind: "refusal", text: "No.", at: "r" },
    media("image", { url: "https://a.example/b" }),
  );
  t.same(content, [
    { type: "output_text", text: "A" },
    { type: "refusal", refusal: "No." },
  ]);
  t.same(dropped, ["image"]);
});

t.test("citations are written by their URL, and cite the whole text where they have no position", async (t) => {
  const citations = [
    { url: "https://a.example", title: "A", start: 0, end: 2 },
    { url: "https://b.example" },
    { quote: "q" },
  ];
  const { content, dropped } = writeContent("assistant", { kind: "text", text: "text", citations, at: "a" });
  t.same(content, [
    {
      type: "output_text",
      text: "text",
      annotations: [
        { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 2 },
        { type: "url_citation", url: "https://b.example", title: "https://b.example", start_index: 0, end_index: 4 },
      ],
    },
  ]);
  t.same(dropped, ["a.citations"]);
});

t.test("a cache mark lasts at least as long as requested, and is not allowed on an assistant's text", async (t) => {
  const marked = (["5m", "30m", "1h", "12h", undefined] as const).map((ttl): Part => {
    return { kind: "text", text: "x", at: "x", cache: ttl ? { ttl } : {} };
  });
  t.same(
    writeContent("user", ...marked).content.map((part) => part["prompt_cache_breakpoint"]),
    [
      { mode: "explicit" },
      { mode: "explicit", ttl: "30m" },
      { mode: "explicit", ttl: "12h" },
      { mode: "explicit", ttl: "12h" },
      { mode: "explicit" },
    ],
  );
  t.same(writeContent("assistant", { kind: "text", text: "x", at: "x", cache: {} }).dropped, ["x"]);
});

const writeTools = (tools: Tool[], toolChoice?: ToolChoice) => {
  const { body, losses, text } = written(plain({ tools, ...(toolChoice && { toolChoice }) }));
  return { tools: body["tools"], choice: body["tool_choice"], dropped: losses.dropped, text };
};
const named = (name: string, more: object = {}): Tool => ({ kind: "function", name, at: name, ...more });
const search: Tool = { kind: "web_search", at: "w" };

t.test("tools are flat, always contain whether they are strict, and keep the text of their schema", async (t) => {
  const properties =
    '"properties":{"a":{"const":12345678901234567890}}, "required":["a"], "additionalProperties":false';
  const parameters = new RawJson(`{ "type":"object", ${properties} }`);
  const { tools, text } = writeTools([named("f", { parameters, description: "F", strict: true }), named("g")]);
  t.match(text, `"parameters":${parameters.text},"strict":true`);
  t.match(tools, [
    { type: "function", name: "f", description: "F", strict: true },
    { type: "function", name: "g", parameters: { type: "object", properties: {} }, strict: false },
  ]);
});

t.test("adjacent tools of a namespace are in it together", async (t) => {
  const custom: Tool = { kind: "custom", name: "exec", namespace: "n", grammar: {}, at: "c" };
  const { tools } = writeTools([named("f", { namespace: "n" }), custom, named("g"), named("h", { namespace: "m" })]);
  t.match(tools, [
    {
      type: "namespace",
      name: "n",
      tools: [{ name: "f" }, { type: "custom", name: "exec", format: { type: "grammar" } }],
    },
    { type: "function", name: "g" },
    { type: "namespace", name: "m", tools: [{ name: "h" }] },
  ]);
});

t.test("a grammar is beside its type", async (t) => {
  const grammar = { syntax: "lark", definition: "start: /a/" };
  const { tools } = writeTools([{ kind: "custom", name: "c", grammar, at: "c" }]);
  t.same(tools, [{ type: "custom", name: "c", format: { type: "grammar", ...grammar } }]);
});

t.test("web search, with unsupported settings declared", async (t) => {
  const tool: Tool = {
    ...search,
    allowed: ["a.example"],
    blocked: ["b.example"],
    maxUses: 3,
    size: "low",
    location: { country: "NO" },
  };
  const { tools, dropped } = writeTools([tool]);
  t.same(tools, [
    {
      type: "web_search",
      filters: { allowed_domains: ["a.example"] },
      search_context_size: "low",
      user_location: { type: "approximate", country: "NO" },
    },
  ]);
  t.same(dropped, ["w"]);
  t.same(writeTools([{ ...tool, paths: { blocked: "w.blocked", maxUses: "w.uses" } }]).dropped, [
    "w.blocked",
    "w.uses",
  ]);
  t.same(writeTools([search]).tools, [{ type: "web_search" }]);
});

t.test("the vendor's own tools are written back, another vendor's are not", async (t) => {
  const server = (protocol: string): Tool => ({
    kind: "server",
    protocol,
    name: "s",
    json: { type: "s", x: 1 },
    at: "s",
  });
  t.same(writeTools([server("openai-responses"), server("gemini")]).tools, [{ type: "s", x: 1 }]);
});

t.test("very many tools are found for a choice among them in linear time", async (t) => {
  const names = Array.from({ length: 200_000 }, (_, n) => `f${n}`);
  const tools = [...names.map((name) => named(name)), named("f1", { kind: "custom" })];
  runLinear(() => {
    const { choice } = writeTools(tools, { mode: "allowed", required: false, names });
    t.same((choice as { tools: unknown[] }).tools[1], { type: "function", name: "f1" });
  });
});

t.test("a cache mark is not allowed on a tool", async (t) => {
  t.same(writeTools([named("f", { cache: {} })]).dropped, ["f"]);
});

t.test("a choice of tools is written in the form of its mode and kinds", async (t) => {
  const custom: Tool = { kind: "custom", name: "c", at: "c" };
  const choice = (toolChoice: ToolChoice, tools: Tool[] = [named("f"), custom, search]) =>
    writeTools(tools, toolChoice).choice;
  for (const mode of ["auto", "none", "required"] as const) t.equal(choice({ mode }), mode);
  t.same(choice({ mode: "named", name: "f" }), { type: "function", name: "f" });
  t.same(choice({ mode: "named", name: "c", custom: true }), { type: "custom", name: "c" });
  t.same(choice({ mode: "named", name: "file_search", server: true }), { type: "file_search" });
  t.same(choice({ mode: "allowed", required: true, names: ["f", "c", "web_search"] }), {
    type: "allowed_tools",
    mode: "required",
    tools: [{ type: "function", name: "f" }, { type: "custom", name: "c" }, { type: "web_search" }],
  });
});

t.test("the time for a choice of many tools grows no faster than their number", async (t) => {
  const tools = Array.from({ length: 40_000 }, (_, i) => named(`f${i}`));
  const names = Array.from({ length: 100_000 }, (_, i) => `g${i}`);
  t.doesNotThrow(() => runLinear(() => writeTools(tools, { mode: "allowed", required: true, names })));
});

t.test("web search alone cannot be chosen: it is the only tool that may be called", async (t) => {
  const chosen: ToolChoice = { mode: "named", name: "web_search", server: true };
  t.equal(writeTools([search], chosen).choice, "required");
  t.same(writeTools([named("f"), search], chosen).choice, {
    type: "allowed_tools",
    mode: "required",
    tools: [{ type: "web_search" }],
  });
});

t.test("a name that does not fit is changed in the same way in the tool and in the choice", async (t) => {
  const name = `long.${"x".repeat(80)}`;
  const { tools, choice } = writeTools([named(name)], { mode: "named", name });
  const [tool] = tools as { name: string }[];
  t.match(tool?.name, /^[\w-]{1,64}$/);
  t.equal((choice as { name: string }).name, tool?.name);
});
