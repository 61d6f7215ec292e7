import t from "tap";
import type { Event } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { events, NAME, SOURCE, translation } from "./speaking.ts";

const start = {
  type: "message_start",
  message: { id: "msg_1", model: "claude-9", usage: { input_tokens: 7, output_tokens: 1 } },
};
const begin = (index: number, content_block: JsonObject) => ({ type: "content_block_start", index, content_block });
const delta = (index: number, delta: JsonObject) => ({ type: "content_block_delta", index, delta });
const stop = (index: number) => ({ type: "content_block_stop", index });
const last = (stop_reason: string, more: JsonObject = {}, usage: JsonObject = { output_tokens: 9 }) => ({
  type: "message_delta",
  delta: { stop_reason, stop_sequence: null, ...more },
  usage,
});
const over = { type: "message_stop" };
const types = (found: Event[]) => found.map(({ type }) => type);
const only = <Type extends Event["type"]>(found: Event[], type: Type) => found.filter((event) => event.type === type);

t.test("a stream is decoded block by block", async (t) => {
  const found = events([
    start,
    begin(0, { type: "thinking", thinking: "", signature: "" }),
    delta(0, { type: "thinking_delta", thinking: "Hm." }),
    delta(0, { type: "signature_delta", signature: "c2ln" }),
    stop(0),
    begin(1, { type: "redacted_thinking", data: "ZGF0YQ" }),
    stop(1),
    begin(2, { type: "text", text: "" }),
    { type: "ping" },
    delta(2, { type: "text_delta", text: "Hi" }),
    stop(2),
    begin(3, { type: "tool_use", id: "toolu_1", name: "f", input: {} }),
    delta(3, { type: "input_json_delta", partial_json: "" }),
    delta(3, { type: "input_json_delta", partial_json: '{"a": 1.0' }),
    delta(3, { type: "input_json_delta", partial_json: "}" }),
    stop(3),
    last("tool_use"),
    over,
  ]);
  const state = { protocol: NAME, account: SOURCE.account, model: SOURCE.model };
  t.match(found, [
    { type: "start", id: "msg_1", model: "claude-9", usage: { in: { total: 7 } } },
    { type: "open", block: 0, kind: "reasoning" },
    { type: "text", block: 0, text: "Hm." },
    { type: "opaque", block: 0, opaque: { ...state, kind: "signature", data: "c2ln" } },
    { type: "close", block: 0 },
    { type: "open", block: 1, kind: "reasoning", redacted: true },
    { type: "opaque", block: 1, opaque: { ...state, kind: "redacted", data: "ZGF0YQ" } },
    { type: "close", block: 1 },
    { type: "open", block: 2, kind: "text" },
    { type: "ping" },
    { type: "text", block: 2, text: "Hi" },
    { type: "close", block: 2 },
    { type: "open", block: 3, kind: "tool_call", id: "toolu_1", name: "f" },
    { type: "arguments", block: 3, text: '{"a": 1.0' },
    { type: "arguments", block: 3, text: "}" },
    { type: "close", block: 3 },
    { type: "finish", choice: 0, reason: "tool_calls", raw: "tool_use" },
    { type: "usage", usage: { in: { total: 7 }, out: { total: 9 } } },
    { type: "end" },
  ]);
});

t.test("the last usage replaces earlier ones, whether larger or smaller", async (t) => {
  const found = events([
    start,
    last("end_turn", {}, { input_tokens: 3, output_tokens: 9, cache_read_input_tokens: 100 }),
    over,
  ]);
  t.match(only(found, "usage").at(-1), { usage: { in: { total: 103, cached: 100 }, out: { total: 9 } } });
});

t.test("each stop reason is decoded", async (t) => {
  const ends = {
    end_turn: "stop",
    max_tokens: "length",
    stop_sequence: "stop_sequence",
    tool_use: "tool_calls",
    pause_turn: "pause",
    refusal: "refusal",
    model_context_window_exceeded: "context_window",
    brand_new: "other",
  };
  for (const [raw, reason] of Object.entries(ends))
    t.match(only(events([start, last(raw), over]), "finish"), [{ reason, raw }], raw);
  t.match(only(events([start, last("stop_sequence", { stop_sequence: "END" }), over]), "finish"), [
    { stopSequence: "END" },
  ]);
  const call = [begin(0, { type: "tool_use", id: "a", name: "f", input: {} }), stop(0)];
  for (const [raw, reason] of Object.entries({ ...ends, end_turn: "tool_calls", brand_new: "tool_calls" }))
    t.match(only(events([start, ...call, last(raw), over]), "finish"), [{ reason, raw }], `${raw} after a call`);
  const details = { stop_details: { type: "refusal", category: "cyber", explanation: "No." } };
  t.match(only(events([start, last("refusal", details), over]), "finish"), [{ reason: "refusal", message: "No." }]);
});

