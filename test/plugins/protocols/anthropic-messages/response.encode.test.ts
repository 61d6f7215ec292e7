import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import t from "tap";
import { MessageWriter } from "../../../../plugins/protocols/anthropic-messages/response.encode.writers.ts";
import { type Usage } from "../../../../src/core/usage.ts";
import { type Event, type FinishReason, type Opaque } from "../../../../src/translation/events.ts";
import { TextKey } from "../../../../src/translation/ids.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { randomAnswer } from "../../../support/random-answers.ts";
import { recorded } from "../../../support/recorded.ts";
import { sample } from "../../../support/sample.ts";
import {
  answer,
  context,
  events,
  frames,
  NAME,
  open,
  question,
  read,
  SOURCE,
  sse,
  streamed,
  translation,
  whole,
} from "./speaking.ts";

const say = (block: number, text: string, part?: number): Event => ({
  type: "text",
  block,
  text,
  ...(part === undefined ? {} : { part }),
});
const give = (block: number, text: string): Event => ({ type: "arguments", block, text });
const close = (block: number): Event => ({ type: "close", block });
const opaque = { protocol: "acme", kind: "sig", data: "STATE" };
const outline = (found: JsonObject[]) =>
  found.map(({ type, index, delta, content_block: block }) =>
    [type, index, (delta as JsonObject)?.["type"] ?? (block as JsonObject)?.["type"]]
      .filter((each) => each !== undefined)
      .join(" "),
  );

/** What the vendor's SDK adds a stream up to. */
async function accumulated(body: string): Promise<JsonObject> {
  const fetch = async () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const client = new Anthropic({ apiKey: "key", maxRetries: 0, fetch });
  const ask = { model: "m", max_tokens: 1, messages: [{ role: "user" as const, content: "x" }] };
  const { usage, ...message } = await client.messages.stream(ask).finalMessage();
  return JSON.parse(JSON.stringify({ ...message, usage })) as JsonObject;
}

const bare = ({ _request_id: _, parsed_output: __, ...message }: JsonObject): JsonObject => ({
  ...message,
  content: (message["content"] as JsonObject[]).map(({ parsed_output: _, ...block }) => block),
});

/** Every member of `Usage` that may be null [S: 1.14]; counts never are in the vendor's answers. */
const UNKNOWN = {
  cache_creation: null,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  inference_geo: null,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: null,
  speed: null,
};

t.test("an answer of another vendor becomes a message with the gateway's ids", async (t) => {
  const found = frames(answer(open(0, { kind: "text" }), say(0, "Hi"), close(0)));
  t.same(found, [
    {
      type: "message_start",
      message: {
        id: "msg_gen-1",
        type: "message",
        role: "assistant",
        model: "asked",
        content: [],
        stop_reason: null,
        stop_sequence: null,
        stop_details: null,
        usage: { ...UNKNOWN, input_tokens: 33, output_tokens: 0 },
      },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } },
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null, stop_details: null },
      usage: {
        input_tokens: 10,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens_details: null,
        server_tool_use: null,
        output_tokens: 5,
      },
    },
    { type: "message_stop" },
  ]);
  t.same(whole(answer())["usage"], { ...UNKNOWN, input_tokens: 10, output_tokens: 5 });
  t.same(
    streamed(answer()).map(({ name }) => name),
    ["message_start", "message_delta", "message_stop"],
  );
});

t.test("interleaved blocks are written one after the other", async (t) => {
  const found = frames(
    answer(
      open(0, { kind: "text" }),
      open(1, { kind: "tool_call", id: "a", name: "f" }),
      open(2, { kind: "tool_call", id: "b", name: "g" }),
      give(2, '{"x"'),
      say(0, "Hi"),
      give(1, "{}"),
      close(0),
      give(2, ":1}"),
      close(2),
      close(1),
    ),
  );
  t.same(outline(found), [
    "message_start",
    "content_block_start 0 text",
    "content_block_delta 0 text_delta",
    "content_block_stop 0",
    "content_block_start 1 tool_use",
    "content_block_delta 1 input_json_delta",
    "content_block_delta 1 input_json_delta",
    "content_block_stop 1",
    "content_block_start 2 tool_use",
    "content_block_delta 2 input_json_delta",
    "content_block_delta 2 input_json_delta",
    "content_block_delta 2 input_json_delta",
    "content_block_stop 2",
    "message_delta",
    "message_stop",
  ]);
});

