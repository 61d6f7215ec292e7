import t from "tap";
import { statusFault } from "../../src/core/fault.ts";
import type { DemoRequest } from "../../src/core/protocol.ts";
import { post } from "../../src/core/protocol-parts.ts";
import {
  DEMO_MODELS,
  demoErrorAnswer,
  demoFault,
  demoId,
  demoPause,
  demoScript,
  demoTokens,
  demoWhole,
  sampleOf,
} from "../../src/translation/demo-script.ts";

const uses = (model: string, ask: Partial<Parameters<typeof demoScript<string>>[1]> = {}) =>
  demoScript<string>(model, { text: "one two three", tools: [], ...ask });

t.test("every demo model answers, and streams of the failing ones begin", async (t) => {
  for (const model of DEMO_MODELS) t.equal(demoFault(model, true), undefined, model);
});

t.test("a model named after a status refuses with it", async (t) => {
  t.match(demoFault("error-429", true), { status: 429, kind: "rate_limit" });
  t.match(demoFault("error-503", false), { status: 503, kind: "overloaded" });
  t.match(demoFault("error-418", false), { status: 418, kind: "invalid" });
  t.match(demoFault("error-599", false), { status: 599, kind: "internal" });
});

t.test("an unknown model is not found, and the message names the existing ones", async (t) => {
  for (const model of ["nope", "error-200", "error-999", "", "Echo"]) {
    const fault = demoFault(model, false);
    t.match(fault, { status: 404, kind: "not_found", code: "model_not_found", param: "model" });
    t.match(fault?.message, "echo");
  }
});

t.test("a failure in mid-stream becomes a plain failure without streaming", async (t) => {
  t.match(demoFault("error-stream", false), { status: 500, kind: "internal" });
});

t.test("echo repeats the text exactly, in pieces of whole words", async (t) => {
  const text = "  Ünïcödé 🎈 words,\n\nand   blanks ";
  const { pieces, end } = uses("echo", { text });
  t.equal(pieces.join(""), text);
  t.equal(pieces.length, 6);
  t.equal(end, "whole");
  t.match(uses("echo", { text: "" }).pieces.join(""), /no text/);
});

t.test("an answer ends before the first matching stop sequence, or at its limit where that comes first", async (t) => {
  const stopped = uses("echo", { stop: ["three", "two", "", "four"] });
  t.match([stopped.pieces.join(""), stopped.end, stopped.stopped], ["one ", "whole", "two"]);
  t.equal(uses("echo", { stop: ["four"] }).stopped, undefined);
  const limited = uses("echo", { stop: ["three"], limit: 1 });
  t.match([limited.pieces.join(""), limited.end, limited.stopped], ["one ", "length", undefined]);
  t.equal(uses("cut", { stop: ["will"] }).stopped, undefined, "an interruption takes precedence");
});

t.test("few stop sequences are looked for: each takes a search of the whole text", async (t) => {
  const stop = Array.from({ length: 20_000 }, (_, i) => `stop${i}`);
  const text = `${"word ".repeat(100_000)}stop15 stop16`;
  const began = process.cpuUsage();
  t.equal(uses("echo", { text, stop }).stopped, "stop1", "the first that occurs");
  t.equal(uses("echo", { text, stop: stop.slice(15) }).stopped, "stop15");
  t.equal(uses("echo", { text, stop: stop.toReversed() }).stopped, undefined);
  const { user } = process.cpuUsage(began);
  t.ok(user < 500_000, `${user / 1000} ms`);
});

t.test("a long text comes in a limited number of pieces", async (t) => {
  const text = "word ".repeat(20_000);
  const { pieces } = uses("echo", { text });
  t.equal(pieces.join(""), text);
  t.ok(pieces.length <= 201, `${pieces.length} pieces`);
});

t.test("a text of millions of words is split as fast as a short one", async (t) => {
  const text = "word ".repeat(3_000_000);
  const began = process.cpuUsage();
  const { pieces } = uses("echo", { text });
  const { user } = process.cpuUsage(began);
  t.ok(pieces.length > 100);
  // A match for each word takes half a second and more.
  t.ok(user < 250_000, `${user / 1000} ms`);
});

t.test("tool calls the first tool, answers with its result, and reports when there is none", async (t) => {
  t.equal(uses("tool", { tools: ["weather", "time"] }).call, "weather");
  const answered = uses("tool", { tools: ["weather"], result: "21 °C" });
  t.equal(answered.call, undefined);
  t.equal(answered.pieces.join(""), "The tool answered: 21 °C");
  t.match(uses("tool").pieces.join(""), /No tool/);
});

