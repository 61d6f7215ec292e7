import t from "tap";
import { createDecoder, decodeResponse } from "../../../../plugins/protocols/gemini/response.decode.ts";
import type { Event, FinishReason } from "../../../../src/translation/events.ts";
import { TextKey } from "../../../../src/translation/ids.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { dice } from "../../../support/dice.ts";
import { gathered } from "../../../support/gathered.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { event, read, readParts, SOURCE } from "./responses.ts";

const about = { modelVersion: "gemini-x", responseId: "r1", createTime: "2026-11-21T10:00:00.5Z" };
const usageMetadata = {
  promptTokenCount: 100,
  toolUsePromptTokenCount: 7,
  candidatesTokenCount: 20,
  thoughtsTokenCount: 30,
  totalTokenCount: 157,
};
const text = (words: string, more: object = {}) => ({
  candidates: [{ content: { role: "model", parts: [{ text: words }] }, index: 0, ...more }],
  ...about,
});
const textOf = (events: readonly Event[]): string =>
  events.map((each) => (each.type === "text" ? each.text : "")).join("");
const faultOf = (events: readonly Event[]) => {
  const last = events.at(-1);
  return last?.type === "error" ? last.fault : undefined;
};

t.test("a stream becomes one start, its blocks, a finish, the usage and an end", async (t) => {
  t.strictSame(read([event(text("Hel")), event({ ...text("lo", { finishReason: "STOP" }), usageMetadata })]), [
    { type: "start", id: "r1", model: "gemini-x", created: 1795255200 },
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "Hel" },
    { type: "text", block: 0, text: "lo" },
    { type: "close", block: 0 },
    { type: "finish", choice: 0, reason: "stop", raw: "STOP" },
    { type: "usage", usage: { in: { total: 107, toolUse: 7 }, out: { total: 50, reasoning: 30 }, raw: usageMetadata } },
    { type: "end" },
  ]);
});

t.test("elements of an array are decoded as events are", async (t) => {
  const parts = [text("Hel"), text("lo", { finishReason: "STOP" })];
  const elements = parts.map(
    (part, n) => new Frame("element", Buffer.from(`${n === 0 ? "[" : "\n,\r\n"}${JSON.stringify(part, null, 2)}`)),
  );
  t.strictSame(read([...elements, new Frame("element", Buffer.from("\n]"))]), read(parts.map(event)));
});

t.test("usage is reported at the start and at the end; frames without a total add to it", async (t) => {
  const events = read([
    event({ ...text("a"), usageMetadata: { trafficType: "ON_DEMAND" } }),
    event({ ...text("b"), usageMetadata: { promptTokenCount: 3 } }),
    event({ ...text("c", { finishReason: "STOP" }), usageMetadata: { candidatesTokenCount: 2 } }),
  ]);
  const [start] = events;
  t.match(start, { usage: { tier: "ON_DEMAND" } });
  t.match(
    events.filter(({ type }) => type === "usage"),
    [{ usage: { in: { total: 3 }, out: { total: 2 }, tier: "ON_DEMAND" } }],
  );
});

t.test("text after a finish reason is kept, and the last reason counts", async (t) => {
  const events = read([
    event(text("a", { finishReason: "STOP" })),
    event(text("b")),
    event(text("c", { finishReason: "MAX_TOKENS" })),
  ]);
  t.equal(textOf(events), "abc");
  t.match(
    events.filter(({ type }) => type === "finish"),
    [{ reason: "length", raw: "MAX_TOKENS" }],
  );
});

t.test("a stream without a finish reason was interrupted", async (t) => {
  t.match(faultOf(read([event(text("a"))])), { code: "upstream_truncated", status: 502 });
  t.match(faultOf(read([])), { code: "upstream_truncated" });
  const two = {
    candidates: [
      { finishReason: "STOP", index: 0 },
      { content: { parts: [{ text: "x" }] }, index: 1 },
    ],
  };
  t.match(faultOf(read([event(two)])), { code: "upstream_truncated" });
  t.notOk(read([event(text("a"))]).some(({ type }) => type === "finish" || type === "end"));
});

t.test("a blocked prompt is an answer that ended with the content filter", async (t) => {
  const promptFeedback = { blockReason: "PROHIBITED_CONTENT", blockReasonMessage: "No." };
  t.strictSame(read([event({ promptFeedback, ...about })]), [
    { type: "start", id: "r1", model: "gemini-x", created: 1795255200 },
    { type: "finish", choice: 0, reason: "content_filter", raw: "PROHIBITED_CONTENT", message: "No." },
    { type: "end" },
  ]);
  const unexplained = { promptFeedback: { blockReason: "SAFETY" }, ...about };
  t.match(read([event(unexplained)])[1], { reason: "content_filter", message: "The prompt was blocked: SAFETY." });
});