t.test("the memory for waiting blocks is limited", async (t) => {
  const piece = "x".repeat(1024 * 1024);
  const told = answer(
    open(0, { kind: "text" }),
    open(1, { kind: "text" }),
    ...Array.from({ length: 9 }, () => say(1, piece)),
  );
  t.throws(() => streamed(told), { code: "upstream_invalid" });
  const cited: Event = { type: "citation", block: 1, citation: { url: "https://a", quote: "q".repeat(1000) } };
  const sides = [open(0, { kind: "text" }), open(1, { kind: "text" })];
  for (const [each, count] of [
    [say(1, "x"), 500_000],
    [cited, 10_000],
  ] as const)
    t.throws(() => streamed([...answer().slice(0, 1), ...sides, ...Array.from({ length: count }, () => each)]), {
      code: "upstream_invalid",
      message: /8 MiB/,
    });
  const many = Array.from({ length: 70_000 }, (_, n) => open(n + 1, { kind: "text" }));
  t.throws(() => streamed(answer(open(0, { kind: "text" }), ...many)), { code: "upstream_invalid" });
  // Whatever an event consists of counts.
  const long = "x".repeat(10_000);
  const state: Event = { type: "opaque", block: 1, opaque: { ...opaque, extra: { parts: [long] } } };
  const titled: Event = { type: "citation", block: 1, citation: { title: long } };
  const likely: Event = { type: "text", block: 1, text: "x", logprobs: [{ token: long }] };
  for (const each of [state, titled, likely])
    t.throws(() => streamed(answer(...sides, ...Array.from({ length: 900 }, () => each))), { message: /8 MiB/ });
  const carried = Array.from({ length: 900 }, (_, n) =>
    open(n + 1, { kind: "text", opaque: { ...opaque, data: long } }),
  );
  t.throws(() => streamed(answer(open(0, { kind: "text" }), ...carried)), { message: /8 MiB/ });
  // What has had its turn does not count.
  const turns = [2, 4, 6].flatMap((n) => [
    open(n, { kind: "text" }),
    open(n + 1, { kind: "text" }),
    say(n + 1, "x".repeat(4_000_000)),
    close(n),
    close(n + 1),
  ]);
  t.equal((whole(answer(...turns))["content"] as unknown[]).length, 3);
});

t.test("the input is estimated from the request, which is not encoded for that", async (t) => {
  const asked = read(question({ messages: [{ role: "user", content: "word ".repeat(3000) }] }));
  const without = {
    ...context({ conversation: asked }),
    get request(): JsonObject {
      throw new Error("The request is parsed again.");
    },
  };
  const { usage } = frames(answer(), without)[0]?.["message"] as { usage: { input_tokens: number } };
  t.ok(usage.input_tokens >= 5000 && usage.input_tokens < 5100, String(usage.input_tokens));
});

t.test("a tier and the cache write details are written also where they arrive late", async (t) => {
  const usage: Usage = {
    in: { total: 60, write: { "5m": 30, "1h": 20 } },
    out: { total: 7 },
    tier: "priority",
    raw: {},
  };
  const told = answer().map((event): Event => (event.type === "usage" ? { ...event, usage } : event));
  const late = {
    cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 20 },
    service_tier: "priority",
  };
  t.match(
    frames(told).find(({ type }) => type === "message_delta"),
    { usage: late },
  );
  t.match(whole(told)["usage"], late);
});

