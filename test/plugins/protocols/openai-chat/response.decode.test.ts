import { isDeepStrictEqual } from "node:util";
import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event, EventOf } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { SseSplitter } from "../../../../src/wire/sse.ts";
import { dice } from "../../../support/dice.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { chunk, DONE, frameOf, only, source, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
/** Bodies up to this size arrive byte by byte. */
const SMALL = 20_000;

/** Recorded streams in which the provider reports an error: encoders never see one. */
const FAILED = [
  "openai-chat/pydantic-ai__test_groq.test_tool_use_failed_error_streaming__0",
  "openai-chat/pydantic-ai__test_groq.test_tool_use_failed_error_streaming_with_text__0",
  "openai-chat/pydantic-ai__test_openrouter.test_openrouter_stream_error__0",
];

/** The frames of a body that arrives in pieces of these lengths. */
function framesOf(body: string, length: () => number): Frame[] {
  const bytes = Buffer.from(body);
  const splitter = new SseSplitter();
  const frames: Frame[] = [];
  for (let at = 0; at < bytes.length; ) {
    const next = at + length();
    frames.push(...splitter.push(bytes.subarray(at, next)));
    at = next;
  }
  const rest = splitter.end();
  if (rest) frames.push(new Frame("event", rest));
  return frames;
}

const readFrames = (...frames: unknown[]): Event[] => streamed(chat, frames.map(frameOf));
const readChunks = (...frames: object[]): Event[] => readFrames(...frames, chunk({}, "stop"));
const readDeltas = (...deltas: object[]): Event[] => readChunks(...deltas.map((delta) => chunk(delta)));
const completion = (...list: object[]) => ({ id: "1", model: "m", choices: list });
const decodeBody = (body: object) => runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(body)), source));
const unmappedIn = (events: readonly Event[]) => only(events, "unmapped").map(({ path }) => path);
const lostIn = (...frames: object[]) => unmappedIn(readChunks(...frames));
const lostOf = (...deltas: object[]) => unmappedIn(readDeltas(...deltas));

t.test("every recorded stream yields the same events, wherever it is split", async (t) => {
  const random = dice(7);
  const different: string[] = [];
  for (const { id, kinds, status, body } of recorded("openai-chat")) {
    if (!kinds.includes("stream") || status >= 300 || FAILED.includes(id)) continue;
    const frames = framesOf(body, body.length <= SMALL ? () => 1 : () => 1 + random(900));
    if (!isDeepStrictEqual(streamed(chat, frames), streamed(chat, eventsIn(body)))) different.push(id);
  }
  t.same(different, []);
});

t.test("recorded streams that fail end in the provider's error", async (t) => {
  for (const { id, body } of recorded("openai-chat").filter(({ id }) => FAILED.includes(id))) {
    const events = streamed(
      chat,
      framesOf(body, () => 4096),
    );
    const errors = events.filter(({ type }) => type === "error");
    t.match(errors, [{ fault: { status: 400, kind: "invalid" } }], id);
    t.equal(events.at(-1), errors[0], id);
  }
});

const read = (...frames: unknown[]): Event[] => streamed(chat, frames.map(frameOf));

t.test("a text is one block, and its end comes last", async (t) => {
  const events = read(
    chunk({ role: "assistant", content: "", refusal: null }),
    chunk({ content: "He" }),
    chunk({ content: "llo" }),
    chunk({}, "stop"),
    DONE,
  );
  t.same(events, [
    { type: "start", id: "chatcmpl-1", model: "gpt", created: 1 },
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "He" },
    { type: "text", block: 0, text: "llo" },
    { type: "close", block: 0 },
    { type: "finish", choice: 0, reason: "stop", raw: "stop" },
    { type: "end" },
  ]);
});

t.test("content on the chunk that ends the choice comes before the end", async (t) => {
  const types = read(chunk({ content: "all" }, "stop"), DONE).map(({ type }) => type);
  t.same(types, ["start", "open", "text", "close", "finish", "end"]);
});

t.test("usage beside a choice, and sent twice, is one event: the last", async (t) => {
  const usage = (n: number) => ({ usage: { prompt_tokens: n, completion_tokens: 1, total_tokens: n + 1 } });
  const events = read(chunk({ content: "a" }, null, usage(5)), chunk({}, "stop", usage(7)), DONE);
  t.match(only(events, "usage"), [{ usage: { in: { total: 7 }, out: { total: 1 } } }]);
});

