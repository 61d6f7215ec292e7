import { GoogleGenAI } from "@google/genai";
import { GoogleGenAI as GoogleGenAI2 } from "@google/genai-2";
import t from "tap";
import { decodeLogprobs, decodeResponse } from "../../../../plugins/protocols/gemini/response.decode.ts";
import {
  continuesPart,
  encodeLogprobs,
  encodeResponse,
  joinCandidate,
  joinLogprobs,
  type PartShape,
} from "../../../../plugins/protocols/gemini/response.encode.ts";
import type { EncodedFrame, ResponseContext } from "../../../../src/translation/codec.ts";
import type { Event, FinishReason, Opaque, Opening } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { dice } from "../../../support/dice.ts";
import { gathered } from "../../../support/gathered.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { sample } from "../../../support/sample.ts";
import { answer, contextFor, partsOf, read, SOURCE, shown, write } from "./responses.ts";

type Json = Record<string, unknown>;
const parsed = (out: readonly EncodedFrame[]): Json[] => out.map(({ data }) => JSON.parse(data) as Json);
const hello: Event[] = [
  { type: "open", block: 0, choice: 0, kind: "text" },
  { type: "text", block: 0, text: "Hello" },
  { type: "close", block: 0 },
];
t.test(
  "each frame is a whole answer, with usage as the vendor's; the last one has its finish reason and all usage",
  async (t) => {
    const [start, ...rest] = answer(hello);
    const usage = { in: { total: 5 }, out: { total: 3, reasoning: 1 }, raw: {} };
    const events = [start as Event, ...rest.slice(0, -1), { type: "usage", usage } as Event, { type: "end" } as Event];
    const about = { modelVersion: "fast", responseId: "r1" };
    t.strictSame(parsed(write(events)), [
      {
        candidates: [{ content: { parts: [{ text: "Hello" }], role: "model" }, index: 0 }],
        usageMetadata: { promptTokenCount: 0, totalTokenCount: 0 },
        ...about,
      },
      {
        candidates: [{ content: { parts: [{ text: "" }], role: "model" }, index: 0, finishReason: "STOP" }],
        usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, thoughtsTokenCount: 1, totalTokenCount: 8 },
        ...about,
      },
    ]);
    t.strictSame(JSON.parse(runAtOnce(encodeResponse(events, contextFor()))), {
      candidates: [{ content: { parts: [{ text: "Hello" }], role: "model" }, index: 0, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, thoughtsTokenCount: 1, totalTokenCount: 8 },
      ...about,
    });
  },
);

t.test("an answer without an id has the exchange's", async (t) => {
  t.match(parsed(write([{ type: "start", id: "", model: "m" }, ...answer(hello).slice(1)])), [
    { responseId: "ex-1" },
    { responseId: "ex-1" },
  ]);
});

t.test("input usage known at the start is reported where nothing follows, and only at the end", async (t) => {
  const start: Event = { type: "start", id: "", model: "m", usage: { in: { total: 4 }, out: {}, raw: {} } };
  const told = parsed(write([start, ...answer(hello).slice(1)])).map((frame) => frame["usageMetadata"]);
  t.strictSame(told, [
    { promptTokenCount: 0, totalTokenCount: 0 },
    { promptTokenCount: 4, totalTokenCount: 4 },
  ]);
});

t.test("each choice is a candidate of its own", async (t) => {
  const second: Event[] = [
    { type: "open", block: 1, choice: 1, kind: "text" },
    { type: "text", block: 1, text: "Hi" },
    { type: "close", block: 1 },
    { type: "finish", choice: 1, reason: "length" },
  ];
  const events = answer([...hello, ...second]);
  t.match(JSON.parse(runAtOnce(encodeResponse(events, contextFor()))), {
    candidates: [
      { index: 0, content: { parts: [{ text: "Hello" }] }, finishReason: "STOP" },
      { index: 1, content: { parts: [{ text: "Hi" }] }, finishReason: "MAX_TOKENS" },
    ],
  });
});

