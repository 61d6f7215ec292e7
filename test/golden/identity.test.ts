import t from "tap";
import type { EncodedFrame } from "../../src/translation/codec.ts";
import type { Event } from "../../src/translation/events.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import type { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { translationOf, wishFor } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const all = recordings();
const skip = !all && "recordings are absent";

/** Recordings that are no single whole answer of their protocol, with the reason. */
const NOT_ONE_ANSWER: readonly [recordings: RegExp, reason: string][] = [
  [/azure-deepseek-reasoning/, "a Chat answer that was filed among Responses"],
  [/reasoning-encrypted-content\.1\.stream|tool-search-deferred-regex\.stream/, "two answers in one file"],
  [/tool_use_failed_error_streaming|openrouter_stream_error/, "an error after the head, which the engine tells"],
];

const told = (name: string | undefined, data: string): unknown => {
  try {
    return [name, JSON.parse(data)];
  } catch {
    return [name, data];
  }
};

/** Frames of a stream of which one byte comes at a time. */
function byteByByte({ body, kinds }: Recording): Frame[] {
  const splitter = kinds.includes("json_array_stream") ? new ArraySplitter() : new SseSplitter();
  const frames: Frame[] = [];
  // Each chunk is the reader's own, as one from a socket is.
  for (let at = 0; at < body.length; at++) frames.push(...splitter.push(Buffer.from(body.subarray(at, at + 1))));
  return frames.filter(({ text }) => text !== undefined);
}

function again(protocol: ProtocolName, frames: readonly Frame[]): { out: EncodedFrame[]; whole: boolean } {
  const { response: answer } = translationOf(protocol);
  const decoder = answer.decoder({ account: "them", model: "any", native: true });
  const encoder = answer.encoder(wishFor(protocol, { seal: ({ data }) => data }));
  const events: Event[] = [];
  const out: EncodedFrame[] = [];
  for (const frame of frames) decoder.frame(frame, events);
  decoder.end(events);
  for (const event of events) if (event.type !== "error") encoder.event(event, out);
  return { out, whole: events.at(-1)?.type === "end" };
}

/** Codecs that still reproduce what they read; the others carry meaning alone, and are tested by what they say. */
const EXACT = PROTOCOLS.filter((each) => each !== "gemini" && each !== "openai-responses");

for (const protocol of EXACT)
  t.test(`${protocol}: every recorded stream, cut at every byte, is written as it came`, { skip }, async (t) => {
    const streams = (all ?? []).filter((each) => each.protocol === protocol && each.streaming && each.status < 300);
    let count = 0;
    for (const recording of streams) {
      if (NOT_ONE_ANSWER.some(([pattern]) => pattern.test(recording.id))) continue;
      count++;
      const frames = byteByByte(recording);
      const { out, whole } = again(protocol, frames);
      // Of a stream that breaks off, what stands before the break.
      const expected = frames.slice(0, whole ? frames.length : out.length);
      t.strictSame(
        out.map(({ name, data }) => told(name, data)),
        expected.map(({ event, text }) => told(event, text ?? "")),
        recording.id,
      );
    }
    t.ok(count > 70, `${count} streams`);
  });