gathered(t, "an answer that failed before it said anything is an error, which may be asked again", async (t) => {
  const failed = (parts: readonly object[], finishReason: string, more: object = {}) => ({
    candidates: [{ content: { role: "model", parts }, index: 0, finishReason, ...more }],
    ...about,
  });
  const thought = { text: "Hm.", thought: true, thoughtSignature: "s" };
  const words = ["MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"];
  for (const word of [...words, "UNEXPECTED_TOOL_CALL", "OTHER", "NO_IMAGE", "BRAND_NEW"]) {
    for (const parts of [[], [{ text: "" }], [thought], [{ executableCode: { code: "1" } }]]) {
      const events = read([event(failed(parts, word))]);
      t.match(faultOf(events), { code: "upstream_model_failed", status: 502, retry: true, message: new RegExp(word) });
      t.notOk(events.some(({ type }) => type === "finish" || type === "end"));
      t.same(
        runAtOnce(decodeResponse(Buffer.from(JSON.stringify(failed(parts, word))), SOURCE)).map(({ type }) => type),
        events.map(({ type }) => type),
      );
    }
    for (const part of [{ text: "A" }, { functionCall: { name: "f" } }, { inlineData: { data: "aGk=" } }]) {
      const events = read([event(failed([part], word))]);
      const broken = words.includes(word) || (word === "UNEXPECTED_TOOL_CALL" && !("functionCall" in part));
      if (!broken) t.match(events.at(-2), { type: "finish", raw: word }, word);
      else {
        t.match(faultOf(events), {
          code: "upstream_model_failed",
          status: 502,
          message: new RegExp(`middle.*${word}`),
        });
        t.notOk(
          events.some(({ type }) => type === "finish" || type === "end"),
          `${word} after content`,
        );
      }
    }
  }
  const told = failed([], "MALFORMED_FUNCTION_CALL", { finishMessage: "Malformed function call: f(" });
  t.equal(faultOf(read([event(told)]))?.message, "Malformed function call: f(");
  const nothing = JSON.stringify({ candidates: [{}], ...about });
  t.match(faultOf(runAtOnce(decodeResponse(Buffer.from(nothing), SOURCE))), { code: "upstream_model_failed" });
});

t.test("an answer that was held back or broken off has the vendor's explanation, or one of its reason", async (t) => {
  const ended = (finishReason: string, more = {}) =>
    read([event({ candidates: [{ content: { parts: [{ text: "A" }] }, finishReason, ...more }] })]).at(-2);
  const finishMessage = "It repeats a book.";
  t.match(ended("RECITATION", { finishMessage }), { reason: "content_filter", message: finishMessage });
  t.match(ended("OTHER", { finishMessage }), { reason: "content_filter", message: finishMessage });
  t.match(ended("RECITATION"), { message: "The answer was held back: RECITATION." });
  t.match(ended("OTHER"), { message: "The answer was broken off: OTHER." });
});

t.test("an empty answer that did not fail is an answer", async (t) => {
  for (const [finishReason, reason] of [
    ["STOP", "stop"],
    ["MAX_TOKENS", "length"],
    ["SAFETY", "content_filter"],
  ])
    t.match(read([event({ candidates: [{ finishReason }] })]).at(-2), { type: "finish", reason });
});

t.test("where one of several answers failed, the others are decoded", async (t) => {
  const candidates = [{ finishReason: "MALFORMED_FUNCTION_CALL" }, { finishReason: "STOP" }];
  t.match(faultOf(read([event({ candidates })])), { code: "upstream_model_failed" });
  const other = { content: { parts: [{ text: "A" }] }, finishReason: "STOP" };
  t.match(
    read([event({ candidates: [candidates[0], other] })]).filter(({ type }) => type === "finish"),
    [{ reason: "malformed_call" }, { reason: "stop" }],
  );
  const broken = { content: { parts: [{ text: "B" }] }, finishReason: "UNEXPECTED_TOOL_CALL" };
  t.match(faultOf(read([event({ candidates: [broken, candidates[0]] })])), { code: "upstream_model_failed" });
  t.match(
    read([event({ candidates: [broken, other] })]).filter(({ type }) => type === "finish"),
    [{ reason: "malformed_call" }, { reason: "stop" }],
  );
});

