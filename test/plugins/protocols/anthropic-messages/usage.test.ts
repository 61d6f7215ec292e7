import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import t from "tap";
import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { hiddenReasoning, messageDeltaUsage } from "../../../../plugins/protocols/anthropic-messages/usage.ts";
import { cost } from "../../../../src/core/price.ts";
import { type Usage } from "../../../../src/core/usage.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { translation } from "./speaking.ts";

const usage = (told: object) => protocol.usage({ type: "message", usage: told });

t.test("cache-read and cache-creation tokens are part of the input", async (t) => {
  const told = {
    input_tokens: 10,
    cache_creation_input_tokens: 30,
    cache_read_input_tokens: 200,
    cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 },
    output_tokens: 50,
    output_tokens_details: { thinking_tokens: 40 },
    server_tool_use: { web_search_requests: 2, web_fetch_requests: 0 },
    service_tier: "priority",
  };
  t.same(usage(told), {
    in: { total: 240, cached: 200, write: { "5m": 20, "1h": 10 } },
    out: { total: 50, reasoning: 40 },
    serverTools: { web_search_requests: 2, web_fetch_requests: 0 },
    tier: "priority",
    raw: told,
  });
});

t.test("a service tier is written in this vendor's words, and an unknown one is left out", async (t) => {
  const tiers = { default: "standard", priority: "priority", batch: "batch", flex: undefined, "on-demand": undefined };
  for (const [tier, word] of Object.entries(tiers))
    t.equal(
      messageDeltaUsage({ in: { total: 1 }, out: { total: 1 }, tier, raw: undefined })["service_tier"],
      word,
      tier,
    );
});

t.test("written tokens that no time to live accounts for are stored unsplit", async (t) => {
  const split = { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 0 };
  t.same(usage({ cache_creation_input_tokens: 30, cache_creation: split })?.in.write, {
    "5m": 20,
    "1h": 0,
    unsplit: 10,
  });
  t.same(usage({ cache_creation_input_tokens: 30 })?.in.write, { unsplit: 30 });
  t.same(usage({ cache_creation: split })?.in.write, { "5m": 20, "1h": 0 });
});

t.test("unreported values are absent, not 0", async (t) => {
  t.same(usage({ output_tokens: 5 }), { in: {}, out: { total: 5 }, raw: { output_tokens: 5 } });
  t.same(usage({ input_tokens: "7", output_tokens: -1 })?.in, {});
  t.equal(protocol.usage({ type: "ping" }), undefined);
  t.equal(protocol.usage(undefined), undefined);
});

t.test("the delta's numbers replace those of the start, and what is missing or null there stays", async (t) => {
  const start = {
    input_tokens: 9,
    cache_creation_input_tokens: 4,
    cache_read_input_tokens: 0,
    output_tokens: 1,
    service_tier: "standard",
  };
  const before = protocol.usage({ type: "message_start", message: { usage: start } });
  const after = protocol.usage(
    { type: "message_delta", usage: { input_tokens: 12, cache_creation_input_tokens: null, output_tokens: 70 } },
    before,
  );
  t.same(after, {
    in: { total: 16, cached: 0, write: { unsplit: 4 } },
    out: { total: 70 },
    tier: "standard",
    raw: { ...start, input_tokens: 12, output_tokens: 70 },
  });
  t.equal(protocol.usage({ type: "message_stop" }, after), after);
});

t.test("an input of 0 at the end does not replace the one of the start", async (t) => {
  const start = (told: object) => protocol.usage({ type: "message_start", message: { usage: told } });
  const then = (told: object, delta: object) => protocol.usage({ type: "message_delta", usage: delta }, start(told));
  const none = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 7 };
  const told = { input_tokens: 15, cache_read_input_tokens: 100, output_tokens: 1 };
  t.match(then(told, none), { in: { total: 115, cached: 100 }, out: { total: 7 } });
  t.match(then(told, { input_tokens: 0, output_tokens: 7 }), { in: { total: 115, cached: 100 }, out: { total: 7 } });
  // All of another model's prompt may have been in its cache.
  const cached = { input_tokens: 0, cache_read_input_tokens: 120, output_tokens: 7 };
  t.match(then(told, cached), { in: { total: 120, cached: 120 }, out: { total: 7 } });
  t.match(then({ input_tokens: 0, output_tokens: 0 }, { input_tokens: 9, output_tokens: 7 }), { in: { total: 9 } });
});