t.test("blocks that only the vendor understands are complete, unknown ones are declared lost", async (t) => {
  const found = events([
    start,
    begin(0, { type: "server_tool_use", id: "s", name: "web_search", input: {} }),
    delta(0, { type: "input_json_delta", partial_json: '{"query":' }),
    delta(0, { type: "input_json_delta", partial_json: '"x"}' }),
    stop(0),
    begin(1, { type: "web_search_tool_result", tool_use_id: "s", content: [] }),
    stop(1),
    begin(2, { type: "text", text: "" }),
    delta(2, {
      type: "citations_delta",
      citation: {
        type: "web_search_result_location",
        url: "https://a",
        title: "A",
        cited_text: "q",
        encrypted_index: "x",
      },
    }),
    delta(2, { type: "brand_new_delta", x: 1 }),
    { type: "brand_new_event" },
    stop(2),
    last("end_turn"),
    over,
  ]);
  t.match(only(found, "open"), [
    { kind: "server", name: "server_tool_use" },
    { kind: "server", name: "web_search_tool_result" },
    { kind: "text" },
  ]);
  t.same(
    only(found, "server").map((event) => (event as { json: { value: unknown } }).json.value),
    [
      { type: "server_tool_use", id: "s", name: "web_search", input: { query: "x" } },
      { type: "web_search_tool_result", tool_use_id: "s", content: [] },
    ],
  );
  t.match(only(found, "citation"), [{ citation: { url: "https://a", title: "A", quote: "q" } }]);
  t.same(
    only(found, "unmapped").map((event) => (event as { path: string }).path),
    ["brand_new_delta", "brand_new_event"],
  );
});

t.test("compatible servers may leave out event names, send a call at once, or repeat events", async (t) => {
  const bare = (json: JsonObject) => `data: ${JSON.stringify(json)}\n\n`;
  const call = begin(0, { type: "tool_use", id: "a", name: "f", input: { a: 1 } });
  const found = events([
    bare(start),
    bare(call),
    bare(stop(0)),
    start,
    last("tool_use"),
    last("end_turn"),
    "data: [DONE]\n\n",
    over,
  ]);
  t.same(types(found), ["start", "open", "arguments", "close", "finish", "usage", "end"]);
  t.match(only(found, "arguments"), [{ text: '{"a":1}' }]);
});

t.test("a stream without its end is an error, whatever came before", async (t) => {
  const cut = [
    [],
    [start],
    [start, begin(0, { type: "text", text: "" }), delta(0, { type: "text_delta", text: "Hi" })],
    [start, last("end_turn")],
  ];
  for (const frames of cut)
    t.match(
      events(frames).at(-1),
      { type: "error", fault: { status: 502, code: "upstream_truncated" } },
      `${frames.length}`,
    );
});

t.test("an error in the stream ends it, with its status", async (t) => {
  const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  const found = events([start, error, last("end_turn"), over]);
  t.same(types(found), ["start", "error"]);
  t.match(found[1], { fault: { status: 529, kind: "overloaded", code: "overloaded_error", message: "Overloaded" } });
});

t.test("a stream of another protocol is one error", async (t) => {
  const broken: (JsonObject | string)[][] = [
    ["data: {\n\n"],
    ["data: []\n\n"],
    [begin(0, { type: "text" })],
    [start, delta(0, { type: "text_delta", text: "x" })],
    [start, begin(0, { type: "text", text: "" }), { type: "content_block_delta", index: 0 }],
    [start, over],
  ];
  for (const frames of broken) {
    const found = events(frames);
    t.equal(only(found, "error").length, 1, JSON.stringify(frames));
    t.equal(found.at(-1)?.type, "error");
  }
});

