import t from "tap";
import anthropicMessages from "../../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../../plugins/protocols/gemini/index.ts";
import openaiChat from "../../../plugins/protocols/openai-chat/index.ts";
import openaiResponses from "../../../plugins/protocols/openai-responses/index.ts";
import { DeliveredTokens } from "../../../plugins/usage/delivered-tokens.ts";
import { estimateTokens, tokenWeights } from "../../../plugins/usage/token-count.ts";
import type { Protocol } from "../../../src/core/protocol.ts";
import { Frame } from "../../../src/wire/frame.ts";
import { runLinear } from "../../support/linear-work.ts";

const event = (json: object) => new Frame("event", Buffer.from(`data: ${JSON.stringify(json)}\n\n`));
const chat = (content: string) =>
  event({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [{ index: 0, delta: { content } }],
  });

function tokens(protocol: Protocol, frames: readonly Frame[]): number {
  const delivered = new DeliveredTokens(protocol);
  for (const frame of frames) delivered.observe(frame);
  return delivered.tokens;
}

t.test("the tokens of the text, within a tenth, though most frames are only measured", async (t) => {
  for (const count of [1, 5, 40, 400, 4000]) {
    const words = Array.from({ length: count }, (_, i) => ` ${"abcdefghij".slice(0, 1 + ((i * 7) % 10))}`);
    const expected = 1.01 * words.reduce((sum, word) => sum + estimateTokens(word), 0);
    const found = tokens(openaiChat, words.map(chat));
    t.ok(Math.abs(found - expected) <= 1 + expected / 10, `${count}: ${found} for ${expected}`);
  }
});

t.test("a space counts with the word after it, in whichever frame it came", (t) => {
  const count = (piece: string) =>
    tokens(
      openaiChat,
      Array.from({ length: 110 }, () => chat(piece)),
    );
  const whole = tokens(openaiChat, [chat("word ".repeat(110))]);
  for (const piece of ["word ", " word"])
    t.ok(Math.abs(count(piece) - whole) <= 2, `${count(piece)} for ${JSON.stringify(piece)}, ${whole} in one frame`);
  t.end();
});

t.test("frames without new text add nothing: comments, heads, and repeated whole texts", async (t) => {
  const quiet = [
    new Frame("event", Buffer.from(`: ${"x".repeat(100)}\n\n`)),
    event({ type: "ping", filler: "x".repeat(60) }),
  ];
  t.equal(tokens(anthropicMessages, Array.from({ length: 50 }, () => quiet).flat()), 0);
  const pieces = Array.from({ length: 100 }, (_, i) =>
    event({
      type: "response.output_text.delta",
      item_id: "m",
      output_index: 0,
      content_index: 0,
      delta: ` word ${i % 10}`,
      sequence_number: i,
    }),
  );
  const text = " word 0".repeat(100);
  const whole = event({ type: "response.output_text.done", item_id: "m", output_index: 0, content_index: 0, text });
  const found = tokens(openaiResponses, [...pieces, whole, whole, whole]);
  const expected = 100 * estimateTokens(" word 0");
  t.ok(Math.abs(found - expected) <= expected / 5, `${found} for ${expected}`);
});

