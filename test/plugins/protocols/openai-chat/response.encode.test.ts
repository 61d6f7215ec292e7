import { isDeepStrictEqual } from "node:util";
import OpenAI from "openai";
import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Conversation, Turn } from "../../../../src/translation/conversation.ts";
import type { Event, Opaque } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import type { JsonObject } from "../../../../src/wire/values.ts";
import { dice } from "../../../support/dice.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { receiving } from "../../../support/openai-sdks.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { sample } from "../../../support/sample.ts";
import { asked, asStream, context, seal, source, streamed, written } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const COUNTING = { stream_options: { include_usage: true } };

interface Message extends Record<string, unknown> {
  content: string | null;
  reasoning_content?: string;
  reasoning_details?: Record<string, unknown>[];
  tool_calls?: Record<string, unknown>[];
}
interface Completion extends Record<string, unknown> {
  choices: { message: Message; finish_reason: string; index: number }[];
}

const whole = (events: readonly Event[], to = context()): Completion =>
  JSON.parse(runAtOnce(chat.response.encode(events, to))) as Completion;
const chunks = (events: readonly Event[], to = context()) =>
  written(chat, events, to)
    .filter(({ data }) => data !== "[DONE]")
    .map(({ data }) => JSON.parse(data) as { choices: { delta: Record<string, unknown> }[] });

/** What the SDK has put together when a stream has ended, without what only it adds. */
async function accumulated(events: readonly Event[], request: Record<string, unknown> = COUNTING): Promise<Completion> {
  const client = receiving(OpenAI, asStream(written(chat, events, context(request))));
  const runner = client.chat.completions.stream({ model: "m", messages: [], n: 8 });
  const completion = JSON.parse(JSON.stringify(await runner.finalChatCompletion())) as Completion;
  completion["object"] = "chat.completion";
  if (completion["usage"] === null) delete completion["usage"];
  for (const { message } of completion.choices) {
    delete message["parsed"];
    for (const call of message.tool_calls ?? []) {
      delete call["index"];
      delete (call["function"] as Record<string, unknown> | undefined)?.["parsed_arguments"];
    }
  }
  return completion;
}

/** The SDK keeps only the last value of a member it does not know; `reasoning_content` grows for those who know it. */
function withoutThoughts(completion: Completion): Completion {
  for (const { message } of completion.choices) delete message.reasoning_content;
  return completion;
}

const start: Event = { type: "start", id: "msg_1", model: "claude", created: 5 };
const end = (reason: (Event & { type: "finish" })["reason"] = "stop"): Event[] => [
  { type: "finish", choice: 0, reason },
  { type: "end" },
];
const textBlock = (block: number, text: string, more: object = {}): Event[] => [
  { type: "open", block, choice: 0, kind: "text", ...more },
  ...(text === "" ? [] : [{ type: "text", block, text } as Event]),
  { type: "close", block },
];
const callBlock = (block: number, id: string, args: string, more: object = {}): Event[] => [
  { type: "open", block, choice: 0, kind: "tool_call", id, name: "one", ...more },
  ...(args === "" ? [] : [{ type: "arguments", block, text: args } as Event]),
  { type: "close", block },
];
const signature: Opaque = { protocol: "anthropic-messages", account: "acme", kind: "signature", data: "sig" };
const thought = (block: number, text: string, opaque: Opaque | undefined, more: object = {}): Event[] => [
  { type: "open", block, choice: 0, kind: "reasoning", ...more },
  ...(text === "" ? [] : [{ type: "text", block, text } as Event]),
  ...(opaque ? [{ type: "opaque", block, opaque } as Event] : []),
  { type: "close", block },
];

t.test("of every recorded answer the SDK accumulates the stream to what is written whole", async (t) => {
  const different: string[] = [];
  for (const { id, kinds, status, body } of sample(recorded("openai-chat"))) {
    if (status >= 300 || id.includes("test_invalid_response")) continue;
    const events = kinds.includes("stream")
      ? streamed(chat, eventsIn(body))
      : runAtOnce(chat.response.decode(Buffer.from(body), source));
    if (events.at(-1)?.type === "error") continue;
    const same = isDeepStrictEqual(withoutThoughts(await accumulated(events)), withoutThoughts(whole(events)));
    if (!same) different.push(id);
  }
  t.same(different, []);
});