t.test("candidates are in the order of their numbers, whichever came first", async (t) => {
  const late = [...hello, { type: "finish", choice: 0, reason: "stop" } as const].map((event) =>
    event.type === "open" ? { ...event, choice: 1 } : event,
  );
  const first: Event[] = [
    { type: "open", block: 1, choice: 0, kind: "text" },
    { type: "text", block: 1, text: "Hi" },
    { type: "close", block: 1 },
  ];
  const { candidates } = JSON.parse(
    runAtOnce(encodeResponse(answer([...late, ...first], { type: "finish", choice: 1, reason: "stop" }), contextFor())),
  ) as { candidates: { index: number }[] };
  t.strictSame(
    candidates.map(({ index }) => index),
    [0, 1],
  );
});

t.test("what this protocol cannot express of an answer yields no frame", async (t) => {
  const more: Event[] = [{ type: "ping" }, { type: "unmapped", path: "x" }];
  t.strictSame(write(answer([...more, ...hello])), write(answer(hello)));
});

t.test("no events are no answer", async (t) => {
  t.throws(() => runAtOnce(encodeResponse([], contextFor())), { code: "upstream_invalid" });
});

/** Events that obey the grammar, with blocks of all kinds, several of them open at a time. */
function invented(random: (below: number) => number): Event[] {
  const opaque = () =>
    random(3) === 0 ? { opaque: { protocol: "other", kind: "signature", data: `s${random(9)}` } } : {};
  const openings = [
    () => ({ kind: "text" as const, ...opaque() }),
    () => ({ kind: "reasoning" as const }),
    () => ({ kind: "refusal" as const }),
    () => ({ kind: "tool_call" as const, name: "f", ...(random(2) ? { id: `c${random(99)}` } : {}), ...opaque() }),
    () => ({ kind: "media" as const, media: "image" as const, mime: "image/png" }),
  ];
  const choices = 1 + random(2);
  const open: { block: number; kind: string; uses: number }[] = [];
  const events: Event[] = [];
  let block = 0;
  const closing = (at: number): void => {
    const [gone] = open.splice(at, 1) as [(typeof open)[number]];
    if (gone.kind === "tool_call" && gone.uses > 0) events.push({ type: "arguments", block: gone.block, text: "1}" });
    events.push({ type: "close", block: gone.block });
  };
  for (let n = random(30); n > 0; n--) {
    const at = random(open.length + 1);
    const one = open[at];
    if (!one || random(4) === 0) {
      const opening = (openings[random(openings.length)] as (typeof openings)[number])();
      events.push({ type: "open", block, choice: random(choices), ...opening });
      open.push({ block: block++, kind: opening.kind, uses: 0 });
    } else if (random(5) === 0) closing(at);
    else {
      const words = ["a", "é😀", '"\n', ""][random(4)] as string;
      if (one.kind === "tool_call")
        events.push(
          { type: "arguments", block: one.block, text: one.uses++ === 0 ? '{"a":[' : " " },
          { type: "arguments", block: one.block, text: one.uses++ === 1 ? '"x"],"b":' : " " },
        );
      else if (one.kind === "media") events.push({ type: "media", block: one.block, base64: "iVBO" });
      else if (one.kind === "reasoning" && random(3) === 0)
        events.push({ type: "opaque", block: one.block, opaque: { protocol: "other", kind: "signature", data: "x" } });
      else if (one.kind === "text" && random(4) === 0)
        events.push({ type: "citation", block: one.block, citation: { url: "https://a", title: words } });
      else events.push({ type: "text", block: one.block, text: words });
    }
  }
  while (open.length > 0) closing(0);
  for (let choice = 0; choice < choices; choice++) events.push({ type: "finish", choice, reason: "stop" });
  return [
    { type: "start", id: "r1", model: "m" },
    ...events,
    { type: "usage", usage: { in: { total: 1 }, out: { total: 1 }, raw: {} } },
    { type: "end" },
  ];
}

