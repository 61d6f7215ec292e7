import t from "tap";
import type { Event } from "../../src/translation/events.ts";
import { weightOf } from "../../src/translation/weight.ts";
import { RawJson } from "../../src/wire/exact.ts";

const LONG = "x".repeat(10_000);
const opaque = { protocol: "p", kind: "k", data: LONG };

t.test("an event's weight is at least the size of its content", async (t) => {
  const events: Event[] = [
    { type: "text", block: 0, text: LONG },
    { type: "text", block: 0, text: "", logprobs: [{ token: "a", top_logprobs: [{ token: LONG, bytes: [1] }] }] },
    { type: "arguments", block: 0, text: LONG },
    { type: "opaque", block: 0, opaque },
    { type: "opaque", block: 0, opaque: { ...opaque, data: "", extra: { summary: [LONG] } } },
    { type: "citation", block: 0, citation: { quote: LONG } },
    { type: "media", block: 0, base64: LONG },
    { type: "media", block: 0, url: LONG },
    { type: "server", block: 0, json: new RawJson(JSON.stringify(LONG)) },
    { type: "open", block: 0, choice: 0, kind: "tool_call", name: LONG },
    { type: "open", block: 0, choice: 0, kind: "text", opaque },
  ];
  for (const event of events) t.ok(weightOf(event) >= LONG.length, event.type);
  for (const event of events) t.ok(weightOf(event) < LONG.length + 400, event.type);
});

t.test("an empty block has a weight, too", async (t) => {
  t.ok(weightOf({ type: "open", block: 0, choice: 0, kind: "text" }) > 0);
  t.ok(weightOf({ type: "text", block: 0, text: "" }) > 0);
  t.ok(weightOf({ type: "close", block: 0 }) > 0);
});

t.test("a value nested too deep to be written is too large", async (t) => {
  const logprobs = JSON.parse(`${"[".repeat(50_000)}${"]".repeat(50_000)}`) as unknown;
  t.equal(weightOf({ type: "text", block: 0, text: "", logprobs }), Number.POSITIVE_INFINITY);
});

t.test("content that is not buffered has no weight, however often it comes", async (t) => {
  t.equal(weightOf({ type: "ping" }), 0);
  t.equal(weightOf({ type: "usage", usage: { in: {}, out: {}, raw: {} } }), 0);
});