t.test("a stream has one role, an id of this protocol, the requested model, and ends with [DONE]", async (t) => {
  const frames = written(chat, [start, ...textBlock(0, "Hello"), ...end()]);
  t.same(
    frames.map(({ data }) => data),
    [
      '{"id":"chatcmpl-msg_1","object":"chat.completion.chunk","created":5,"model":"asked-model","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}',
      '{"id":"chatcmpl-msg_1","object":"chat.completion.chunk","created":5,"model":"asked-model","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}]}',
      '{"id":"chatcmpl-msg_1","object":"chat.completion.chunk","created":5,"model":"asked-model","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}',
      "[DONE]",
    ],
  );
});

t.test("the tier that served the request is beside its usage, whole and streamed", async (t) => {
  const usage: Event = { type: "usage", usage: { in: { total: 1 }, out: { total: 1 }, tier: "standard", raw: {} } };
  const events = [start, ...textBlock(0, "a"), ...end().toSpliced(1, 0, usage)];
  t.equal(whole(events)["service_tier"], "default");
  t.equal((await accumulated(events))["service_tier"], "default");
});

t.test("the tier of another vendor is written in this vendor's word, or not at all, whole and streamed", async (t) => {
  for (const [tier, told] of [
    ["ON_DEMAND", "default"],
    ["batch", undefined],
    ["", undefined],
  ] as const) {
    const usage: Event = { type: "usage", usage: { in: { total: 1 }, out: { total: 1 }, tier, raw: {} } };
    const events = [start, ...textBlock(0, "a"), ...end().toSpliced(1, 0, usage)];
    t.equal(whole(events)["service_tier"], told, tier);
    t.equal((await accumulated(events))["service_tier"], told, tier);
  }
});

t.test("usage is written in a last chunk without choices, only where it was requested", async (t) => {
  const usage: Event = {
    type: "usage",
    usage: { in: { total: 160, cached: 100, write: { "5m": 30, "1h": 20 } }, out: { total: 7, reasoning: 2 }, raw: {} },
  };
  const events = [start, ...textBlock(0, "a"), ...end().toSpliced(1, 0, usage)];
  const told = {
    prompt_tokens: 160,
    completion_tokens: 7,
    total_tokens: 167,
    prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 50 },
    completion_tokens_details: { reasoning_tokens: 2 },
  };
  t.same(whole(events)["usage"], told);
  t.notOk(chunks(events).some((chunk) => "usage" in chunk));
  const asking = chunks(events, context(COUNTING)) as Record<string, unknown>[];
  t.match(asking.at(-1), { choices: { length: 0 }, usage: told });
  t.ok(asking.slice(0, -1).every((chunk) => chunk["usage"] === null));
  t.same(chunks(events, context({ usage: { include: true } })), asking, "as OpenRouter's clients ask");
});

t.test("a call without arguments has an empty object of them", async (t) => {
  const events = [start, ...callBlock(0, "call_1", ""), ...end("tool_calls")];
  t.same(whole(events).choices, [
    {
      index: 0,
      message: {
        role: "assistant",
        content: null,
        refusal: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "one", arguments: "{}" } }],
      },
      logprobs: null,
      finish_reason: "tool_calls",
    },
  ]);
  t.same(await accumulated(events), whole(events));
});

