import t from "tap";
import {
  createDecoder,
  decodeResponse,
  ending,
} from "../../../../plugins/protocols/openai-responses/response.decode.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { SseSplitter } from "../../../../src/wire/sse.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { dice } from "../../../support/dice.ts";
import { gathered } from "../../../support/gathered.ts";
import { hostileTexts, runLinear } from "../../../support/linear-work.ts";
import { asEvent, eventsIn, recorded } from "../../../support/recorded.ts";
import { decoded, frame, SOURCE } from "./answers.ts";
import { added, between, call, completed, created, done, message, response, uses } from "./frames.ts";

t.test("a message is a block for each part, open until it is complete", async (t) => {
  const at = { output_index: 0, item_id: "msg_1", content_index: 0 };
  const logprobs = [{ token: "Hel", logprob: -0.1, bytes: [72], top_logprobs: [] }];
  const annotation = { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 5 };
  const part = uses("Hello", { annotations: [annotation] });
  const events = decoded([
    created,
    { type: "response.in_progress", response },
    added(0, message()),
    { type: "response.content_part.added", ...at, part: uses("") },
    { type: "response.output_text.delta", ...at, delta: "Hel", logprobs },
    { type: "response.output_text.delta", ...at, delta: "lo", logprobs: [] },
    { type: "response.output_text.annotation.added", ...at, annotation_index: 0, annotation },
    { type: "response.output_text.done", ...at, text: "Hello", logprobs: [] },
    { type: "response.content_part.done", ...at, part },
    done(0, message(part)),
    completed([message(part)], { usage: { input_tokens: 3, output_tokens: 2 } }),
  ]);
  t.same(
    events.filter(({ type }) => type !== "ping"),
    [
      { type: "start", id: "resp_1", model: "gpt", created: 7 },
      { type: "open", block: 0, choice: 0, kind: "text" },
      { type: "text", block: 0, text: "Hel", logprobs },
      { type: "text", block: 0, text: "lo" },
      { type: "citation", block: 0, citation: { url: "https://a.example", title: "A", start: 0, end: 5 } },
      { type: "close", block: 0 },
      { type: "finish", choice: 0, reason: "stop", raw: "completed" },
      { type: "usage", usage: { in: { total: 3 }, out: { total: 2 }, raw: { input_tokens: 3, output_tokens: 2 } } },
      { type: "end" },
    ],
  );
});

t.test("a text, a refusal or reasoning that is sent only whole is read once, wherever it is", async (t) => {
  const at = { output_index: 0, content_index: 0 };
  const text = { type: "response.output_text.done", ...at, text: "Hello", logprobs: [] };
  const written = (...values: JsonObject[]) =>
    decoded([created, ...values, completed([])]).flatMap((event) => (event.type === "text" ? [event.text] : []));
  t.same(written(added(0, message()), text), ["Hello"]);
  t.same(written(added(0, message()), text, done(0, message(uses("Hello")))), ["Hello"]);
  t.same(written(added(0, message()), { type: "response.refusal.done", ...at, refusal: "No." }), ["No."]);
  const reasoning = added(0, { type: "reasoning", id: "rs_1", summary: [] });
  t.same(written(reasoning, { type: "response.reasoning_text.done", ...at, text: "So" }), ["So"]);
  const summary = { type: "response.reasoning_summary_text.done", output_index: 0, summary_index: 0, text: "Sum" };
  t.same(written(reasoning, summary), ["Sum"]);
  t.same(written(done(0, { type: "message", role: "assistant", content: "Plain" })), ["Plain"], "without parts");
  const item = { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "So" }] };
  t.same(written(done(0, item)), ["So"]);
});

t.test("arguments that are an object are its text", async (t) => {
  for (const events of [
    [done(0, { ...call("call_1", ""), arguments: { a: 1 } })],
    [
      added(0, call("call_1", "")),
      { type: "response.function_call_arguments.done", output_index: 0, arguments: { a: 1 } },
    ],
  ])
    t.match(
      decoded([created, ...events, completed([])]).find(({ type }) => type === "arguments"),
      { text: '{"a":1}' },
    );
});