t.test("results of a search count as one, an error or another tool's results as none", async (t) => {
  const searches = (type: string, content: unknown) =>
    protocol.usage({ type: "content_block_start", content_block: { type, tool_use_id: "s", content } })?.serverTools;
  t.same(searches("web_search_tool_result", []), { web_search_requests: 1 });
  t.equal(searches("web_search_tool_result", { type: "web_search_tool_result_error" }), undefined);
  t.equal(searches("mcp_tool_result", []), undefined);
});

t.test("advisors, compactions and declines that had begun are billed besides the totals", async (t) => {
  const each = (type: string, model: string, output: number) => ({
    type,
    model,
    input_tokens: 5,
    output_tokens: output,
  });
  const iterations = [
    ...[each("message", "declining", 0), each("message", "declining", 3), each("compaction", "serving", 1)],
    ...[each("advisor_message", "advisor", 2), each("fallback_message", "serving", 7)],
  ];
  const { model, out, besides } = protocol.usage({ usage: { input_tokens: 5, output_tokens: 7, iterations } }) ?? {};
  t.same([model, out], ["serving", { total: 7 }]);
  t.same(
    besides?.map(({ model, out }) => [model, out.total]),
    [
      ["declining", 3],
      ["serving", 1],
      ["advisor", 2],
    ],
  );
});

t.test("however many members a stream reports, limited memory is used", async (t) => {
  let told: Usage | undefined;
  for (let n = 0; n < 1000; n++) told = protocol.usage({ usage: { output_tokens: n, [`unheard_of_${n}`]: n } }, told);
  t.equal(told?.out.total, 999);
  t.ok(Object.keys(told?.raw as object).length <= 100);
});

t.test("an event takes no time for what earlier ones have reported, however much that was", async (t) => {
  const many = 100_000;
  const counts = Object.fromEntries(Array.from({ length: many }, (_, i) => [`n${i}`, 1]));
  const iterations = Array.from({ length: many }, () => ({ type: "compaction", input_tokens: 1 }));
  const total = (usage: object): Usage | undefined => {
    let told = protocol.usage({ type: "message_start", message: { usage: { input_tokens: 1, ...usage } } });
    for (let n = 0; n < 5000; n++) told = protocol.usage({ type: "message_delta", usage: { output_tokens: n } }, told);
    return told;
  };
  for (const usage of [counts, { server_tool_use: counts }, { iterations }])
    t.doesNotThrow(() => runLinear(() => total(usage)));
  t.match(total({ ...counts, cache_read_input_tokens: 2 }), { in: { total: 3, cached: 2 }, out: { total: 4999 } });
  t.equal(total({ iterations })?.besides?.length, many);
  t.equal(Object.keys(total({ server_tool_use: counts })?.serverTools ?? {}).length, 101, "more than is believed");
});

/** Its source spliced two answers into one. */
const SPLICED = "anthropic/vercel-ai__anthropic.anthropic-tool-search-deferred-regex.stream__0";
const answers = recorded("anthropic").filter(({ id, status }) => id !== SPLICED && status < 300);
const skip = answers.length === 0 && "no recordings";

/** Usage as a client sees it that reads the stream with the vendor's SDK. */
async function accumulated(body: string): Promise<unknown> {
  const fetch = async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const client = new Anthropic({ apiKey: "key", maxRetries: 0, fetch });
  return (await client.messages.stream({ model: "any", max_tokens: 1, messages: [] }).finalMessage()).usage;
}

const main = (found: Usage | undefined) => ({
  input: found?.in.total,
  cached: found?.in.cached,
  output: found?.out.total,
  tools: found?.serverTools,
});