t.test("interleaved calls are separated by their index", async (t) => {
  const open = (block: number, id: string): Event => ({
    type: "open",
    block,
    choice: 0,
    kind: "tool_call",
    id,
    name: id,
  });
  const more = (block: number, text: string): Event => ({ type: "arguments", block, text });
  const closed = [0, 1].map((block): Event => ({ type: "close", block }));
  const events = [
    start,
    open(0, "a"),
    open(1, "b"),
    more(0, '{"x"'),
    more(1, '{"y"'),
    more(0, ":1}"),
    more(1, ":2}"),
    ...closed,
    ...end("tool_calls"),
  ];
  t.match((await accumulated(events)).choices[0]?.message.tool_calls, [
    { id: "a", function: { arguments: '{"x":1}' } },
    { id: "b", function: { arguments: '{"y":2}' } },
  ]);
});

t.test("a call without an id gets one", async (t) => {
  const [call] =
    whole([
      start,
      { type: "open", block: 0, choice: 0, kind: "tool_call", name: "one" },
      { type: "close", block: 0 },
      ...end("tool_calls"),
    ]).choices[0]?.message.tool_calls ?? [];
  t.match(call?.["id"], /^call_/);
});

t.test("a custom tool's call keeps its free text", async (t) => {
  const events = [start, ...callBlock(0, "a", "ls -l", { custom: true }), ...end("tool_calls")];
  t.match(whole(events).choices[0]?.message.tool_calls, [{ type: "custom", custom: { name: "one", input: "ls -l" } }]);
  t.same(await accumulated(events), whole(events));
});

t.test("clients of the older functions get their form, and one call", async (t) => {
  const request = { functions: [{ name: "one" }] };
  const to = context(request);
  const events = [start, ...callBlock(0, "a", "{}"), ...callBlock(1, "b", "{}"), ...end("tool_calls")];
  t.match(whole(events, to).choices, [
    { message: { function_call: { name: "one", arguments: "{}" } }, finish_reason: "function_call" },
  ]);
  t.notOk("tool_calls" in (whole(events, to).choices[0]?.message ?? {}));
  t.ok(to.lost.includes("function_call"));
  t.match((await accumulated(events, request)).choices, [
    { message: { function_call: { name: "one", arguments: "{}" } } },
  ]);
});

t.test("for a client of the older functions a call's state is declared lost", async (t) => {
  const opaque: Opaque = { protocol: "gemini", kind: "thoughtSignature", data: "sig" };
  const to = context({ functions: [{ name: "one" }] });
  whole([start, ...callBlock(0, "a", "{}", { opaque }), ...end("tool_calls")], to);
  t.same(to.lost, ["function_call"]);
});

t.test("a refusal is the message's refusal, not its content", async (t) => {
  const events: Event[] = [
    start,
    { type: "open", block: 0, choice: 0, kind: "refusal" },
    { type: "text", block: 0, text: "No." },
    { type: "close", block: 0 },
    ...end("refusal"),
  ];
  t.match(whole(events).choices, [{ message: { content: null, refusal: "No." }, finish_reason: "stop" }]);
  t.same(await accumulated(events), whole(events));
});

t.test("a filtered answer has no content and its reason", async (t) => {
  const events = [start, ...end("content_filter")];
  t.match(whole(events).choices, [{ message: { role: "assistant", content: null }, finish_reason: "content_filter" }]);
  t.same(await accumulated(events), whole(events));
  t.match(whole([start, ...textBlock(0, "No."), ...end("refusal")]).choices, [{ finish_reason: "content_filter" }]);
});

t.test("an answer that has nothing, or only thoughts, has an empty text as OpenAI's do", async (t) => {
  const thought: Event[] = [
    { type: "open", block: 0, choice: 0, kind: "reasoning" },
    { type: "text", block: 0, text: "Hm." },
    { type: "close", block: 0 },
  ];
  for (const blocks of [[], thought, textBlock(0, "")])
    for (const reason of ["stop", "length"] as const) {
      const events = [start, ...blocks, ...end(reason)];
      t.match(whole(events).choices, [{ message: { content: "" }, finish_reason: reason }]);
      t.same(await accumulated(events), whole(events));
    }
  const audio: Event[] = [
    { type: "open", block: 0, choice: 0, kind: "media", media: "audio", mime: "audio/wav" },
    { type: "media", block: 0, base64: "QQ==" },
    { type: "close", block: 0 },
  ];
  t.match(whole([start, ...audio, ...end("stop")]).choices, [{ message: { content: null, audio: { data: "QQ==" } } }]);
});

