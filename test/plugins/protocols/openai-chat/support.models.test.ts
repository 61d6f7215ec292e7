import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import { needsReasoning } from "../../../../plugins/protocols/openai-chat/support.models.ts";
import type { Facts } from "../../../../src/core/marketplace.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Conversation, Part, ToolChoice, Turn } from "../../../../src/translation/conversation.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { terms } from "./fixture.ts";

const { request } = openaiChat.translation as Translation;

/** The roles and contents of the messages that turns become, and what is declared. */
function sent(model: string, ...turns: Turn[]) {
  const to = terms({}, model);
  const asked = { protocol: "another", task: "generate", stream: false, turns, tools: [], uses: [] } as const;
  const { messages } = JSON.parse(runAtOnce(request.encode({ ...asked, tools: [], uses: [] }, to)).body) as {
    messages: { role: string; content: unknown }[];
  };
  return { messages: messages.map(({ role, content }) => [role, content]), changed: to.losses.changed };
}

const turn = (role: Turn["role"], at: string, ...parts: Part[]): Turn => ({ role, parts, at });
const text = (words: string): Part => ({ kind: "text", text: words, at: "text" });
const call: Part = { kind: "tool_call", id: "a", name: "one", arguments: "{}", at: "call" };
const result = (...parts: Part[]): Part => ({ kind: "tool_result", callId: "a", parts, at: "result" });

t.test("a system message between turns is the user's for Mistral's models, and no turn is invented", async (t) => {
  const turns = [
    turn("user", "0", text("Go")),
    turn("assistant", "1", call),
    turn("user", "2", result(text("ok")), text("And?")),
    turn("system", "3", text("Be terse.")),
  ];
  const before = [
    ["user", "Go"],
    ["assistant", null],
    ["tool", "ok"],
    ["user", "And?"],
  ];
  for (const model of ["mistral-large-latest", "mistralai/Devstral-Small-2507", "Codestral-2501"]) {
    const reminder = ["user", "<system-reminder>\nBe terse.\n</system-reminder>"];
    t.same(sent(model, ...turns), { messages: [...before, reminder], changed: ["3"] }, model);
  }
  t.same(sent("deepseek-chat", ...turns), { messages: [...before, ["system", "Be terse."]], changed: [] });
});

t.test("MiniMax is asked for reasoning apart from the text, and no other server", async (t) => {
  for (const [url, split] of [
    ["https://api.minimax.io/v1", true],
    ["https://api.minimaxi.com/v1", true],
    ["https://openrouter.ai/api/v1", undefined],
  ] as const) {
    const asked = { protocol: "another", task: "generate", stream: true, turns: [], tools: [], uses: [] } as const;
    const to = { ...terms({}, "MiniMax-M3"), url: new URL(url) };
    const { body } = runAtOnce(request.encode({ ...asked, turns: [], tools: [], uses: [] }, to));
    t.equal((JSON.parse(body) as { reasoning_split?: boolean }).reasoning_split, split, url);
    t.same(to.losses.changed, []);
  }
});

t.test("JSON beside functions is refused at Groq, and functions left out where none may be called", async (t) => {
  const tools: Conversation["tools"] = [{ kind: "function", name: "f", at: "tools.0" }];
  const written = (host: string, more: Partial<Conversation>) => {
    const to = { ...terms({}, "openai/gpt-oss-120b"), url: new URL(`https://${host}/v1`) };
    const base: Conversation = { protocol: "another", task: "generate", stream: false, turns: [], tools, uses: [] };
    const { body } = runAtOnce(request.encode({ ...base, ...more }, to));
    const { tools: sent, response_format } = JSON.parse(body) as Record<string, unknown>;
    return [Array.isArray(sent), response_format !== undefined, to.losses.changed.length];
  };
  const format = { kind: "json" } as const;
  t.throws(() => written("api.groq.com", { format }), {
    code: "invalid_field",
    message: /only where it has no functions/,
  });
  t.same(written("api.groq.com", { format, toolChoice: { mode: "none" } }), [false, true, 1]);
  t.same(written("api.groq.com", { format, tools: [] }), [false, true, 0]);
  t.same(written("api.groq.com", { format: { kind: "text" } }), [true, false, 0]);
  t.same(written("api.cerebras.ai", { format, toolChoice: { mode: "none" } }), [true, true, 0]);
});

const SAMPLING = { temperature: 0.7, topP: 0.9, frequencyPenalty: 0.1, presencePenalty: 0.2 };

/** The sampling settings that are sent, and what is dropped. */
function sampling(url: string, model: string, asked: Partial<Conversation> = SAMPLING, facts: Facts = {}) {
  const to = { ...terms(facts, model), url: new URL(url) };
  const base: Conversation = { protocol: "another", task: "generate", stream: false, turns: [], tools: [], uses: [] };
  const { body } = runAtOnce(request.encode({ ...base, ...asked }, to));
  const { temperature, top_p, frequency_penalty, presence_penalty } = JSON.parse(body) as Record<string, unknown>;
  return { sent: [temperature, top_p, frequency_penalty, presence_penalty], dropped: to.losses.dropped };
}
const NOTHING = [undefined, undefined, undefined, undefined];