t.test("a first chunk without choices does not begin the answer", async (t) => {
  const empty = { id: "", model: "", object: "", created: 0, choices: [], prompt_filter_results: [] };
  const events = read(empty, chunk({ content: "a" }, "stop"), DONE);
  t.match(only(events, "start"), [{ id: "chatcmpl-1", model: "gpt" }]);
});

t.test("a role in every chunk begins one answer", async (t) => {
  const events = read(
    chunk({ role: "assistant", content: "a" }),
    chunk({ role: "assistant", content: "b" }),
    chunk({ role: "assistant" }, "stop"),
    DONE,
  );
  t.equal(only(events, "start").length, 1);
  t.equal(only(events, "open").length, 1);
});

t.test(
  "an end without [DONE] is complete when a choice has its finish reason, and an interruption otherwise",
  async (t) => {
    t.equal(read(chunk({ content: "a" }, "stop")).at(-1)?.type, "end");
    const broken = read(chunk({ content: "a" }));
    t.match(broken.at(-1), { type: "error", fault: { code: "upstream_truncated", status: 502 } });
    t.same(only(broken, "finish"), []);
    t.match(read().at(-1), { type: "error", fault: { code: "upstream_truncated" } });
  },
);

t.test("an error after a 200 is the last event", async (t) => {
  const events = read(
    chunk({ content: "a" }),
    { error: { message: "Overloaded", type: "overloaded_error" } },
    chunk({ content: "b" }),
    DONE,
  );
  t.match(events.at(-1), { type: "error", fault: { status: 503, kind: "overloaded", message: "Overloaded" } });
  t.equal(only(events, "text").length, 1);
  t.match(read(chunk({}, "error")).at(-1), { type: "error", fault: { status: 502 } });
  t.match(read(chunk({ content: "a" }), { error: "Out of memory" }, DONE).at(-1), {
    type: "error",
    fault: { status: 502, message: "Out of memory" },
  });
});

t.test("an event named error fails with the vendor's message", async (t) => {
  const named = (data: string) => new Frame("event", Buffer.from(`event: error\ndata: ${data}\n\n`));
  const fail = (data: string) => streamed(chat, [frameOf(chunk({ content: "a" })), named(data), frameOf(DONE)]).at(-1);
  t.match(fail('{"message":"Out of memory.","code":500}'), {
    type: "error",
    fault: { status: 500, message: "Out of memory." },
  });
  t.match(fail('{"detail":"Overloaded."}'), { fault: { status: 502, message: "Overloaded." } });
  t.match(fail('{"error":{"message":"no","code":429}}'), { fault: { status: 429, message: "no" } });
  t.match(fail("upstream gone"), { fault: { status: 502, message: "upstream gone" } });
  t.match(fail("{}"), { fault: { status: 502, message: "The provider reported a failure in its stream." } });
  const flat = { object: "error", message: "too long", type: "BadRequestError", param: null, code: 400 };
  t.match(read(chunk({ content: "a" }), flat, DONE).at(-1), {
    type: "error",
    fault: { status: 400, code: "BadRequestError", message: "too long" },
  });
  t.match(read(chunk({}, "stop", { x_groq: { error: "over capacity" } }), DONE).at(-1), {
    type: "error",
    fault: { status: 502, message: "over capacity" },
  });
  t.match(runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(flat)), source)), [
    { type: "error", fault: { message: "too long" } },
  ]);
});

t.test("a stream fails for the reader where it ends in an error, and nowhere else", async (t) => {
  for (const error of ["x", "", { message: "x" }, {}, null, undefined, false, true, 0, 7, []]) {
    const frame = frameOf({ ...chunk({ content: "a" }), error });
    const failed = streamed(chat, [frame, frameOf(chunk({}, "stop"))]).at(-1)?.type === "error";
    t.equal(openaiChat.ending(frame) === "error", failed, JSON.stringify(error));
  }
  for (const data of ['{"message":"x"}', "{}", "x", "", "[]", "null", DONE])
    for (const name of ["error", "message", "Error"]) {
      const frame = new Frame("event", Buffer.from(`event: ${name}\ndata: ${data}\n\n`));
      const last = streamed(chat, [frameOf(chunk({ content: "a" })), frame]).at(-1);
      // What is no chunk at all is for the gateway to judge.
      const failed = last?.type === "error" && !last.fault.code.startsWith("upstream_");
      t.equal(openaiChat.ending(frame) === "error", failed, `${name} ${data}`);
    }
});