t.test("a call without arguments is an empty object, others keep their exact text", async (t) => {
  const call = (...given: Event[]) => answer(open(0, { kind: "tool_call", id: "a", name: "f" }), ...given, close(0));
  t.same(whole(call()).content, [use("a")]);
  t.match(whole(call()), { stop_reason: "tool_use" });
  t.same(frames(call()).filter(({ type }) => type === "content_block_delta").length, 1);
  const args = '{"a": 1.0, "b":12345678901234567890}';
  t.ok(runAtOnce(translation.response.encode(call(give(0, args)), context())).includes(`"input":${args}`));
  t.match(frames(call(give(0, args)))[3], { delta: { partial_json: args } });
  t.throws(() => frames(call(give(0, "[1"))), { code: "upstream_invalid" });
  t.throws(() => whole(call(give(0, "[1"))), { code: "upstream_invalid" });
});

t.test("a whole answer leaves out a call that its end truncated, and declares it", async (t) => {
  const text = [open(0, { kind: "text" }), say(0, "Hi"), close(0)];
  const cut = [open(1, { kind: "tool_call", id: "a", name: "f" }), give(1, '{"x":"unfin'), close(1)];
  for (const [reason, word] of [
    ["length", "max_tokens"],
    ["content_filter", "refusal"],
  ] as const) {
    const told = answer(...text, ...cut).map(
      (event): Event => (event.type === "finish" ? { ...event, reason } : event),
    );
    const wanted = context();
    const message = whole(told, wanted);
    t.match(message, { stop_reason: word });
    t.match(message["content"], [{ type: "text", text: "Hi" }]);
    t.equal((message["content"] as unknown[]).length, 1);
    t.same(wanted.lost, ["content.tool_use"]);
  }
});

t.test("uncounted input is an estimate at first, and absent at last", async (t) => {
  const told = answer(open(0, { kind: "text" }), say(0, "Hi"), close(0)).filter(({ type }) => type !== "usage");
  const [first] = frames(told);
  t.ok(Number(((first?.["message"] as JsonObject)["usage"] as JsonObject)["input_tokens"]) > 0);
  t.match(whole(told)["usage"], { input_tokens: 0, output_tokens: 0 });
  t.match(await accumulated(sse(streamed(told))), { usage: { input_tokens: 0, output_tokens: 0 } });
});

t.test("reasoning carries its state, in thinking or redacted blocks, and no empty one is written", async (t) => {
  const told = answer(
    open(0, { kind: "reasoning", summary: true }),
    say(0, "One", 0),
    say(0, "Two", 1),
    { type: "opaque", block: 0, opaque },
    close(0),
    open(1, { kind: "reasoning" }),
    { type: "opaque", block: 1, opaque },
    close(1),
    open(2, { kind: "reasoning", redacted: true }),
    { type: "opaque", block: 2, opaque: { ...opaque, data: "OLD" } },
    { type: "opaque", block: 2, opaque },
    close(2),
    open(3, { kind: "reasoning" }),
    say(3, "unsigned"),
    close(3),
    open(4, { kind: "reasoning" }),
    close(4),
  );
  t.same(whole(told)["content"], [
    { type: "thinking", thinking: "One\n\nTwo", signature: "gw1.sig.STATE" },
    { type: "thinking", thinking: "", signature: "gw1.sig.STATE" },
    { type: "redacted_thinking", data: "gw1.sig.STATE" },
    { type: "thinking", thinking: "unsigned", signature: "" },
  ]);
});

t.test("state on a call or a text is sent in a block before it", async (t) => {
  const told = answer(
    open(0, { kind: "tool_call", id: "call:1", name: "f", opaque }),
    close(0),
    open(1, { kind: "text", opaque }),
    say(1, "Hi"),
    close(1),
    open(2, { kind: "text", opaque }),
    close(2),
  );
  const [carrier, call, ...rest] = whole(told)["content"] as JsonObject[];
  t.match(call, { type: "tool_use", id: /^[a-zA-Z0-9_-]{1,64}$/ });
  t.same(carrier, { type: "redacted_thinking", data: `gw1.sig.STATE.on-${call?.["id"]}` });
  t.same(rest, [
    { type: "redacted_thinking", data: "gw1.sig.STATE.on-text" },
    { type: "text", text: "Hi" },
  ]);
});