t.test("every reason has its value, and what that leaves out is declared", async (t) => {
  const to = context();
  const word = (reason: (Event & { type: "finish" })["reason"]) =>
    whole([start, ...textBlock(0, "a"), ...end(reason)], to).choices[0]?.finish_reason;
  t.same(
    (
      ["stop", "length", "tool_calls", "stop_sequence", "pause", "context_window", "malformed_call", "other"] as const
    ).map(word),
    ["stop", "length", "tool_calls", "stop", "stop", "length", "stop", "stop"],
  );
  t.same(to.lost, ["finish_reason", "finish_reason", "finish_reason"]);
});

t.test("the vendor's details about the end are declared lost, except for a refusal that is written", async (t) => {
  const why = (reason: (Event & { type: "finish" })["reason"], more: object = {}, blocks: Event[] = []) => {
    const told: string[] = [];
    const finish: Event = { type: "finish", choice: 0, reason, ...more };
    whole(
      [start, ...blocks, finish, { type: "end" }],
      context({}, { drop: (path, text) => void told.push(path, text) }),
    );
    return told;
  };
  t.same(why("other", { raw: "RECITATION", message: "It recites." }), ["finish_reason", "It recites."]);
  t.match(why("other", { raw: "RECITATION" }), ["finish_reason", /RECITATION/]);
  const filtered: Event = { type: "finish", choice: 0, reason: "content_filter", message: "It is not safe." };
  t.match(whole([start, ...textBlock(0, "Half"), filtered, { type: "end" }]).choices[0], {
    finish_reason: "content_filter",
    message: { content: "Half", refusal: "It is not safe." },
  });
  t.same(why("content_filter", { message: "It is not safe." }), []);
  const refusal: Event = { type: "finish", choice: 0, reason: "refusal", message: "No." };
  const [choice] = whole([start, refusal, { type: "end" }]).choices;
  t.match(choice, { finish_reason: "stop", message: { content: null, refusal: "No." } }, "sent with the end alone");
  t.same(why("refusal", { message: "No." }), []);
  t.same(why("refusal", { message: "No." }, [{ type: "open", block: 0, choice: 0, kind: "refusal" }]), []);
});

/** The parts of the assistant's message that a client sends back as it got it. */
const back = (message: Message) =>
  runAtOnce(chat.request.decode(asked({ model: "m", messages: [message] }))).turns[0]?.parts ?? [];

t.test("reasoning is returned with its state, from the whole and from what the SDK accumulated", async (t) => {
  const redacted: Opaque = { ...signature, kind: "redacted", data: "xyz" };
  const encrypted: Opaque = { ...signature, kind: "encrypted_content", data: "abc" };
  const events = [
    start,
    ...thought(0, "so it is", signature),
    ...thought(1, "", redacted, { redacted: true }),
    ...thought(2, "", signature),
    ...thought(3, "summed up", encrypted, { summary: true }),
    ...textBlock(4, "a"),
    ...end(),
  ];
  for (const completion of [whole(events), await accumulated(events)])
    t.match(back(completion.choices[0]?.message as Message), [
      { kind: "reasoning", text: "so it is", opaque: signature },
      { kind: "reasoning", redacted: true, opaque: redacted },
      { kind: "reasoning", opaque: signature },
      { kind: "reasoning", summary: ["summed up"], opaque: encrypted },
      { kind: "text", text: "a" },
    ]);
});

t.test("reasoning is shown as it arrives; without state nothing else is written of it", async (t) => {
  const events = [start, ...thought(0, "so", undefined), ...textBlock(1, "a"), ...end()];
  t.same(whole(events).choices[0]?.message, {
    role: "assistant",
    content: "a",
    refusal: null,
    reasoning_content: "so",
  });
  t.same(chunks(events)[1]?.choices[0]?.delta, { reasoning_content: "so" });
});