t.test("frames without data are no events", async (t) => {
  const out: Event[] = [];
  const decoder = translation.response.decoder(SOURCE);
  decoder.frame(new Frame("event", Buffer.from(": comment\n\n")), out);
  decoder.frame(new Frame("end", Buffer.alloc(0)), out);
  t.same(out, []);
});

t.test("a whole message yields the same events as its stream", async (t) => {
  const usage = { input_tokens: 7, output_tokens: 9 };
  const content = [
    { type: "thinking", thinking: "Hm.", signature: "c2ln" },
    { type: "text", text: "Hi" },
    { type: "tool_use", id: "a", name: "f", input: {} },
  ];
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content,
    stop_reason: "tool_use",
    stop_sequence: null,
    usage,
  };
  const found = runAtOnce(translation.response.decode(Buffer.from(JSON.stringify(message)), SOURCE));
  t.same(types(found), [
    "start",
    "open",
    "text",
    "opaque",
    "close",
    "open",
    "text",
    "close",
    "open",
    "arguments",
    "close",
    "finish",
    "usage",
    "end",
  ]);
  const precise = JSON.stringify(message).replace('"input":{}', '"input":{"a": 1.0, "b":12345678901234567890}');
  t.match(only(runAtOnce(translation.response.decode(Buffer.from(precise), SOURCE)), "arguments"), [
    { text: '{"a": 1.0, "b":12345678901234567890}' },
  ]);
});

t.test("a body that is not a message is invalid, an error body is reported as an error", async (t) => {
  for (const text of ["", "<html>", "[]", "{}", '{"content":"x"}'])
    t.throws(
      () => runAtOnce(translation.response.decode(Buffer.from(text), SOURCE)),
      { code: "upstream_invalid" },
      text,
    );
  const error = '{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}';
  t.match(runAtOnce(translation.response.decode(Buffer.from(error), SOURCE)), [
    { type: "error", fault: { status: 429, kind: "rate_limit" } },
  ]);
  t.match(runAtOnce(translation.response.decode(Buffer.from('{"error":{"message":"Out of memory"}}'), SOURCE)), [
    { type: "error", fault: { status: 500, message: "Out of memory" } },
  ]);
});

t.test("a call that begins with its input keeps the exact text of it, unless deltas replace it", async (t) => {
  const input = '{ "a": 1.0, "big":12345678901234567890 }';
  const block = `{"type":"tool_use","id":"a","name":"f","input":${input}}`;
  const call = `event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":${block}}\n\n`;
  const empty = delta(0, { type: "input_json_delta", partial_json: "" });
  t.match(only(events([start, call, empty, stop(0), last("tool_use"), over]), "arguments"), [{ text: input }]);
  const told = ['{"b"', ":2}"].map((partial_json) => delta(0, { type: "input_json_delta", partial_json }));
  t.match(only(events([start, call, ...told, stop(0), last("tool_use"), over]), "arguments"), [
    { text: '{"b"' },
    { text: ":2}" },
  ]);
});