t.test("candidates are choices, distinguished by their index", async (t) => {
  const both = (one: string, other: string, more: object) => ({
    candidates: [
      { content: { parts: [{ text: other }] }, index: 1, ...more },
      { content: { parts: [{ text: one }] }, index: 0, ...more },
    ],
  });
  const events = read([event(both("a", "x", {})), event(both("b", "y", { finishReason: "STOP" }))]);
  t.match(
    events.filter(({ type }) => type === "open"),
    [
      { block: 0, choice: 1 },
      { block: 1, choice: 0 },
    ],
  );
  t.match(
    events.filter(({ type }) => type === "text"),
    [
      { block: 0, text: "x" },
      { block: 1, text: "a" },
      { block: 0, text: "y" },
      { block: 1, text: "b" },
    ],
  );
  t.match(
    events.filter(({ type }) => type === "finish"),
    [{ choice: 0 }, { choice: 1 }],
  );
});

t.test("unknown parts of an answer are declared lost, once", async (t) => {
  const frame = {
    ...text("a", { finishReason: "STOP" }),
    turnToken: "t",
    constructor: 1,
    nothing: null,
    promptFeedback: { safetyRatings: [], novel: 1 },
  };
  const paths = (events: readonly Event[]) => events.flatMap((each) => (each.type === "unmapped" ? [each.path] : []));
  t.strictSame(paths(read([event(frame), event(frame)])), ["turnToken", "constructor", "promptFeedback.novel"]);
  t.strictSame(paths(runAtOnce(decodeResponse(Buffer.from(JSON.stringify(frame)), SOURCE))), [
    "turnToken",
    "constructor",
    "promptFeedback.novel",
  ]);
});

t.test("more candidates than can be requested are an error", async (t) => {
  const one = (index: number) => event({ candidates: [{ index, content: {} }] });
  const frames = Array.from({ length: 128 }, (_, index) => one(index));
  t.equal(faultOf(read([...frames, one(0)]))?.code, "upstream_truncated");
  t.match(faultOf(read([...frames, one(128)])), { code: "upstream_invalid", message: /128/ });
  const candidates = Array.from({ length: 129 }, () => ({}));
  t.throws(() => runAtOnce(decodeResponse(Buffer.from(JSON.stringify({ candidates })), SOURCE)), {
    code: "upstream_invalid",
    message: /128/,
  });
});

t.test("an error in the stream is the last event, in any form", async (t) => {
  const error = { error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } };
  const fault = { status: 503, kind: "overloaded", code: "unavailable", message: "The model is overloaded." };
  const first = event(text("a"));
  for (const frame of [
    event(error),
    event({ ...error, candidates: [{ content: { parts: [{ text: "b" }] } }] }),
    new Frame("event", Buffer.from(JSON.stringify(error, null, 2))),
    new Frame("event", Buffer.from(JSON.stringify([error]))),
    new Frame("element", Buffer.from(`,\r\n${JSON.stringify(error)}]`)),
  ])
    t.match(read([first, frame, event(text("b", { finishReason: "STOP" }))]).slice(3), [{ type: "error", fault }]);
});

t.test("keep-alives and another protocol's terminator yield no event", async (t) => {
  const frames = ["\r\n\r\n", ": ping\n\n", "data:\n\n", "data: \r\n\r\n", "data: [DONE]\n\n"];
  const quiet = frames.map((bytes) => new Frame("event", Buffer.from(bytes)));
  const whole = event(text("a", { finishReason: "STOP" }));
  t.strictSame(read([...quiet, whole, ...quiet]), read([whole]));
});

gathered(t, "whatever else arrives ends in one error", async (t) => {
  const random = dice(7);
  const good = JSON.stringify({
    candidates: [{ content: { parts: [{ functionCall: { name: "f", args: { a: [1] } } }] }, finishReason: "STOP" }],
  });
  for (let n = 0; n < 400; n++) {
    const cut = good.slice(0, random(good.length));
    const bytes = Buffer.from(
      cut.replace(/./g, (char) => (random(12) === 0 ? String.fromCharCode(random(256)) : char)),
    );
    const frames = [
      new Frame("event", Buffer.concat([Buffer.from(n % 2 ? "data: " : ""), bytes, Buffer.from("\n\n")])),
      new Frame("element", bytes),
    ];
    for (const frame of frames) {
      const events = read([frame]);
      t.equal(events.filter(({ type }) => type === "error").length, 1, JSON.stringify(cut));
      t.equal(events.at(-1)?.type, "error");
    }
  }
  for (const odd of [
    null,
    1,
    "x",
    [1],
    [[]],
    { candidates: 1 },
    { candidates: [null] },
    { candidates: [{ content: [] }] },
  ])
    t.equal(read([event(odd)]).at(-1)?.type, "error", JSON.stringify(odd));
});