t.test("content in parts is decoded, and unknown parts are declared", async (t) => {
  const content = [
    {
      type: "thinking",
      thinking: [
        { type: "text", text: "so" },
        { type: "reference", reference_ids: [1] },
      ],
    },
    { type: "thinking", thinking: " it is", signature: null },
    { type: "text", text: "a", annotations: [1] },
    "b",
    { type: "output_text", text: "c" },
    { type: "reference", reference_ids: [1, 2] },
    { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
    { type: "image_url", image_url: "https://a.example/b.png" },
    { type: "document_url", document_url: "https://a.example/b.pdf" },
    { type: "refusal", refusal: "no" },
    null,
    7,
  ];
  const whole = {
    ...chunk({}),
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
  };
  for (const events of [
    read(chunk({ content }, "stop")),
    runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(whole)), source)),
  ]) {
    const opened = only(events, "open").map(({ block, kind }) => [
      kind,
      only(events, "text")
        .filter((event) => event.block === block)
        .map(({ text }) => text)
        .join(""),
    ]);
    t.same(opened, [
      ["reasoning", "so it is"],
      ["text", "abc"],
      ["media", ""],
      ["media", ""],
      ["refusal", "no"],
    ]);
    t.match(only(events, "media"), [{ base64: "AAAA" }, { url: "https://a.example/b.png" }]);
    t.same(
      only(events, "unmapped").map(({ path }) => path),
      ["content.thinking", "content.text.annotations", "content.reference", "content.document_url", "content"],
    );
  }
});

t.test("content, reasoning and calls of unknown form are declared", async (t) => {
  const unmapped = (delta: object) => only(read(chunk(delta, "stop")), "unmapped").map(({ path }) => path);
  t.same(unmapped({ content: { text: "a" } }), ["content"]);
  t.same(unmapped({ reasoning: { text: "a" } }), ["reasoning"]);
  t.same(unmapped({ images: [{ image_url: {} }] }), ["images"]);
  t.same(unmapped({ tool_calls: [{ index: 0, id: "a", type: "web_search", web_search: {} }] }), [
    "tool_calls.web_search",
  ]);
  t.same(unmapped({ tool_calls: [{ index: 0, id: "a", function: { name: "one", arguments: "" } }], content: "" }), []);
});

t.test("choices are separated by their index", async (t) => {
  const one = (index: number, delta: object, finish: string | null = null) => ({
    ...chunk({}),
    choices: [{ index, delta, finish_reason: finish }],
  });
  const events = read(
    one(1, { content: "b" }),
    one(0, { content: "a" }),
    one(0, {}, "stop"),
    one(1, {}, "length"),
    DONE,
  );
  t.match(only(events, "open"), [{ choice: 1 }, { choice: 0 }]);
  t.match(only(events, "finish"), [
    { choice: 1, reason: "length" },
    { choice: 0, reason: "stop" },
  ]);
});

t.test("a whole answer is its message, also beside a delta, or else its delta, and a chunk is its delta", async (t) => {
  const [message, delta] = [{ content: "whole" }, { content: "piece" }];
  const [alone, end] = [{ index: 0, delta }, { finish_reason: "stop" }];
  const both = { ...chunk({}), choices: [{ ...alone, message, ...end }] };
  t.match(only(decodeBody(both), "text"), [{ text: "whole" }]);
  t.match(only(read(both, DONE), "text"), [{ text: "piece" }]);
  t.match(only(decodeBody({ ...both, choices: [{ ...alone, ...end }] }), "text"), [{ text: "piece" }]);
});

t.test("a refusal is decoded as one", async (t) => {
  const events = read(
    chunk({ role: "assistant", content: null, refusal: "" }),
    chunk({ refusal: "I can't." }),
    chunk({}, "stop"),
    DONE,
  );
  t.match(only(events, "open"), [{ kind: "refusal" }]);
  t.match(only(events, "finish"), [{ reason: "refusal", raw: "stop" }]);
});

