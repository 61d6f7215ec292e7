import { GoogleGenAI } from "@google/genai";
import { GoogleGenAI as GoogleGenAI2 } from "@google/genai-2";
import t from "tap";
import { decode } from "../../../../plugins/protocols/gemini/response.decode.ts";
import { encode } from "../../../../plugins/protocols/gemini/response.encode.ts";
import { joinedCandidate } from "../../../../plugins/protocols/gemini/response.joined.ts";
import type { EncodedFrame } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { answer, dice, read, SOURCE, shown, wished, write } from "./response.wish.ts";

type Json = Record<string, unknown>;
const parsed = (out: readonly EncodedFrame[]): Json[] => out.map(({ data }) => JSON.parse(data) as Json);
const hello: Event[] = [
  { type: "open", block: 0, choice: 0, kind: "text" },
  { type: "text", block: 0, text: "Hello" },
  { type: "close", block: 0 },
];
t.test("each frame is a whole answer; the last one tells how it ended and what it cost", async (t) => {
  const [start, ...rest] = answer(hello);
  const usage = { in: { total: 5 }, out: { total: 3, reasoning: 1 }, raw: {} };
  const events = [start as Event, ...rest.slice(0, -1), { type: "usage", usage } as Event, { type: "end" } as Event];
  const about = { modelVersion: "fast", responseId: "r1" };
  t.strictSame(parsed(write(events)), [
    { candidates: [{ content: { parts: [{ text: "Hello" }], role: "model" }, index: 0 }], ...about },
    {
      candidates: [{ content: { parts: [{ text: "" }], role: "model" }, index: 0, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, thoughtsTokenCount: 1, totalTokenCount: 8 },
      ...about,
    },
  ]);
  t.strictSame(JSON.parse(encode(events, wished())), {
    candidates: [{ content: { parts: [{ text: "Hello" }], role: "model" }, index: 0, finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, thoughtsTokenCount: 1, totalTokenCount: 8 },
    ...about,
  });
});

t.test("an answer without an id has the exchange's", async (t) => {
  t.match(parsed(write([{ type: "start", id: "", model: "m" }, ...answer(hello).slice(1)])), [
    { responseId: "ex-1" },
    { responseId: "ex-1" },
  ]);
});

t.test("what was told of the input at the start is told where nothing follows", async (t) => {
  const start: Event = { type: "start", id: "", model: "m", usage: { in: { total: 4 }, out: {}, raw: {} } };
  t.match(parsed(write([start, ...answer(hello).slice(1)])).at(-1), { usageMetadata: { promptTokenCount: 4 } });
});

t.test("choices are candidates", async (t) => {
  const second: Event[] = [
    { type: "open", block: 1, choice: 1, kind: "text" },
    { type: "text", block: 1, text: "Hi" },
    { type: "close", block: 1 },
    { type: "finish", choice: 1, reason: "length" },
  ];
  const events = answer([...hello, ...second]);
  t.match(JSON.parse(encode(events, wished())), {
    candidates: [
      { index: 0, content: { parts: [{ text: "Hello" }] }, finishReason: "STOP" },
      { index: 1, content: { parts: [{ text: "Hi" }] }, finishReason: "MAX_TOKENS" },
    ],
  });
});

t.test("candidates stand in the order of their numbers, whoever was the first to speak", async (t) => {
  const late = [...hello, { type: "finish", choice: 0, reason: "stop" } as const].map((event) =>
    event.type === "open" ? { ...event, choice: 1 } : event,
  );
  const first: Event[] = [
    { type: "open", block: 1, choice: 0, kind: "text" },
    { type: "text", block: 1, text: "Hi" },
    { type: "close", block: 1 },
  ];
  const { candidates } = JSON.parse(
    encode(answer([...late, ...first], { type: "finish", choice: 1, reason: "stop" }), wished()),
  ) as { candidates: { index: number }[] };
  t.strictSame(
    candidates.map(({ index }) => index),
    [0, 1],
  );
});

t.test("what this protocol cannot say of an answer is no frame", async (t) => {
  const more: Event[] = [{ type: "ping" }, { type: "unsaid", path: "x" }];
  t.strictSame(write(answer([...more, ...hello])), write(answer(hello)));
});

t.test("no events are no answer", async (t) => {
  t.throws(() => encode([], wished()), { code: "upstream_invalid" });
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

t.test("a whole answer is what its frames are together", async (t) => {
  const random = dice(42);
  for (let n = 0; n < 300; n++) {
    const events = invented(random);
    const context = n % 2 ? shown() : wished();
    const frames = parsed(write(events, context));
    const last = frames.at(-1) as { candidates: Json[] };
    const folded = {
      ...last,
      candidates: last.candidates.map((each) => (frames.length === 1 ? each : joinedCandidate(each, frames))),
    };
    t.strictSame(JSON.parse(encode(events, context)), folded);
  }
});

t.test("every frame is valid: role, index, parts that say what they are, one finish at the end", async (t) => {
  const random = dice(4711);
  const names = ["text", "functionCall", "inlineData"];
  for (let n = 0; n < 300; n++) {
    const frames = parsed(write(invented(random), n % 2 ? shown() : wished())) as {
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

t.test("nothing of a text, a call or a picture is lost, whatever is open at a time", async (t) => {
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

t.test("the vendor's SDKs take frames and bodies, and keep them in the history of a chat", async (t) => {
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
        stream ? sse(write(events, shown())) : encode(events, shown()),
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

const answers = recorded("gemini").filter(
  ({ status, kinds }) => status === 200 && !kinds.includes("json_array_stream"),
);

t.test(
  "every recorded answer, told again, reads the same in the vendor's SDK",
  { skip: answers.length === 0 && "no recordings" },
  async (t) => {
    for (const { id, kinds, body } of answers) {
      const stream = kinds.includes("stream");
      const events = stream ? read(eventsIn(body)) : decode(body, SOURCE);
      const before = stream ? eventsIn(body).map((frame) => frame.json() as Json) : [JSON.parse(body) as Json];
      const again = await accepted(GoogleGenAI, stream ? sse(write(events, shown())) : encode(events, shown()), stream);
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