t.test("usage of a recorded stream equals the SDK's", { skip }, async (t) => {
  const streams = answers.filter(({ kinds }) => kinds.includes("stream"));
  const wrong: string[] = [];
  for (const { id, body } of streams) {
    const frames = eventsIn(body).filter((frame) => protocol.holdsUsage(frame));
    const last = frames.reduce<Usage | undefined>((before, frame) => protocol.usage(frame.json(), before), undefined);
    if (!isDeepStrictEqual(main(last), main(usage((await accumulated(body)) as object)))) wrong.push(id);
  }
  t.same(wrong, []);
});

t.test("every recorded answer has input and output, and its parts fit into them", { skip }, async (t) => {
  const wrong = answers.filter(({ kinds, body }) => {
    if (kinds.includes("stream")) return false;
    const found = protocol.usage(JSON.parse(body));
    const written = Object.values(found?.in.write ?? {}).reduce((sum, tokens) => sum + tokens, 0);
    const fits = (found?.in.total ?? -1) >= written + (found?.in.cached ?? 0);
    return !fits || (found?.out.total ?? -1) < (found?.out.reasoning ?? 0);
  });
  t.same(
    wrong.map(({ id }) => id),
    [],
  );
});

t.test("a recorded count of tokens is an answer without usage", { skip }, async (t) => {
  for (const { id, body } of recorded("anthropic-count-tokens"))
    t.equal(protocol.usage(JSON.parse(body)), undefined, id);
});

t.test("a count is decoded and encoded", async (t) => {
  t.equal(translation.count?.decode('{"input_tokens": 14}'), 14);
  t.equal(translation.count?.encode(14), '{"input_tokens":14}');
});

t.test("an invalid count is refused", async (t) => {
  for (const text of ["", "[]", "{}", '{"input_tokens":"14"}'])
    t.throws(() => translation.count?.decode(text), { code: "upstream_invalid" }, text);
});

t.test("the fast mode is a tier with rates of its own", async (t) => {
  const counted = { input_tokens: 1, output_tokens: 2, service_tier: "standard" };
  t.equal(usage({ ...counted, speed: "fast" })?.tier, "fast");
  t.equal(usage({ ...counted, speed: "standard" })?.tier, "standard");
  t.equal(cost(usage({ ...counted, speed: "fast" }) as Usage, { output: 1, fast: { output: 6 } }), 12_000);
});

t.test("omitted thinking is known by its signature, redacted thinking by its data", async (t) => {
  const signature = "x".repeat(300 + 420);
  const omitted = [["omitted", 100]];
  const reading = hiddenReasoning();
  const read = (json: object) => [...reading(json)];
  t.same(read({ type: "content_block_start", content_block: { type: "thinking", thinking: "", signature: "" } }), []);
  t.same(read({ type: "content_block_delta", delta: { type: "signature_delta", signature } }), omitted);
  t.same(read({ type: "content_block_start", content_block: { type: "redacted_thinking", data: signature } }), omitted);
  const content = [
    { type: "thinking", thinking: "", signature },
    { type: "redacted_thinking", data: signature },
    { type: "thinking", thinking: "", signature: "x" },
  ];
  t.same([...hiddenReasoning()({ type: "message", content })], [...omitted, ...omitted]);
  for (const json of [undefined, null, [], { content: [null, "x"], delta: 1 }])
    t.same([...hiddenReasoning()(json)], []);
});

t.test("thinking that is shown is not hidden, but what is redacted beside it is", async (t) => {
  const signature = "x".repeat(720);
  const reading = hiddenReasoning();
  const read = (json: object) => [...reading(json)];
  read({ type: "content_block_delta", delta: { type: "thinking_delta", thinking: "I think" } });
  t.same(read({ type: "content_block_delta", delta: { type: "signature_delta", signature } }), []);
  const content = [
    { type: "thinking", thinking: "I think", signature },
    { type: "redacted_thinking", data: signature },
  ];
  t.same([...hiddenReasoning()({ type: "message", content })], [["omitted", 100]]);
});