t.test("a call's state is the signature of thoughts directly before it that have none of their own", async (t) => {
  const origin = { ...opaque, data: "" };
  const thoughts = (state: typeof opaque): Event[] => [
    open(0, { kind: "reasoning" }),
    say(0, "So"),
    { type: "opaque", block: 0, opaque: state },
    close(0),
  ];
  const call: Event[] = [open(2, { kind: "tool_call", id: "a", name: "f", opaque }), close(2)];
  const text: Event[] = [open(1, { kind: "text" }), say(1, "Hi"), close(1)];
  const thinking = (signature: string) => ({ type: "thinking", thinking: "So", signature });
  const carrier = { type: "redacted_thinking", data: "gw1.sig.STATE.on-a" };
  const used = use("a");
  const cases: readonly (readonly [Event[], JsonObject[]])[] = [
    [
      [...thoughts(origin), ...call],
      [thinking("gw1.sig.STATE.on-a"), used],
    ],
    [
      [...thoughts(opaque), ...call],
      [thinking("gw1.sig.STATE"), carrier, used],
    ],
    [
      [...thoughts(origin), ...text, ...call],
      [thinking("gw1.sig."), { type: "text", text: "Hi" }, carrier, used],
    ],
    [thoughts(origin), [thinking("gw1.sig.")]],
  ];
  for (const [events, content] of cases) {
    t.same(whole(answer(...events))["content"], content);
    t.match(await accumulated(sse(streamed(answer(...events)))), { content });
  }
});

t.test(
  "state on an empty text after the last one is stored for that text: the last block stays the text",
  async (t) => {
    const kept: unknown[] = [];
    const told = answer(
      open(0, { kind: "text" }),
      say(0, "Snow"),
      say(0, "."),
      close(0),
      open(1, { kind: "text", opaque }),
      close(1),
    );
    const text = runAtOnce(
      translation.response.encode(told, context({ remember: (key, state) => kept.push([key, state]) })),
    );
    t.same((JSON.parse(text) as JsonObject)["content"], [{ type: "text", text: "Snow." }]);
    t.match(kept, [[new RegExp(` ${new TextKey().add("Snow.")}$`), { ...opaque, on: "text" }]]);
    const alone = whole(answer(open(0, { kind: "text", opaque }), close(0)));
    t.match(alone["content"], [{ type: "redacted_thinking" }], "without a text there is no key to store it under");
  },
);

t.test("no state on a text is lost, wherever the text is", async (t) => {
  const kept: string[] = [];
  const content = (...blocks: Event[]) => {
    kept.length = 0;
    const remember = (key: string) => kept.push(key);
    return (JSON.parse(runAtOnce(translation.response.encode(answer(...blocks), context({ remember })))) as JsonObject)[
      "content"
    ];
  };
  const empty = (block: number, data: string): Event[] => [
    open(block, { kind: "text", opaque: { ...opaque, data } }),
    close(block),
  ];
  const carrier = (data: string) => ({ type: "redacted_thinking", data: `gw1.sig.${data}.on-text` });
  const uses = [open(0, { kind: "text" }), say(0, "Snow."), close(0)];
  const call = [open(1, { kind: "tool_call", id: "a", name: "f" }), close(1)];
  const used = use("a");
  t.same(
    content(...uses, ...call, ...empty(2, "A")),
    [{ type: "text", text: "Snow." }, used, carrier("A")],
    "nothing is stored for a text that is not the last block",
  );
  t.same(kept, []);
  t.same(content(...uses, ...empty(1, "A"), ...empty(2, "B")), [
    { type: "text", text: "Snow." },
    carrier("A"),
    carrier("B"),
  ]);
  t.same(kept, []);
  t.same(content(...empty(0, "A"), open(1, { kind: "text", opaque }), say(1, "Snow."), close(1)), [
    carrier("A"),
    carrier("STATE"),
    { type: "text", text: "Snow." },
  ]);
});