t.test(
  "several reasoning blocks are paragraphs, streamed and whole; their entries have their own text alone",
  async (t) => {
    const opaque: Opaque = { protocol: "anthropic-messages", account: "acme", kind: "signature", data: "sig" };
    const thoughts = [...thought(0, "one", opaque), ...thought(1, "", opaque), ...thought(2, "two", opaque)];
    const events = [start, ...thoughts, ...textBlock(3, "a"), ...end()];
    const message = whole(events).choices[0]?.message as Message;
    t.equal(message.reasoning_content, "one\n\ntwo");
    t.match(message.reasoning_details, [{ text: "one" }, { text: "" }, { text: "two" }]);
    const deltas = chunks(events).flatMap(({ choices }) =>
      choices.map(({ delta }) => delta["reasoning_content"] ?? ""),
    );
    t.equal(deltas.join(""), "one\n\ntwo");
  },
);

t.test("state on a call is on the call, beside it, and in the store", async (t) => {
  const opaque: Opaque = { protocol: "gemini", account: "acme", kind: "thoughtSignature", data: "sig" };
  const on = { ...opaque, on: { call: "a" } };
  const to = context();
  const events = [start, ...callBlock(0, "a", "{}", { opaque }), ...callBlock(1, "b", "{}"), ...end("tool_calls")];
  const message = whole(events, to).choices[0]?.message as Message;
  t.match(message.tool_calls, [{ id: "a", extra_content: { google: { thought_signature: seal(on) } } }, { id: "b" }]);
  t.same(message.reasoning_details, [{ type: "reasoning.encrypted", data: seal(on), format: "gw1", index: 0 }]);
  t.match([...to.kept], [[/^a /, opaque]]);
  t.match(back(message), [
    { kind: "reasoning", opaque: on },
    { id: "a", opaque: on },
    { id: "b", opaque: undefined },
  ]);
});

t.test(
  "state that a client strips comes back in its own conversation, though others have calls of its id",
  async (t) => {
    const system: Turn = { role: "system", at: "", parts: [{ kind: "text", text: "Today is Sunday.", at: "" }] };
    const kept = new Map<string, Opaque>();
    for (const text of ["one", "two"]) {
      const question: Turn = { role: "user", at: "", parts: [{ kind: "text", text, at: "" }] };
      const conversation: Conversation = {
        ...{ protocol: "openai-chat", task: "generate", stream: false, uses: [] },
        turns: [system, question],
        tools: [{ kind: "function", name: "get", at: "" }],
      };
      const to = context({}, { conversation, remember: (key, state) => void kept.set(key, state) });
      const opaque: Opaque = { protocol: "gemini", account: "acme", kind: "thoughtSignature", data: text };
      whole([start, ...callBlock(0, "functions.get:0", "{}", { opaque }), ...end("tool_calls")], to);
    }
    const call = { id: "functions.get:0", type: "function", function: { name: "get", arguments: "{}" } };
    const stateAfter = (...before: JsonObject[]) => {
      const messages = [...before, { role: "assistant", tool_calls: [call] }];
      const recall = (key: { toString(): string }) => kept.get(`${key}`);
      const [part] =
        runAtOnce(chat.request.decode(asked({ model: "m", messages }, { recall }))).turns.at(-1)?.parts ?? [];
      return part?.kind === "tool_call" ? part.opaque?.data : part;
    };
    for (const content of ["one", "two"]) {
      t.equal(stateAfter({ role: "system", content: "Today is Monday." }, { role: "user", content }), content);
      t.equal(stateAfter({ role: "user", content }, { role: "user", content: "and" }), undefined);
    }
    t.equal(stateAfter({ role: "user", content: "three" }), undefined);
  },
);

