import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Conversation } from "../../../../src/translation/conversation.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { asked, terms } from "./fixture.ts";

const { request } = openaiChat.translation as Translation;
const read = (body: object) => runAtOnce(request.decode(asked({ model: "m", messages: [], ...body })));
const google = (members: object) => read({ extra_body: { google: members } });
const uses = ({ uses }: ReturnType<typeof read>) => uses.map(({ feature, path }) => `${feature} ${path}`);

t.test("thinking is requested as an effort, in OpenRouter's form or in Google's", async (t) => {
  t.same(read({ reasoning_effort: "high" }).reasoning, { effort: "high" });
  t.same(read({ reasoning: { max_tokens: 100, exclude: true } }).reasoning, { budget: 100, show: false });
  t.same(read({ reasoning: { enabled: true } }).reasoning, { effort: "medium" });
  const asked = google({ thinking_config: { thinking_budget: 800, include_thoughts: true } });
  t.same(asked.reasoning, { budget: 800, show: true });
  t.same(uses(asked), [
    "reasoning_budget extra_body.google.thinking_config.thinking_budget",
    "reasoning_summary extra_body.google.thinking_config.include_thoughts",
  ]);
  t.same(google({ thinking_config: { thinking_level: "LOW" } }).reasoning, { effort: "low", show: false });
  t.same(google({ thinking_config: { thinking_budget: 0 } }).reasoning, { budget: 0, effort: "none", show: false });
  const both = read({
    reasoning_effort: "low",
    extra_body: { google: { thinking_config: { include_thoughts: false } } },
  });
  t.same(both.reasoning, { effort: "low", show: false });
});

t.test("tokens, a level and an effort exclude each other", async (t) => {
  const param = "extra_body.google.thinking_config.thinking_budget";
  const thinking_config = { thinking_budget: 1, thinking_level: "low" };
  t.throws(() => google({ thinking_config }), { code: "invalid_field", param, message: /thinking_level/ });
  const extra_body = { google: { thinking_config: { thinking_budget: 1 } } };
  t.throws(() => read({ reasoning_effort: "low", extra_body }), { param, message: /with reasoning_effort/ });
});

t.test("Google's cached content is declared, and so is all else of its own", async (t) => {
  const asked = google({
    cached_content: "cachedContents/a",
    safety_settings: [],
    more: 1,
    thinking_config: { thinking_level: "odd", odd: 1 },
  });
  t.equal(asked.cacheHandle, "cachedContents/a");
  t.same(uses(asked).sort(), [
    "cache_handle extra_body.google.cached_content",
    "other extra_body.google.more",
    "other extra_body.google.thinking_config.odd",
    "other extra_body.google.thinking_config.thinking_level",
    "safety extra_body.google.safety_settings",
  ]);
  t.same(uses(read({ extra_body: { top_k: 1 } })), ["other extra_body.top_k"]);
  t.same(uses(read({ extra_body: "x" })), ["other extra_body"]);
});

