import t from "tap";
import { decode } from "../../../../plugins/protocols/openai-responses/response.decode.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { decoded, SOURCE } from "./answers.ts";
import { added, between, call, completed, created, done, message, uses } from "./frames.ts";

/** The events without their block's opening and end, as short as can be. */
const short = (events: readonly Event[]) =>
  between(events).map((event) => {
    if (event.type === "open") return `open ${event.block} ${event.kind}`;
    if (event.type === "text" || event.type === "arguments") return `${event.block} ${event.text}`;
    if (event.type === "close") return `close ${event.block}`;
    return event.type;
  });

t.test("reasoning keeps the parts of its summary, its text, and the state that must come back", async (t) => {
  const item = {
    type: "reasoning",
    id: "rs_1",
    summary: [
      { type: "summary_text", text: "One" },
      { type: "summary_text", text: "Two" },
    ],
    content: [{ type: "reasoning_text", text: "raw" }],
    encrypted_content: "gAAAA",
  };
  const at = { output_index: 0, item_id: "rs_1" };
  const events = decoded([
    created,
    added(0, { ...item, summary: [], content: [], encrypted_content: "gA" }),
    {
      ...{ type: "response.reasoning_summary_part.added", ...at, summary_index: 0 },
      part: { type: "summary_text", text: "" },
    },
    { type: "response.reasoning_summary_text.delta", ...at, summary_index: 0, delta: "One" },
    { type: "response.reasoning_summary_text.delta", ...at, summary_index: 1, delta: "Two" },
    { type: "response.reasoning_text.delta", ...at, content_index: 0, delta: "raw" },
    done(0, item),
    completed([item]),
  ]);
  const opaque = {
    ...{ protocol: "openai-responses", account: "them", model: "theirs", kind: "encrypted", data: "gAAAA" },
    extra: { summary: ["One", "Two"], content: ["raw"] },
  };
  t.same(between(events), [
    { type: "open", block: 0, choice: 0, kind: "reasoning", summary: true },
    { type: "text", block: 0, text: "One", part: 0 },
    { type: "text", block: 0, text: "Two", part: 1 },
    { type: "open", block: 1, choice: 0, kind: "reasoning" },
    { type: "text", block: 1, text: "raw" },
    { type: "opaque", block: 0, opaque },
    { type: "close", block: 0 },
    { type: "close", block: 1 },
  ]);
});

t.test("reasoning that is only encrypted is a block of which nothing can be read; an empty one is none", async (t) => {
  const empty = { type: "reasoning", id: "rs_0", summary: [] };
  const item = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
  const events = decoded([created, added(0, empty), done(0, empty), added(1, item), done(1, item), completed()]);
  t.match(between(events), [
    { kind: "reasoning", redacted: true, block: 0 },
    { type: "opaque", opaque: { data: "gAAAA", extra: undefined } },
    { type: "close" },
  ]);
});

t.test("what a vendor's own tool did is kept", async (t) => {
  const item = { type: "web_search_call", id: "ws_1", action: { query: "q" } };
  const whole = JSON.stringify({ id: "resp_1", output: [item], status: "completed" });
  for (const events of [decoded([created, done(0, item), completed()]), decode(whole, SOURCE)]) {
    t.match(between(events)[0], { kind: "server", name: "web_search_call", result: false });
    t.match(between(events)[1], { type: "server", json: { value: item } });
  }
});

t.test("items without end are the provider's fault", async (t) => {
  const message = /more than 10000 items/;
  const events = decoded([created, ...Array.from({ length: 10_001 }, (_, n) => added(n, { type: "odd_call" }))]);
  t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid", message } });
  const output = Array.from({ length: 10_001 }, () => ({ type: "odd_call" }));
  t.throws(() => decode(JSON.stringify({ output }), SOURCE), { code: "upstream_invalid", message });
});

t.test("many such items are read as quickly as few", async (t) => {
  const items = Array.from({ length: 10_000 }, (_, n) => ({ type: "web_search_call", id: `ws_${n}` }));
  for (const events of [decoded([created, completed(items)]), decode(JSON.stringify({ output: items }), SOURCE)])
    t.equal(events.filter(({ type }) => type === "server").length, items.length);
});

t.test("an image that was made is an image", async (t) => {
  const item = { type: "image_generation_call", id: "ig_1", result: "aGk=", output_format: "webp" };
  t.match(between(decoded([created, added(0, { ...item, result: null }), done(0, item), completed([item])])), [
    { type: "open", kind: "media", media: "image", mime: "image/webp" },
    { type: "media", base64: "aGk=" },
    { type: "close" },
  ]);
});

t.test("items that come only with their end, or only with the answer's, are not lost and not told twice", async (t) => {
  const items = [message(uses("Hello")), call("call_1", '{"q":1}')];
  const expected = ["open 0 text", "0 Hello", "close 0", "open 1 tool_call", '1 {"q":1}', "close 1"];
  const ways: (JsonObject | string)[][] = [
    [created, ...items.map((item, i) => done(i, item)), completed(items)],
    [created, ...items.flatMap((item, i) => [added(i, item), done(i, item)]), completed(items)],
    [created, completed(items)],
    [created, done(0, items[0] as JsonObject), completed(items)],
    [completed(items)],
  ];
  for (const way of ways) t.same(short(decoded(way)), expected);
});

t.test("ids may change in mid-stream, and ends may be missing", async (t) => {
  const part = uses("Hello");
  const at = { output_index: 0, content_index: 0 };
  const events = decoded([
    created,
    added(0, { type: "mcp_list_tools", id: "mcpl_1", tools: [] }),
    added(1, message()),
    { type: "response.output_text.delta", ...at, output_index: 1, item_id: "msg_other", delta: "Hello" },
    completed(
      [
        { type: "mcp_list_tools", id: "mcpl_2", tools: ["t"] },
        { ...message(part), id: "msg_third" },
      ],
      { id: "resp_other" },
    ),
  ]);
  t.same(short(events), ["open 0 text", "0 Hello", "open 1 server", "server", "close 1", "close 0"]);
  t.equal(events.filter(({ type }) => type === "start").length, 1);
});

t.test("items may grow side by side", async (t) => {
  const delta = (output_index: number, delta: string) => ({
    type: "response.function_call_arguments.delta",
    output_index,
    delta,
  });
  const events = decoded([
    created,
    added(0, call("a", "")),
    added(1, call("b", "")),
    delta(1, "[2"),
    delta(0, "[1"),
    delta(1, "]"),
    delta(0, "]"),
    done(1, call("b", "[2]")),
    done(0, call("a", "[1]")),
    completed(),
  ]);
  const grown = ["1 [2", "0 [1", "1 ]", "0 ]"];
  t.same(short(events), ["open 0 tool_call", "open 1 tool_call", ...grown, "close 1", "close 0"]);
});