t.test("reasoning of every dialect becomes a block, with the state to return", async (t) => {
  const thought = (...deltas: object[]) =>
    read(...deltas.map((delta) => chunk(delta)), chunk({ content: "a" }, "stop"), DONE);
  for (const field of ["reasoning_content", "reasoning"]) {
    const events = thought({ [field]: "so " }, { [field]: "so" });
    t.match(only(events, "open"), [{ kind: "reasoning" }, { kind: "text" }], field);
    t.match(
      only(events, "opaque"),
      [{ block: 0, opaque: { protocol: "openai-chat", account: "acme", kind: field, data: "so so" } }],
      field,
    );
  }
  const entry = (more: object) => ({
    reasoning: "so",
    reasoning_details: [{ type: "reasoning.text", index: 0, format: "x", ...more }],
  });
  const events = thought(entry({ text: "so" }), {
    reasoning_details: [{ type: "reasoning.text", index: 0, signature: "sig" }],
  });
  t.match(only(events, "text"), [
    { block: 0, text: "so" },
    { block: 1, text: "a" },
  ]);
  const [{ opaque }] = only(events, "opaque") as [EventOf<"opaque">];
  t.equal(opaque.kind, "reasoning_details");
  t.same(JSON.parse(opaque.data), { type: "reasoning.text", index: 0, format: "x", signature: "sig", text: "so" });
  const mistral = thought({ content: [{ type: "thinking", thinking: [{ type: "text", text: "so" }] }] });
  t.match(only(mistral, "open"), [{ kind: "reasoning" }, { kind: "text" }]);
  t.match(only(mistral, "opaque"), [{ opaque: { kind: "thinking", data: "so" } }]);
});

t.test("encrypted reasoning and summaries are blocks of their own", async (t) => {
  const details = [
    { type: "reasoning.encrypted", data: "xyz", index: 0, id: "rs_1" },
    { type: "reasoning.summary", summary: "Looked.", index: 1 },
  ];
  const body = {
    id: "gen",
    model: "m",
    choices: [
      { index: 0, message: { role: "assistant", content: "a", reasoning_details: details }, finish_reason: "stop" },
    ],
  };
  const events = runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(body)), source));
  t.match(only(events, "open"), [{ redacted: true }, { summary: true }, { kind: "text" }]);
  t.same(
    only(events, "opaque").map(({ opaque }) => JSON.parse(opaque.data)),
    details,
  );
});

t.test("state on a call stays with the call", async (t) => {
  const extra = { google: { thought_signature: "sig" } };
  const events = read(
    chunk(
      {
        tool_calls: [
          { index: 0, id: "a", type: "function", function: { name: "one", arguments: "{}" }, extra_content: extra },
        ],
      },
      "tool_calls",
    ),
  );
  t.match(only(events, "open"), [
    { opaque: { protocol: "openai-chat", kind: "extra_content", data: JSON.stringify(extra) } },
  ]);
});

t.test("a citation's position counts from its block; equal indices are ignored", async (t) => {
  const cite = (start_index: number, end_index: number) => ({
    annotations: [{ type: "url_citation", url_citation: { url: "u", title: "t", start_index, end_index } }],
  });
  const events = read(chunk({ content: "Hello" }), chunk(cite(1, 3)), chunk(cite(0, 0)), chunk({}, "stop"), DONE);
  t.same(
    only(events, "citation").map(({ citation }) => citation),
    [
      { url: "u", title: "t", start: 1, end: 3 },
      { url: "u", title: "t" },
    ],
  );
});

t.test("a citation of a later text counts from that text", async (t) => {
  const url_citation = { url: "u", title: "t", start_index: 6, end_index: 8 };
  const events = read(
    chunk({ content: "Hello" }),
    chunk({ reasoning_content: "Hm." }),
    chunk({ content: "You" }),
    chunk({ annotations: [{ type: "url_citation", url_citation }] }),
    chunk({}, "stop"),
    DONE,
  );
  t.same(only(events, "citation"), [
    { type: "citation", block: 2, citation: { url: "u", title: "t", start: 1, end: 3 } },
  ]);
});

t.test("a citation in one delta with reasoning counts from the text before it", async (t) => {
  const url_citation = { url: "u", title: "t", start_index: 1, end_index: 3 };
  const both = {
    reasoning_details: [{ type: "reasoning.encrypted", data: "x", index: 0 }],
    annotations: [{ type: "url_citation", url_citation }],
  };
  const events = read(chunk({ content: "Hello" }), chunk(both), chunk({}, "stop"), DONE);
  t.match(only(events, "open"), [{ kind: "text" }, { kind: "reasoning" }]);
  t.same(only(events, "citation"), [
    { type: "citation", block: 0, citation: { url: "u", title: "t", start: 1, end: 3 } },
  ]);
});