t.test("only reasoning thinks, only slow waits, long has 400 pieces", async (t) => {
  t.ok(uses("reasoning").reasoning);
  t.equal(uses("echo").reasoning, undefined);
  const slow = uses("slow");
  const total = slow.pieces.reduce((sum, _, n) => sum + demoPause(slow, n), 0);
  t.equal(total, 3000);
  t.equal(uses("long").pieces.length, 400);
});

t.test("a token limit truncates the text and is reported", async (t) => {
  const cut = uses("echo", { text: "one two three four", limit: 2 });
  t.same([cut.pieces.join(""), cut.end], ["one two ", "length"]);
  t.equal(uses("echo", { text: "one two", limit: 2 }).end, "whole");
  t.ok(uses("echo", { text: "abc🎈def", limit: 1 }).pieces.join("").isWellFormed());
});

t.test("ids are the same for the same request and differ otherwise", async (t) => {
  const request: DemoRequest = {
    operation: post("chat", "/chat"),
    model: "echo",
    body: { a: 1 },
    streaming: false,
  };
  t.equal(demoId(request), demoId({ ...request }));
  t.equal(demoId(request), demoId({ ...request, body: { a: 1, stream: true }, streaming: true }));
  t.not(demoId(request), demoId({ ...request, body: { a: 2 } }));
  t.match(demoId(request), /^[0-9a-f]{24}$/);
});

t.test("tokens are quarters of characters, rounded up", async (t) => {
  t.same(["", "a", "abcd", "abcde"].map(demoTokens), [0, 1, 1, 2]);
});

t.test("refusals that may pass later have the time to retry", async (t) => {
  t.equal(demoErrorAnswer(statusFault(429, "Wait."), "{}").headers["retry-after"], "1");
  t.equal(demoErrorAnswer(statusFault(503, "Wait."), "{}").headers["retry-after"], "1");
  t.equal(demoErrorAnswer(statusFault(400, "No."), "{}").headers["retry-after"], undefined);
});

t.test("a whole answer takes as long as its stream, and an interrupted one stops half-way", async (t) => {
  t.equal(demoWhole({}, uses("slow")).frames[0]?.after, 3000);
  const { frames } = demoWhole({ text: "four" }, uses("cut"));
  t.same(
    frames.map((frame) => [frame.bytes.toString(), frame.cut]),
    [
      ['{"text"', undefined],
      ["", true],
    ],
  );
});

t.test("generated samples match their schema", async (t) => {
  const schema = {
    type: "object",
    required: ["city", "unit", "days", "when", "place", "tags", "exact", "maybe", "deep"],
    properties: {
      city: { type: "string", minLength: 6 },
      unit: { enum: ["c", "f"] },
      days: { type: "integer", minimum: 3 },
      when: { type: "string", format: "date" },
      place: { $ref: "#/$defs/Place" },
      tags: { type: "ARRAY", items: { type: "BOOLEAN" }, minItems: 2 },
      exact: { const: 7 },
      maybe: { anyOf: [{ type: "null" }, { type: ["null", "number"] }] },
      deep: { type: "object", properties: { all: { type: "string" } } },
      optional: { type: "string" },
    },
    $defs: { Place: { type: "object", properties: { lat: { type: "number" } } } },
  };
  t.same(sampleOf(schema), {
    city: "demooo",
    unit: "c",
    days: 3,
    when: "2026-01-31",
    place: { lat: 1 },
    tags: [true, true],
    exact: 7,
    maybe: 1,
    deep: { all: "demo" },
  });
  t.same(sampleOf(undefined), {});
  t.equal(sampleOf({ type: "string", format: "toString" }), "demo", "a format is none of an object's own methods");
});

t.test("a sample of a recursive schema is finite", async (t) => {
  const schema = { type: "object", properties: { next: { $ref: "#" } } };
  t.match(JSON.stringify(sampleOf(schema)), /^\{"next":/);
});

t.test("a sample is short, however often the schema refers to itself or repeats what is long", async (t) => {
  const names = Array.from({ length: 300 }, (_, i) => `p${i}`);
  const all = (value: object) => Object.fromEntries(names.map((name) => [name, value]));
  const long = "x".repeat(50_000);
  for (const schema of [
    { properties: all({ $ref: "#" }) },
    { properties: all({ type: "array", minItems: 5, items: { $ref: "#" } }) },
    { properties: all({ $ref: "#/long" }), long: { default: long } },
    { properties: all({ $ref: "#/long" }), long: { enum: [long] } },
    { properties: all({ $ref: "#/long" }), long: { properties: { [long]: { type: "null" } } } },
  ]) {
    const sample = sampleOf(schema) as object;
    t.ok(JSON.stringify(sample).length < 200_000, `${JSON.stringify(sample).length} characters`);
    t.equal(Object.keys(sample)[0], "p0");
  }
});
