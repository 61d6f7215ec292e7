import t from "tap";
import { frameOf } from "../../../../plugins/protocols/gemini/response.candidate.ts";
import type { ResponseContext } from "../../../../src/translation/codec.ts";
import type { Event, Opaque, Opening } from "../../../../src/translation/events.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { answer, partsOf, shown, wished, write } from "./response.wish.ts";

const state: Opaque = { protocol: "other", kind: "signature", data: "abc" };
const SEALED = "gw1.other.signature.abc";
const open = (block: number, opening: Opening): Event => ({ type: "open", block, choice: 0, ...opening });
const close = (block: number): Event => ({ type: "close", block });
const text = (block: number, words: string, more: object = {}): Event => ({
  type: "text",
  block,
  text: words,
  ...more,
});
const call = (block: number, id: string, ...pieces: string[]): Event[] => [
  open(block, { kind: "tool_call", id, name: "f" }),
  ...pieces.map((piece): Event => ({ type: "arguments", block, text: piece })),
  close(block),
];
const parts = (events: readonly Event[], context?: ResponseContext): unknown[] =>
  partsOf(write(answer(events), context)).flat();
const last = (events: readonly Event[], context?: ResponseContext) =>
  (JSON.parse(write(events, context).at(-1)?.data ?? "") as { candidates: Record<string, unknown>[] }).candidates[0] ??
  {};

t.test("a text leaves at once, piece by piece; the last frame has a text without words", async (t) => {
  const out = write(answer([open(0, { kind: "text" }), text(0, "Hel"), text(0, "lo"), close(0)]));
  t.strictSame(partsOf(out), [[{ text: "Hel" }], [{ text: "lo" }], [{ text: "" }]]);
});

t.test("thoughts are shown to clients that asked for them", async (t) => {
  const events = [open(0, { kind: "reasoning" }), text(0, "Hm"), close(0)];
  t.strictSame(parts(events, shown()), [{ text: "Hm", thought: true }, { text: "" }]);
  t.strictSame(parts(events), [{ text: "" }]);
  t.strictSame(parts(events, wished({ reasoning: { show: false } })), [{ text: "" }]);
});

t.test("parts of a summary are paragraphs", async (t) => {
  const events = [
    open(0, { kind: "reasoning", summary: true }),
    text(0, "a", { part: 0 }),
    text(0, "b", { part: 0 }),
    text(0, "c", { part: 1 }),
    close(0),
  ];
  t.strictSame(
    parts(events, shown()).slice(0, -1),
    ["a", "b", "\n\nc"].map((words) => ({ text: words, thought: true })),
  );
});

t.test("state of a thought travels on an empty thought, shown or not", async (t) => {
  const events: Event[] = [
    open(0, { kind: "reasoning" }),
    text(0, "Hm"),
    { type: "opaque", block: 0, opaque: { ...state, data: "early" } },
    { type: "opaque", block: 0, opaque: state },
    close(0),
    open(1, { kind: "text" }),
    text(1, "A"),
    close(1),
  ];
  const signed = { text: "", thought: true, thoughtSignature: SEALED };
  t.strictSame(parts(events), [signed, { text: "A" }, { text: "" }]);
  t.strictSame(parts(events, shown()), [{ text: "Hm", thought: true }, signed, { text: "A" }, { text: "" }]);
  t.strictSame(parts(events.slice(0, 5)), [signed]);
});

t.test("state before a call sits on the call too, for clients that send no thoughts back", async (t) => {
  const events: Event[] = [
    open(0, { kind: "reasoning", redacted: true }),
    { type: "opaque", block: 0, opaque: state },
    close(0),
    ...call(1, "one", "{}"),
    ...call(2, "two", "{}"),
  ];
  const signed = { functionCall: { id: "one", name: "f", args: {} }, thoughtSignature: SEALED };
  const plain = { functionCall: { id: "two", name: "f", args: {} } };
  t.strictSame(parts(events), [signed, plain]);
  t.strictSame(parts(events, shown()), [{ text: "", thought: true, thoughtSignature: SEALED }, signed, plain]);
});