t.test("a call that comes complete in one frame counts, one that came in pieces is not counted again", async (t) => {
  const args = JSON.stringify({ a: "word ".repeat(4000) });
  const expected = estimateTokens(args);
  const call = (delta: object) =>
    event({ id: "c", choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: delta }] } }] });
  const near = (found: number, name: string) =>
    t.ok(found > expected * 0.9 && found < expected * 1.5, `${name}: ${found} for ${expected}`);
  near(tokens(openaiChat, [chat("hello there"), call({ name: "f", arguments: args })]), "chat");
  const block = { type: "tool_use", id: "toolu_1", name: "f", input: JSON.parse(args) };
  near(
    tokens(anthropicMessages, [event({ type: "content_block_start", index: 0, content_block: block })]) / 1.01,
    "messages",
  );
  near(
    tokens(gemini, [
      event({ candidates: [{ content: { parts: [{ functionCall: { name: "f", args: JSON.parse(args) } }] } }] }),
    ]),
    "gemini",
  );
  const pieces = args.match(/[\s\S]{1,200}/g) ?? [];
  const item = { output_index: 0, item_id: "fc_1" };
  const deltas = pieces.map((delta) => event({ type: "response.function_call_arguments.delta", ...item, delta }));
  const done = event({ type: "response.function_call_arguments.done", ...item, arguments: args });
  near(tokens(openaiResponses, [...deltas, done, done]), "responses");
  // Some servers send no pieces, and repeat the call.
  const ended = { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: args };
  const whole = [done, event({ type: "response.output_item.done", output_index: 0, item: ended })];
  near(tokens(openaiResponses, whole), "responses without pieces");
});

t.test("repeated content of frames, and padding, is not counted as text", async (t) => {
  const words = Array.from({ length: 600 }, (_, i) => ` ${"abcdefghijklmno".slice(0, 1 + ((i * 5) % 13))}`);
  const expected = 1.01 * words.reduce((sum, word) => sum + estimateTokens(word), 0);
  const near = (found: number) => Math.abs(found - expected) <= expected / 10;
  const twice = words.map((word) =>
    event({ id: "c", choices: [{ index: 0, delta: { content: word }, again: word }], model: "some/model-of-somebody" }),
  );
  const doubled = tokens(openaiChat, twice);
  t.ok(near(doubled), `${doubled} for ${expected}`);
  const filled = words.map((word) =>
    event({ id: "c", choices: [{ index: 0, delta: { content: word } }], fill: "x".repeat(40 - word.length) }),
  );
  const even = tokens(openaiChat, filled);
  t.ok(near(even), `${even} for ${expected}`);
});

t.test("content that one frame has in two members counts once", async (t) => {
  const both = (text: string) =>
    event({
      id: "c",
      choices: [{ index: 0, delta: { reasoning: text, reasoning_details: [{ type: "reasoning.text", text }] } }],
    });
  t.equal(tokens(openaiChat, [both(" carefully"), both(" think")]), 2);
});

t.test("a tool call is more than its arguments, by the counts of the model that calls", async (t) => {
  const part = (call: object) =>
    event({
      id: "chatcmpl-1",
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...call }] } }],
    });
  const frames = [
    part({ id: "call_1", type: "function", function: { name: "weather", arguments: "" } }),
    part({ function: { arguments: '{"' } }),
    part({ function: { arguments: "city" } }),
    part({ function: { arguments: '"}' } }),
  ];
  t.equal(tokens(openaiChat, frames), 10 + 3);
  const claude = new DeliveredTokens(openaiChat, "anthropic/claude-sonnet-4.5");
  for (const frame of frames) claude.observe(frame);
  t.equal(claude.tokens, 34 + 4 + 4);
  const calls = (model: string) => tokenWeights(openaiChat, model).perToolCall;
  const fast = ["grok-4-1-fast-non-reasoning", "x-ai/grok-4.1-fast", "grok-4-fast-reasoning", "grok-code-fast-1"];
  for (const name of fast) t.equal(calls(name), calls("grok-3-mini"), name);
  t.ok(calls("grok-4.3") < calls("grok-3-mini"));
});