t.test("state on a text is returned before that text, or after it where it was after it", async (t) => {
  const opaque: Opaque = { protocol: "gemini", kind: "thoughtSignature", data: "sig" };
  const on = { ...opaque, on: "text" };
  t.match(back(whole([start, ...textBlock(0, "a", { opaque }), ...end()]).choices[0]?.message as Message), [
    { opaque: on },
    { text: "a" },
  ]);
  const behind = [start, ...textBlock(0, "a"), ...textBlock(1, "", { opaque }), ...end()];
  t.match(back(whole(behind).choices[0]?.message as Message), [{ text: "a" }, { opaque: on }]);
});

t.test("citations count from the start of the whole content; one without a span cites its whole block", async (t) => {
  const cite = (block: number, citation: object): Event => ({
    type: "citation",
    block,
    citation: { url: "u", title: "t", ...citation },
  });
  const events: Event[] = [
    start,
    ...textBlock(0, "Hello "),
    { type: "open", block: 1, choice: 0, kind: "text" },
    cite(1, { start: 1, end: 3 }),
    { type: "text", block: 1, text: "world" },
    cite(1, { quote: "q" }),
    { type: "close", block: 1 },
    ...end(),
  ];
  t.same(whole(events).choices[0]?.message["annotations"], [
    { type: "url_citation", url_citation: { start_index: 7, end_index: 9, url: "u", title: "t" } },
    { type: "url_citation", url_citation: { start_index: 6, end_index: 11, url: "u", title: "t", content: "q" } },
  ]);
  t.same(await accumulated(events), whole(events));
});

t.test("a source without an address is declared lost, once", async (t) => {
  const to = context();
  const cite: Event = { type: "citation", block: 0, citation: { title: "t" } };
  const [open, text, close] = textBlock(0, "a") as [Event, Event, Event];
  const events = [start, open, text, cite, cite, close, ...end()];
  t.notOk("annotations" in (whole(events, to).choices[0]?.message ?? {}));
  t.same(to.lost, ["annotations"]);
});

t.test("the log probabilities of many pieces are in order", async (t) => {
  const tokens = Array.from({ length: 20_000 }, (_, n) => ({ token: `${n}`, logprob: -n }));
  const events: Event[] = [
    start,
    { type: "open", block: 0, choice: 0, kind: "text" },
    ...tokens.map((token): Event => ({ type: "text", block: 0, text: token.token, logprobs: [token] })),
    ...end(),
  ];
  t.same((whole(events).choices[0] as unknown as { logprobs: unknown }).logprobs, { content: tokens, refusal: null });
});

t.test("log probabilities, images and audio have their members", async (t) => {
  const tokens = [{ token: "a", logprob: -1, bytes: null, top_logprobs: [] }];
  const events: Event[] = [
    start,
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "a", logprobs: tokens },
    { type: "text", block: 0, text: "b", logprobs: tokens },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "media", media: "image", mime: "image/webp" },
    { type: "media", block: 1, base64: "AAAA" },
    { type: "close", block: 1 },
    { type: "open", block: 2, choice: 0, kind: "media", media: "audio" },
    { type: "media", block: 2, base64: "BB" },
    { type: "media", block: 2, base64: "CC" },
    { type: "close", block: 2 },
    ...end(),
  ];
  t.match(whole(events).choices, [
    {
      logprobs: { content: [...tokens, ...tokens], refusal: null },
      message: { images: [{ image_url: { url: "data:image/webp;base64,AAAA" } }], audio: { data: "BBCC" } },
    },
  ]);
});

t.test(
  "several images of a stream all reach clients that keep only the last value of a member, numbered for clients that append lists",
  async (t) => {
    const image = (block: number, base64: string): Event[] => [
      { type: "open", block, choice: 0, kind: "media", media: "image", mime: "image/png" },
      { type: "media", block, base64 },
      { type: "close", block },
    ];
    const events = [start, ...image(0, "AAAA"), ...image(1, "BBBB"), ...end()];
    const images = ["AAAA", "BBBB"].map((base64, index) => ({
      ...{ index, type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } },
    }));
    t.same((await accumulated(events)).choices[0]?.message["images"], images);
    t.same(whole(events).choices[0]?.message["images"], images);
  },
);

