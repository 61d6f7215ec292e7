import t, { type Test } from "tap";
import { answerTokens } from "../../../plugins/usage/requested.ts";
import { estimateTokens, tokenWeights } from "../../../plugins/usage/token-count.ts";
import type { Protocol } from "../../../src/core/protocol.ts";
import { loadProtocols } from "../../../src/loader/discover.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { httpUpstream } from "../../support/upstream.ts";

const WORDS = "These are the eight words of an answer.";

/** Returns the ledger's row of a request that the provider answers with this text. */
async function row(t: Test, protocol: string, path: string, request: object, answer: string) {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(200, { "content-type": "application/json" }).end(answer),
  );
  t.teardown(() => upstream.close());
  const base = `${upstream.origin.origin}/${protocol === "gemini" ? "v1beta" : "v1"}`;
  const { url, gateway } = await startGateway(
    t,
    `providers: { up: { url: "${base}", speaks: [${protocol}] } }
models: { m: { price: { input: 3, output: 15, web_search: 0.01 }, targets: [up:x] } }\n`,
  );
  const body = JSON.stringify({ model: "m", ...request });
  await (await fetch(url + path, { method: "POST", headers: asking(), body })).text();
  await gateway.stores.ledger.flush();
  return (await gateway.stores.ledger.recent(1))[0];
}

const CHAT = ["openai-chat", "/v1/chat/completions"] as const;
const GENERATE = "/v1beta/models/m:generateContent";
const messages = [{ role: "user", content: "Say something." }];

t.test("a whole answer of a few words without usage is estimated by its words", async (t) => {
  const message = { role: "assistant", content: WORDS };
  for (const [protocol, tokens, path, request, answer] of [
    ["openai-chat", 10, "/v1/chat/completions", { messages }, { choices: [{ index: 0, message }] }],
    [
      "anthropic-messages",
      16,
      "/v1/messages",
      { messages, max_tokens: 99 },
      { content: [{ type: "text", text: WORDS }] },
    ],
    [
      "gemini",
      10,
      GENERATE,
      { contents: [{ parts: [{ text: "Say something." }] }] },
      { candidates: [{ content: { parts: [{ text: WORDS }] } }] },
    ],
  ] as const) {
    const found = await row(t, protocol, path, request, JSON.stringify(answer));
    t.match(found, { source: "estimated", usage: { out: { total: tokens } } }, protocol);
  }
});

t.test("each call of a whole answer without usage counts besides its arguments, in every protocol", async (t) => {
  const args = { city: "Paris" };
  const json = JSON.stringify(args);
  const chat = { function: { name: "weather", arguments: json }, id: "c", type: "function" };
  const cases = {
    "openai-chat": (calls: null[]) => ({
      choices: [{ message: { content: WORDS, tool_calls: calls.map(() => chat) } }],
    }),
    "openai-responses": (calls: null[]) => ({
      output: [
        { type: "message", role: "assistant", content: [{ type: "output_text", text: WORDS }] },
        ...calls.map(() => ({ type: "function_call", name: "weather", arguments: json })),
      ],
      tools: [{ type: "function", name: "weather", input: {} }],
    }),
    "anthropic-messages": (calls: null[]) => ({
      content: [
        { type: "text", text: WORDS },
        ...calls.map(() => ({ type: "tool_use", name: "weather", input: args })),
      ],
    }),
    gemini: (calls: null[]) => ({
      candidates: [
        { content: { parts: [{ text: WORDS }, ...calls.map(() => ({ functionCall: { name: "weather", args } }))] } },
      ],
    }),
  };
  const protocols = await loadProtocols();
  for (const [name, answer] of Object.entries(cases)) {
    const protocol = protocols.find((each) => each.name === name) as Protocol;
    const { perToolCall, textFactor } = tokenWeights(protocol, "");
    const tokens = (calls: number) => answerTokens(answer(Array(calls).fill(null)), protocol) ?? 0;
    const inside = textFactor * estimateTokens(/^openai/.test(name) ? json : args.city);
    t.ok(perToolCall > 0, name);
    for (const calls of [1, 2])
      t.ok(Math.abs(tokens(calls) - tokens(0) - calls * (perToolCall + inside)) <= 1, `${name}: ${tokens(calls)}`);
  }
});

t.test("a text that a whole answer without usage repeats counts once, and instructions do not count", async (t) => {
  const output = [{ type: "message", role: "assistant", content: [{ type: "output_text", text: WORDS }] }];
  const tokens = async (protocol: string, answer: object) =>
    answerTokens(answer, (await loadProtocols()).find(({ name }) => name === protocol) as Protocol);
  const instructions = WORDS.repeat(9);
  t.equal(await tokens("openai-responses", { output, instructions }), await tokens("openai-responses", { output }));
  const message = { content: WORDS, reasoning: WORDS };
  const reasoning_details = [{ type: "reasoning.text", text: WORDS }];
  t.equal(
    await tokens("openai-chat", {
      choices: [{ message: { ...message, reasoning_content: WORDS, reasoning_details } }],
    }),
    await tokens("openai-chat", { choices: [{ message }] }),
  );
});