/** The content for a client that has not requested thinking. Nothing may be remembered for it. */
const unasked = (...blocks: Event[]): JsonObject[] => {
  const wanted = context({
    conversation: read(question()),
    remember: () => {
      throw new Error("State is kept by this gateway alone.");
    },
  });
  const content = whole(answer(...blocks), wanted)["content"] as JsonObject[];
  const starts = frames(answer(...blocks), wanted).flatMap(({ content_block }) => content_block ?? []);
  t.same(
    starts.map((block) => (block as JsonObject)["type"]),
    content.map(({ type }) => type),
    "streamed and whole",
  );
  return content;
};
const thought = (block: number, data: string): Event[] => [
  open(block, { kind: "reasoning", summary: true }),
  say(block, "Hm."),
  { type: "opaque", block, opaque: { ...opaque, data } },
  close(block),
];
const said = (block: number, text: string, state?: object): Event[] => [
  open(block, { kind: "text", ...(state && { opaque: state }) }),
  say(block, text),
  close(block),
];
const called = (block: number, id: string, state?: object): Event[] => [
  open(block, { kind: "tool_call", id, name: "f", ...(state && { opaque: state }) }),
  close(block),
];
/** A call, with all members that the SDKs' types require. */
const use = (id: string) => ({ type: "tool_use", id, name: "f", input: {}, caller: { type: "direct" } });
const hidden = (data: string) => ({ type: "redacted_thinking", data: `gw1.sig.${data}` });

t.test("an answer without calls has no trace of thinking for a client that has not requested it", async (t) => {
  const text = { type: "text", text: "Hi" };
  t.same(unasked(...thought(0, "A"), ...said(1, "Hi")), [text]);
  t.same(unasked(...said(0, "Hi", opaque), open(1, { kind: "text", opaque }), close(1)), [text]);
  t.same(unasked(...said(0, "Hi"), ...thought(1, "A")), [text]);
  for (const thinking of [{ type: "disabled" }, undefined]) {
    const conversation = read(question({ thinking, output_config: { effort: "high" } }));
    t.same(whole(answer(...thought(0, "A"), ...said(1, "Hi")), context({ conversation }))["content"], [text]);
  }
  for (const thinking of [{ type: "adaptive" }, { type: "enabled", budget_tokens: 1024 }]) {
    const conversation = read(question({ thinking }));
    t.match(whole(answer(...thought(0, "A"), ...said(1, "Hi")), context({ conversation }))["content"], [
      { type: "thinking", thinking: "Hm." },
      text,
    ]);
  }
});

t.test("with calls the state stands between the texts and the call, with its place", async (t) => {
  const text = { type: "text", text: "Hi" };
  t.same(unasked(...thought(0, "A"), ...called(1, "a")), [hidden("A"), use("a")]);
  t.same(unasked(...thought(0, "A"), ...said(1, "Hi"), ...called(2, "a", opaque)), [
    text,
    hidden("A.on-reasoning"),
    hidden("STATE.on-a"),
    use("a"),
  ]);
  t.same(unasked(...said(0, "Hi"), ...thought(1, "A"), ...called(2, "a"), ...thought(3, "B"), ...called(4, "b")), [
    text,
    hidden("A"),
    use("a"),
    hidden("B"),
    use("b"),
  ]);
  t.same(unasked(...said(0, "Hi", opaque), ...called(1, "a")), [text, hidden("STATE.on-text"), use("a")]);
  const unsigned: Event[] = [
    open(0, { kind: "reasoning" }),
    say(0, "Hm."),
    { type: "opaque", block: 0, opaque: { ...opaque, kind: "unsigned", data: "" } },
    close(0),
  ];
  t.same(unasked(...unsigned, ...called(1, "a")), [use("a")], "no state of its vendor's");
});