gathered(t, "a whole answer is what its frames are together", async (t) => {
  const random = dice(42);
  for (let n = 0; n < 300; n++) {
    const events = invented(random);
    const context = n % 2 ? shown() : contextFor();
    const frames = parsed(write(events, context));
    const last = frames.at(-1) as { candidates: Json[] };
    const folded = {
      ...last,
      candidates: last.candidates.map((each) => (frames.length === 1 ? each : runAtOnce(joinCandidate(each, frames)))),
    };
    t.strictSame(JSON.parse(runAtOnce(encodeResponse(events, context))), folded);
  }
});

gathered(t, "every frame is valid: role, index, parts that say what they are, one finish at the end", async (t) => {
  const random = dice(4711);
  const names = ["text", "functionCall", "inlineData"];
  for (let n = 0; n < 300; n++) {
    const frames = parsed(write(invented(random), n % 2 ? shown() : contextFor())) as {
      candidates: Json[];
      usageMetadata?: unknown;
    }[];
    const candidates = frames.flatMap((frame) => frame.candidates);
    const parts = candidates.flatMap((candidate) => (candidate["content"] as { parts: Json[] }).parts);
    t.ok(
      candidates.every((each) => typeof each["index"] === "number" && (each["content"] as Json)["role"] === "model"),
    );
    t.ok(parts.every((part) => names.filter((name) => name in part).length === 1));
    t.ok(frames.slice(0, -1).every((frame) => frame.candidates.every((each) => !("finishReason" in each))));
    t.ok(frames.at(-1)?.candidates.every((each) => each["finishReason"] !== undefined) && frames.at(-1)?.usageMetadata);
  }
});

/** What the blocks of one candidate say, in the order of their opening: texts, ids of calls, data. */
function saidBy(events: readonly Event[], choice: number) {
  const uses = { text: "", calls: 0, media: 0 };
  for (const open of events) {
    if (open.type !== "open" || open.choice !== choice) continue;
    const mine = events.filter((event) => "block" in event && event.block === open.block);
    if (open.kind === "text" || open.kind === "refusal")
      uses.text += mine.map((event) => (event.type === "text" ? event.text : "")).join("");
    if (open.kind === "tool_call") uses.calls++;
    uses.media += mine.filter(({ type }) => type === "media").length;
  }
  return uses;
}

gathered(t, "nothing of a text, a call or a picture is lost, whatever is open at a time", async (t) => {
  const random = dice(99);
  for (let n = 0; n < 300; n++) {
    const events = invented(random);
    const candidates = (parsed(write(events)) as { candidates: Json[] }[]).flatMap((frame) => frame.candidates);
    for (const choice of new Set(candidates.map((each) => each["index"] as number))) {
      const mine = candidates.filter((each) => each["index"] === choice);
      const parts = mine.flatMap((each) => (each["content"] as { parts: Json[] }).parts);
      const media = parts.filter((part) => "inlineData" in part).length;
      t.strictSame({ text: textIn(parts), calls: callsIn(parts).length, media }, saidBy(events, choice));
    }
  }
});

/** What an SDK of the vendor makes of frames, or of a whole body. */
async function accepted(Sdk: typeof GoogleGenAI, body: string, stream: boolean) {
  const before = globalThis.fetch;
  globalThis.fetch = async () =>
    new Response(body, { headers: { "content-type": stream ? "text/event-stream" : "application/json" } });
  try {
    const client = new Sdk({ apiKey: "x" });
    const chat = client.chats.create({ model: "m" });
    if (!stream) {
      const whole = await chat.sendMessage({ message: "x" });
      return { chunks: [whole], history: chat.getHistory(true) };
    }
    const chunks = [];
    for await (const chunk of await chat.sendMessageStream({ message: "x" })) chunks.push(chunk);
    return { chunks, history: chat.getHistory(true) };
  } finally {
    globalThis.fetch = before;
  }
}

const sse = (out: readonly EncodedFrame[]): string => out.map(({ data }) => `data: ${data}\n\n`).join("");
const SDKS = { "genai 3": GoogleGenAI, "genai 2": GoogleGenAI2 as unknown as typeof GoogleGenAI };
const partsIn = (contents: { candidates?: { content?: { parts?: object[] } }[] }[]) =>
  contents.flatMap((content) => content.candidates?.[0]?.content?.parts ?? []) as Json[];