t.test("each call counts once, however its protocol announces, completes and repeats it", async (t) => {
  const whole = (index: number, name: string, args: string) =>
    event({
      choices: [{ index: 0, delta: { tool_calls: [{ index, id: name, function: { name, arguments: args } }] } }],
    });
  const args = JSON.stringify({ a: "one two" });
  const chat = [whole(0, "add", args), whole(1, "multiply", args)];
  const inside = estimateTokens(args);
  t.equal(tokens(openaiChat, chat), Math.round(2 * 10 + 2 * inside * 1.01));
  t.equal(tokens(openaiChat, [...chat, whole(0, "add", args)]), tokens(openaiChat, chat), "repeated");

  const item = { type: "function_call", name: "add" };
  const added = event({ type: "response.output_item.added", output_index: 0, item: { ...item, arguments: "" } });
  const place = { item_id: "fc_1", output_index: 0 };
  const delta = event({ type: "response.function_call_arguments.delta", ...place, delta: args });
  const ended = [
    event({ type: "response.function_call_arguments.done", ...place, arguments: args }),
    event({ type: "response.output_item.done", output_index: 0, item: { ...item, arguments: args } }),
    event({ type: "response.completed", response: { output: [{ ...item, arguments: args }] } }),
  ];
  t.equal(tokens(openaiResponses, [added, delta, ...ended]), 10 + inside, "in pieces");
  t.equal(tokens(openaiResponses, [added, ...ended]), 10 + inside, "announced, then whole");
  t.equal(tokens(openaiResponses, ended.slice(1)), 10 + inside, "whole only");
  const complete = event({ type: "response.output_item.added", output_index: 0, item: { ...item, arguments: args } });
  t.equal(tokens(openaiResponses, [complete, ...ended]), 10 + inside, "whole at once, and repeated without its name");

  const call = (json: object) =>
    event({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: json }] } }] });
  t.equal(
    tokens(openaiChat, [call({ name: "add" }), call({ arguments: args })]),
    10 + inside,
    "announced by its name only",
  );

  const parts = ["add", "multiply"].map((name) => ({ functionCall: { name, args: { a: 2, b: 3 } } }));
  t.equal(tokens(gemini, [event({ candidates: [{ content: { parts } }] })]), 2 * 13, "numbers only");
});

t.test("a call counts also where the event with which it begins is as long as those with text", async (t) => {
  const named = (name: string, json: object) =>
    new Frame("event", Buffer.from(`event: ${name}\ndata: ${JSON.stringify({ type: name, ...json })}\n\n`));
  const name = "f".repeat(20);
  const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
  for (const [protocol, perCall, text, begins] of [
    [
      anthropicMessages,
      34,
      named("content_block_delta", { index: 0, delta: { type: "text_delta", text: " some words" } }),
      named("content_block_start", { index: 1, content_block: { type: "tool_use", id: "t", name, input: {} } }),
    ],
    [
      openaiResponses,
      10,
      named("response.output_text.delta", { ...place, delta: " some words" }),
      named("response.output_item.added", { output_index: 1, item: { type: "function_call", name, arguments: "" } }),
    ],
  ] as const) {
    t.ok(Math.abs(begins.bytes.length - text.bytes.length) < 40, protocol.name);
    const before = Array.from({ length: 20 }, () => text);
    t.equal(tokens(protocol, [...before, begins]), tokens(protocol, before) + perCall, protocol.name);
  }
});

t.test(
  "repetitions are recognised of the first thousand calls that arrive whole: no stream can fill the memory",
  async (t) => {
    const whole = (n: number) => {
      const called = { name: "f", arguments: JSON.stringify({ n: 100_000 + n }) };
      return event({ choices: [{ index: 0, delta: { tool_calls: [{ index: n, id: `${n}`, function: called }] } }] });
    };
    const calls = Array.from({ length: 1100 }, (_, n) => whole(n));
    const once = tokens(openaiChat, calls);
    t.equal(tokens(openaiChat, [...calls, ...calls.slice(0, 1000)]), once);
    t.ok(tokens(openaiChat, [...calls, ...calls.slice(1000)]) > once);
  },
);