t.test("blocks that only the vendor understands keep their digits", async (t) => {
  const block = '{"type":"brand_new","n":12345678901234567890,"input":{"m":1.0}}';
  const opened = `data: {"type":"content_block_start","index":0,"content_block":${block}}\n\n`;
  t.match(only(events([start, opened, stop(0), last("end_turn"), over]), "server"), [{ json: { text: block } }]);
  const deep = `{"type":"brand_new","n":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  const tooDeep = `data: {"type":"content_block_start","index":0,"content_block":${deep}}\n\n`;
  t.match(events([start, tooDeep, stop(0)]).at(-1), { type: "error", fault: { code: "upstream_invalid" } });
});

t.test("the memory for incomplete blocks is limited", async (t) => {
  const grow = (partial_json: string) => delta(0, { type: "input_json_delta", partial_json });
  const server = begin(0, { type: "server_tool_use", id: "s", name: "web_search", input: {} });
  const ended = (frames: readonly JsonObject[]) => events([start, ...frames]).at(-1);
  const tooLong = { type: "error", fault: { code: "upstream_invalid", status: 502, message: /8 MiB/ } };
  t.match(ended([server, ...Array.from({ length: 9 }, () => grow("x".repeat(1024 * 1024)))]), tooLong);
  const piece = grow("x");
  t.match(ended([server, ...Array.from({ length: 260_000 }, () => piece)]), tooLong);
  const results = (n: number) => begin(n, { type: "web_search_tool_result", content: "x".repeat(1024 * 1024) });
  t.match(ended(Array.from({ length: 9 }, (_, n) => results(n))), tooLong);
  const closed = Array.from({ length: 9 }, (_, n) => [results(n), stop(n)]).flat();
  t.match(ended([...closed, last("end_turn"), over]), { type: "end" });
});

t.test("a delta that does not fit its block adds nothing to it, as in the SDK, and is declared lost", async (t) => {
  const blocks = {
    text: { type: "text", text: "" },
    thinking: { type: "thinking", thinking: "", signature: "" },
    redacted_thinking: { type: "redacted_thinking", data: "ZGF0YQ" },
    tool_use: { type: "tool_use", id: "a", name: "f", input: { kept: 1 } },
  };
  const deltas: Record<string, [fits: keyof typeof blocks, more: JsonObject]> = {
    text_delta: ["text", { text: "x" }],
    citations_delta: ["text", { citation: { type: "web_search_result_location", url: "https://a" } }],
    thinking_delta: ["thinking", { thinking: "x" }],
    signature_delta: ["thinking", { signature: "x" }],
    input_json_delta: ["tool_use", { partial_json: "{}" }],
  };
  for (const [type, [fits, more]] of Object.entries(deltas))
    for (const [kind, block] of Object.entries(blocks)) {
      const found = events([start, begin(0, block), delta(0, { ...more, type }), stop(0), last("end_turn"), over]);
      t.same(
        only(found, "unmapped").map((event) => (event as { path: string }).path),
        kind === fits ? [] : [type],
        `${type} in ${kind}`,
      );
      if (kind === "tool_use" && kind !== fits) t.match(only(found, "arguments"), [{ text: '{"kept":1}' }]);
    }
});

t.test("any value in place of a string or a number is tolerated", async (t) => {
  const deep = "[".repeat(20_000) + "]".repeat(20_000);
  for (const value of ["null", "1", '"constructor"', "{}", "[]", deep, '{"toString":1,"valueOf":1}']) {
    const text = { type: "text", text: "" };
    const told = [
      ...[start, begin(0, text), { ...begin(1, text), index: "ODD" }, { ...delta(0, { type: "ODD", text: "x" }) }],
      ...[delta(0, { type: "text_delta", text: "ODD" }), { ...stop(1), index: "ODD" }, { type: "ODD" }],
      last("end_turn", { stop_sequence: "ODD", stop_details: { explanation: "ODD" } }, { output_tokens: "ODD" }),
      over,
    ];
    const found = events(told.map((json) => `data: ${JSON.stringify(json).replaceAll('"ODD"', value)}\n\n`));
    t.equal(found.at(-1)?.type, "end", value.slice(0, 30));
  }
  t.match(events([start, { ...delta(0, { type: "text_delta" }), index: {} }]).at(-1), { type: "error" });
});

t.test("blocks that a stream leaves open are completed before the end", async (t) => {
  const call = begin(0, { type: "tool_use", id: "a", name: "f", input: { a: 1 } });
  const server = begin(1, { type: "server_tool_use", id: "s", name: "web_search", input: {} });
  const query = delta(1, { type: "input_json_delta", partial_json: '{"query":"x"}' });
  const told = ["open", "open", "arguments", "close", "server", "close", "finish", "usage", "end"];
  t.same(types(events([start, call, server, query, last("tool_use"), over])), ["start", ...told]);
  t.same(
    types(events([start, call, server, query, last("tool_use"), stop(0), stop(1), over])),
    ["start", ...told],
    "nor is it closed twice",
  );
  const again = begin(0, { type: "text", text: "Hi" });
  t.same(
    types(events([start, call, again, last("tool_use"), over])),
    ["start", "open", "arguments", "close", "open", "text", "close", "finish", "usage", "end"],
    "a block with the number of another open one comes after it",
  );
});

t.test("a block that begins behind the reason to end is completed too", async (t) => {
  const call = { type: "tool_use", id: "toolu_1", name: "f", input: { a: 1 } };
  const found = events([start, last("tool_use"), begin(0, call), over]);
  t.same(types(found), ["start", "open", "arguments", "close", "finish", "usage", "end"]);
  t.match(only(found, "arguments"), [{ text: '{"a":1}' }]);
});

t.test("an empty signature is none, streamed as well as whole", async (t) => {
  const empty = [delta(0, { type: "signature_delta", signature: "" }), stop(0)];
  const found = events([start, begin(0, { type: "thinking", thinking: "Hm." }), ...empty, last("end_turn"), over]);
  t.same(only(found, "opaque"), []);
});

const KIMI = { account: "them", model: "kimi-k2.5" };
const wholeOf = (body: JsonObject, source = KIMI) =>
  runAtOnce(translation.response.decode(Buffer.from(JSON.stringify(body)), source));

t.test("thinking without a signature has a state where an imitation of the protocol thought it", async (t) => {
  const stream = [
    start,
    begin(0, { type: "thinking", thinking: "" }),
    delta(0, { type: "thinking_delta", thinking: "Hm." }),
    stop(0),
    last("end_turn"),
    over,
  ];
  const state = { protocol: NAME, ...KIMI, kind: "signature", data: "", extra: "Hm." };
  const body = {
    type: "message",
    content: [{ type: "thinking", thinking: "Hm.", signature: "" }],
    stop_reason: "end_turn",
  };
  for (const found of [events(stream, KIMI), wholeOf(body)])
    t.same(only(found, "opaque"), [{ type: "opaque", block: 0, opaque: state }]);
  for (const found of [events(stream), wholeOf(body, SOURCE)]) t.same(only(found, "opaque"), [], "the vendor signs");
  // Some imitations sign, too: there is one state then.
  const signed = [...stream.slice(0, 3), delta(0, { type: "signature_delta", signature: "s" }), ...stream.slice(3)];
  const begun = [start, begin(0, { type: "thinking", thinking: "Hm.", signature: "s" }), ...stream.slice(3)];
  for (const frames of [signed, begun])
    t.same(only(events(frames, KIMI), "opaque"), [{ type: "opaque", block: 0, opaque: { ...state, data: "s" } }]);
});

t.test("an answer with a call ends with calls, whatever an imitation of the protocol says", async (t) => {
  const call = { type: "tool_use", id: "c", name: "f", input: {} };
  const found = events([start, begin(0, call), stop(0), last("end_turn"), over]);
  t.match(only(found, "finish"), [{ reason: "tool_calls", raw: "end_turn" }]);
  const late = events([start, last("end_turn"), begin(0, call), stop(0), over]);
  t.match(only(late, "finish"), [{ reason: "tool_calls", raw: "end_turn" }], "also where it says so before");
  t.match(only(events([start, last("end_turn"), over]), "finish"), [{ reason: "stop" }]);
  const cut = events([start, begin(0, call), stop(0), last("max_tokens"), over]);
  t.match(only(cut, "finish"), [{ reason: "length" }]);
});

t.test("arguments are read as an object, as its text, and whole in one delta", async (t) => {
  const argumentsOf = (found: Event[]) => found.flatMap((event) => (event.type === "arguments" ? [event.text] : []));
  const call = (input: unknown) => ({ type: "tool_use", id: "c", name: "f", input }) as JsonObject;
  t.same(argumentsOf(events([start, begin(0, call('{"a":1}')), stop(0), last("tool_use"), over])), ['{"a":1}']);
  const object = delta(0, { type: "input_json_delta", partial_json: { a: 1 } });
  t.same(argumentsOf(events([start, begin(0, call({})), object, stop(0), last("tool_use"), over])), ['{"a":1}']);
  t.same(argumentsOf(wholeOf({ content: [call('{"a":1}')], stop_reason: "tool_use" })), ['{"a":1}']);
  t.same(argumentsOf(wholeOf({ content: [call("a")], stop_reason: "tool_use" })), ['"a"']);
});

t.test("a message may have a text as its content, or none", async (t) => {
  t.match(only(wholeOf({ type: "message", content: "Hi", stop_reason: "end_turn" }), "text"), [{ text: "Hi" }]);
  t.same(types(wholeOf({ type: "message", content: null, stop_reason: "end_turn" })), ["start", "finish", "end"]);
});