t.test("a call's own state stays on the call, and a thought's before it on the thought", async (t) => {
  const own = { protocol: "gemini", kind: "thoughtSignature", data: "own" };
  const events: Event[] = [
    open(0, { kind: "reasoning" }),
    { type: "opaque", block: 0, opaque: state },
    close(0),
    open(1, { kind: "tool_call", id: "one", name: "f", opaque: own }),
    close(1),
  ];
  t.strictSame(parts(events), [
    { text: "", thought: true, thoughtSignature: SEALED },
    { functionCall: { id: "one", name: "f", args: {} }, thoughtSignature: "gw1.gemini.thoughtSignature.own" },
  ]);
});

t.test("state on a text sits on its first piece, or on a text without words", async (t) => {
  t.strictSame(parts([open(0, { kind: "text", opaque: state }), text(0, "A"), text(0, "B"), close(0)]), [
    { text: "A", thoughtSignature: SEALED },
    { text: "B" },
    { text: "" },
  ]);
  t.strictSame(parts([open(0, { kind: "text", opaque: state }), close(0)])[0], { text: "", thoughtSignature: SEALED });
});

t.test("a call is written whole with the very text of its arguments, and ends with the answer", async (t) => {
  const out = write(answer(call(0, "c1", '{"a": 1.0,', '\n "b":12345678901234567890}')));
  t.equal(out.length, 1);
  t.match(out[0]?.data, '{"id":"c1","name":"f","args":{"a": 1.0,  "b":12345678901234567890}}');
  t.match(parts(call(0, "c1", "")), [{ functionCall: { args: {} } }]);
  t.match(parts(call(0, "c1")), [{ functionCall: { args: {} } }]);
});

t.test("a call before a text leaves before it", async (t) => {
  const out = write(answer([...call(0, "a", "{}"), open(1, { kind: "text" }), text(1, "x"), close(1)]));
  t.match(partsOf(out), [[{ functionCall: { id: "a" } }], [{ text: "x" }], [{ text: "" }]]);
});

t.test("arguments that are no object are the provider's fault", async (t) => {
  for (const wrong of ["[1]", '"x"', "1", "null", '{"a":', "{} {}"])
    t.throws(() => write(answer(call(0, "c1", wrong))), { code: "upstream_invalid" }, wrong);
});

t.test("a call that the end of the answer cut is left out, and said so", async (t) => {
  for (const [reason, word] of [
    ["length", "MAX_TOKENS"],
    ["content_filter", "SAFETY"],
  ] as const) {
    const cut = [open(0, { kind: "text" }), text(0, "Hi"), close(0), ...call(1, "c1", '{"a":"unfin')];
    const told = answer(cut).map((event): Event => (event.type === "finish" ? { ...event, reason } : event));
    const lost: string[] = [];
    t.match(last(told, wished({}, lost)), { finishReason: word });
    t.notMatch(JSON.stringify(write(told)), /functionCall/);
    t.same(lost, ["candidates.0.content.functionCall"]);
  }
});

t.test("blocks that are open at a time are written one after the other", async (t) => {
  const [openA, argsA, closeA] = call(0, "a", '{"n":0}') as [Event, Event, Event];
  const [openB, argsB, closeB] = call(1, "b", '{"n":1}') as [Event, Event, Event];
  const third = [open(2, { kind: "text" }), text(2, "x"), close(2)];
  t.match(parts([openA, openB, ...third, argsB, argsA, closeB, closeA]), [
    { functionCall: { id: "a", args: { n: 0 } } },
    { functionCall: { id: "b", args: { n: 1 } } },
    { text: "x" },
    { text: "" },
  ]);
});

t.test("what nobody closed is closed at the end", async (t) => {
  const [opened, args] = call(0, "a", "{}") as [Event, Event];
  t.match(parts([opened, args, open(1, { kind: "text" }), text(1, "x")]), [
    { functionCall: { id: "a" } },
    { text: "x" },
    { text: "" },
  ]);
});

