import t from "tap";
import messages from "../../../../plugins/protocols/anthropic-messages/index.ts";
import protocol from "../../../../plugins/protocols/openai-chat/index.ts";
import responses from "../../../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../../../src/core/body.ts";
import { findOtherModels } from "../../../../src/core/other-models.ts";
import type { Protocol } from "../../../../src/core/protocol.ts";
import type { Conversation } from "../../../../src/translation/conversation.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";

t.test("it is the dialect for clients of an unknown one", async (t) => {
  t.equal(protocol.isDefault, true);
});

t.test("its one operation generates, and streams when asked", async (t) => {
  const located = protocol.locate("/v1/chat/completions", "", new URLSearchParams());
  t.match(located?.operation, { name: "chat", body: "json", streams: "asked", framing: "sse", generates: true });
  t.equal(located?.operation.upstream("any"), "/chat/completions");
});

t.test("it recognises its path wherever it is mounted", async (t) => {
  for (const path of ["/chat/completions", "/v1/v1/chat/completions", "/v1beta/openai/chat/completions"]) {
    t.ok(protocol.recognises(path, new HeaderList()), path);
  }
  for (const path of ["/v1/completions", "/v1/chat/completionsx", "/v1/responses"]) {
    t.notOk(protocol.recognises(path, new HeaderList()), path);
  }
});

t.test("functions together with an effort belong to Responses; the newer models refuse them here", async (t) => {
  const tools = [{ type: "function", function: { name: "one" } }];
  const wants = (body: object) =>
    protocol.better?.isNeededFor(body as Record<string, unknown>, { model: "gpt-5.4", facts: {} });
  t.equal(protocol.better?.protocol, "openai-responses");
  t.equal(wants({ tools, reasoning_effort: "low" }), true);
  t.equal(wants({ functions: [{ name: "one" }], reasoning_effort: "low" }), true, "under their older name too");
  t.equal(wants({ functions: [], reasoning_effort: "low" }), false);
  t.equal(wants({ tools, reasoning_effort: "none" }), false);
  t.equal(wants({ tools }), false);
  t.equal(wants({ reasoning_effort: "low" }), false);
  t.equal(wants({ tools: [{ type: "custom", custom: { name: "one" } }], reasoning_effort: "low" }), false);
});

t.test("without an effort that holds for the models that reason by default", async (t) => {
  const tools = [{ type: "function", function: { name: "one" } }];
  const wants = (model: string, facts = {}, body: object = { tools }) =>
    protocol.better?.isNeededFor(body as Record<string, unknown>, { model, facts });
  for (const model of ["gpt-5.6", "gpt-5-6-sol", "openai/gpt-6", "gpt-6.1-terra"]) t.equal(wants(model), true, model);
  for (const model of ["gpt-5", "gpt-5-2025-08-07", "gpt-5.4-mini", "gpt-4.1", "grok-6"])
    t.equal(wants(model), false, model);
  t.equal(wants("gpt-6", {}, { tools, reasoning_effort: null }), true);
  t.equal(wants("gpt-6", {}, { tools, reasoning_effort: "none" }), false);
  t.equal(wants("gpt-6", {}, {}), false);
  t.equal(wants("gpt-6-chat", { reasons: false }), false);
  t.equal(wants("gpt-6", { thinking: "none" }), false);
});

t.test("a translated web search needs Responses, but for the models that search in Chat", async (t) => {
  const tools: Conversation["tools"] = [{ kind: "web_search", at: "tools.0" }];
  const base: Conversation = { protocol: "gemini", task: "generate", stream: false, turns: [], tools, uses: [] };
  const wants = (model: string) => protocol.better?.isNeededForConversation(base, { model, facts: {} });
  for (const model of ["gpt-5.4-mini", "openai/gpt-6", "research-1"]) t.equal(wants(model), true, model);
  for (const model of ["gpt-4o-search-preview", "openai/gpt-5-search-api"]) t.equal(wants(model), false, model);
});

t.test("translated conversations need Responses for the same reasons", async (t) => {
  const base: Conversation = { protocol: "gemini", task: "generate", stream: false, turns: [], tools: [], uses: [] };
  const tools: Conversation["tools"] = [{ kind: "function", name: "one", at: "tools.0" }];
  const wants = (model: string, reasoning?: Conversation["reasoning"], facts = {}, more: object = { tools }) =>
    protocol.better?.isNeededForConversation({ ...base, ...(reasoning && { reasoning }), ...more }, { model, facts });
  t.equal(wants("gpt-5.4", { effort: "high" }), true);
  t.equal(wants("gpt-5.4", { budget: 4000 }), true);
  t.equal(wants("gpt-5.4", { effort: "high" }, {}, {}), false);
  t.equal(wants("gpt-5.4", { effort: "none" }), false);
  t.equal(wants("gpt-5.4", { budget: 0 }), false);
  t.equal(wants("gpt-5.4"), false);
  t.equal(wants("gpt-5.4", { budget: -1 }), false, "the model decides");
  t.equal(wants("gpt-5.6", { budget: -1 }), true);
  t.equal(wants("gpt-5.6"), true);
  t.equal(wants("gpt-5.6", { effort: "none" }), false);
  t.equal(wants("another", { effort: "high" }, { reasons: false }), false);
  t.equal(wants("gpt-4.1", { effort: "high" }), false, "its name says that it does not reason");
});

t.test(
  "models of other vendors' tools, plugins and compound systems count as models that a request names",
  async (t) => {
    const named = (spoken: Protocol, json: object) =>
      findOtherModels(new Body([Buffer.from(JSON.stringify(json))], "json"), spoken, false).map(({ name }) => name);
    const tools = [
      { type: "openrouter:advisor", parameters: { model: "a" } },
      { type: "openrouter:fusion", parameters: { analysis_models: ["b", "c"], judge_model: "d" } },
      { type: "function", function: { name: "f", parameters: { properties: { model: { default: "x" } } } } },
      { type: "function", name: "f", parameters: { type: "object", properties: { model: { const: "x" } } } },
    ];
    for (const spoken of [protocol, responses, messages]) t.same(named(spoken, { tools }), ["a", "b", "c", "d"]);
    const models = { answering_model: "a", reasoning_model: "b" };
    t.same(named(protocol, { safety_model: "s", compound_custom: { models } }), ["s", "a", "b"]);
    t.same(named(protocol, { plugins: [{ id: "fusion", model: "a" }] }), ["a"]);
  },
);
