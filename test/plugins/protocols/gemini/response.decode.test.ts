import t from "tap";
import { decode, decoder, failure } from "../../../../plugins/protocols/gemini/response.decode.ts";
import * as failures from "../../../../plugins/protocols/gemini/response.failure.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { dice, event, read, SOURCE } from "./response.wish.ts";

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

t.test("elements of an array are read as events are", async (t) => {
  const parts = [text("Hel"), text("lo", { finishReason: "STOP" })];
  const elements = parts.map(
    (part, n) => new Frame("element", Buffer.from(`${n === 0 ? "[" : "\n,\r\n"}${JSON.stringify(part, null, 2)}`)),
  );
  t.strictSame(read([...elements, new Frame("element", Buffer.from("\n]"))]), read(parts.map(event)));
});

t.test("usage is told at the start and at the end; frames without a total add to it", async (t) => {
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

t.test("text behind a finish reason is kept, and the last reason counts", async (t) => {
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

t.test("a stream that ends without a finish reason was broken off", async (t) => {
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

t.test("a blocked prompt is an answer that the filter ended", async (t) => {
  const promptFeedback = { blockReason: "PROHIBITED_CONTENT", blockReasonMessage: "No." };
  t.strictSame(read([event({ promptFeedback, ...about })]), [
    { type: "start", id: "r1", model: "gemini-x", created: 1795255200 },
    { type: "finish", choice: 0, reason: "content_filter", raw: "PROHIBITED_CONTENT", message: "No." },
    { type: "end" },
  ]);
});

t.test("an answer that failed before it said anything is an error, which may be asked again", async (t) => {
  const failed = (parts: readonly object[], finishReason: string, more: object = {}) => ({
    candidates: [{ content: { role: "model", parts }, index: 0, finishReason, ...more }],
    ...about,
  });
  const thought = { text: "Hm.", thought: true, thoughtSignature: "s" };
  const words = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"];
  for (const word of [...words, "OTHER", "NO_IMAGE", "BRAND_NEW"]) {
    for (const parts of [[], [{ text: "" }], [thought], [{ executableCode: { code: "1" } }]]) {
      const events = read([event(failed(parts, word))]);
      t.match(faultOf(events), { code: "upstream_invalid", status: 502, retry: true, message: new RegExp(word) });
      t.notOk(events.some(({ type }) => type === "finish" || type === "end"));
      t.same(
        decode(JSON.stringify(failed(parts, word)), SOURCE).map(({ type }) => type),
        events.map(({ type }) => type),
      );
    }
    for (const part of [{ text: "A" }, { functionCall: { name: "f" } }, { inlineData: { data: "aGk=" } }])
      t.match(read([event(failed([part], word))]).at(-2), { type: "finish", raw: word }, word);
    t.equal(read([event(failed([], word))], { ...SOURCE, native: true }).at(-1)?.type, "end");
  }
  const told = failed([], "MALFORMED_FUNCTION_CALL", { finishMessage: "Malformed function call: f(" });
  t.equal(faultOf(read([event(told)]))?.message, "Malformed function call: f(");
  const nothing = JSON.stringify({ candidates: [{}], ...about });
  t.match(faultOf(decode(nothing, SOURCE)), { code: "upstream_invalid" });
});

t.test("an answer that says nothing and did not fail is one", async (t) => {
  for (const [finishReason, reason] of [
    ["STOP", "stop"],
    ["MAX_TOKENS", "length"],
    ["SAFETY", "content_filter"],
  ])
    t.match(read([event({ candidates: [{ finishReason }] })]).at(-2), { type: "finish", reason });
});

t.test("where one of several answers failed, the others are told", async (t) => {
  const candidates = [{ finishReason: "MALFORMED_FUNCTION_CALL" }, { finishReason: "STOP" }];
  t.match(faultOf(read([event({ candidates })])), { code: "upstream_invalid" });
  const other = { content: { parts: [{ text: "A" }] }, finishReason: "STOP" };
  t.match(
    read([event({ candidates: [candidates[0], other] })]).filter(({ type }) => type === "finish"),
    [{ reason: "malformed_call" }, { reason: "stop" }],
  );
});

t.test("candidates are choices, told apart by their index", async (t) => {
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

t.test("what nobody knows of an answer is said to be lost, once", async (t) => {
  const frame = {
    ...text("a", { finishReason: "STOP" }),
    turnToken: "t",
    promptFeedback: { safetyRatings: [], novel: 1 },
  };
  const paths = (events: readonly Event[]) => events.flatMap((each) => (each.type === "unsaid" ? [each.path] : []));
  t.strictSame(paths(read([event(frame), event(frame)])), ["turnToken", "promptFeedback.novel"]);
  t.strictSame(paths(decode(JSON.stringify(frame), SOURCE)), ["turnToken", "promptFeedback.novel"]);
});

t.test("more candidates than anybody asks for are no answer", async (t) => {
  const one = (index: number) => event({ candidates: [{ index, content: {} }] });
  const frames = Array.from({ length: 128 }, (_, index) => one(index));
  t.equal(faultOf(read([...frames, one(0)]))?.code, "upstream_truncated");
  t.match(faultOf(read([...frames, one(128)])), { code: "upstream_invalid", message: /128/ });
  const candidates = Array.from({ length: 129 }, () => ({}));
  t.throws(() => decode(JSON.stringify({ candidates }), SOURCE), { code: "upstream_invalid", message: /128/ });
});

t.test("an error in the stream is the last event, in whichever form it comes", async (t) => {
  const error = { error: { code: 503, message: "The model is overloaded.", status: "UNAVAILABLE" } };
  const fault = { status: 503, kind: "overloaded", code: "unavailable", message: "The model is overloaded." };
  const first = event(text("a"));
  for (const frame of [
    event(error),
    new Frame("event", Buffer.from(JSON.stringify(error, null, 2))),
    new Frame("event", Buffer.from(JSON.stringify([error]))),
    new Frame("element", Buffer.from(`,\r\n${JSON.stringify(error)}]`)),
  ])
    t.match(read([first, frame, event(text("b", { finishReason: "STOP" }))]).slice(3), [{ type: "error", fault }]);
});

t.test("signs of life and another protocol's terminator say nothing", async (t) => {
  const frames = ["\r\n\r\n", ": ping\n\n", "data:\n\n", "data: \r\n\r\n", "data: [DONE]\n\n"];
  const quiet = frames.map((bytes) => new Frame("event", Buffer.from(bytes)));
  const whole = event(text("a", { finishReason: "STOP" }));
  t.strictSame(read([...quiet, whole, ...quiet]), read([whole]));
});

t.test("whatever else arrives ends in one error", async (t) => {
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

t.test("nothing is said behind an end or an error", async (t) => {
  const reader = decoder(SOURCE);
  const events: Event[] = [];
  reader.frame(event({ error: { code: 500 } }), events);
  reader.frame(event(text("late")), events);
  reader.end(events);
  t.equal(events.length, 1);
});

t.test("a whole answer is read as one frame", async (t) => {
  const body = { ...text("Hello", { finishReason: "STOP" }), usageMetadata };
  t.strictSame(decode(JSON.stringify(body, null, 2), SOURCE), read([event(body)]));
  const open = decode(JSON.stringify(text("Hello")), SOURCE);
  t.match(open.slice(-2), [{ type: "finish", reason: "other" }, { type: "end" }]);
});

t.test("a body that is no answer is refused", async (t) => {
  for (const body of ["", "<html>", "null", "{}", '{"candidates":[]}', '{"candidates":'])
    t.throws(() => decode(body, SOURCE), { code: "upstream_invalid" }, body);
  t.match(decode('{"error":{"code":429,"message":"Slow."}}', SOURCE), [{ type: "error", fault: { status: 429 } }]);
});

t.test("deep JSON does not break the reader", async (t) => {
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

t.test(
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

t.test("answers that are errors are read beside", async (t) => {
  t.equal(failure, failures.failure);
});