t.test("no event follows an end or an error", async (t) => {
  const reader = createDecoder(SOURCE);
  const events: Event[] = [];
  reader.frame(event({ error: { code: 500 } }), events);
  reader.frame(event(text("late")), events);
  reader.end(events);
  t.equal(events.length, 1);
});

t.test("a whole answer is decoded as one frame", async (t) => {
  const body = { ...text("Hello", { finishReason: "STOP" }), usageMetadata };
  t.strictSame(runAtOnce(decodeResponse(Buffer.from(JSON.stringify(body, null, 2)), SOURCE)), read([event(body)]));
  const open = runAtOnce(decodeResponse(Buffer.from(JSON.stringify(text("Hello"))), SOURCE));
  t.match(open.slice(-2), [{ type: "finish", reason: "other" }, { type: "end" }]);
});

t.test("a body that is not an answer is refused", async (t) => {
  for (const body of ["", "<html>", "null", "{}", '{"candidates":[]}', '{"candidates":'])
    t.throws(() => runAtOnce(decodeResponse(Buffer.from(body), SOURCE)), { code: "upstream_invalid" }, body);
  t.match(runAtOnce(decodeResponse(Buffer.from('{"error":{"code":429,"message":"Slow."}}'), SOURCE)), [
    { type: "error", fault: { status: 429 } },
  ]);
});

