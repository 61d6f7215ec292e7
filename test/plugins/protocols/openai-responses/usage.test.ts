import { isDeepStrictEqual } from "node:util";
import t, { type Test } from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import {
  hiddenReasoning,
  inputTokensCodec,
  readUsage,
  writeResponsesUsage,
} from "../../../../plugins/protocols/openai-responses/usage.ts";
import type { Usage } from "../../../../src/core/usage.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { asEvent, eventsIn, jsonOf, recorded } from "../../../support/recorded.ts";

t.test("every part of a full report is decoded, in a whole response as in an event", async (t) => {
  const usage = {
    input_tokens: 100,
    input_tokens_details: {
      cached_tokens: 40,
      cache_write_tokens: 30,
      cache_write_tokens_details: { ttl_30m_tokens: 10, ttl_12h_tokens: 15 },
    },
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 20 },
    total_tokens: 150,
    server_side_tool_usage_details: { web_search_calls: 2 },
  };
  const normal = {
    in: { total: 100, cached: 40, write: { "30m": 10, "12h": 15, unsplit: 5 } },
    out: { total: 50, reasoning: 20 },
    serverTools: { web_search_calls: 2 },
    tier: "priority",
    raw: usage,
  };
  const response = { id: "resp_1", service_tier: "priority", usage };
  t.strictSame(readUsage(response), normal);
  t.strictSame(readUsage({ type: "response.completed", response }), normal);
});

t.test("tokens written to the cache without a split stay unsplit", async (t) => {
  const parts = (input_tokens_details: object) =>
    readUsage({ usage: { input_tokens: 9, input_tokens_details } })?.in.write;
  t.strictSame(parts({ cache_write_tokens: 4 }), { unsplit: 4 });
  t.strictSame(parts({ cache_write_tokens: 4, cache_write_tokens_details: { ttl_30m_tokens: 4 } }), { "30m": 4 });
  t.strictSame(parts({ cached_tokens: 0 }), undefined);
  const alibaba = (written: number) => ({
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 0 },
    x_details: [{ prompt_tokens_details: { cache_creation_input_tokens: written, cache_type: "ephemeral" } }],
  });
  t.strictSame(readUsage({ usage: alibaba(4) })?.in, { total: 9, cached: 0, write: { unsplit: 4 } });
  t.strictSame(readUsage({ usage: alibaba(0) })?.in.write, undefined);
});

t.test("web searches are beside the usage; none are left out", async (t) => {
  const of = (num_requests: number) =>
    readUsage({ usage: { input_tokens: 1 }, tool_usage: { image_gen: {}, web_search: { num_requests } } })?.serverTools;
  t.strictSame(of(3), { web_search_requests: 3 });
  t.equal(of(0), undefined);
  const item = (more: object) => ({ type: "web_search_call", ...more });
  const output = [item({}), item({ action: { type: "search" } }), item({ action: { type: "open_page" } })];
  const unreported = {
    usage: { input_tokens: 1 },
    output: [...output, item({ status: "failed" }), { type: "message" }],
  };
  t.strictSame(readUsage(unreported)?.serverTools, { web_search_requests: 2 }, "those in the output");
});

t.test("cached tokens are never more than the input", async (t) => {
  t.equal(readUsage({ usage: { input_tokens: 3, input_tokens_details: { cached_tokens: 9 } } })?.in.cached, 3);
});

t.test("a response that has only begun keeps what was known", async (t) => {
  const first = readUsage({ usage: { input_tokens: 3 } });
  t.equal(readUsage({ type: "response.created", response: { usage: null } }, first), first);
  t.equal(readUsage({ type: "response.created", response: { usage: null } }), undefined);
});

t.test("a tool whose schema has a member called usage is no report", async (t) => {
  const tools = [{ type: "function", name: "f", parameters: { properties: { usage: { type: "string" } } } }];
  const event = asEvent({ type: "response.created", response: { tools, usage: null } });
  t.equal(readUsage(event.json()), undefined);
});