t.test("a refusal is streamed", async (t) => {
  const at = { output_index: 0, item_id: "msg_1", content_index: 0 };
  const part = { type: "refusal", refusal: "I can't." };
  const events = decoded([
    created,
    added(0, message()),
    { type: "response.content_part.added", ...at, part: { type: "refusal", refusal: "" } },
    { type: "response.refusal.delta", ...at, delta: "I " },
    { type: "response.refusal.delta", ...at, delta: "can't." },
    { type: "response.refusal.done", ...at, refusal: part.refusal },
    { type: "response.content_part.done", ...at, part },
    done(0, message(part)),
    completed([message(part)]),
  ]);
  t.same(between(events), [
    { type: "open", block: 0, choice: 0, kind: "refusal" },
    { type: "text", block: 0, text: "I " },
    { type: "text", block: 0, text: "can't." },
    { type: "close", block: 0 },
  ]);
});

t.test("a call's arguments are streamed unchanged", async (t) => {
  const events = decoded([
    created,
    added(0, { ...call("call_1", ""), namespace: "functions" }),
    { type: "response.function_call_arguments.delta", output_index: 0, delta: '{"a": 1.0, "b": ' },
    { type: "response.function_call_arguments.delta", output_index: 0, delta: "12345678901234567890}" },
    { type: "response.function_call_arguments.done", output_index: 0, arguments: "{}" },
    done(0, call("call_1", "{}")),
    completed([call("call_1", "{}")]),
  ]);
  t.same(between(events), [
    {
      ...{ type: "open", block: 0, choice: 0, kind: "tool_call" },
      ...{ id: "call_1", name: "find", namespace: "functions" },
    },
    { type: "arguments", block: 0, text: '{"a": 1.0, "b": ' },
    { type: "arguments", block: 0, text: "12345678901234567890}" },
    { type: "close", block: 0 },
  ]);
  t.match(events.at(-2), { type: "finish", reason: "tool_calls" });
});

t.test("a custom tool's input is free text", async (t) => {
  const item = { type: "custom_tool_call", id: "ctc_1", call_id: "call_1", name: "exec", input: "" };
  const events = decoded([
    created,
    added(0, item),
    { type: "response.custom_tool_call_input.delta", output_index: 0, delta: "ls" },
    done(0, { ...item, input: "ls" }),
    completed(),
  ]);
  t.match(between(events), [{ kind: "tool_call", custom: true, name: "exec" }, { text: "ls" }, { type: "close" }]);
});

t.test("keep-alives and the marker after the end yield no event", async (t) => {
  const events = decoded([
    { type: "response.queued", response: { ...response, status: "queued" } },
    { type: "keepalive", sequence_number: 3 },
    { type: "response.web_search_call.searching", output_index: 0 },
    completed(),
    "[DONE]",
  ]);
  t.same(
    events.map(({ type }) => type),
    ["start", "ping", "ping", "finish", "end"],
  );
});

t.test("an unknown event or part is declared lost, and the stream continues", async (t) => {
  const events = decoded([
    created,
    { type: "response.hologram.delta", delta: "?" },
    done(0, message({ type: "hologram" }, uses("Hello"))),
    completed(),
  ]);
  t.same(between(events).slice(0, 3), [
    { type: "unmapped", path: "response.hologram.delta" },
    { type: "unmapped", path: "output.0.content.0" },
    { type: "open", block: 0, choice: 0, kind: "text" },
  ]);
  t.equal(events.at(-1)?.type, "end");
});

t.test("the finish reason is read from status, details and items together", async (t) => {
  const refusal = message({ type: "refusal", refusal: "No." });
  const cases: [JsonObject, string, string][] = [
    [completed(), "stop", "completed"],
    [completed([refusal]), "refusal", "completed"],
    [completed([call("a", "{}")]), "tool_calls", "completed"],
    ...(["max_output_tokens:length", "content_filter:content_filter", "steered:other"] as const).map(
      (told): [JsonObject, string, string] => {
        const [reason, expected] = told.split(":") as [string, string];
        const whole = { ...response, status: "incomplete", incomplete_details: { reason } };
        return [{ type: "response.incomplete", response: whole }, expected, reason];
      },
    ),
    [{ type: "response.incomplete", response: { ...response, status: "incomplete" } }, "length", "incomplete"],
  ];
  for (const [last, reason, raw] of cases)
    t.match(decoded([created, last]).at(-2), { type: "finish", reason, raw }, `${reason} ${raw}`);
});