t.test("log probabilities stay with the text", async (t) => {
  const tokens = [{ token: "a", logprob: -0.1, bytes: [97], top_logprobs: [] }];
  const body = {
    id: "1",
    model: "m",
    choices: [
      { index: 0, message: { content: "a" }, logprobs: { content: tokens, refusal: null }, finish_reason: "stop" },
    ],
  };
  t.same(only(runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(body)), source)), "text")[0]?.logprobs, tokens);
});

t.test("what no other protocol can express is declared once", async (t) => {
  const events = read(
    chunk({ content: "a", executed_tools: [1] }),
    chunk({ executed_tools: [2] }, "stop", { citations: ["u"] }),
    DONE,
  );
  t.same(
    only(events, "unmapped").map(({ path }) => path),
    ["executed_tools", "citations"],
  );
});

t.test("an invalid whole answer is the provider's fault", async (t) => {
  for (const body of ["", "<html>", "[]", "{}", '{"choices":[]}', '{"choices":[1]}'])
    t.throws(() => runAtOnce(chat.response.decode(Buffer.from(body), source)), { code: "upstream_invalid" }, body);
  t.match(runAtOnce(chat.response.decode(Buffer.from('{"error":{"message":"no","code":429}}'), source)), [
    { type: "error", fault: { status: 429 } },
  ]);
});

/** What a function gives; undefined where it throws. */
function tried<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

t.test("arbitrary bytes end in one error, and never throw", async (t) => {
  const random = dice(11);
  const pieces = [
    'data: {"choices":[{"delta":',
    'data: {"choices":[{}]}',
    "{",
    "}",
    "null",
    "1e999",
    '"',
    "data: []",
    "data: 7",
    "event: x",
    "\n\n",
    "data: ",
    "\u{1f600}",
    '{"tool_calls":[{"function":3}]}',
  ];
  const wrong: string[] = [];
  for (let round = 0; round < 300; round++) {
    const body = Array.from({ length: 12 }, () => pieces[random(pieces.length)]).join("");
    const frames = framesOf(body, () => 1 + random(9));
    const errors = tried(() => streamed(chat, frames).map(({ type }) => type === "error"));
    if (errors?.filter(Boolean).length !== 1 || !errors.at(-1)) wrong.push(body);
  }
  t.same(wrong, []);
});

t.test("unusual but well-formed chunks never throw", async (t) => {
  const odd: unknown[] = [null, 0, "x", [], {}, [{}], { index: "a" }, [{ index: 0, delta: 3 }]];
  const members = [
    "tool_calls",
    "function_call",
    "reasoning_details",
    "annotations",
    "audio",
    "images",
    "content",
    "refusal",
    "extra_content",
  ];
  const values = [...odd, [null], [[]], [{ function: null }], [{ function: { arguments: { a: 1 } } }]];
  const thrown = members.flatMap((member) =>
    values
      .filter(
        (value) =>
          !tried(() => read(chunk({ [member]: value }), { choices: value }, { usage: value, choices: [value] })),
      )
      .map((value) => `${member} ${JSON.stringify(value)}`),
  );
  t.same(thrown, []);
});

t.test("an answer has as many choices as can be requested, and one more is the provider's fault", async (t) => {
  const some = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ index, delta: { content: "a" }, finish_reason: "stop" }));
  t.equal(only(readFrames(completion(...some(128))), "finish").length, 128);
  for (const events of [
    readFrames(completion(...some(129))),
    readFrames(...some(129).map((choice) => completion(choice)), DONE),
    readFrames(completion({ index: 1e9, delta: { content: "a" } }), DONE),
    decodeBody(completion(...some(129).map(({ index }) => ({ index, message: { content: "a" } })))),
  ]) {
    t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid", message: /128/ } });
    t.equal(only(events, "error").length, 1);
  }
});

t.test("a choice without a number has that of its position", async (t) => {
  for (const index of [undefined, null, "0", -1, 0.5, {}])
    t.match(only(readFrames(completion({ index, delta: { content: "a" }, finish_reason: "stop" })), "finish"), [
      { choice: 0 },
    ]);
});

