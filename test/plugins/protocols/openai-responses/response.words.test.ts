import t from "tap";
import { annotationOf, echoOf, endOf, usageOf } from "../../../../plugins/protocols/openai-responses/response.words.ts";

t.test("a response echoes what was asked, and the vendor's defaults where nothing was", async (t) => {
  const request = {
    ...{ model: "ours", input: "Hi", instructions: "Be kind.", temperature: 0.5, max_output_tokens: 9 },
    ...{ reasoning: { effort: "low" }, text: { verbosity: "low" }, tools: [{ type: "function", name: "find" }] },
    ...{ tool_choice: "required", metadata: { a: "b" }, parallel_tool_calls: false, store: true, top_p: 0.1 },
  };
  const { model: _, input: __, ...told } = request;
  const echo = JSON.parse(`{${echoOf(request)}}`);
  t.match(echo, {
    ...{ ...told, store: false, reasoning: { effort: "low", summary: null }, truncation: "disabled" },
    text: { format: { type: "text" }, verbosity: "low" },
  });
  t.notOk("input" in echo || "model" in echo);
  t.match(JSON.parse(`{${echoOf({ temperature: null })}}`), { temperature: 1, tools: [], tool_choice: "auto" });
});

t.test("usage is the sum, with its parts; what nobody told is 0 where a count is required", async (t) => {
  const write = { "5m": 30, "1h": 20 };
  t.same(usageOf({ in: { total: 160, cached: 100, write }, out: { total: 5 }, raw: {} }), {
    input_tokens: 160,
    input_tokens_details: { cached_tokens: 100, cache_write_tokens: 50 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 165,
  });
  const split = usageOf({ in: { write: { "30m": 3, "12h": 4, unsplit: 1 } }, out: {}, raw: {} });
  t.match(split["input_tokens_details"], {
    ...{ cached_tokens: 0, cache_write_tokens: 8 },
    cache_write_tokens_details: { ttl_30m_tokens: 3, ttl_12h_tokens: 4 },
  });
});

t.test("a refusal is an answer when it has a part of its own, and a cut otherwise", async (t) => {
  const finish = { type: "finish", choice: 0, reason: "refusal" } as const;
  t.match(endOf(finish, true), { status: "completed", incomplete_details: null });
  t.match(endOf(finish, false), { status: "incomplete", incomplete_details: { reason: "content_filter" } });
});

t.test("a citation that is a point ends where it starts", async (t) => {
  t.same(annotationOf({ url: "https://a.example", start: 4 }), {
    ...{ type: "url_citation", url: "https://a.example", start_index: 4, end_index: 4 },
  });
});
