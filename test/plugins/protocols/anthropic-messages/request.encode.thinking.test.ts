import t from "tap";
import { type Facts } from "../../../../src/core/marketplace.ts";
import type { Conversation, Effort, Part, ReasoningConfig } from "../../../../src/translation/conversation.ts";
import { conversation, NAME, text, write } from "./speaking.ts";

const f = { kind: "function" as const, name: "f", at: "tools.0" };
const ask = (reasoning: ReasoningConfig, facts: Facts = {}, more: Partial<Conversation> = {}) => {
  const asked = conversation([["user", text("Hi")]], { reasoning, maxTokens: 60_000, ...more });
  const { body, changed, dropped } = write(asked, facts);
  const { thinking, output_config: config } = body;
  return { thinking, config, changed, dropped };
};

t.test("efforts go by their names to models that think by effort, and to unknown ones", async (t) => {
  const efforts: [Effort, string][] = [
    ["minimal", "low"],
    ["low", "low"],
    ["medium", "medium"],
    ["xhigh", "xhigh"],
    ["max", "max"],
  ];
  for (const [effort, word] of efforts) {
    const { thinking, config, changed } = ask({ effort });
    t.same([thinking, config], [{ type: "adaptive" }, { effort: word }], effort);
    t.equal(changed.length, effort === "minimal" ? 1 : 0);
  }
  t.match(ask({ effort: "none" }), { thinking: { type: "disabled" }, config: undefined });
  t.match(ask({ budget: -1 }), { thinking: { type: "adaptive" }, config: undefined, changed: [] });
  t.match(ask({ budget: 8000 }), {
    config: { effort: "medium" },
    changed: ["reasoning_budget: effort medium for 8000 tokens"],
  });
  t.match(ask({ budget: 0 }), { thinking: { type: "disabled" } });
});

t.test("efforts become tokens for models that think by tokens", async (t) => {
  const budget = (reasoning: ReasoningConfig, more: Partial<Conversation> = {}) =>
    ask(reasoning, { thinking: "budget" }, more);
  t.same(budget({ effort: "low" }).thinking, { type: "enabled", budget_tokens: 4096 });
  t.same(budget({ effort: "max" }).thinking, { type: "enabled", budget_tokens: 48_000 });
  t.match(budget({ budget: 2000 }), { thinking: { budget_tokens: 2000 }, changed: [] });
  t.match(budget({ budget: 100 }), {
    thinking: { budget_tokens: 1024 },
    changed: ["reasoning_budget: 1024 tokens for thinking"],
  });
  t.match(budget({ effort: "high" }, { maxTokens: 4000 }), { thinking: { budget_tokens: 3200 } });
  t.match(budget({ effort: "high" }, { maxTokens: 1000 }), { thinking: undefined, changed: [/no thinking/] });
  t.match(budget({ effort: "none" }), { thinking: undefined, changed: [] });
});

t.test("a model that does not think is not asked to", async (t) => {
  t.match(ask({ effort: "high" }, { thinking: "none" }), { thinking: undefined, dropped: ["reasoning_effort"] });
  t.match(ask({ effort: "none" }, { thinking: "none" }), { thinking: undefined, dropped: [] });
});

t.test("thoughts are shown or not as the client wants", async (t) => {
  t.same(ask({ effort: "low", show: false }).thinking, { type: "adaptive", display: "omitted" });
  t.same(ask({ effort: "low", summary: "auto" }).thinking, { type: "adaptive", display: "summarized" });
  t.same(ask({ show: true }).thinking, { type: "adaptive", display: "summarized" });
  t.equal(ask({ show: false }).thinking, undefined);
});

t.test("a forced call beside thinking by tokens is refused at the client's field", async (t) => {
  const more: Partial<Conversation> = {
    tools: [f],
    toolChoice: { mode: "required" },
    uses: [{ feature: "tool_choice", path: "toolConfig" }],
  };
  t.throws(() => ask({ effort: "low" }, { thinking: "budget" }, more), /^toolConfig: /);
  t.match(ask({ effort: "none" }, { thinking: "budget" }, more), { thinking: undefined });
  t.match(ask({ effort: "low" }, { thinking: "adaptive" }, more), { thinking: { type: "adaptive" } });
});

t.test("in a loop of calls whose thoughts are lost the model goes on without thinking, and says so", async (t) => {
  const signed: Part = {
    kind: "reasoning",
    text: "Hm.",
    opaque: { protocol: NAME, kind: "signature", data: "c2ln" },
    at: "r",
  };
  const call: Part = { kind: "tool_call", id: "a", name: "f", arguments: "{}", at: "c" };
  const result: Part = { kind: "tool_result", callId: "a", parts: [text("ok")], at: "x" };
  const loop = (facts: Facts, ...before: Part[]) => written(facts, before, []);
  const loopThen = (facts: Facts, ...after: unknown[]) => written(facts, [], after);
  const written = (facts: Facts, before: Part[], after: unknown[]) => {
    const turns = [["user", text("Hi")], ["assistant", ...before, call], ["user", result], ...after];
    return write(conversation(turns as never, { reasoning: { effort: "high" }, tools: [f] }), facts);
  };
  for (const thinking of ["budget", "adaptive"] as const) {
    const lost = loop({ thinking });
    t.notOk("thinking" in lost.body, thinking);
    t.match(lost.changed, [/^reasoning_effort: no thinking/]);
    t.ok("thinking" in loop({ thinking }, signed).body, "signed thoughts go on");
    const note = ["system", text("A note.")];
    t.notOk("thinking" in loopThen({ thinking, system_in_place: true }, note).body, "a system message hides no loop");
  }
});

t.test("sampling is dropped beside thinking", async (t) => {
  const { dropped } = ask({ effort: "low" }, {}, { temperature: 0.2, topK: 3, topP: 0.99 });
  t.same(dropped, ["temperature", "top_k"]);
});