t.test("Kimi's models get no sampling settings at Moonshot, which has fixed them", async (t) => {
  const dropped = ["temperature", "top_p", "penalties", "penalties"];
  for (const model of ["kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code", "kimi-k3"])
    t.same(sampling("https://api.moonshot.ai/v1", model), { sent: NOTHING, dropped }, model);
  const kept = { sent: [0.7, 0.9, 0.1, 0.2], dropped: [] };
  t.same(sampling("https://api.moonshot.cn/v1", "moonshot-v1-8k"), kept);
  t.same(sampling("https://api.deepseek.com/v1", "deepseek-v4-pro"), kept);
  t.same(sampling("https://vllm.example/v1", "kimi-k2.5"), kept);
});

t.test(
  "penalties are left out for models that refuse them: xAI's, and those that take no sampling settings",
  async (t) => {
    const xai = "https://api.x.ai/v1";
    const dropped = ["penalties", "penalties"];
    for (const model of ["grok-4.6", "grok-4-0709", "grok-code-fast-1", "grok-build-1"])
      t.same(sampling(xai, model), { sent: [0.7, 0.9, undefined, undefined], dropped }, model);
    const uses: Conversation["uses"] = ["presencePenalty", "frequencyPenalty"].map((path) => ({
      feature: "penalties",
      path,
    }));
    const named = sampling(xai, "grok-4.6", { ...SAMPLING, uses }).dropped;
    t.same(named, ["frequencyPenalty", "presencePenalty"], "each by the client's name");
    const none = { frequencyPenalty: 0, presencePenalty: 0 };
    t.same(sampling(xai, "grok-4.6", none), { sent: NOTHING, dropped: [] }, "those of 0 too, which change nothing");
    t.same(sampling("https://api.openai.com/v1", "gpt-4o", none).sent, [undefined, undefined, 0, 0]);
    const reasoning = sampling("https://api.openai.com/v1", "gpt-5", SAMPLING, { sampling: false });
    t.same(reasoning, { sent: NOTHING, dropped: ["temperature", "top_p", ...dropped] });
  },
);

t.test("nothing stands for reasoning at vendors that refuse its member", async (t) => {
  const at = (host: string) =>
    needsReasoning({ model: "moonshotai/kimi-k2.5", facts: {}, url: new URL(`https://${host}/v1`) });
  t.equal(at("models.example"), true);
  for (const host of ["api.groq.com", "api.cerebras.ai", "api.mistral.ai"]) t.equal(at(host), false, host);
});

t.test("the model decides about a call where the vendor refuses to require one, which is declared", async (t) => {
  const sent = (url: string, model: string, toolChoice: ToolChoice, names = ["f", "g"]) => {
    const to = { ...terms({}, model), url: new URL(url) };
    const tools: Conversation["tools"] = names.map((name) => ({ kind: "function", name, at: name }));
    const uses: Conversation["uses"] = [{ feature: "tool_choice", path: "choice" }];
    const asked = { protocol: "another", task: "generate", stream: false, turns: [], tools, uses, toolChoice } as const;
    const { body } = runAtOnce(request.encode({ ...asked, turns: [] }, to));
    const written = JSON.parse(body) as { tools?: { function: { name: string } }[]; tool_choice: unknown };
    return [written.tool_choice, written.tools?.map((tool) => tool.function.name).join(), to.losses.changed.join()];
  };
  const required: ToolChoice = { mode: "required" };
  const named: ToolChoice = { mode: "named", name: "f" };
  for (const [url, model] of [
    ["https://api.z.ai/api/paas/v4", "glm-5.2"],
    ["https://api.meta.ai/v1", "muse-spark-1.3"],
    ["https://api.moonshot.ai/v1", "kimi-k2.7-code"],
    ["https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3.8-max"],
  ] as const) {
    t.same(sent(url, model, required), ["auto", "f,g", "choice"], model);
    t.same(sent(url, model, named), ["auto", "f", "choice,g,choice"], model);
    t.same(sent(url, model, { mode: "auto" }), ["auto", "f,g", ""], model);
    const none = /^(glm|muse)/.test(model) ? [undefined, undefined, "choice"] : ["none", "f,g", ""];
    t.same(sent(url, model, { mode: "none" }), none, `${model}: no tools, where it has no choice of none`);
    t.equal(sent(url, model, { mode: "none" }, []).at(-1), "", `${model}: where there are no tools, nothing changes`);
    const nobody = sent(url, model, { mode: "allowed", names: ["h"], required: true });
    t.same(nobody.slice(0, 2), none.slice(0, 2), model);
  }
  const moonshot = "https://api.moonshot.ai/v1";
  t.same(sent(moonshot, "kimi-k3", required), ["required", "f,g", ""]);
  t.same(sent(moonshot, "kimi-k3", named), ["required", "f", "choice,g"], "it knows no name there");
  const other = "https://models.example/v1";
  for (const model of ["glm-5.2", "kimi-k3"]) {
    t.same(sent(other, model, required), ["required", "f,g", ""], model);
    t.same(sent(other, model, named), [{ type: "function", function: { name: "f" } }, "f,g", ""], model);
  }
});