t.test("usage is the sum, with its parts; an unreported value is 0 where a count is required", async (t) => {
  const write = { "5m": 30, "1h": 20 };
  t.same(writeResponsesUsage({ in: { total: 160, cached: 100, write }, out: { total: 5 }, raw: {} }), {
    input_tokens: 160,
    input_tokens_details: { cached_tokens: 100, cache_write_tokens: 50 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 165,
  });
  // Typed clients (Java's) cannot read an answer without it.
  t.match(writeResponsesUsage({ in: {}, out: {}, raw: {} })["input_tokens_details"], {
    cached_tokens: 0,
    cache_write_tokens: 0,
  });
  const split = writeResponsesUsage({ in: { write: { "30m": 3, "12h": 4, unsplit: 1 } }, out: {}, raw: {} });
  t.match(split["input_tokens_details"], {
    ...{ cached_tokens: 0, cache_write_tokens: 8 },
    cache_write_tokens_details: { ttl_30m_tokens: 3, ttl_12h_tokens: 4 },
  });
});

t.test("a count is a number in an object of its own", async (t) => {
  t.equal(inputTokensCodec.decode('{"object":"response.input_tokens","input_tokens":11}'), 11);
  t.same(JSON.parse(inputTokensCodec.encode(11)), { object: "response.input_tokens", input_tokens: 11 });
});

t.test("an answer without a count is the provider's fault", async (t) => {
  for (const text of ["", "<html>", "null", "{}", '{"input_tokens":"11"}', '{"input_tokens":-1}'])
    t.throws(() => inputTokensCodec.decode(text), { code: "upstream_invalid", status: 502 }, text);
});

/** These hold chat completions, whatever their folder says. */
const MISPLACED = "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1";

/** The usage of a whole answer, and the same of an event that holds it. */
function ofWhole(body: string) {
  const json = jsonOf(body) as { usage?: object | null };
  const event = asEvent({ type: "response.completed", response: json });
  return {
    raw: json.usage,
    found: [readUsage(json), readUsage(protocol.holdsUsage(event) ? event.json() : undefined)],
  };
}

/** The usage of a stream, and that of its last response as a whole answer. */
function ofStream(body: string) {
  let usage: Usage | undefined;
  let last: { usage?: object | null } | undefined;
  for (const frame of eventsIn(body)) {
    if (protocol.holdsUsage(frame)) usage = readUsage(frame.json(), usage);
    const { response } = (frame.json() ?? {}) as { response?: { usage?: object | null } };
    if (response?.usage) last = response;
  }
  return { raw: last?.usage, found: [usage, readUsage(last)] };
}

t.test("every recorded answer's usage is read, the same from an event as from a whole answer", async (t) => {
  const wrong: string[] = [];
  for (const { id, kinds, status, body } of recorded("openai-responses")) {
    if (status >= 300 || id.startsWith(MISPLACED)) continue;
    const { raw, found } = kinds.includes("stream") ? ofStream(body) : ofWhole(body);
    // Counts of input tokens, and background responses that have not begun, report none.
    const { input_tokens: input, output_tokens: output } = (raw ?? {}) as Record<string, number | undefined>;
    const right = ([usage]: (Usage | undefined)[]) =>
      usage?.in.total === input &&
      usage?.out.total === output &&
      (usage?.in.cached ?? 0) <= (input ?? 0) &&
      (usage?.out.reasoning ?? 0) <= (output ?? 0);
    if (!right(found) || !isDeepStrictEqual(found[0], found[1])) wrong.push(id);
  }
  t.same(wrong, []);
});

t.test("of a stream that reports very many images, some are counted, in linear time", async (t) => {
  const type = "response.image_generation_call.completed";
  runLinear(() => {
    let usage: Usage | undefined;
    for (let i = 0; i < 300_000; i++) usage = readUsage({ type, item_id: `ig_${i}` }, usage);
    t.ok((usage?.drawn?.out.image ?? 0) > 100_000);
    t.strictSame(
      readUsage({ type: "response.completed", response: { usage: { input_tokens: 1 } } }, usage)?.in.total,
      1,
    );
  });
});

const STATE = "gAAAAAB".padEnd(1000 + 620, "x");
const SUMMARY = [{ type: "summary_text", text: "s".repeat(80) }];

/** Returns the hidden reasoning of a stream with these items, which is that of the whole response too. */
function hiddenIn(t: Test, effort: string | null, ...items: readonly object[]) {
  const read = hiddenReasoning();
  const created = { type: "response.created", response: { output: [], reasoning: { effort } } };
  const events = items.flatMap((item) => [
    { type: "response.output_item.added", item: { ...item, encrypted_content: "", summary: [] } },
    { type: "response.output_item.done", item },
  ]);
  const completed = { type: "response.completed", response: { output: items } };
  const streamed = [created, ...events, completed].flatMap((event) => [...read(event)]);
  t.same([...hiddenReasoning()({ output: items, reasoning: { effort } })], streamed, "the whole response");
  return streamed;
}

t.test("hidden reasoning is known by its state, or else by its summary", async (t) => {
  const reasoning = (more: object) => ({ type: "reasoning", id: "rs_1", summary: [], ...more });
  const both = reasoning({ encrypted_content: STATE, summary: SUMMARY });
  t.same(hiddenIn(t, "high", both), [["summarized", 100]]);
  const twice = [
    ["summarized", 100],
    ["omitted", 100],
  ];
  t.same(hiddenIn(t, "high", both, reasoning({ encrypted_content: STATE })), twice);
  t.same(hiddenIn(t, "high", reasoning({ summary: SUMMARY })), [["summarized", 40]]);
  const former = reasoning({ encrypted_content: "gAAAAAB", summary: SUMMARY });
  t.same(hiddenIn(t, "high", former), [["summarized", 40]]);
  t.same(hiddenIn(t, "high", reasoning({ encrypted_content: "gAAAAAB" })), [], "reasoning without a token");
});

t.test("reasoning whose own text is there is not hidden, and what xAI's tools have found is none", async (t) => {
  const content = [{ type: "reasoning_text", text: "I think" }];
  t.same(hiddenIn(t, "high", { type: "reasoning", content, summary: SUMMARY, encrypted_content: STATE }), []);
  t.same(hiddenIn(t, null, { type: "reasoning", id: "tco_1_call-2", encrypted_content: "tco_1".repeat(1000) }), []);
});

t.test("reasoning that left no trace counts as a usual one, where the model reasons", async (t) => {
  const ended = { type: "reasoning", id: "rs_1", summary: [] };
  for (const effort of ["low", "medium", "high"]) t.same(hiddenIn(t, effort, ended), [["assumed", 400]], effort);
  for (const effort of ["none", "minimal", null]) t.same(hiddenIn(t, effort, ended), [], `${effort}`);
});

t.test("a reasoning model's searches are reasoning, at any effort", async (t) => {
  const search = { type: "web_search_call", id: "ws_1", action: { type: "search", query: "x" } };
  t.same(hiddenIn(t, "none", search), [["omitted", 42]]);
  t.same(hiddenIn(t, null, search), []);
});

t.test("hidden reasoning is read from any JSON", async (t) => {
  for (const json of [
    undefined,
    null,
    1,
    "x",
    [],
    { output: 3 },
    { output: [null, { type: "reasoning", summary: {} }] },
  ])
    t.same([...hiddenReasoning()(json)], [], JSON.stringify(json));
});
