import t, { type Test } from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import { count, readUsage, writeUsage } from "../../../../plugins/protocols/openai-responses/usage.ts";
import type { Usage } from "../../../../src/core/usage.ts";
import { asEvent, eventsOf, jsonOf, recordings } from "../../../support/openai-recordings.ts";

t.test("every part of a full report has its place, in a whole response as in an event", async (t) => {
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
});

t.test("cached tokens are never more than those there were", async (t) => {
  t.equal(readUsage({ usage: { input_tokens: 3, input_tokens_details: { cached_tokens: 9 } } })?.in.cached, 3);
});

t.test("a response that has only begun leaves what was known", async (t) => {
  const first = readUsage({ usage: { input_tokens: 3 } });
  t.equal(readUsage({ type: "response.created", response: { usage: null } }, first), first);
  t.equal(readUsage({ type: "response.created", response: { usage: null } }), undefined);
});

t.test("a tool whose schema has a member called usage is no report", async (t) => {
  const tools = [{ type: "function", name: "f", parameters: { properties: { usage: { type: "string" } } } }];
  const event = asEvent({ type: "response.created", response: { tools, usage: null } });
  t.equal(readUsage(event.json()), undefined);
});

t.test("usage is the sum, with its parts; what nobody told is 0 where a count is required", async (t) => {
  const write = { "5m": 30, "1h": 20 };
  t.same(writeUsage({ in: { total: 160, cached: 100, write }, out: { total: 5 }, raw: {} }), {
    input_tokens: 160,
    input_tokens_details: { cached_tokens: 100, cache_write_tokens: 50 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 165,
  });
  const split = writeUsage({ in: { write: { "30m": 3, "12h": 4, unsplit: 1 } }, out: {}, raw: {} });
  t.match(split["input_tokens_details"], {
    ...{ cached_tokens: 0, cache_write_tokens: 8 },
    cache_write_tokens_details: { ttl_30m_tokens: 3, ttl_12h_tokens: 4 },
  });
});

t.test("a count is a number in an object of its own", async (t) => {
  t.equal(count.decode('{"object":"response.input_tokens","input_tokens":11}'), 11);
  t.same(JSON.parse(count.encode(11)), { object: "response.input_tokens", input_tokens: 11 });
});

t.test("an answer without a count is the provider's fault", async (t) => {
  for (const text of ["", "<html>", "null", "{}", '{"input_tokens":"11"}', '{"input_tokens":-1}'])
    t.throws(() => count.decode(text), { code: "upstream_invalid", status: 502 }, text);
});

/** These hold chat completions, whatever their folder says. */
const MISPLACED = "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1";

for (const { id, kinds, status, body } of recordings("openai-responses")) {
  if (status >= 300) continue;
  if (id.startsWith(MISPLACED)) continue;
  t.test(id, async (t) => {
    if (kinds.includes("stream")) return streamed(t, body);
    const json = jsonOf(body) as { usage?: object | null };
    const usage = readUsage(json);
    // Counts of input tokens, and background responses that have not begun, report none.
    if (!json.usage) return void t.equal(usage, undefined);
    sound(t, usage);
    const event = asEvent({ type: "response.completed", response: json });
    t.ok(protocol.holdsUsage(event));
    t.strictSame(readUsage(event.json()), usage, "the same from an event");
  });
}

function streamed(t: Test, body: string): void {
  let usage: Usage | undefined;
  let last: unknown;
  for (const frame of eventsOf(body)) {
    if (protocol.holdsUsage(frame)) usage = readUsage(frame.json(), usage);
    const { response } = (frame.json() ?? {}) as { response?: { usage?: object | null } };
    if (response?.usage) last = response;
  }
  sound(t, usage);
  t.strictSame(usage, readUsage(last), "the same from the last response as a whole body");
}

function sound(t: Test, usage: Usage | undefined): void {
  const raw = usage?.raw as { input_tokens: number; output_tokens: number; total_tokens: number };
  t.equal(usage?.in.total, raw.input_tokens);
  t.equal(usage?.out.total, raw.output_tokens);
  t.ok((usage?.in.cached ?? 0) <= raw.input_tokens);
  t.ok((usage?.out.reasoning ?? 0) <= raw.output_tokens);
}
