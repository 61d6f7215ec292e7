import t from "tap";
import { decode, decoder } from "../../../../plugins/protocols/gemini/response.decode.ts";
import { encode, encoder } from "../../../../plugins/protocols/gemini/response.encode.ts";
import type { EncodedFrame, ResponseContext } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { ArraySplitter } from "../../../../src/wire/array.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { SseSplitter } from "../../../../src/wire/sse.ts";
import { type Recorded, recorded } from "../../../support/recorded.ts";
import { dice, wished } from "./response.wish.ts";

const source = { account: "google", model: "m", native: true };
const context: ResponseContext = wished();

/** The frames of a stream cut into chunks. */
function framesIn(kinds: readonly string[], body: Buffer, cuts: readonly number[]): Frame[] {
  const array = kinds.includes("json_array_stream");
  const splitter = array ? new ArraySplitter() : new SseSplitter();
  const frames: Frame[] = [];
  let from = 0;
  for (const to of [...cuts, body.length]) {
    frames.push(...splitter.push(body.subarray(from, to)));
    from = to;
  }
  const rest = splitter.end();
  if (rest) frames.push(new Frame(array ? "element" : "event", rest));
  return frames;
}

function eventsOf(frames: readonly Frame[], native = true): Event[] {
  const reader = decoder({ ...source, native });
  const events: Event[] = [];
  for (const frame of frames) reader.frame(frame, events);
  reader.end(events);
  return events;
}

function written(events: readonly Event[]): EncodedFrame[] {
  const writer = encoder(context);
  const out: EncodedFrame[] = [];
  for (const event of events) if (event.type !== "error") writer.event(event, out);
  return out;
}

/** What is written again of some frames. */
const again = (docs: readonly unknown[]): unknown[] =>
  written(eventsOf(docs.map((doc) => new Frame("event", Buffer.from(`data: ${JSON.stringify(doc)}\r\n\r\n`))))).map(
    ({ data }) => JSON.parse(data) as unknown,
  );

t.test("frames with parts of all kinds are written again as they came", async (t) => {
  const about = { modelVersion: "m", responseId: "r" };
  const parts = [
    { text: "a", thought: true },
    { text: "", thought: true },
    { text: "b", thoughtSignature: "s", partMetadata: { own: 1 } },
    { text: "", thoughtSignature: "u" },
    { functionCall: { name: "f", args: { big: 1, list: [null] } }, thoughtSignature: "v" },
    { functionCall: { name: "g", id: "own" } },
    { functionCall: {} },
    { inlineData: { mimeType: "image/png", data: "iVBO", displayName: "x" }, thoughtSignature: "w" },
    { fileData: { fileUri: "gs://a" } },
    { executableCode: { language: "PYTHON", code: "1" } },
    { hologram: 1 },
  ];
  const docs = [
    {
      candidates: [
        { content: { parts, role: "model" }, index: 1, finishReason: "STOP", finishMessage: "Not yet." },
        {},
      ],
      ...about,
    },
    {
      usageMetadata: {
        promptTokenCount: 1,
        totalTokenCount: 1,
        promptTokensDetails: [{ modality: "TEXT", tokenCount: 1 }],
      },
      ...about,
      responseId: "other",
      turnToken: "t",
    },
    {
      candidates: [
        { content: { parts: [{ text: "c" }] }, index: 1, finishReason: 2, safetyRatings: [] },
        { finishReason: "STOP", index: 0 },
      ],
      promptFeedback: {},
      ...about,
    },
  ];
  t.strictSame(again(docs), docs);
});

t.test("arguments that came in pieces are in the same pieces", async (t) => {
  const doc = (functionCall: object, more: object = {}) => ({
    candidates: [{ content: { parts: [{ functionCall }] }, ...more }],
  });
  const goesOn = { willContinue: true };
  const docs = [
    doc({ name: "f", ...goesOn }),
    doc({ partialArgs: [{ jsonPath: "$.a", stringValue: 'x"', ...goesOn }], ...goesOn }),
    doc({
      partialArgs: [
        { jsonPath: "$.a", stringValue: "é" },
        { jsonPath: "$.b[0]", numberValue: 2.5 },
        { jsonPath: "$.c" },
      ],
      ...goesOn,
    }),
    doc({
      partialArgs: [
        { jsonPath: "$.d", boolValue: true },
        { jsonPath: "$.e", nullValue: "NULL_VALUE" },
      ],
      ...goesOn,
    }),
    doc({}, { finishReason: "STOP" }),
  ];
  t.strictSame(again(docs), docs);
});

t.test("nothing of this is kept where it is not asked for", async (t) => {
  const frame = new Frame(
    "event",
    Buffer.from('data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}\n\n'),
  );
  const events = eventsOf([frame], false);
  t.ok(events.length > 4 && events.every((event) => !("native" in event) && event.type !== "ping"));
});

const all = recorded("gemini").filter(({ status }) => status === 200);
const streams = all.filter(({ kinds }) => kinds.includes("stream") || kinds.includes("json_array_stream"));
const bodies = all.filter((each) => !streams.includes(each));
const skip = all.length === 0 && "no recordings";

const datasOf = ({ kinds, body }: Recorded): unknown[] =>
  framesIn(kinds, Buffer.from(body), []).flatMap((frame) => (frame.text === undefined ? [] : [frame.json()]));

t.test("every recorded answer is written again as it came", { skip }, async (t) => {
  for (const { id, body } of bodies)
    t.strictSame(JSON.parse(encode(decode(body, source), context)), JSON.parse(body), id);
});

t.test("every recorded stream is written again frame by frame", { skip }, async (t) => {
  for (const each of streams) {
    const out = written(eventsOf(framesIn(each.kinds, Buffer.from(each.body), [])));
    t.strictSame(
      out.map(({ data }) => JSON.parse(data) as unknown),
      datasOf(each),
      each.id,
    );
  }
});

t.test("where the chunks are cut changes nothing", { skip }, async (t) => {
  const random = dice(20261121);
  for (const { id, kinds, body } of streams) {
    const bytes = Buffer.from(body);
    const whole = JSON.stringify(eventsOf(framesIn(kinds, bytes, [])));
    const small = bytes.length < 2500;
    const cuts = small
      ? Array.from({ length: bytes.length }, (_, at) => [at])
      : Array.from({ length: 3 }, () => Array.from({ length: 8 }, () => random(bytes.length)).sort((a, b) => a - b));
    const same = cuts.every((cut) => JSON.stringify(eventsOf(framesIn(kinds, bytes, cut))) === whole);
    t.ok(same, id);
  }
});

t.test("line ends of both kinds give the same events", { skip }, async (t) => {
  for (const { id, kinds, body } of streams.filter((each) => !each.kinds.includes("json_array_stream"))) {
    const lf = Buffer.from(body.replaceAll("\r\n", "\n"));
    const crlf = Buffer.from(lf.toString().replaceAll("\n", "\r\n"));
    t.equal(JSON.stringify(eventsOf(framesIn(kinds, lf, []))), JSON.stringify(eventsOf(framesIn(kinds, crlf, []))), id);
  }
});