const textIn = (parts: readonly Json[]): string =>
  parts.map((part) => (part["thought"] ? "" : (part["text"] ?? ""))).join("");
const callsIn = (parts: readonly Json[]) =>
  parts.flatMap((part) => (part["functionCall"] ? [part["functionCall"]] : []));

t.test("the vendor's SDKs accept frames and bodies, and keep them in the history of a chat", async (t) => {
  const events = answer(
    [
      { type: "open", block: 0, choice: 0, kind: "reasoning" },
      { type: "text", block: 0, text: "Hm." },
      { type: "opaque", block: 0, opaque: { protocol: "other", kind: "signature", data: "x" } },
      { type: "close", block: 0 },
      { type: "open", block: 1, choice: 0, kind: "text" },
      { type: "text", block: 1, text: "Grüße" },
      { type: "close", block: 1 },
      { type: "open", block: 2, choice: 0, kind: "tool_call", id: "c1", name: "f" },
      { type: "arguments", block: 2, text: '{"a":1}' },
      { type: "close", block: 2 },
    ],
    { type: "finish", choice: 0, reason: "tool_calls" },
  );
  for (const [name, Sdk] of Object.entries(SDKS)) {
    for (const stream of [true, false]) {
      const { chunks, history } = await accepted(
        Sdk,
        stream ? sse(write(events, shown())) : runAtOnce(encodeResponse(events, shown())),
        stream,
      );
      const parts = partsIn(chunks);
      t.equal(textIn(parts), "Grüße", name);
      t.strictSame(callsIn(parts), [{ id: "c1", name: "f", args: { a: 1 } }], name);
      const kept = history.slice(1).flatMap((content) => content.parts ?? []);
      t.strictSame(kept, parts, `${name} keeps the history`);
      t.ok(
        kept.some((part) => part.thoughtSignature === "gw1.other.signature.x"),
        name,
      );
    }
  }
});

const answers = sample(recorded("gemini")).filter(
  ({ status, kinds }) => status === 200 && !kinds.includes("json_array_stream"),
);

gathered(
  t,
  "every recorded answer, told again, reads the same in the vendor's SDK",
  { skip: answers.length === 0 && "no recordings" },
  async (t) => {
    for (const { id, kinds, body } of answers) {
      const stream = kinds.includes("stream");
      const events = stream ? read(eventsIn(body)) : runAtOnce(decodeResponse(Buffer.from(body), SOURCE));
      const before = stream ? eventsIn(body).map((frame) => frame.json() as Json) : [JSON.parse(body) as Json];
      const again = await accepted(
        GoogleGenAI,
        stream ? sse(write(events, shown())) : runAtOnce(encodeResponse(events, shown())),
        stream,
      );
      const [was, is] = [partsIn(before), partsIn(again.chunks)];
      t.equal(textIn(is), textIn(was), id);
      const told = callsIn(is) as Json[];
      if (!was.some((part) => (part["functionCall"] as Json | undefined)?.["willContinue"]))
        t.strictSame(
          told.map(({ name, args }) => ({ name, args: args ?? {} })),
          (callsIn(was) as Json[]).map(({ name, args }) => ({ name, args: args ?? {} })),
          id,
        );
      t.equal(new Set(told.map((call) => call["id"])).size, told.length, id);
      const signatures = (parts: readonly Json[]) =>
        parts.flatMap((part) => (part["thoughtSignature"] ? [part["thoughtSignature"]] : []));
      const native = (text: unknown) => String(text).replace("gw1.gemini.thoughtSignature.", "");
      t.strictSame(signatures(is).map(native), signatures(was), id);
    }
  },
);

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

t.test("a text is sent at once, piece by piece; the last frame has an empty text", async (t) => {
  const out = write(answer([open(0, { kind: "text" }), text(0, "Hel"), text(0, "lo"), close(0)]));
  t.strictSame(partsOf(out), [[{ text: "Hel" }], [{ text: "lo" }], [{ text: "" }]]);
});