t.test("without [DONE] a stream is complete once every choice has its finish reason", async (t) => {
  const one = (index: number, finish: string | null) =>
    completion({ index, delta: { content: "a" }, finish_reason: finish });
  t.equal(readFrames(one(0, "stop"), one(1, "stop")).at(-1)?.type, "end");
  t.match(readFrames(one(0, null), one(1, "stop")).at(-1), { type: "error", fault: { code: "upstream_truncated" } });
  t.equal(readFrames(one(0, null), one(1, "stop"), DONE).at(-1)?.type, "end");
});

t.test("the matched stop sequence of a choice is read, in vLLM's form", async (t) => {
  const ended = (finish: string, stopped: unknown, delta: object = { content: "a" }) =>
    only(readFrames(completion({ index: 0, delta, finish_reason: finish, stop_reason: stopped }), DONE), "finish")[0];
  const plain = { type: "finish", choice: 0 };
  t.same(ended("stop", "END"), { ...plain, reason: "stop_sequence", raw: "stop", stopSequence: "END" });
  // The token that ended it, or none: by the vendor's source the usual end.
  for (const other of [154829, null, undefined, "", {}, ["END"]])
    t.same(ended("stop", other), { ...plain, reason: "stop", raw: "stop" }, JSON.stringify(other));
  t.same(ended("end_turn", "end_turn"), { ...plain, reason: "stop", raw: "end_turn" });
  t.same(ended("length", "END"), { ...plain, reason: "length", raw: "length" });
  const call = { tool_calls: [{ index: 0, id: "a", function: { name: "one", arguments: "{}" } }] };
  t.same(ended("tool_calls", "END", call), { ...plain, reason: "tool_calls", raw: "tool_calls" });
  t.same(ended("stop", "END", call), { ...plain, reason: "tool_calls", raw: "stop" });
  t.match(ended("stop", "END", { refusal: "no" }), { reason: "refusal" });
  const whole = decodeBody(
    completion({ index: 0, message: { content: "a" }, finish_reason: "stop", stop_reason: "\n\nHuman:" }),
  );
  t.match(only(whole, "finish"), [{ reason: "stop_sequence", stopSequence: "\n\nHuman:" }]);
});

t.test("an end that is sent twice keeps its stop sequence", async (t) => {
  const end = (more: object) => completion({ index: 0, delta: { content: "" }, finish_reason: "stop", ...more });
  const events = readFrames(chunk({ content: "a" }), end({ stop_reason: "END" }), end({}), DONE);
  t.match(only(events, "finish"), [{ reason: "stop_sequence", stopSequence: "END" }]);
});

t.test("state of unfinished reasoning is stored up to 8 MiB", async (t) => {
  const entry = (name: string, value: unknown) =>
    chunk({ reasoning_details: [{ type: "reasoning.text", index: 0, text: "a", [name]: value }] });
  const much = "x".repeat(1024 * 1024);
  const frames = (count: number) => Array.from({ length: count }, (_, n) => entry(`member${n}`, much));
  t.equal(readFrames(...frames(7), chunk({}, "stop")).at(-1)?.type, "end");
  for (const events of [
    readFrames(...frames(9), DONE),
    readFrames(...Array.from({ length: 9 }, (_, n) => entry(`member${n}`, [much])), DONE),
    // It is one cap for all choices.
    readFrames(
      ...Array.from({ length: 9 }, (_, index) =>
        completion({ index, delta: { reasoning_details: [{ type: "reasoning.encrypted", data: much }] } }),
      ),
      DONE,
    ),
  ]) {
    t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid", message: /8 MiB/ } });
    t.equal(only(events, "error").length, 1);
  }
  // Vendors repeat an entry's words with each piece of its text.
  t.equal(
    readFrames(...Array.from({ length: 20 }, () => entry("format", much)), chunk({}, "stop")).at(-1)?.type,
    "end",
  );
});

t.test("a time that is not a number of seconds is ignored", async (t) => {
  for (const created of ["1e999", "-1", "0.5", '"x"']) {
    const frame = frameOf(`{"id":"1","created":${created},"choices":[]}`);
    t.notOk("created" in (only(streamed(chat, [frame]), "start")[0] ?? {}), created);
  }
});