t.test("media are data or files", async (t) => {
  const media = (more: object): Event[] => [
    open(0, { kind: "media", media: "image", mime: "image/png" }),
    { type: "media", block: 0, ...more },
    close(0),
  ];
  t.strictSame(parts(media({ base64: "iVBO" }))[0], { inlineData: { mimeType: "image/png", data: "iVBO" } });
  t.strictSame(parts(media({ url: "https://a" }))[0], { fileData: { mimeType: "image/png", fileUri: "https://a" } });
});

t.test("server tools of this protocol are written as they came, those of others are said to be lost", async (t) => {
  const lost: string[] = [];
  const server = (json: string): Event[] => [
    open(0, { kind: "server", name: "search", result: false }),
    { type: "server", block: 0, json: new RawJson(json) },
    close(0),
  ];
  t.strictSame(parts(server('{"executableCode":{"code":"1"},\n"thoughtSignature":"s"}'), wished({}, lost))[0], {
    executableCode: { code: "1" },
    thoughtSignature: "s",
  });
  t.strictSame(lost, []);
  t.strictSame(parts(server('{"type":"server_tool_use"}'), wished({}, lost)), [{ text: "" }]);
  t.strictSame(lost, ["candidates.0.content.search"]);
});

t.test("a refusal is a text that the filter ended", async (t) => {
  const candidate = last(answer([open(0, { kind: "refusal" }), text(0, "I will not."), close(0)]));
  t.match(candidate, { finishReason: "SAFETY" });
  t.match(parts([open(0, { kind: "refusal" }), text(0, "I will not."), close(0)]), [
    { text: "I will not." },
    { text: "" },
  ]);
});

t.test("an answer that was filtered before its first word has no content", async (t) => {
  const filtered: Event = { type: "finish", choice: 0, reason: "content_filter", message: "Not this." };
  t.strictSame(last(answer([], filtered)), { index: 0, finishReason: "SAFETY", finishMessage: "Not this." });
  t.match(last(answer([open(0, { kind: "text" }), text(0, "A"), close(0)], filtered)), {
    content: { parts: [{ text: "" }] },
  });
});

t.test("a paused turn is said to be lost", async (t) => {
  const lost: string[] = [];
  t.match(last(answer([], { type: "finish", choice: 0, reason: "pause" }), wished({}, lost)), { finishReason: "STOP" });
  t.strictSame(lost, ["finishReason"]);
});

t.test("citations point into the text as clients join it, over its blocks", async (t) => {
  const cite = (block: number, more: object = {}): Event => ({
    type: "citation",
    block,
    citation: { url: "https://a", ...more },
  });
  const events = [
    open(0, { kind: "text" }),
    text(0, "ü"),
    close(0),
    open(1, { kind: "text" }),
    cite(1),
    text(1, "b"),
    text(1, "c"),
    close(1),
    ...call(2, "a"),
    open(3, { kind: "text" }),
    text(3, "def"),
    cite(3, { start: 1, end: 2 }),
    close(3),
  ];
  t.strictSame(last(answer(events))["groundingMetadata"], {
    groundingChunks: [{ web: { uri: "https://a" } }],
    groundingSupports: [
      { segment: { startIndex: 2, endIndex: 4, text: "bc" }, groundingChunkIndices: [0] },
      { segment: { partIndex: 2, startIndex: 1, endIndex: 2, text: "e" }, groundingChunkIndices: [0] },
    ],
  });
});

t.test("places count on over the blocks of a part, whatever stood between them", async (t) => {
  const uses = (block: number, words: string, ...citations: object[]): Event[] => [
    open(block, { kind: "text" }),
    ...[...words].map((char) => text(block, char)),
    ...citations.map((each): Event => ({ type: "citation", block, citation: { url: "https://a", ...each } })),
    close(block),
  ];
  const events = [
    ...uses(0, "äö"),
    open(1, { kind: "reasoning" }),
    text(1, "unseen"),
    close(1),
    ...uses(2, "ü"),
    ...uses(3, "wé", { start: 1, end: 2 }),
  ];
  t.match((last(answer(events))["groundingMetadata"] as { groundingSupports: unknown[] }).groundingSupports, [
    { segment: { startIndex: 7, endIndex: 9, text: "é" } },
  ]);
});

