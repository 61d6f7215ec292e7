import t, { type Test } from "tap";
import chat from "../../../plugins/protocols/openai-chat/index.ts";
import { JsonUsage } from "../../../src/core/json-usage.ts";
import { isPriced } from "../../../src/core/price.ts";
import type { Usage } from "../../../src/core/usage.ts";
import { asking, startGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { httpUpstream } from "../../support/upstream.ts";

const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const search = (more: object = {}) => ({ type: "web_search_call", id: "ws_1", status: "completed", ...more });
const LISTED = { input: 1, output: 2 };
const FILLER = "x".repeat(5000);

/** Asks for an answer of a provider, and leaves a stream as soon as it has arrived. @returns the ledger's row */
async function row(t: Test, protocol: string, path: string, answer: string, request: object = {}) {
  const isStream = !answer.startsWith("{");
  const upstream = await httpUpstream((_, reply) => {
    reply.writeHead(200, { "content-type": isStream ? "text/event-stream" : "application/json" });
    if (isStream) reply.write(answer);
    else reply.end(answer);
  });
  t.teardown(() => upstream.close());
  const base = `${upstream.origin.origin}/${protocol === "gemini" ? "v1beta" : "v1"}`;
  const { url, gateway, log } = await startGateway(
    t,
    `providers: { up: { url: "${base}", speaks: [${protocol}] } }
models: { m: { price: { input: 0, output: 0, web_search: 0.01 }, targets: [up:x] } }
`,
  );
  const body = JSON.stringify({ model: "m", stream: isStream, ...request });
  const response = await fetch(url + path, { method: "POST", headers: asking(), body });
  const reader = response.body?.getReader();
  for (let seen = 0; seen < answer.length; ) seen += (await reader?.read())?.value?.length ?? answer.length;
  await reader?.cancel();
  await until(() => log.lines.some(({ message }) => message === "exchange"), "the end");
  await gateway.stores.ledger.flush();
  return (await gateway.stores.ledger.recent(1))[0];
}
const EACH = 10_000_000;

t.test("searches of a stream whose client leaves before the usage are charged", async (t) => {
  const items = [search(), search({ action: { type: "search" } }), search({ action: { type: "open_page" } })];
  const done = items.map((item) => event("response.output_item.done", { item })).join("");
  const responses = await row(t, "openai-responses", "/v1/responses", done, { input: "x" });
  t.match(responses, { outcome: "aborted", usage: { serverTools: { web_search_requests: 2 } }, cost: 2 * EACH });

  const usage = { input_tokens: 10, output_tokens: 1, server_tool_use: null };
  const started = event("message_start", { message: { id: "m", type: "message", content: [], usage } });
  const block = (content: unknown) =>
    event("content_block_start", { content_block: { type: "web_search_tool_result", tool_use_id: "s", content } });
  const blocks = started + block([]) + block({ type: "web_search_tool_result_error" }) + block([]);
  const asked = { max_tokens: 9, messages: [{ role: "user", content: "x" }] };
  const messages = await row(t, "anthropic-messages", "/v1/messages", blocks, asked);
  t.match(messages, { outcome: "aborted", source: "partial", usage: { in: { total: 10 } }, cost: 2 * EACH });

  const grounded = { candidates: [{ groundingMetadata: { webSearchQueries: ["a", "b"] } }] };
  const path = "/v1beta/models/m:streamGenerateContent?alt=sse";
  const gemini = await row(t, "gemini", path, `data: ${JSON.stringify(grounded)}\n\n`, { contents: [] });
  t.match(gemini, { outcome: "aborted", cost: 2 * EACH });
});

t.test("searches of a Responses answer count by its items where their number is not reported", async (t) => {
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
  const output = [search(), search({ action: { type: "find_in_page" } }), search(), search({ status: "failed" })];
  for (const filler of ["", FILLER])
    for (const [more, count] of [
      [{}, 2],
      [{ tool_usage: {} }, 2],
      [{ tool_usage: { web_search: { num_requests: 5 } } }, 5],
      [{ tool_usage: { web_search: { num_requests: 0 } } }, 0],
    ] as const) {
      const answer = JSON.stringify({ id: "r", filler, output, usage, ...more });
      const found = await row(t, "openai-responses", "/v1/responses", answer, { input: "x" });
      t.match(found, { source: "reported", cost: count * EACH }, JSON.stringify(more));
    }
});

t.test("Gemini's searches cost once for each request, and from the third generation each once", async (t) => {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
  const candidates = [{ groundingMetadata: { webSearchQueries: ["a", "", "b", "a"] } }];
  for (const [modelVersion, count] of [
    ["gemini-2.5-pro", 1],
    ["gemini-2.0-flash-001", 1],
    ["gemini-3-pro-preview", 2],
    ["gemini-3.5-flash", 2],
  ] as const)
    for (const filler of ["", FILLER]) {
      const answer = JSON.stringify({ candidates, usageMetadata, modelVersion, filler });
      const found = await row(t, "gemini", "/v1beta/models/m:generateContent", answer, { contents: [] });
      t.match(found, { source: "reported", cost: count * EACH }, modelVersion);
    }
  const plain = JSON.stringify({ candidates: [{ groundingMetadata: {} }], usageMetadata });
  const found = await row(t, "gemini", "/v1beta/models/m:generateContent", plain, { contents: [] });
  t.match(found, { cost: 0, usage: { serverTools: undefined } });
});

t.test("an answer of Gemini's that names places of its maps is unpriced by a public table", async (t) => {
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
  const places = [{ groundingMetadata: { groundingChunks: [{ maps: { uri: "https://m", title: "Here" } }] } }];
  const stream = "/v1beta/models/m:streamGenerateContent?alt=sse";
  for (const [path, answer] of [
    ["/v1beta/models/m:generateContent", JSON.stringify({ candidates: places, usageMetadata })],
    [stream, `data: ${JSON.stringify({ candidates: places })}\n\ndata: ${JSON.stringify({ usageMetadata })}\n\n`],
  ] as const) {
    const found = await row(t, "gemini", path, answer, { contents: [] });
    t.match(found, { cost: 0, usage: { serverTools: { google_maps: 1 } } }, "what an operator's price omits is free");
    const { usage } = found as { usage: Usage };
    t.equal(isPriced(usage, { ...LISTED, web_search: 0.01 }, true), false);
    t.equal(isPriced({ ...usage, serverTools: {} }, LISTED, true), true);
  }
});

t.test("a Chat answer with citations was searched for once, also in a stream whose client leaves", async (t) => {
  const messages = [{ role: "user", content: "x" }];
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const cited = { annotations: [1, 2].map(() => ({ type: "url_citation", url_citation: { url: "http://x" } })) };
  const chunk = (delta: object, more: object = {}) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta }], ...more })}\n\n`;
  const asked = async (answer: string, more: object = {}) =>
    row(t, "openai-chat", "/v1/chat/completions", answer, { messages, ...more });
  for (const filler of ["", FILLER])
    for (const [message, more, count] of [
      [cited, {}, 1],
      [cited, { server_tool_use_details: { web_search_requests: 3 } }, 3],
      [{ annotations: [] }, {}, 0],
      [{ annotations: [{ type: "file", file: {} }] }, {}, 0],
    ] as const) {
      const choices = [{ index: 0, message: { role: "assistant", content: "x", ...message } }];
      const found = await asked(JSON.stringify({ id: "c", filler, choices, usage: { ...usage, ...more } }));
      t.match(found, { source: "reported", cost: count * EACH }, JSON.stringify(more));
    }
  const left = await asked(chunk({ content: "A text." }) + chunk(cited) + chunk({ content: "More." }));
  t.match(left, { outcome: "aborted", source: "estimated", cost: EACH });
  const told = await asked(chunk(cited) + chunk({}, { choices: [], usage }), {
    stream_options: { include_usage: true },
  });
  t.match(told, { usage: { in: { total: 10 }, serverTools: { cited_web_search: 1 } }, cost: EACH });
});

t.test(
  "a Chat answer with citations at a listed price without searches is unpriced only of a search model",
  async (t) => {
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const message = { annotations: [{ type: "url_citation", url_citation: { url: "http://x" } }] };
    for (const filler of ["", FILLER])
      for (const [model, price, priced] of [
        ["openai/gpt-4o", LISTED, true],
        ["research-1", LISTED, true],
        ["openai/gpt-4o-search-preview", LISTED, false],
        ["gpt-5-search-api-2025-10-14", LISTED, false],
        ["gpt-5-search-api-2025-10-14", { ...LISTED, web_search: 0.01 }, true],
      ] as const) {
        const parser = new JsonUsage([chat]);
        parser.push(Buffer.from(JSON.stringify({ id: "c", filler, model, choices: [{ index: 0, message }], usage })));
        t.equal(isPriced(parser.end() as Usage, price, true), priced, model);
      }
  },
);