t.test("state that comes after the last call is written after it, but not after a text", async (t) => {
  const late: Event[] = [
    open(1, { kind: "reasoning", redacted: true }),
    { type: "opaque", block: 1, opaque: { ...opaque, on: { call: "a" } } },
    close(1),
  ];
  t.same(unasked(...called(0, "a"), ...late), [use("a"), hidden("STATE.on-a")]);
  t.same(unasked(...called(0, "a"), ...said(1, "Hi", opaque)), [use("a"), { type: "text", text: "Hi" }]);
});

t.test("of several answers the first one is written, with its own end", async (t) => {
  const wanted = context();
  const told = answer(open(0, { kind: "text" }), say(0, "Hi"), close(0), {
    ...open(1, { kind: "text" }),
    choice: 1,
  } as Event).toSpliced(-3, 0, { type: "finish", choice: 1, reason: "length" });
  t.match(whole(told, wanted), { content: [{ text: "Hi" }], stop_reason: "end_turn" });
  t.same(wanted.lost, ["choices.1"]);
});

t.test("an answer with calls ends with them where its vendor uses another reason", async (t) => {
  for (const [reason, word] of [
    ["stop", "tool_use"],
    ["other", "tool_use"],
    ["length", "max_tokens"],
    ["malformed_call", "end_turn"],
  ] as const) {
    const told = answer(open(0, { kind: "tool_call", id: "a", name: "f" }), close(0));
    t.match(
      whole(told.map((event) => (event.type === "finish" ? { ...event, reason } : event))),
      { stop_reason: word },
      reason,
    );
  }
});

t.test("a refusal is text, and the message ends as one", async (t) => {
  const told = answer(open(0, { kind: "refusal" }), say(0, "I will not."), close(0));
  t.match(whole(told), {
    content: [{ type: "text", text: "I will not." }],
    stop_reason: "refusal",
    stop_details: { type: "refusal" },
  });
});

t.test("each end has its stop reason", async (t) => {
  const ends: [FinishReason, string][] = [
    ["stop", "end_turn"],
    ["length", "max_tokens"],
    ["tool_calls", "tool_use"],
    ["content_filter", "refusal"],
    ["refusal", "refusal"],
    ["pause", "pause_turn"],
    ["context_window", "model_context_window_exceeded"],
    ["malformed_call", "end_turn"],
    ["other", "end_turn"],
  ];
  for (const [reason, word] of ends) {
    const told = answer().map((event) => (event.type === "finish" ? { ...event, reason, message: "Why" } : event));
    t.match(whole(told), { stop_reason: word, stop_sequence: null }, reason);
    if (word === "refusal") t.match(whole(told), { stop_details: { explanation: "Why" } });
  }
  const told = answer().map(
    (event): Event => (event.type === "finish" ? { ...event, reason: "stop_sequence", stopSequence: "END" } : event),
  );
  t.match(whole(told), { stop_reason: "stop_sequence", stop_sequence: "END" });
});

t.test("a citation has the origin of the state before it: no other provider gets it back", async (t) => {
  const sealed: Opaque[] = [];
  const wanted = context({ seal: (opaque) => String(sealed.push(opaque)) });
  const state: Opaque = { protocol: "acme", account: "them", model: "m", kind: "encrypted", data: "raw" };
  const told = answer(
    open(0, { kind: "reasoning" }),
    { type: "opaque", block: 0, opaque: state },
    close(0),
    open(1, { kind: "text" }),
    say(1, "Hi"),
    { type: "citation", block: 1, citation: { url: "https://a" } },
    close(1),
  );
  whole(told, wanted);
  t.same(sealed, [state, { ...state, kind: "citation", data: "" }]);
});