t.test("reasoning is shown to clients that requested it", async (t) => {
  const events = [open(0, { kind: "reasoning" }), text(0, "Hm"), close(0)];
  t.strictSame(parts(events, shown()), [{ text: "Hm", thought: true }, { text: "" }]);
  t.strictSame(parts(events), [{ text: "" }]);
  t.strictSame(parts(events, contextFor({ reasoning: { show: false } })), [{ text: "" }]);
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

t.test("state of reasoning is on the next call, else on an empty text at the end, shown or not", async (t) => {
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
  const answered = [{ text: "A" }, { text: "", thoughtSignature: SEALED }];
  t.strictSame(parts(events), answered);
  t.strictSame(parts(events, shown()), [{ text: "Hm", thought: true }, ...answered]);
  const thought = { text: "Hm", thought: true };
  const called = { functionCall: { id: "one", name: "f", args: {} }, thoughtSignature: SEALED };
  t.strictSame(parts([...events, ...call(2, "one", "{}")], shown()), [thought, { text: "A" }, called]);
  const places: unknown[] = [];
  const noting = { ...contextFor(), seal: ({ on }: Opaque) => String(places.push(on)) };
  parts([...events, ...call(2, "one", "{}")], noting);
  parts([...events.slice(0, 5), ...call(2, "one", "{}")], noting);
  t.strictSame(places, ["reasoning", undefined], "it says whether texts are between");
  const later: Event[] = [open(2, { kind: "reasoning" }), { type: "opaque", block: 2, opaque: state }, close(2)];
  t.strictSame(parts([...events, ...later]), [...answered, signed], "one state on each part");
  t.strictSame(parts(events.slice(0, 5)), [signed], "where no part follows, on an empty thought");
  const again = [0, 2].flatMap((block): Event[] => [
    open(block, { kind: "reasoning", redacted: true }),
    { type: "opaque", block, opaque: state },
    close(block),
  ]);
  t.strictSame(parts([...again, ...events.slice(5)]), [signed, ...answered], "one state on each part");
  const own = { ...state, protocol: "gemini", kind: "thoughtSignature" };
  const vendors = events.map((event) => (event.type === "opaque" ? { ...event, opaque: own } : event));
  t.strictSame(parts(vendors), [
    { ...signed, thoughtSignature: "gw1.gemini.thoughtSignature.abc" },
    { text: "A" },
    { text: "" },
  ]);
});

t.test("state at the end of a whole answer is on its text", async (t) => {
  const whole = (events: readonly Event[], context?: ResponseContext) =>
    partsIn([JSON.parse(runAtOnce(encodeResponse(answer(events), context ?? contextFor()))) as object]);
  const thought: Event[] = [open(0, { kind: "reasoning" }), text(0, "Hm"), close(0)];
  const signed: Event[] = [...thought.slice(0, -1), { type: "opaque", block: 0, opaque: state }, close(0)];
  const said: Event[] = [open(1, { kind: "text" }), text(1, "A"), text(1, "B"), close(1)];
  const end = { text: "AB", thoughtSignature: SEALED };
  t.strictSame(whole([...signed, ...said]), [end]);
  t.strictSame(whole([...signed, ...said], shown()), [{ text: "Hm", thought: true }, end]);
  t.strictSame(whole([...signed, ...said, ...call(2, "one", "{}")]), [
    { text: "AB" },
    { functionCall: { id: "one", name: "f", args: {} }, thoughtSignature: SEALED },
  ]);
  t.strictSame(whole(signed), [{ text: "", thought: true, thoughtSignature: SEALED }], "no text has it");
  const own: Event[] = [open(2, { kind: "text", opaque: state }), close(2)];
  t.strictSame(whole([...thought, ...said, ...own]), [{ text: "AB" }, { text: "", thoughtSignature: SEALED }]);
});

t.test("state before a call is on the call, also for clients that send no reasoning back", async (t) => {
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
  t.strictSame(parts(events, shown()), [signed, plain]);
});

t.test("a call's own state stays on the call, and reasoning's before it on the reasoning", async (t) => {
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

t.test("state on a text is on its first piece, or on an empty text", async (t) => {
  t.strictSame(parts([open(0, { kind: "text", opaque: state }), text(0, "A"), text(0, "B"), close(0)]), [
    { text: "A", thoughtSignature: SEALED },
    { text: "B" },
    { text: "" },
  ]);
  t.strictSame(parts([open(0, { kind: "text", opaque: state }), close(0)])[0], { text: "", thoughtSignature: SEALED });
});

t.test("a call is written whole with the exact text of its arguments, and ends with the answer", async (t) => {
  const out = write(answer(call(0, "c1", '{"a": 1.0,', '\n "b":12345678901234567890}')));
  t.equal(out.length, 1);
  t.match(out[0]?.data, '{"id":"c1","name":"f","args":{"a": 1.0,  "b":12345678901234567890}}');
  t.match(parts(call(0, "c1", "")), [{ functionCall: { args: {} } }]);
  t.match(parts(call(0, "c1")), [{ functionCall: { args: {} } }]);
});

t.test("a call before a text is sent before it", async (t) => {
  const out = write(answer([...call(0, "a", "{}"), open(1, { kind: "text" }), text(1, "x"), close(1)]));
  t.match(partsOf(out), [[{ functionCall: { id: "a" } }], [{ text: "x" }], [{ text: "" }]]);
});

t.test("arguments that are not an object are the provider's fault", async (t) => {
  for (const wrong of ["[1]", '"x"', "1", "nul", '{"a":', "{} {}"])
    t.throws(() => write(answer(call(0, "c1", wrong))), { code: "upstream_invalid" }, wrong);
});

t.test("a call that the end of the answer truncated is left out, and declared lost", async (t) => {
  for (const [reason, word] of [
    ["length", "MAX_TOKENS"],
    ["content_filter", "SAFETY"],
  ] as const) {
    const cut = [open(0, { kind: "text" }), text(0, "Hi"), close(0), ...call(1, "c1", '{"a":"unfin')];
    const told = answer(cut).map((event): Event => (event.type === "finish" ? { ...event, reason } : event));
    const lost: string[] = [];
    t.match(last(told, contextFor({}, lost)), { finishReason: word });
    t.notMatch(JSON.stringify(write(told)), /functionCall/);
    t.same(lost, ["candidates.0.content.functionCall"]);
  }
});

t.test("interleaved blocks are written one after the other", async (t) => {
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

t.test("open blocks are closed at the end", async (t) => {
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

t.test("server tools of this protocol are written unchanged, those of others are declared lost", async (t) => {
  const lost: string[] = [];
  const server = (json: string): Event[] => [
    open(0, { kind: "server", name: "search" }),
    { type: "server", block: 0, json: new RawJson(json) },
    close(0),
  ];
  t.strictSame(parts(server('{"executableCode":{"code":"1"},\n"thoughtSignature":"s"}'), contextFor({}, lost))[0], {
    executableCode: { code: "1" },
    thoughtSignature: "s",
  });
  t.strictSame(lost, []);
  t.strictSame(parts(server('{"type":"server_tool_use"}'), contextFor({}, lost)), [{ text: "" }]);
  t.strictSame(lost, ["candidates.0.content.search"]);
});

t.test("a refusal is a text that ended with the content filter", async (t) => {
  const candidate = last(answer([open(0, { kind: "refusal" }), text(0, "I will not."), close(0)]));
  t.match(candidate, { finishReason: "SAFETY" });
  t.match(parts([open(0, { kind: "refusal" }), text(0, "I will not."), close(0)]), [
    { text: "I will not." },
    { text: "" },
  ]);
});

t.test("an answer that was filtered before its first text has no content", async (t) => {
  const filtered: Event = { type: "finish", choice: 0, reason: "content_filter", message: "Not this." };
  t.strictSame(last(answer([], filtered)), { index: 0, finishReason: "SAFETY", finishMessage: "Not this." });
  t.match(last(answer([open(0, { kind: "text" }), text(0, "A"), close(0)], filtered)), {
    content: { parts: [{ text: "" }] },
  });
});

t.test("the matched stop sequence is declared lost", async (t) => {
  const lost: string[] = [];
  last(answer([], { type: "finish", choice: 0, reason: "stop_sequence", stopSequence: "END" }), contextFor({}, lost));
  t.match(lost, ["stop_sequence"]);
});

t.test("a paused turn is declared lost", async (t) => {
  const lost: string[] = [];
  t.match(last(answer([], { type: "finish", choice: 0, reason: "pause" }), contextFor({}, lost)), {
    finishReason: "STOP",
  });
  t.strictSame(lost, ["finishReason"]);
});

t.test("citations have positions in the text as clients join it, over its blocks", async (t) => {
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

t.test("positions continue over the blocks of a part, with anything between them", async (t) => {
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

t.test("an answer with too many citations is refused", async (t) => {
  const cite = (n: number): Event => ({ type: "citation", block: 0, citation: { url: `https://a/${n}` } });
  const events = [open(0, { kind: "text" }), ...Array.from({ length: 100_000 }, (_, n) => cite(n))];
  t.throws(() => write(answer(events)), { code: "upstream_invalid", message: /citations/ });
});

t.test("a page title is declared lost, once", async (t) => {
  const lost: string[] = [];
  const citation = { url: "https://a", quote: "said" };
  const events: Event[] = [
    open(0, { kind: "text" }),
    text(0, "A"),
    { type: "citation", block: 0, citation },
    { type: "citation", block: 0, citation },
    close(0),
  ];
  t.match(last(answer(events), contextFor({}, lost)), {
    groundingMetadata: { groundingChunks: [{ web: { uri: "https://a" } }] },
  });
  t.strictSame(lost, ["candidates.0.citations.quote"]);
});

t.test("every finish reason has its value, and a refusal is never an ordinary stop", async (t) => {
  const word = (reason: FinishReason, kind: "text" | "refusal" = "text") => {
    const out = write(answer([open(0, { kind }), text(0, "Hi"), close(0)], { type: "finish", choice: 0, reason }));
    return (JSON.parse(out.at(-1)?.data ?? "") as { candidates: [{ finishReason: string }] }).candidates[0]
      .finishReason;
  };
  t.equal(word("tool_calls"), "STOP");
  t.equal(word("pause"), "STOP");
  t.equal(word("context_window"), "MAX_TOKENS");
  t.equal(word("refusal"), "SAFETY");
  t.equal(word("malformed_call"), "MALFORMED_FUNCTION_CALL");
  t.equal(word("stop", "refusal"), "SAFETY");
  t.equal(word("length", "refusal"), "MAX_TOKENS");
});

t.test("log probabilities are sent with their text", async (t) => {
  const out = write(
    answer([open(0, { kind: "text" }), text(0, "Hi", { logprobs: [{ token: "Hi", logprob: -1 }] }), close(0)]),
  );
  t.match(JSON.parse(out[0]?.data ?? ""), {
    candidates: [{ logprobsResult: { chosenCandidates: [{ token: "Hi", logProbability: -1 }] } }],
  });
});

t.test("log probabilities without a text are sent, too", async (t) => {
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

t.test("any number of blocks wait for the one before, whether closed already or not", async (t) => {
  const many = Array.from({ length: 20_000 }, (_, n) => n + 1);
  const held = many.flatMap((n) => call(n, `c${n}`, "{}"));
  const found = parts([open(0, { kind: "text" }), ...held, text(0, "first"), close(0)]) as { functionCall?: object }[];
  t.equal(found.filter(({ functionCall }) => functionCall).length, many.length);
  t.match(found.slice(0, 2), [{ text: "first" }, { functionCall: { id: "c1" } }]);
});

t.test("waiting blocks are limited, however small their pieces and of any kind", async (t) => {
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

const shape = (kind: PartShape["kind"], signed = false, empty = false): PartShape => ({ kind, signed, empty });
const joined = (...parts: object[]): unknown => {
  const frames = parts.map((part) => ({ candidates: [{ content: { parts: [part] }, index: 0 }] }));
  return (runAtOnce(joinCandidate({ index: 0 }, frames))["content"] as { parts: unknown } | undefined)?.parts;
};

t.test("texts of one kind are joined; a signature begins a text and ends reasoning", async (t) => {
  t.ok(continuesPart(shape("text"), shape("text")));
  t.ok(continuesPart(shape("text", true), shape("text")));
  t.notOk(continuesPart(shape("text"), shape("text", true)));
  t.ok(continuesPart(shape("thought"), shape("thought", true, true)));
  t.notOk(continuesPart(shape("thought"), shape("thought", true)));
  t.notOk(continuesPart(shape("thought", true), shape("thought")));
  t.notOk(continuesPart(shape("thought"), shape("text")));
  t.notOk(continuesPart(shape("other"), shape("other")));
  t.notOk(continuesPart(undefined, shape("text")));
});

t.test("parts of all frames are joined in order", async (t) => {
  const call = { functionCall: { name: "f", args: {} } };
  t.strictSame(
    joined(
      { text: "a", thought: true },
      { text: "b", thought: true },
      { text: "", thought: true, thoughtSignature: "s" },
      { text: "c" },
      { text: "d" },
      call,
      call,
      { text: "" },
    ),
    [{ text: "ab", thought: true, thoughtSignature: "s" }, { text: "cd" }, call, call],
  );
  t.strictSame(joined({ text: "" }), [{ text: "" }]);
  t.strictSame(joined({ text: "" }, call), [call]);
});

t.test("a candidate without any content stays without", async (t) => {
  t.strictSame(
    runAtOnce(
      joinCandidate({ index: 1, finishReason: "SAFETY" }, [{ candidates: [{ index: 0, content: { parts: [] } }] }]),
    ),
    {
      index: 1,
      finishReason: "SAFETY",
    },
  );
});

const result = {
  chosenCandidates: [{ token: "é", logProbability: -0.5, tokenId: 7 }, { token: " a" }],
  topCandidates: [
    {
      candidates: [
        { token: "é", logProbability: -0.5 },
        { token: "e", logProbability: -2 },
      ],
    },
    { candidates: [] },
  ],
};

t.test("log probabilities have the common shape, with the token's bytes", async (t) => {
  const bytes = [195, 169];
  t.strictSame(decodeLogprobs(result), [
    {
      token: "é",
      logprob: -0.5,
      bytes,
      top_logprobs: [
        { token: "é", logprob: -0.5, bytes },
        { token: "e", logprob: -2, bytes: [101] },
      ],
    },
    { token: " a", logprob: 0, bytes: [32, 97], top_logprobs: [] },
  ]);
  t.equal(decodeLogprobs({}), undefined);
});

t.test("a token of probability zero gets the lowest value that clients accept", async (t) => {
  const chosenCandidates = ["-Infinity", {}, true].map((logProbability) => ({ token: "x", logProbability }));
  t.match(
    decodeLogprobs({ chosenCandidates }),
    Array.from({ length: 3 }, () => ({ logprob: -9999 })),
  );
  t.match(decodeLogprobs({ chosenCandidates: [{ token: "x", logProbability: "-1.5" }] }), [{ logprob: -1.5 }]);
});

t.test("they are encoded again, as a list or as the content of one", async (t) => {
  const written = {
    chosenCandidates: [
      { token: "é", logProbability: -0.5 },
      { token: " a", logProbability: 0 },
    ],
    topCandidates: result.topCandidates,
  };
  t.strictSame(encodeLogprobs(decodeLogprobs(result)), written);
  t.strictSame(encodeLogprobs({ content: decodeLogprobs(result) }), written);
  t.equal(encodeLogprobs({ odd: true }), undefined);
});

t.test("pieces are in order", async (t) => {
  t.strictSame(joinLogprobs([undefined, { chosenCandidates: [1] }, { chosenCandidates: [2], topCandidates: [3] }]), {
    chosenCandidates: [1, 2],
    topCandidates: [3],
  });
  t.equal(joinLogprobs([undefined]), undefined);
});