t.test("thinking is turned off at DeepSeek and Moonshot, which know no effort for that", async (t) => {
  const [deepseek, moonshot] = ["https://api.deepseek.com/v1", "https://api.moonshot.ai/v1"];
  const tools: Conversation["tools"] = [{ kind: "function", name: "f", at: "tools.0" }];
  const uses: Conversation["uses"] = [
    { feature: "tool_choice", path: "choice" },
    { feature: "reasoning_effort", path: "effort" },
  ];
  const sent = (url: string, model: string, more: Partial<Conversation>) => {
    const to = { ...terms({}, model), url: new URL(url) };
    const base: Conversation = { protocol: "another", task: "generate", stream: false, turns: [], tools, uses };
    const { body } = runAtOnce(request.encode({ ...base, ...more }, to));
    const { thinking, reasoning_effort: effort, tool_choice: choice } = JSON.parse(body) as Record<string, unknown>;
    return [thinking, effort, choice, ...to.losses.changed, ...to.losses.dropped];
  };
  const [off, none, high] = [{ type: "disabled" }, { effort: "none" }, { effort: "high" }] as const;
  t.same(sent(deepseek, "deepseek-v4-flash", { reasoning: none }), [off, undefined, undefined]);
  t.same(sent(moonshot, "kimi-k2.6", { reasoning: { budget: 0 } }), [off, undefined, undefined]);
  t.same(sent(deepseek, "deepseek-v4-flash", { reasoning: high }), [undefined, "high", undefined]);
  t.same(sent("https://vllm.example/v1", "deepseek-v4", { reasoning: none }), [undefined, "none", undefined]);
  t.same(sent(moonshot, "kimi-k3", { reasoning: none }), [undefined, "low", undefined, "effort"], "it always thinks");

  const named = { type: "function", function: { name: "f" } };
  for (const [toolChoice, choice] of [
    [{ mode: "required" }, "required"],
    [{ mode: "named", name: "f" }, named],
    [{ mode: "allowed", required: true, names: ["f"] }, "required"],
  ] as const) {
    const [thinking, effort, written, ...lost] = sent(deepseek, "deepseek-v4-pro", {
      toolChoice: structuredClone(toolChoice) as Conversation["toolChoice"] & object,
      reasoning: high,
    });
    t.same([thinking, effort, written], [off, undefined, choice], "a required call and thinking exclude each other");
    t.ok(lost.includes("choice") && lost.includes("effort"), "which is declared");
  }
  t.same(sent(moonshot, "kimi-k2.5", { toolChoice: { mode: "required" } }), [off, undefined, "required", "choice"]);
  t.same(sent(moonshot, "kimi-k2.5", { toolChoice: { mode: "required" }, reasoning: none }), [
    off,
    undefined,
    "required",
  ]);
  t.same(sent(deepseek, "deepseek-v4-pro", { toolChoice: { mode: "auto" } }), [undefined, undefined, "auto"]);
  t.same(sent(deepseek, "deepseek-v4-pro", { toolChoice: { mode: "required" }, tools: [] }), [
    undefined,
    undefined,
    undefined,
  ]);
  t.same(sent("https://vllm.example/v1", "deepseek-v4", { toolChoice: { mode: "required" } }), [
    undefined,
    undefined,
    "required",
  ]);
});

t.test("thinking of Qwen's models is turned off at Alibaba, in its own way", async (t) => {
  const sent = (url: string, model: string, more: Partial<Conversation>) => {
    const to = { ...terms({}, model), url: new URL(url) };
    const tools: Conversation["tools"] = [{ kind: "function", name: "f", at: "tools.0" }];
    const base: Conversation = { protocol: "another", task: "generate", stream: false, turns: [], tools, uses: [] };
    const { body } = runAtOnce(request.encode({ ...base, ...more }, to));
    const { enable_thinking: thinks, thinking, reasoning_effort: effort } = JSON.parse(body) as Record<string, unknown>;
    return [thinks, thinking, effort];
  };
  const alibaba = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";
  const required: Partial<Conversation> = { toolChoice: { mode: "required" } };
  const none: Partial<Conversation> = { reasoning: { effort: "none" } };
  for (const more of [required, none, { ...required, reasoning: { effort: "high" } } satisfies Partial<Conversation>]) {
    t.same(sent(alibaba, "qwen3.6-plus", more), [false, undefined, undefined]);
  }
  t.same(sent(alibaba, "qwen3.6-plus", { reasoning: { effort: "high" } }), [undefined, undefined, "high"]);
  t.same(sent(alibaba, "qwen3.8-plus", required), [false, undefined, undefined]);
  t.same(sent(alibaba, "qwen3.8-max", required), [undefined, undefined, undefined], "it always thinks");
  t.same(sent(alibaba, "qwen3-coder-plus", required), [undefined, undefined, undefined], "it does not think");
  t.same(sent("https://vllm.example/v1", "qwen3.6-plus", required), [undefined, undefined, undefined]);
});