t.test("citations with a URL are written, everything else that does not fit is declared", async (t) => {
  const wanted = context();
  const told = answer(
    open(0, { kind: "text" }),
    say(0, "Hi"),
    { type: "citation", block: 0, citation: { url: "https://a", title: "A" } },
    { type: "citation", block: 0, citation: { title: "nowhere" } },
    close(0),
    open(1, { kind: "media", media: "image" }),
    { type: "media", block: 1, base64: "iVBO" },
    close(1),
    open(2, { kind: "server", name: "search_call" }),
    close(2),
    { type: "unmapped", path: "grounding" },
  );
  t.same(whole(told, wanted)["content"], [
    {
      type: "text",
      text: "Hi",
      citations: [
        {
          type: "web_search_result_location",
          cited_text: "",
          url: "https://a",
          title: "A",
          encrypted_index: "gw1.citation.",
        },
      ],
    },
  ]);
  t.same(wanted.lost, ["content.citations", "content.media", "content.search_call", "grounding"]);
});

t.test(
  "cache-read and cache-creation tokens are subtracted from the input, and added again by the decoder",
  async (t) => {
    const usage: Usage = {
      in: { total: 160, cached: 100, write: { "5m": 30, "1h": 20 } },
      out: { total: 7, reasoning: 3 },
      raw: {},
    };
    const told = answer().map((event): Event => (event.type === "usage" ? { ...event, usage } : event));
    const message = whole(told.map((event) => (event.type === "start" ? { ...event, usage } : event)));
    t.match(message["usage"], {
      input_tokens: 10,
      cache_read_input_tokens: 100,
      cache_creation_input_tokens: 50,
      cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 20 },
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 3 },
    });
    const again = runAtOnce(translation.response.decode(Buffer.from(JSON.stringify(message)), SOURCE)).find(
      ({ type }) => type === "usage",
    );
    t.match(again, { usage: { in: usage.in, out: usage.out } });
  },
);

t.test("a vendor that reports only cache reads has written nothing, throughout the stream", async (t) => {
  const usage: Usage = { in: { total: 2168, cached: 2000 }, out: { total: 1 }, raw: {} };
  const told = answer().map(
    (event): Event => (event.type === "usage" || event.type === "start" ? { ...event, usage } : event),
  );
  const counted = { cache_creation_input_tokens: 0, cache_read_input_tokens: 2000 };
  t.match(whole(told)["usage"], counted);
  const frame = (events: readonly Event[], name: string) =>
    JSON.parse(streamed(events).find((each) => each.name === name)?.data ?? "{}") as JsonObject;
  t.match(frame(told, "message_start"), { message: { usage: counted } });
  t.match(frame(told, "message_delta"), { usage: counted });
  t.notHas(frame(answer(), "message_delta")["usage"], "cache_creation_input_tokens");
});

t.test("a token that a vendor counts as read and as written does not increase the input", async (t) => {
  const usage: Usage = { in: { total: 2168, cached: 2161, write: { unsplit: 2161 } }, out: { total: 1 }, raw: {} };
  const told = answer().map((event): Event => (event.type === "usage" ? { ...event, usage } : event));
  t.match(whole(told)["usage"], { input_tokens: 0, cache_read_input_tokens: 2161, cache_creation_input_tokens: 7 });
});

t.test("a block that the decoder left open is closed before the end", async (t) => {
  const found = frames(answer(open(0, { kind: "text" }), say(0, "Hi"), open(1, { kind: "text" }), say(1, "Ho")));
  t.same(
    outline(found).filter((line) => line.includes("stop ")),
    ["content_block_stop 0", "content_block_stop 1"],
  );
});

t.test("the SDK accumulates a stream into the same message that is written whole", async (t) => {
  const faults: number[] = [];
  for (let seed = 1; seed <= 120; seed++) {
    const told = randomAnswer(seed);
    const sum = bare(await accumulated(sse(streamed(told))));
    if (JSON.stringify(sorted(sum)) !== JSON.stringify(sorted(whole(told)))) faults.push(seed);
  }
  t.same(faults, []);
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort()
      .map(([name, each]) => [name, sorted(each)]),
  );
}