t.test("a failure is one error, the last event, with the vendor's message", async (t) => {
  const error = { code: "rate_limit_exceeded", message: "Slow down." };
  const failed = { ...response, status: "failed", error, usage: { input_tokens: 3 } };
  const ways: (JsonObject | string)[][] = [
    [created, { type: "response.failed", response: failed }, completed()],
    [created, { type: "error", ...error, param: null }, completed()],
    [created, { type: "error", error }],
    [JSON.stringify({ error })],
  ];
  for (const way of ways) {
    const events = decoded(way);
    t.match(events.at(-1), { type: "error", fault: { status: 429, kind: "rate_limit", ...error } });
    t.equal(events.filter(({ type }) => type === "error").length, 1);
  }
  t.match(runAtOnce(decodeResponse(Buffer.from(JSON.stringify(failed)), SOURCE)).at(-1), {
    type: "error",
    fault: { status: 429 },
  });
});

t.test("an unfinished answer is not taken for a finished one", async (t) => {
  for (const status of ["queued", "in_progress", "cancelled"])
    t.match(runAtOnce(decodeResponse(Buffer.from(JSON.stringify({ ...response, status })), SOURCE)).at(-1), {
      type: "error",
      fault: { status: 502, message: `The provider's answer has the status "${status}".` },
    });
  t.match(decoded([created, { ...completed(), response }]).at(-2), { type: "finish", reason: "stop" });
});

t.test("an interrupted stream is an error, not an end", async (t) => {
  for (const way of [[], [created], [created, added(0, call("a", ""))], [created, "[DONE]"]])
    t.match(decoded(way).at(-1), { type: "error", fault: { code: "upstream_truncated", status: 502 } });
});

t.test("a body that is not a response is refused", async (t) => {
  for (const body of ["", "<html>", "[]", "{}", '{"object":"response.input_tokens","input_tokens":3}'])
    t.throws(() => runAtOnce(decodeResponse(Buffer.from(body), SOURCE)), { code: "upstream_invalid" }, body);
});

t.test("a comment is a keep-alive", async (t) => {
  const out: Event[] = [];
  const [comment] = new SseSplitter().push(Buffer.from(": PROCESSING\n\n"));
  if (comment) createDecoder(SOURCE).frame(comment, out);
  t.same(out, [{ type: "ping" }]);
});

/** What the rules of the vocabulary say of a decoder's events. */
function lawful(events: readonly Event[]): boolean {
  const open = new Set<number>();
  let blocks = 0;
  for (const [i, event] of events.entries()) {
    if (event.type === "open") {
      if (event.block !== blocks++) return false;
      open.add(event.block);
    } else if (event.type === "close") {
      if (!open.delete(event.block)) return false;
    } else if ("block" in event && !open.has(event.block)) return false;
    if (event.type === "error" || event.type === "end") {
      if (i !== events.length - 1 || (event.type === "end" && open.size > 0)) return false;
    }
  }
  const last = events.at(-1)?.type;
  return last === "error" || last === "end";
}

t.test("with any input, the events are in order and end once", async (t) => {
  const types = [
    ...["created", "queued", "completed", "failed", "incomplete", "output_item.added", "output_item.done"],
    ...["content_part.added", "content_part.done", "output_text.delta", "refusal.delta", "output_text.done"],
    ...["function_call_arguments.delta", "function_call_arguments.done", "reasoning_summary_text.delta"],
    ...["reasoning_summary_part.added", "reasoning_text.delta", "output_text.annotation.added", "nonsense"],
  ].map((type) => `response.${type}`);
  const values = [undefined, null, 0, 1, -1, 1e300, "x", [], [null], {}, { type: "reasoning", summary: [3] }];
  const items = [
    ...values,
    message(uses("Hi")),
    call("a", "{}"),
    { type: "computer_call" },
    { type: "constructor" },
    completed().response,
  ];
  for (let seed = 0; seed < 2000; seed++) {
    const cast = dice(seed);
    const any = (list: readonly unknown[]) => list[cast(list.length)];
    const events = decoded(
      Array.from({ length: cast(12) }, () => ({
        ...{ type: any(types), output_index: any([0, 0, 1, any(values)]), content_index: any(values) },
        ...{ summary_index: any(values), item: any(items), part: any(items), response: any(items) },
        ...{ delta: any(values), text: any(values), annotation: any(values), arguments: any(values) },
      })),
    );
    if (!lawful(events)) t.fail(`seed ${seed}: ${JSON.stringify(events)}`);
  }
  t.pass("all were");
});