t.test("deeply nested JSON does not break the reader", async (t) => {
  const deep = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${"[".repeat(1e5)}${"]".repeat(1e5)}}}]}}]}`;
  t.match(faultOf(read([new Frame("element", Buffer.from(deep))])), { code: "upstream_invalid" });
});

/** A value with some of its members gone, renamed or turned into something else. */
function mangled(value: unknown, random: (below: number) => number): unknown {
  const odd = [null, 0, -1, 1.5, "", "x", [], {}, [[]], [null], true, "STOP", "__proto__", [{ text: "x" }]];
  if (random(25) === 0) return odd[random(odd.length)];
  if (Array.isArray(value)) return value.map((each) => mangled(each, random));
  if (typeof value !== "object" || value === null) return value;
  const names = ["text", "functionCall", "args", "thought", "partialArgs", "willContinue", "index"];
  const members = Object.entries(value).filter(() => random(40) > 0);
  return Object.fromEntries(
    members.map(([name, member]) => [random(60) === 0 ? names[random(names.length)] : name, mangled(member, random)]),
  );
}

const answers = recorded("gemini").filter(
  ({ status, kinds, body }) => status === 200 && kinds.includes("stream") && body.length < 20_000,
);

gathered(
  t,
  "however a stream is mangled, its events keep the grammar",
  { skip: answers.length === 0 && "no recordings" },
  async (t) => {
    const random = dice(3);
    for (const { id, kinds, body } of answers.filter((each) => !each.kinds.includes("json_array_stream"))) {
      for (let n = 0; n < 5; n++) {
        const events = read(eventsIn(body).map((frame) => event(mangled(frame.json(), random))));
        const open = new Set<number>();
        let next = 0;
        const fine = events.every((each) => {
          if (each.type === "open") {
            open.add(each.block);
            return each.block === next++;
          }
          if (!("block" in each)) return true;
          return each.type === "close" ? open.delete(each.block) : open.has(each.block);
        });
        const last = events.at(-1)?.type;
        t.ok(fine && (last === "error" || (last === "end" && open.size === 0)), `${id} ${kinds}`);
        t.equal(events.filter(({ type }) => type === "end" || type === "error").length, 1);
      }
    }
  },
);

const opaque = (data: string) => ({
  protocol: "gemini",
  account: "google",
  model: "m",
  kind: "thoughtSignature",
  data,
});
/** What stands between start and end. */
const told = (frames: readonly unknown[][], finishReason?: string, more?: object): Event[] =>
  readParts(frames, finishReason, more).slice(1, -2);

t.test("reasoning and texts are blocks of their own, in order, and continue across frames", async (t) => {
  t.strictSame(
    told([
      [{ text: "Th", thought: true }],
      [{ text: "ink", thought: true }, { text: "A" }],
      [{ text: "B" }],
      [{ text: "again", thought: true }],
    ]),
    [
      { type: "open", block: 0, choice: 0, kind: "reasoning", summary: true },
      { type: "text", block: 0, text: "Th" },
      { type: "text", block: 0, text: "ink" },
      { type: "close", block: 0 },
      { type: "open", block: 1, choice: 0, kind: "text" },
      { type: "text", block: 1, text: "A" },
      { type: "text", block: 1, text: "B" },
      { type: "close", block: 1 },
      { type: "open", block: 2, choice: 0, kind: "reasoning", summary: true },
      { type: "text", block: 2, text: "again" },
      { type: "close", block: 2 },
    ],
  );
});

t.test("a signature on the last, empty text is in a block of its own", async (t) => {
  t.strictSame(told([[{ text: "A" }], [{ text: "", thoughtSignature: "s" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "A" },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "text", opaque: opaque("s") },
    { type: "close", block: 1 },
  ]);
});

t.test("a text without content and without a signature yields nothing", async (t) => {
  t.strictSame(told([[{ text: "" }], [{ text: "", thought: true }]]), []);
});

t.test("a signature on the first piece of a text is on the text", async (t) => {
  t.strictSame(told([[{ text: "A", thoughtSignature: "s" }], [{ text: "B" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text", opaque: opaque("s") },
    { type: "text", block: 0, text: "A" },
    { type: "text", block: 0, text: "B" },
    { type: "close", block: 0 },
  ]);
});

t.test("each signed thought is a block, so that no signature replaces another", async (t) => {
  t.strictSame(
    told([
      [
        { text: "A", thought: true, thoughtSignature: "s" },
        { text: "", thought: true, thoughtSignature: "u" },
      ],
    ]),
    [
      { type: "open", block: 0, choice: 0, kind: "reasoning", summary: true },
      { type: "text", block: 0, text: "A" },
      { type: "opaque", block: 0, opaque: opaque("s") },
      { type: "close", block: 0 },
      { type: "open", block: 1, choice: 0, kind: "reasoning", summary: true },
      { type: "opaque", block: 1, opaque: opaque("u") },
      { type: "close", block: 1 },
    ],
  );
});

t.test("parallel calls have ids of their own, their signatures and the exact text of their arguments", async (t) => {
  const raw = '{"a": 1.0, "b": 12345678901234567890, "a": "\\u00e9"}';
  const body = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${raw}},"thoughtSignature":"s"},{"functionCall":{"name":"f"}},{"functionCall":{"id":"own","name":"g","args":{}}}]},"finishReason":"STOP"}],"responseId":"r1"}`;
  const events = runAtOnce(decodeResponse(Buffer.from(body), SOURCE));
  t.match(events.at(-2), { type: "finish", reason: "tool_calls", raw: "STOP" });
  t.strictSame(events.slice(1, -2), [
    { type: "open", block: 0, choice: 0, kind: "tool_call", name: "f", id: "call_r1_0", opaque: opaque("s") },
    { type: "arguments", block: 0, text: raw },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "tool_call", name: "f", id: "call_r1_1" },
    { type: "close", block: 1 },
    { type: "open", block: 2, choice: 0, kind: "tool_call", name: "g", id: "own" },
    { type: "arguments", block: 2, text: "{}" },
    { type: "close", block: 2 },
  ]);
});

t.test("arguments that arrive in pieces are the text of one object", async (t) => {
  const goesOn = { willContinue: true };
  const piece = (jsonPath: string, stringValue: string, more: object = {}) => [
    { functionCall: { partialArgs: [{ jsonPath, stringValue, ...more }], ...goesOn } },
  ];
  const events = told([
    [{ functionCall: { name: "weather", ...goesOn }, thoughtSignature: "s" }],
    piece("$.city", 'New "Yo', goesOn),
    piece("$.city", "rk"),
    piece("$.unit", "C", goesOn),
    piece("$.unit", ""),
    [{ functionCall: {} }],
  ]);
  t.strictSame(events[0], {
    type: "open",
    block: 0,
    choice: 0,
    kind: "tool_call",
    name: "weather",
    id: "call_r1_0",
    opaque: opaque("s"),
  });
  const text = events.map((each) => (each.type === "arguments" ? each.text : "")).join("");
  t.equal(text, '{"city":"New \\"York","unit":"C"}');
  t.strictSame(events.at(-1), { type: "close", block: 0 });
});