t.test("audio counts by its duration, and each image once", async (t) => {
  const second = "A".repeat((24_000 * 2 * 4) / 3);
  const count = (protocol: Protocol, frames: readonly object[]) => {
    const delivered = new DeliveredTokens(protocol);
    for (const frame of frames) delivered.observe(event(frame));
    return { ...delivered.media, total: delivered.tokens };
  };
  const delta = (content: object) => ({ choices: [{ index: 0, delta: content }] });
  const spoken = delta({ audio: { data: second } });
  t.same(count(openaiChat, [spoken, spoken]), { audio: 40, total: 40 });
  const pieces = Array.from({ length: 100 }, () => delta({ audio: { data: second.slice(0, 640) } }));
  t.same(count(openaiChat, pieces), { audio: 20, total: 20 });
  const image = { type: "image_url", image_url: { url: `data:image/png;base64,${second}` } };
  t.same(count(openaiChat, [delta({ images: [image, image] })]), { image: 2240, total: 2240 });
  const part = (mimeType: string, more: object = {}) => ({
    candidates: [{ content: { parts: [{ inlineData: { mimeType, data: second }, ...more }] } }],
  });
  const frames = [part("audio/L16;rate=24000"), part("image/png"), part("image/png", { thought: true })];
  t.same(count(gemini, frames), { audio: 25, image: 1120, total: 1145 });
});

const summaryDelta = (delta: string) =>
  event({ type: "response.reasoning_summary_text.delta", item_id: "rs", output_index: 0, summary_index: 0, delta });
const textDelta = (delta: string) =>
  event({ type: "response.output_text.delta", item_id: "msg", output_index: 1, content_index: 0, delta });
const reasoned = (length: number, text: string) =>
  event({
    type: "response.output_item.done",
    item: {
      type: "reasoning",
      encrypted_content: "gAAAAAB".padEnd(1000 + length, "x"),
      summary: [{ type: "summary_text", text }],
    },
  });

t.test("hidden reasoning counts instead of its summary, and besides the text", async (t) => {
  for (const words of [4, 400]) {
    const summary = Array.from({ length: words }, () => summaryDelta(" word"));
    const text = Array.from({ length: words }, () => textDelta(" text"));
    const delivered = new DeliveredTokens(openaiResponses);
    for (const frame of [...summary, reasoned(6200, " word".repeat(words)), ...text]) delivered.observe(frame);
    t.equal(delivered.reasoning, 1000);
    const near = (found: number, expected: number, name: string) =>
      t.ok(Math.abs(found - expected) <= 1 + expected / 20, `${name}: ${found} for ${expected}`);
    near(delivered.tokens, 1000 + words, `${words} words`);
    near(delivered.shown, 2 * words, `${words} words without it`);
  }
});

t.test("each reasoning counts, and one that has not ended counts as its summary so far", async (t) => {
  const summary = Array.from({ length: 100 }, () => summaryDelta(" word"));
  const first = [...summary, reasoned(6200, " word".repeat(100))];
  t.equal(tokens(openaiResponses, [...first, ...first]), 2000);
  const found = tokens(openaiResponses, [...first, ...summary]);
  t.ok(Math.abs(found - 1100) <= 10, `${found} for 1100`);
  t.equal(tokens(openaiResponses, summary), 100);
  const begun = { type: "response.output_item.added", item: { type: "reasoning", summary: [] } };
  t.equal(tokens(openaiResponses, [event(begun)]), 0);
});

t.test("reasoning that is omitted counts besides that in texts", async (t) => {
  const thinking = Array.from({ length: 100 }, () =>
    event({ type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: " word" } }),
  );
  const redacted = { type: "redacted_thinking", data: "x".repeat(300 + 4200) };
  const block = event({ type: "content_block_start", index: 1, content_block: redacted });
  t.equal(tokens(anthropicMessages, [...thinking, block]), tokens(anthropicMessages, thinking) + 1000);
});

t.test("the time for a frame with many texts grows no faster than their number", async (t) => {
  const parts = Array.from({ length: 300_000 }, (_, i) => ({ text: `t${100_000 + i}` }));
  const frame = event({ candidates: [{ content: { role: "model", parts } }] });
  t.doesNotThrow(() => runLinear(() => tokens(gemini, [frame])));
});