t.test("a member of an unexpected form is declared", async (t) => {
  const texts = ["refusal", "reasoning", "reasoning_content", "thought_signature"];
  const lists = ["tool_calls", "annotations", "images", "reasoning_details"];
  const objects = ["function_call", "audio", "extra_content"];
  for (const name of [...texts, ...objects]) t.same(lostIn(chunk({ [name]: ["a"] })), [name], name);
  for (const name of [...lists, ...objects]) t.same(lostIn(chunk({ [name]: "a" })), [name], name);
  for (const name of [...texts, ...lists, "content"]) t.same(lostIn(chunk({ [name]: { a: 1 } })), [name], name);
  for (const name of [...texts, ...lists, ...objects, "content"])
    for (const nothing of [null, "", false]) t.same(lostIn(chunk({ [name]: nothing })), [], name);
});

t.test("log probabilities without a text are declared", async (t) => {
  const tokens = [{ token: "a", logprob: -1, top_logprobs: [] }];
  const likely = (delta: object, logprobs: object) => ({
    ...chunk({}),
    choices: [{ index: 0, delta, logprobs, finish_reason: null }],
  });
  t.same(lostIn(likely({ content: "a" }, { content: tokens, refusal: null })), []);
  t.same(lostIn(likely({ content: "" }, { content: [], refusal: null })), []);
  t.same(lostIn(likely({ content: "", tool_calls: [] }, { content: tokens })), ["logprobs"]);
  t.same(lostIn(likely({ reasoning_content: "a" }, { content: tokens })), ["logprobs"]);
  // As text completions have them.
  t.same(lostIn(likely({ content: "a" }, { tokens: ["a"], token_logprobs: [-1] })), ["logprobs"]);
});

t.test("media are decoded whole: each block has one event", async (t) => {
  const images = ["a", "b"].map((name) => ({ image_url: { url: `https://a.example/${name}.png` } }));
  const events = [
    ...readChunks(chunk({ images }), chunk({ images: images.slice(1), audio: { data: "AAAA" } })),
    ...recorded("openai-chat")
      .filter(({ kinds, status }) => status < 300 && !kinds.includes("stream"))
      .flatMap(({ body }) => {
        try {
          return runAtOnce(chat.response.decode(Buffer.from(body), source));
        } catch {
          return [];
        }
      }),
  ];
  const opened = events.filter((event) => event.type === "open" && event.kind === "media");
  t.ok(opened.length >= 4);
  t.equal(only(events, "media").length, opened.length);
});

t.test("entries of any type and index are decoded, also without either", async (t) => {
  const odd = { toString: 1, valueOf: 1 };
  for (const type of ["constructor", "__proto__", "toString", odd, null, 7, undefined])
    for (const index of [0, odd, null, undefined]) {
      const events = readDeltas({ reasoning_details: [{ type, index, text: "so" }] });
      t.match(only(events, "text"), [{ text: "so" }], JSON.stringify({ type, index }));
      t.match(only(events, "open"), [{ kind: "reasoning", summary: undefined, redacted: undefined }]);
    }
});

t.test("an entry yields its summary where its text is empty", async (t) => {
  const events = readDeltas({
    reasoning_details: [{ type: "reasoning.summary", index: 0, text: "", summary: "Looked." }],
  });
  t.match(only(events, "text"), [{ text: "Looked." }]);
});

t.test("invalid entries are declared", async (t) => {
  t.same(lostOf({ reasoning_details: [null, 7, "so"] }), ["reasoning_details"]);
});

t.test("members of a message beside a signature are declared", async (t) => {
  t.same(lostOf({ content: "a", extra_content: { google: { thought: true } } }), ["extra_content"]);
  t.same(lostOf({ content: "a", extra_content: { google: { thought: true } }, thought_signature: null }), [
    "extra_content",
  ]);
  t.same(lostOf({ content: "a", extra_content: { google: { thought: true, thought_signature: "sig" } } }), []);
  t.same(lostOf({ content: "a", thought_signature: "sig" }), []);
});

t.test("a whole answer with very many members and a long list takes linear time", async (t) => {
  const members = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, 1]));
  const choices = [{ index: 0, message: { content: "Hi", images: Array(40_000).fill({}) } }];
  const body = { id: "c", ...members, choices, usage: { prompt_tokens: 3 }, citations: ["http://a"] };
  runLinear(() => t.match(decodeBody(body).slice(0, 3), [{ id: "c" }, {}, { text: "Hi" }]));
});