t.test("incomplete arguments are closed as they are", async (t) => {
  const events = told(
    [
      [
        {
          functionCall: {
            name: "f",
            willContinue: true,
            partialArgs: [{ jsonPath: "$.a", stringValue: "x", willContinue: true }],
          },
        },
      ],
    ],
    "MAX_TOKENS",
  );
  t.strictSame(events.slice(1), [
    { type: "arguments", block: 0, text: '{"a":"x' },
    { type: "close", block: 0 },
  ]);
});

t.test("media are blocks; drafts within the reasoning are for their own protocol", async (t) => {
  t.match(
    told([
      [
        { inlineData: { mimeType: "image/png", data: "iVBO" } },
        { fileData: { mimeType: "text/csv", fileUri: "gs://a" } },
        { inlineData: { mimeType: "image/png", data: "x" }, thought: true },
      ],
    ]),
    [
      { type: "open", block: 0, kind: "media", media: "image", mime: "image/png" },
      { type: "media", block: 0, base64: "iVBO" },
      { type: "close", block: 0 },
      { type: "open", block: 1, kind: "media", media: "file", mime: "text/csv" },
      { type: "media", block: 1, url: "gs://a" },
      { type: "close", block: 1 },
      { type: "open", block: 2, kind: "server", name: "inlineData" },
      { type: "server", block: 2 },
      { type: "close", block: 2 },
    ],
  );
});

t.test("server tools and unknown parts are complete, under their own names", async (t) => {
  const parts = [
    { executableCode: { language: "PYTHON", code: "1" }, thoughtSignature: "s" },
    { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1" } },
    { toolCall: { toolType: "GOOGLE_SEARCH_WEB", args: { n: 1 } } },
    { toolResponse: { toolType: "GOOGLE_SEARCH_WEB" } },
    { hologram: { depth: 3 } },
  ];
  const events = told([parts]);
  t.match(
    events.filter((each) => each.type === "open" && each.kind === "server"),
    [
      { name: "executableCode" },
      { name: "codeExecutionResult" },
      { name: "toolCall" },
      { name: "toolResponse" },
      { name: "hologram" },
    ],
  );
  t.strictSame(
    events.flatMap((each) => (each.type === "server" ? [each.json.value] : [])),
    parts,
  );
  const states = events.flatMap((each) => (each.type === "opaque" ? [each.opaque] : []));
  t.strictSame(
    states.map(({ kind, data }) => [kind, JSON.parse(data)]),
    parts.slice(0, 4).map((part) => ["part", part]),
    "those that the vendor needs again are sent as state",
  );
});

t.test("log probabilities are on their text", async (t) => {
  const logprobsResult = { chosenCandidates: [{ token: "Hi", logProbability: -0.5 }] };
  t.match(told([[{ text: "Hi" }]], "STOP", { logprobsResult }), [
    { type: "open" },
    { type: "text", logprobs: [{ token: "Hi", logprob: -0.5, bytes: [72, 105], top_logprobs: { length: 0 } }] },
    { type: "close" },
  ]);
  t.match(told([[]], "STOP", { logprobsResult }), [{ type: "unmapped", path: "candidates.0.logprobsResult" }]);
});

t.test("sources are cited before their text closes, also where a signature follows in the same frame", async (t) => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: "https://a", title: "A" } }],
    groundingSupports: [{ segment: { startIndex: 7, endIndex: 14, text: "Zürich" }, groundingChunkIndices: [0] }],
    searchEntryPoint: { renderedContent: "<div>" },
  };
  t.match(told([[{ text: "grüß Zürich" }], [{ text: "", thoughtSignature: "s" }]], "STOP", { groundingMetadata }), [
    { type: "open", block: 0 },
    { type: "text", block: 0 },
    { type: "citation", block: 0, citation: { url: "https://a", title: "A", start: 5, end: 11 } },
    { type: "close", block: 0 },
    { type: "open", block: 1 },
    { type: "unmapped", path: "candidates.0.groundingMetadata.searchEntryPoint" },
    { type: "close", block: 1 },
  ]);
});

t.test("sources without a remaining text are declared lost", async (t) => {
  const groundingMetadata = { groundingChunks: [{ web: { uri: "https://a" } }] };
  t.match(told([[{ functionCall: { name: "f" } }]], "STOP", { groundingMetadata }).at(-1), {
    type: "unmapped",
    path: "candidates.0.groundingMetadata",
  });
});