t.test("what cannot be expressed is declared lost", async (t) => {
  const to = context();
  const events: Event[] = [
    start,
    { type: "open", block: 0, choice: 0, kind: "server", name: "code_execution" },
    { type: "close", block: 0 },
    { type: "open", block: 1, choice: 0, kind: "media", media: "video" },
    { type: "media", block: 1, url: "https://x" },
    { type: "close", block: 1 },
    { type: "finish", choice: 0, reason: "stop_sequence", stopSequence: "END" },
    { type: "end" },
  ];
  whole(events, to);
  t.same(to.lost, ["code_execution", "video", "stop_sequence"]);
});

t.test("several answers are several choices", async (t) => {
  const events: Event[] = [
    start,
    { type: "open", block: 0, choice: 1, kind: "text" },
    { type: "open", block: 1, choice: 0, kind: "text" },
    { type: "text", block: 0, text: "b" },
    { type: "text", block: 1, text: "a" },
    { type: "close", block: 0 },
    { type: "close", block: 1 },
    { type: "finish", choice: 0, reason: "stop" },
    { type: "finish", choice: 1, reason: "length" },
    { type: "end" },
  ];
  t.match(whole(events).choices, [
    { index: 0, message: { content: "a" } },
    { index: 1, message: { content: "b" }, finish_reason: "length" },
  ]);
  t.same(await accumulated(events), whole(events));
});

/** An answer of random blocks, some of which grow in turn. */
function randomAnswer(random: (below: number) => number): Event[] {
  const events: Event[] = [start];
  const open: { block: number; kind: string }[] = [];
  const kinds = ["text", "reasoning", "refusal", "tool_call", "custom"];
  const count = random(6);
  for (let block = 0; block < count || open.length > 0; ) {
    const choice = random(2);
    if (block < count && random(3) > 0) {
      const kind = kinds[random(kinds.length)] as string;
      const opening = kind === "custom" ? { kind: "tool_call", custom: true } : { kind };
      const named = opening.kind === "tool_call" ? { id: `call_${block}`, name: `tool_${block}` } : {};
      events.push({ type: "open", block, choice, ...opening, ...named } as Event);
      open.push({ block, kind });
      block++;
      continue;
    }
    const at = random(Math.max(1, open.length));
    const grown = open[at];
    if (!grown) continue;
    if (random(3) > 0) {
      const type = grown.kind === "tool_call" || grown.kind === "custom" ? "arguments" : "text";
      const text = ["a", "é", "\u{1f600}", '"\\', "\n\u0000"][random(5)] as string;
      events.push({ type, block: grown.block, text } as Event);
    } else {
      if (grown.kind === "reasoning" && random(2))
        events.push({ type: "opaque", block: grown.block, opaque: signature });
      events.push({ type: "close", block: grown.block });
      open.splice(at, 1);
    }
  }
  return [...events, ...[0, 1].map((choice): Event => ({ type: "finish", choice, reason: "stop" })), { type: "end" }];
}

t.test("of any answer the SDK accumulates the stream to what is written whole", async (t) => {
  const random = dice(3);
  const different: string[] = [];
  for (let round = 0; round < 200; round++) {
    const events = randomAnswer(random);
    const same = isDeepStrictEqual(withoutThoughts(await accumulated(events)), withoutThoughts(whole(events)));
    if (!same) different.push(JSON.stringify(events));
  }
  t.same(different, []);
});

t.test("very many thoughts, some without text, are written in linear time", async (t) => {
  const count = 100_000;
  const thought = (block: number, text: string): Event[] => [
    { type: "open", block, choice: 0, kind: "reasoning", redacted: text === "" },
    { type: "text", block, text },
    { type: "close", block },
  ];
  const events = Array.from({ length: 2 * count }, (_, n) => thought(n, n < count ? "" : "hm")).flat();
  runLinear(() => {
    const deltas = chunks([start, ...events, ...end()]).map(({ choices }) => choices[0]?.delta["reasoning_content"]);
    t.same(deltas.filter((text) => text).slice(0, 2), ["hm", "\n\nhm"]);
  });
});