gathered(t, "bytes of any kind end in one error", async (t) => {
  for (let seed = 0; seed < 300; seed++) {
    const cast = dice(seed);
    const bytes = Buffer.from(Array.from({ length: 1 + cast(200) }, () => cast(256)));
    const out: Event[] = [];
    const reader = createDecoder(SOURCE);
    for (const each of new SseSplitter().push(Buffer.concat([Buffer.from("data: "), bytes, Buffer.from("\n\n")])))
      reader.frame(each, out);
    reader.end(out);
    t.equal(out.filter(({ type }) => type === "error").length, 1);
    t.ok(lawful(out));
  }
});

t.test("a frame is decoded at any nesting depth", async (t) => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const text = `{"type":"response.output_item.done","output_index":0,"item":{"type":"odd_call","deep":${deep}}}`;
  const out: Event[] = [];
  createDecoder(SOURCE).frame(frame(text), out);
  t.same(
    out.map(({ type }) => type),
    ["start", "open", "server", "close"],
  );
});

/** The events without their block's opening and end, as short as can be. */
const short = (events: readonly Event[]) =>
  between(events).map((event) => {
    if (event.type === "open") return `open ${event.block} ${event.kind}`;
    if (event.type === "text" || event.type === "arguments") return `${event.block} ${event.text}`;
    if (event.type === "close") return `close ${event.block}`;
    return event.type;
  });