t.test("log probabilities without a text, or with an empty one, belong to the text before", async (t) => {
  const logprobsResult = { chosenCandidates: [{ token: "", logProbability: -3 }] };
  for (const parts of [[{ text: "" }], []])
    t.match(told([[{ text: "Hi" }], parts], "STOP", { logprobsResult }), [
      { type: "open", block: 0 },
      { type: "text", text: "Hi" },
      { type: "text", block: 0, text: "", logprobs: [{ token: "", logprob: -3 }] },
      { type: "close" },
    ]);
});

t.test("a signature on a later piece of a call follows it, and names its place", async (t) => {
  const begin = { functionCall: { id: "c1", name: "f", willContinue: true } };
  const piece = { functionCall: { partialArgs: [{ jsonPath: "$.a", numberValue: 1 }], willContinue: true } };
  const end = { functionCall: {} };
  const state = { ...opaque("s"), on: { call: "c1" } };
  const call: Event[] = [
    { type: "open", block: 0, choice: 0, kind: "tool_call", name: "f", id: "c1" },
    { type: "arguments", block: 0, text: '{"a":1' },
    { type: "arguments", block: 0, text: "}" },
    { type: "close", block: 0 },
  ];
  const late: Event[] = [
    { type: "open", block: 1, choice: 0, kind: "reasoning", redacted: true },
    { type: "opaque", block: 1, opaque: state },
    { type: "close", block: 1 },
  ];
  const signed = { thoughtSignature: "s" };
  t.strictSame(told([[begin], [{ ...piece, ...signed }], [end]]), [...call, ...late]);
  t.strictSame(told([[begin], [piece], [{ ...end, ...signed }]]), [...call, ...late]);
  const early = told([[{ ...begin, ...signed }], [piece], [{ ...end, thoughtSignature: "again" }]]);
  t.match(early[0], { opaque: opaque("s") });
  t.equal(early.length, 4);
});