t.test("the SDK accepts every recorded stream that was decoded and encoded", async (t) => {
  const streams = sample(recorded("anthropic")).filter(({ kinds, status }) => kinds.includes("stream") && status < 300);
  const refused: string[] = [];
  for (const { id, body } of streams) {
    const read = events(body.split(/(?<=\r?\n\r?\n)/));
    const last = read.at(-1)?.type;
    const role = last === "end" ? (await accumulated(sse(streamed(read))))["role"] : "assistant";
    if (role !== "assistant" || (last !== "end" && last !== "error")) refused.push(id);
  }
  t.same(refused, [], `${streams.length} streams`);
});

t.test("the vendor's own state is sent to the client and returns unchanged", async (t) => {
  const signature = { protocol: NAME, kind: "signature", data: "EqQB+/==" };
  const told = answer(
    open(0, { kind: "reasoning" }),
    say(0, "Hm."),
    { type: "opaque", block: 0, opaque: signature },
    close(0),
  );
  t.match(whole(told, context({ seal: ({ data }) => data })), {
    content: [{ thinking: "Hm.", signature: "EqQB+/==" }],
  });
});

t.test("a message contains the citations of each block in order, and does not change its input", async (t) => {
  const message = new MessageWriter({ drop() {} });
  const given = { type: "text", text: "", citations: [] };
  message.start({ id: "msg_1" });
  message.open(0, given);
  for (const url of ["https://a", "https://b"]) message.cite(0, { url });
  message.close(0);
  message.open(1, { type: "text", text: "" });
  message.cite(1, { url: "https://c" });
  t.same(message.whole, {
    id: "msg_1",
    content: [
      { type: "text", text: "", citations: [{ url: "https://a" }, { url: "https://b" }] },
      { type: "text", text: "", citations: [{ url: "https://c" }] },
    ],
  });
  t.same(given.citations, []);
});

const KINDS: ReadonlySet<unknown> = new Set(["text", "thinking", "redacted_thinking", "tool_use"]);
const TOKENS = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
const STOPS: ReadonlySet<unknown> = new Set(["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]);

t.test("a recorded message that was decoded and encoded again has the same content", async (t) => {
  const gist = ({ content, stop_reason, usage }: JsonObject, untold: number | null) => ({
    content: (content as JsonObject[])
      .filter(({ type, text }) => KINDS.has(type) && text !== "")
      .map(({ caller: _, citations, ...block }) => ({
        ...block,
        // Those that name no URL cannot be told again.
        cited: ((citations as JsonObject[] | undefined) ?? []).filter(({ url, source }) => url ?? source).length,
      })),
    stop_reason,
    tokens: [usage].map((counts) => TOKENS.map((name) => (counts as JsonObject)[name] ?? untold)),
  });
  const different: string[] = [];
  for (const { id, body, kinds, status } of sample(recorded("anthropic"))) {
    if (kinds.includes("stream") || status >= 300) continue;
    const message = JSON.parse(body) as JsonObject;
    const again = runAtOnce(
      translation.response.encode(
        runAtOnce(translation.response.decode(Buffer.from(body), SOURCE)),
        context({ seal: ({ data }) => data }),
      ),
    );
    // Older messages have no counts of cached and written tokens, which are 0 then.
    const same = isDeepStrictEqual(gist(JSON.parse(again) as JsonObject, null), gist(message, 0));
    if (STOPS.has(message["stop_reason"]) && !same) different.push(id);
  }
  t.same(different, []);
});

t.test("an answer of very many thoughts and texts takes linear time", async (t) => {
  const many = Array.from({ length: 150_000 }, (_, i) => [...thought(2 * i, "A"), ...said(2 * i + 1, "Hi")]).flat();
  const [start, ...end] = answer() as [Event, ...Event[]];
  const wanted = context({ conversation: read(question()) });
  runLinear(() => t.equal((whole([start, ...many, ...end], wanted)["content"] as JsonObject[]).length, 150_000));
});