t.test("citations are bounded", async (t) => {
  const cite = (n: number): Event => ({ type: "citation", block: 0, citation: { url: `https://a/${n}` } });
  const events = [open(0, { kind: "text" }), ...Array.from({ length: 100_000 }, (_, n) => cite(n))];
  t.throws(() => write(answer(events)), { code: "upstream_invalid", message: /citations/ });
});

t.test("what a page says is said to be lost, once", async (t) => {
  const lost: string[] = [];
  const citation = { url: "https://a", quote: "said" };
  const events: Event[] = [
    open(0, { kind: "text" }),
    text(0, "A"),
    { type: "citation", block: 0, citation },
    { type: "citation", block: 0, citation },
    close(0),
  ];
  t.match(last(answer(events), wished({}, lost)), {
    groundingMetadata: { groundingChunks: [{ web: { uri: "https://a" } }] },
  });
  t.strictSame(lost, ["candidates.0.citations.quote"]);
});

t.test("likelihoods leave with their text", async (t) => {
  const out = write(
    answer([open(0, { kind: "text" }), text(0, "Hi", { logprobs: [{ token: "Hi", logprob: -1 }] }), close(0)]),
  );
  t.match(JSON.parse(out[0]?.data ?? ""), {
    candidates: [{ logprobsResult: { chosenCandidates: [{ token: "Hi", logProbability: -1 }] } }],
  });
});

t.test("a frame is its candidates and the rest", async (t) => {
  t.strictSame(JSON.parse(frameOf(["1", "2"], '"x":3}')), { candidates: [1, 2], x: 3 });
});

t.test("likelihoods without a word leave, too", async (t) => {
  const logprobs = [{ token: "<end>", logprob: -2 }];
  const events = [open(0, { kind: "text" }), text(0, "Hi"), text(0, "", { logprobs }), close(0)];
  const out = write(answer(events));
  t.match(JSON.parse(out[1]?.data ?? ""), {
    candidates: [
      {
        content: { parts: [{ text: "" }] },
        logprobsResult: { chosenCandidates: [{ token: "<end>", logProbability: -2 }] },
      },
    ],
  });
});

t.test("as many blocks as there are wait for the one before, whether closed already or not", async (t) => {
  const many = Array.from({ length: 20_000 }, (_, n) => n + 1);
  const held = many.flatMap((n) => call(n, `c${n}`, "{}"));
  const found = parts([open(0, { kind: "text" }), ...held, text(0, "first"), close(0)]) as { functionCall?: object }[];
  t.equal(found.filter(({ functionCall }) => functionCall).length, many.length);
  t.match(found.slice(0, 2), [{ text: "first" }, { functionCall: { id: "c1" } }]);
});

t.test("what waits is bounded, however small its pieces and whatever they are", async (t) => {
  const first = open(0, { kind: "text" });
  const citations = ["quote", "url", "title"].map(
    (name): Event => ({ type: "citation", block: 1, citation: { [name]: "q".repeat(5000) } }),
  );
  const media: Event = { type: "media", block: 1, base64: "A".repeat(100_000) };
  for (const [each, count] of [
    [text(1, "x"), 500_000],
    [text(1, "x", { logprobs: Array.from({ length: 500 }, () => ({ token: "x" })) }), 1000],
    [open(1, { kind: "text", opaque: { ...state, data: "s".repeat(5000) } }), 2000],
    ...citations.map((cited) => [cited, 2000] as const),
    [media, 100],
  ] as const) {
    const events = [first, open(1, { kind: "text" }), ...Array.from({ length: count }, () => each)];
    t.throws(() => write(answer(events)), { code: "upstream_invalid", message: /8 MiB/ });
  }
  // What has had its turn does not count.
  const turns = [2, 3, 4].flatMap((n) => [
    open(n, { kind: "text" }),
    open(n + 10, { kind: "text" }),
    text(n + 10, "x".repeat(4_000_000)),
    close(n),
    close(n + 10),
  ]);
  t.equal(parts(turns).length, 4);
});