t.test("an empty part yields nothing; one with only a signature is a text without content", async (t) => {
  t.strictSame(told([[{}, { thought: true }]]), []);
  t.strictSame(told([[{ text: "Hi" }, {}, { text: "!" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "Hi" },
    { type: "text", block: 0, text: "!" },
    { type: "close", block: 0 },
  ]);
  t.strictSame(told([[{ thoughtSignature: "s" }]]), [
    { type: "open", block: 0, choice: 0, kind: "text", opaque: opaque("s") },
    { type: "close", block: 0 },
  ]);
});

t.test(
  "a signature on media is state of its own before them, and without bytes nothing that is returned",
  async (t) => {
    t.match(told([[{ inlineData: { mimeType: "image/png", data: "iVBO" }, thoughtSignature: "c2ln" }]]), [
      { type: "open", block: 0, kind: "reasoning", redacted: true },
      {
        type: "opaque",
        block: 0,
        opaque: { kind: "thoughtSignature", data: "c2ln", on: { media: TextKey.ofMedia("iVBO") } },
      },
      { type: "close", block: 0 },
      { type: "open", block: 1, kind: "media" },
    ]);
    t.match(told([[{ fileData: { mimeType: "image/png", fileUri: "gs://a" }, thoughtSignature: "c2ln" }]]), [
      { type: "unmapped", path: "candidates.0.content.parts.thoughtSignature" },
      { type: "open", block: 0, kind: "media" },
    ]);
  },
);

t.test("media without bytes and without an address are for their own protocol", async (t) => {
  for (const part of [{ inlineData: { mimeType: "image/png" } }, { fileData: { mimeType: "image/png" } }])
    t.match(told([[part]]), [{ type: "open", kind: "server" }, { type: "server" }, { type: "close" }]);
});

t.test("unknown members of a candidate, a part or a call are declared lost, once", async (t) => {
  const parts = [
    { text: "a", novel: 1, partMetadata: {} },
    { text: "b", novel: 2, absent: null },
    { functionCall: { name: "f", novel: 3 } },
    { functionCall: { args: { a: 1 } } },
    { functionCall: {} },
    { inlineData: { mimeType: "image/png", data: "AA==", displayName: "n" }, videoMetadata: {} },
  ];
  const events = told([parts], "STOP", {
    novel: 4,
    urlContextMetadata: null,
    safetyRatings: [],
    groundingMetadata: { webSearchQueries: ["q"], groundingChunks: [] },
  });
  t.strictSame(
    events.flatMap((event) => (event.type === "unmapped" ? [event.path] : [])),
    [
      "content.parts.novel",
      "content.parts.functionCall.novel",
      "content.parts.functionCall",
      "content.parts.inlineData.displayName",
      "content.parts.videoMetadata",
      "novel",
      "groundingMetadata.webSearchQueries",
    ].map((path) => `candidates.0.${path}`),
  );
});

t.test("the vendor's enum values are understood, also as numbers and when they are new", async (t) => {
  const meanings: [string, FinishReason][] = [
    ["STOP", "stop"],
    ["1", "stop"],
    ["MAX_TOKENS", "length"],
    ["2", "length"],
    ["CONTINUATION", "length"],
    ["SAFETY", "content_filter"],
    ["3", "content_filter"],
    ["RECITATION", "content_filter"],
    ["MODEL_ARMOR", "content_filter"],
    ["IMAGE_PROHIBITED_CONTENT", "content_filter"],
    ["OTHER", "content_filter"],
    ["5", "content_filter"],
    ["99", "content_filter"],
    ["LANGUAGE", "content_filter"],
    ["SOMETHING_NEW", "content_filter"],
    ["__proto__", "content_filter"],
  ];
  const finish = (raw: string, part: object) => {
    const finishReason = /^\d+$/.test(raw) ? Number(raw) : raw;
    const candidates = [{ content: { parts: [part] }, finishReason }];
    return runAtOnce(decodeResponse(Buffer.from(JSON.stringify({ candidates })), SOURCE)).find(
      ({ type }) => type === "finish",
    );
  };
  for (const [raw, reason] of meanings) t.match(finish(raw, { text: "x" }), { reason, raw }, raw);
  const call = { functionCall: { name: "f" } };
  t.match(finish("STOP", call), { reason: "tool_calls" });
  t.match(finish("OTHER", call), { reason: "other" }, "there is a call to continue with");
  const why = (raw: string) => (finish(raw, { text: "x" }) as { message?: string }).message;
  t.strictSame(["STOP", "MAX_TOKENS", "SAFETY", "NO_IMAGE"].map(why), [
    undefined,
    undefined,
    "The answer was held back: SAFETY.",
    "The answer was broken off: NO_IMAGE.",
  ]);
  t.match(finish("MAX_TOKENS", call), { reason: "length" }, "a truncated answer stays a truncated answer");
  for (const raw of ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "CONTINUATION"])
    t.match(finish(raw, { text: "" }), { raw }, "no failure, without content");
});

t.test("a part is recognised by its members, and one without data is for its own protocol", async (t) => {
  const kinds = (...parts: object[]) => readParts([parts]).flatMap((each) => (each.type === "open" ? [each.kind] : []));
  t.strictSame(kinds({ text: "x", thought: false }), ["text"]);
  t.strictSame(kinds({ text: "", thought: true, thoughtSignature: "s" }), ["reasoning"]);
  t.strictSame(kinds({ thought: true, thoughtSignature: "s" }, { text: "x" }), ["reasoning", "text"]);
  t.strictSame(kinds({ text: "x" }, {}), ["text"]);
  t.strictSame(kinds({ text: "x" }, { inlineData: { data: "aGk=" } }), ["text", "media"]);
  t.strictSame(kinds({ text: "x" }, { fileData: { fileUri: "https://a/b" } }), ["text", "media"]);
  const server = [
    { inlineData: {} },
    { fileData: { data: "" } },
    { novel: 1 },
    { inlineData: { data: "" }, thought: true },
  ];
  for (const part of server) t.strictSame(kinds({ text: "x" }, part), ["text", "server"], JSON.stringify(part));
});

const streams = recorded("gemini").filter(
  ({ status, kinds }) => status === 200 && kinds.includes("stream") && !kinds.includes("json_array_stream"),
);

gathered(
  t,
  "line ends of both kinds give the same events",
  { skip: streams.length === 0 && "no recordings" },
  async (t) => {
    for (const { id, body } of streams) {
      const lf = body.replaceAll("\r\n", "\n");
      t.equal(JSON.stringify(read(eventsIn(lf))), JSON.stringify(read(eventsIn(lf.replaceAll("\n", "\r\n")))), id);
    }
  },
);

t.test("a stream that ends with too much to cite ends with an error", async (t) => {
  const groundingMetadata = {
    groundingChunks: [{ web: { uri: "https://a", title: "x".repeat(9000) } }],
    groundingSupports: Array.from({ length: 1000 }, () => ({
      segment: { endIndex: 2, text: "Hi" },
      groundingChunkIndices: [0],
    })),
  };
  const events = readParts([[{ text: "Hi" }]], "STOP", { groundingMetadata });
  t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid" } });
});