t.test("the sources of a short whole answer without usage are no output", async (t) => {
  const choices = [{ index: 0, message: { role: "assistant", content: WORDS } }];
  const search_results = [{ title: WORDS.repeat(9), snippet: WORDS.repeat(20), url: "https://a.example" }];
  const plain = await row(t, ...CHAT, { messages }, JSON.stringify({ choices }));
  const sourced = await row(t, ...CHAT, { messages }, JSON.stringify({ choices, search_results }));
  t.match(sourced, { source: "estimated", usage: { out: { total: plain?.usage?.out.total } } });
});

t.test("a whole answer that begins with a byte order mark has the usage that it reports", async (t) => {
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const answer = `\ufeff${JSON.stringify({ choices: [], usage })}`;
  t.match(await row(t, "openai-chat", "/v1/chat/completions", { messages }, answer), {
    source: "reported",
    cost: 10 * 3000 + 5 * 15_000,
  });
});

t.test("usage without the input is completed by an estimate, unless its protocol leaves out zeros", async (t) => {
  const choices = [{ index: 0, message: { role: "assistant", content: WORDS }, finish_reason: "stop" }];
  const contents = [{ parts: [{ text: "Say something." }] }];
  const candidates = [{ content: { parts: [{ text: WORDS }] }, finishReason: "STOP" }];
  for (const [protocol, path, request, answer, isPartial] of [
    [...CHAT, { messages }, { choices, usage: { completion_tokens: 10 } }, true],
    [...CHAT, { messages }, { choices, usage: { prompt_tokens: null, completion_tokens: 10 } }, true],
    [
      "openai-responses",
      "/v1/responses",
      { input: "Say something." },
      { output: [], usage: { output_tokens: 10 } },
      true,
    ],
    ["gemini", GENERATE, { contents }, { candidates, usageMetadata: { candidatesTokenCount: 10 } }, false],
  ] as const) {
    const found = await row(t, protocol, path, request, JSON.stringify(answer));
    const source = isPartial ? "partial" : "reported";
    t.match(found, { outcome: "completed", source, usage: { out: { total: 10 } } }, `${protocol}: ${found?.source}`);
    t.equal((found?.cost ?? 0) > 10 * 15_000, isPartial, `${protocol}: ${found?.cost} nano-dollars`);
  }
});

t.test("usage that no exchange can have is not charged", async (t) => {
  const choices = [{ index: 0, message: { role: "assistant", content: WORDS }, finish_reason: "stop" }];
  const counts = { prompt_tokens: 10, completion_tokens: 5 };
  for (const absurd of [
    { server_tool_use_details: { web_search_requests: 1e9 } },
    { cost: 1e9 },
    { prompt_tokens: 1e12 },
    { num_search_queries: 2e6 },
    { prompt_tokens: -5 },
    { completion_tokens: 1.5 },
  ]) {
    const usage = { ...counts, ...absurd };
    const found = await row(t, ...CHAT, { messages }, JSON.stringify({ choices, usage }));
    t.match(found, { source: "estimated" }, JSON.stringify(absurd));
    t.ok((found?.cost ?? 0) < 1e6, `${found?.cost} nano-dollars`);
    t.equal(found?.usage?.serverTools, undefined);
    t.ok((found?.usage?.in.total ?? 0) > 0, "input tokens");
  }
});

t.test("what is stored of an answer does not grow with what its provider names", async (t) => {
  const long = "\x1b[31m".repeat(20_000);
  const counts = { input_tokens: 10, output_tokens: 5 };
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`tool_${i}_requests`, 1]));
  const iterations = Array.from({ length: 2000 }, () => ({ type: "compaction", ...counts }));
  const MESSAGES = ["anthropic-messages", "/v1/messages", { messages, max_tokens: 99 }] as const;
  const content = [{ type: "text", text: WORDS }];
  for (const [name, usage] of Object.entries({
    tier: { ...counts, service_tier: long },
    tools: { ...counts, server_tool_use: many },
    "the name of a tool": { ...counts, server_tool_use: { [long]: 1 } },
    "what ran besides": { ...counts, iterations },
    "counts of no total": { ...many, input_tokens: null },
  })) {
    const found = await row(t, ...MESSAGES, JSON.stringify({ content, usage }));
    t.equal(found?.source, "estimated", name);
    t.ok(JSON.stringify(found).length < 1000, `${name}: ${JSON.stringify(found).length}`);
  }
  const response = { id: `resp_${long}`, object: "response", background: true, status: "completed", output: [] };
  const late = { ...response, usage: counts };
  const found = await row(t, "openai-responses", "/v1/responses", { input: "x" }, JSON.stringify(late));
  t.equal(found?.source, "reported");
  t.ok(JSON.stringify(found).length < 2000, `the answer's id: ${JSON.stringify(found).length}`);
});

t.test("a count of tokens is free", async (t) => {
  const found = await row(t, "anthropic-messages", "/v1/messages/count_tokens", { messages }, '{"input_tokens":9}');
  t.match(found, { source: "free", cost: 0, operation: "count_tokens" });
});

t.test(
  "an answer without usage to a request whose limit is a fraction has its row, and costs whole tokens",
  async (t) => {
    const choices = [{ index: 0, message: { role: "assistant", content: WORDS } }];
    const found = await row(t, ...CHAT, { messages, max_tokens: 2.000_000_1 }, JSON.stringify({ choices }));
    t.match(found, { source: "estimated", usage: { out: { total: 3 } } });
    t.equal(found?.cost, (found?.usage?.in.total ?? 0) * 3000 + 3 * 15_000);
  },
);