t.test("a last event that lacks items of the stream, or has them in another order, repeats nothing", async (t) => {
  const reasoning = { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm" }] };
  const [hello, more] = [message(uses("Hello")), { ...message(uses(" there")), id: "msg_2" }];
  const streamed = [created, done(0, reasoning), done(1, hello)];
  const expected = short(decoded([...streamed, completed([reasoning, hello])]));
  t.same(expected.slice(-3), ["open 1 text", "1 Hello", "close 1"]);
  for (const output of [[hello], [hello, reasoning], [reasoning]])
    t.same(short(decoded([...streamed, completed(output)])), expected);
  const ended = short(decoded([...streamed, completed([hello, more])]));
  t.same(ended, [...expected, "open 2 text", "2  there", "close 2"], "one that was not streamed is added");
});

t.test("reasoning has the parts of its summary, its text, and the state to return", async (t) => {
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

t.test("reasoning that is only encrypted is an unreadable block; empty reasoning yields none", async (t) => {
  const empty = { type: "reasoning", id: "rs_0", summary: [] };
  const item = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAA" };
  const events = decoded([created, added(0, empty), done(0, empty), added(1, item), done(1, item), completed()]);
  t.match(between(events), [
    { kind: "reasoning", redacted: true, block: 0 },
    { type: "opaque", opaque: { data: "gAAAA", extra: undefined } },
    { type: "close" },
  ]);
});

t.test("items of a vendor's own tool are kept", async (t) => {
  const item = { type: "web_search_call", id: "ws_1", action: { query: "q" } };
  const whole = JSON.stringify({ id: "resp_1", output: [item], status: "completed" });
  for (const events of [
    decoded([created, done(0, item), completed()]),
    runAtOnce(decodeResponse(Buffer.from(whole), SOURCE)),
  ]) {
    t.match(between(events)[0], { kind: "server", name: "web_search_call" });
    t.match(between(events)[1], { type: "server", json: { value: item } });
  }
});

t.test("endlessly many items are the provider's fault", async (t) => {
  const message = /more than 10000 items/;
  const events = decoded([created, ...Array.from({ length: 10_001 }, (_, n) => added(n, { type: "odd_call" }))]);
  t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid", message } });
  const output = Array.from({ length: 10_001 }, () => ({ type: "odd_call" }));
  t.throws(() => runAtOnce(decodeResponse(Buffer.from(JSON.stringify({ output })), SOURCE)), {
    code: "upstream_invalid",
    message,
  });
});

t.test("an event's type of any length is read in linear time", async (t) => {
  for (const type of hostileTexts(["_call", "a", "mcp_"], "response."))
    runLinear(() => t.match(decoded([created, { type }]), [{ type: "start" }, { type: "unmapped", path: type }]));
});

t.test("many such items are decoded as quickly as few", async (t) => {
  const items = Array.from({ length: 10_000 }, (_, n) => ({ type: "web_search_call", id: `ws_${n}` }));
  for (const events of [
    decoded([created, completed(items)]),
    runAtOnce(decodeResponse(Buffer.from(JSON.stringify({ output: items })), SOURCE)),
  ])
    t.equal(events.filter(({ type }) => type === "server").length, items.length);
});

t.test("a generated image is an image", async (t) => {
  const item = { type: "image_generation_call", id: "ig_1", result: "aGk=", output_format: "webp" };
  t.match(between(decoded([created, added(0, { ...item, result: null }), done(0, item), completed([item])])), [
    { type: "open", kind: "media", media: "image", mime: "image/webp" },
    { type: "media", base64: "aGk=" },
    { type: "close" },
  ]);
  const { output_format: _, ...plain } = item;
  t.match(between(decoded([created, done(0, plain), completed([plain])]))[0], { mime: "image/png" });
});

t.test("items that come only with their end, or only with the answer's, are neither lost nor repeated", async (t) => {
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

const INDEXES = new Set(["output_index", "content_index", "sequence_number"]);
/** Returns events without their indexes, as llama.cpp sends them. */
const unindexed = (event: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(event).filter(([name]) => !INDEXES.has(name)));

t.test("items without an index are found by their id, and begin as soon as they are sent", async (t) => {
  const thought = (...content: JsonObject[]) => ({ type: "reasoning", id: "rs_1", summary: [], content });
  const { id: _, ...unnamed } = call("call_1", "");
  const events = [
    { type: "response.output_item.added", item: thought() },
    { type: "response.reasoning_text.delta", item_id: "rs_1", delta: "Hm" },
    { type: "response.output_item.added", item: message() },
    { type: "response.content_part.added", item_id: "msg_1", part: uses("") },
    { type: "response.output_text.delta", item_id: "msg_1", delta: "Hel" },
    { type: "response.output_text.delta", item_id: "msg_1", delta: "lo" },
    { type: "response.output_item.added", item: unnamed },
    { type: "response.function_call_arguments.delta", item_id: "call_1", delta: "{}" },
    { type: "response.output_item.done", item: thought({ type: "reasoning_text", text: "Hm" }) },
    { type: "response.output_text.done", item_id: "msg_1", text: "Hello" },
    { type: "response.content_part.done", item_id: "msg_1", part: uses("Hello") },
    { type: "response.output_item.done", item: message(uses("Hello")) },
    { type: "response.output_item.done", item: { ...unnamed, arguments: "{}" } },
  ];
  const expected = [
    ...["open 0 reasoning", "0 Hm", "close 0"],
    ...["open 1 text", "1 Hel", "1 lo", "open 2 tool_call", "2 {}", "close 1", "close 2"],
  ];
  t.same(short(decoded([created, ...events, completed()])), expected);
});

t.test("items with neither an index nor an id are found by their type", async (t) => {
  const texts = ["Hello", " again"];
  const events = texts.flatMap((text, index) => [
    { type: "response.output_text.delta", delta: text },
    { type: "response.output_text.done", text },
    done(index, { type: "message", content: [uses(text)] }),
  ]);
  t.same(short(decoded([created, ...events.map(unindexed), completed()])), [
    ...["open 0 text", "0 Hello", "close 0"],
    ...["open 1 text", "1  again", "close 1"],
  ]);
});

t.test("items may be interleaved", async (t) => {
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

const event = (bytes: string) => new Frame("event", Buffer.from(bytes));
const named = (type: string) => event(`event: ${type}\ndata: {"type":"${type}","response":{"id":"resp_1"}}\n\n`);

const ENDINGS = {
  "response.completed": "complete",
  "response.incomplete": "complete",
  "response.failed": "error",
  error: "error",
  "response.created": undefined,
  "response.in_progress": undefined,
  "response.output_text.delta": undefined,
  "response.output_item.done": undefined,
  "response.image_generation_call.completed": undefined,
  keepalive: undefined,
} as const;

t.test("a completed or incomplete response is complete, a failed one and an error are failures", async (t) => {
  for (const [type, expected] of Object.entries(ENDINGS)) {
    t.equal(ending(named(type)), expected, type);
    t.equal(ending(event(`event:${type}\r\ndata: {}\r\n\r\n`)), expected, `${type}, other spelling`);
    t.equal(ending(asEvent({ type, response: { id: "resp_1" } })), expected, `${type}, without its event line`);
    t.equal(ending(event(`: note\ndata: {"type":"${type}","response":{}}\n\n`)), expected, `${type} after a comment`);
  }
});

t.test("an error object without a type is a failure too", async (t) => {
  t.equal(ending(asEvent({ error: { message: "no" } })), "error");
});

t.test("text that looks like an end is text", async (t) => {
  const delta = '"type":"response.completed","response":{},"type":"error"';
  t.equal(ending(asEvent({ type: "response.output_text.delta", delta })), undefined);
  t.equal(ending(event("event: response.completed_not\ndata: {}\n\n")), undefined);
  t.equal(ending(event("event: ")), undefined);
  t.equal(ending(event(": ping\n\n")), undefined);
  t.equal(ending(event("data: [DONE]\n\n")), undefined);
});

/** This holds a chat stream, whatever its folder says. */
const MISPLACED = "openai-responses/vercel-ai__azure.azure-deepseek-reasoning.1.stream__0";
/** These hold several responses, one after the other. */
const SEVERAL = /(azure|openai)-reasoning-encrypted-content\.1\.stream__0$/;

t.test("every recorded stream ends once, with event lines or without", async (t) => {
  const faults: string[] = [];
  for (const { id, kinds, status, body } of recorded("openai-responses")) {
    if (status >= 300 || !kinds.includes("stream") || id === MISPLACED) continue;
    const frames = eventsIn(body);
    const bare = frames.map(({ text }) => event(`data: ${text}\n\n`));
    for (const forms of [frames, bare]) {
      const endings = forms.map(ending).filter((found) => found !== undefined);
      if (
        endings.join() !==
        Array(SEVERAL.test(id) ? 4 : 1)
          .fill("complete")
          .join()
      )
        faults.push(`${id}: ${endings}`);
    }
  }
  t.same(faults, []);
});

/** Returns what a client sees of an answer: its texts by kind, its calls one by one. */
function seen(events: readonly Event[]): string[] {
  const found = new Map<string, string>();
  const keys = new Map<number, string>();
  for (const event of events) {
    if (event.type === "open")
      keys.set(event.block, event.kind === "tool_call" ? `call ${event.block} ${event.name}` : event.kind);
    if (event.type !== "text" && event.type !== "arguments") continue;
    const key = keys.get(event.block) ?? "";
    found.set(key, (found.get(key) ?? "") + event.text);
  }
  return [...found].map(([key, text]) => `${key.replace(/ \d+/, "")}: ${text}`).sort();
}

t.test("every recorded stream says the same without indexes, ids, and an end that repeats the items", async (t) => {
  const faults: string[] = [];
  const ends = new Set(["response.completed", "response.incomplete"]);
  const bare = (event: JsonObject): JsonObject => ({
    ...unindexed(event),
    item_id: undefined,
    ...(ends.has(String(event["type"])) ? { response: { ...(event["response"] as object), output: [] } } : undefined),
  });
  for (const { id, kinds, status, body } of recorded("openai-responses")) {
    if (status >= 300 || !kinds.includes("stream") || id === MISPLACED || SEVERAL.test(id)) continue;
    const events = eventsIn(body).flatMap((frame) => (frame.json() ? [frame.json() as JsonObject] : []));
    const whole = seen(decoded(events)).join("\n");
    for (const way of [unindexed, bare])
      if (seen(decoded(events.map(way))).join("\n") !== whole) faults.push(`${id} ${way.name}`);
  }
  t.same(faults, []);
});
