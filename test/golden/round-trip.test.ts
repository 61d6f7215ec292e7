/**
 * What was read, written in the same protocol and read again is the same: the vocabulary carries everything that a
 * protocol says. Bodies whose protocol stays are passed as bytes, so that this is about meaning only.
 */
import { isDeepStrictEqual } from "node:util";
import t from "tap";
import type { Event } from "../../src/translation/events.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { parseExact, writeJson } from "../../src/wire/exact.ts";
import { Frame } from "../../src/wire/frame.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { streamed, translationOf, wishFor } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const all = recordings();
const skip = !all && "recordings are absent";
const SOURCE = { account: "them", model: "any" };

/** Recordings that are no single whole answer of their protocol, with the reason. */
const NOT_ONE_ANSWER: readonly [recordings: RegExp, reason: string][] = [
  [/azure-deepseek-reasoning/, "a Chat answer that was filed among Responses"],
  [/reasoning-encrypted-content\.1\.stream|tool-search-deferred-regex\.stream/, "two answers in one file"],
  [/tool_use_failed_error_streaming|openrouter_stream_error/, "an error after the head, which the engine tells"],
  [/count-tokens|usage_limit_exceeded|gemini_count_tokens/, "a count of tokens"],
  [
    /test_native_output_with_builtin_tools_stream__0/,
    "parts that only the vendor understands stand before the text that a source names by its number",
  ],
  [/test_invalid_response__0/, "no answer at all, which is recorded to be refused"],
];

function framesOf({ kinds }: Recording, pieces: Iterable<Buffer>): Frame[] {
  const splitter = kinds.includes("json_array_stream") ? new ArraySplitter() : new SseSplitter();
  const frames: Frame[] = [];
  for (const piece of pieces) frames.push(...splitter.push(piece));
  return frames;
}

/** A body of which one byte comes at a time. */
function* bytewise(body: Buffer): Generator<Buffer> {
  // Each chunk is the reader's own, as one from a socket is.
  for (let at = 0; at < body.length; at++) yield Buffer.from(body.subarray(at, at + 1));
}

function eventsOf(protocol: ProtocolName, frames: readonly Frame[]): Event[] {
  const events: Event[] = [];
  const decoder = translationOf(protocol).response.decoder(SOURCE);
  for (const frame of frames) decoder.frame(frame, events);
  decoder.end(events);
  return events;
}

/** The events of an answer that was written anew, streamed and whole. */
function writtenAnew(protocol: ProtocolName, events: readonly Event[]): { stream: Event[]; whole: Event[] } {
  const context = () => wishFor(protocol, { seal: ({ data }) => data });
  const frames = streamed(protocol, events, context()).map(({ name, data }) => {
    const head = name === undefined ? "" : `event: ${name}\n`;
    return new Frame("event", Buffer.from(`${head}data: ${data}\n\n`));
  });
  const { response } = translationOf(protocol);
  return {
    stream: eventsOf(protocol, frames),
    whole: response.decode(response.encode(events, context()), SOURCE),
  };
}

interface Block {
  kind: string;
  text: string;
  [member: string]: unknown;
}

interface Answer {
  blocks: Block[];
  finish: unknown[];
  usage: unknown;
  last: string;
}

/** What events add up to. */
function answerOf(events: readonly Event[]): Answer {
  const blocks = new Map<number, Block>();
  const answer: Answer = { blocks: [], finish: [], usage: undefined, last: "" };
  for (const event of events) {
    answer.last = event.type;
    const block = "block" in event ? blocks.get(event.block) : undefined;
    if (event.type === "open") {
      const { type: _, block, native: __, choice, ...opening } = event;
      blocks.set(block, { ...opening, choice, text: "" });
    } else if (event.type === "usage") answer.usage = { in: event.usage.in, out: event.usage.out };
    else if (event.type === "finish")
      answer.finish.push([event.choice, event.reason, event.stopSequence, event.message]);
    else if (!block) continue;
    else if (event.type === "text" || event.type === "arguments") block.text += event.text;
    else if (event.type === "opaque") block["state"] = event.opaque;
    else if (event.type === "media") block["media"] = [event.base64, event.url];
    else if (event.type === "citation")
      block["citations"] = [...((block["citations"] as unknown[] | undefined) ?? []), event.citation];
  }
  return { ...answer, blocks: [...blocks.values()] };
}

/** What a protocol lawfully does not say twice in the same way, taken out of an answer. */
interface Exception {
  why: string;
  in: readonly ProtocolName[];
  without(answer: Answer): Answer;
}

const eachBlock =
  (change: (block: Block) => Block) =>
  (answer: Answer): Answer => ({ ...answer, blocks: answer.blocks.map(change) });

const EXCEPTIONS: readonly Exception[] = [
  {
    why: "what only the vendor understands is passed as bytes, and never written anew",
    in: PROTOCOLS,
    without: (answer) => ({ ...answer, blocks: answer.blocks.filter(({ kind }) => kind !== "server") }),
  },
  {
    why: "no arguments are an empty object, and an event's data is one line: white space between members may change",
    in: PROTOCOLS,
    without: eachBlock((block) =>
      block.kind === "tool_call" ? { ...block, text: compact(block.text) ?? block.text } : block,
    ),
  },
  {
    why: "a call that the answer's end cut is left out of a whole answer where arguments are an object",
    in: ["anthropic-messages", "gemini"],
    without(answer) {
      const isCut = ({ kind, text }: Block) => kind === "tool_call" && compact(text) === undefined;
      return { ...answer, blocks: answer.blocks.filter((block) => !isCut(block)) };
    },
  },
  {
    why: "of a source the URL is told, once",
    in: PROTOCOLS,
    without: eachBlock(({ citations, ...block }) => {
      const urls = ((citations ?? []) as { url?: string }[]).map(({ url }) => url).filter((url) => url !== undefined);
      return { ...block, text: block.text, kind: block.kind, cited: [...new Set(urls)] };
    }),
  },
  {
    why: "Chat has one text; thoughts are told to its clients at once, and again with their state behind the answer",
    in: ["openai-chat"],
    without({ blocks, ...answer }) {
      const textsOf = (wanted: string) => blocks.filter(({ kind }) => kind === wanted).map(({ text }) => text);
      const rest = blocks.filter(({ kind }) => kind !== "reasoning" && kind !== "text");
      const thoughts = [...new Set(textsOf("reasoning"))].map((text) => text.replaceAll(/\s/g, ""));
      const apart = thoughts.filter((all) => all !== thoughts.filter((text) => text !== all).join(""));
      return { ...answer, blocks: [...rest, { kind: "text", text: textsOf("text").join(""), thoughts: apart.sort() }] };
    },
  },
  {
    why: "a call without an id gets one",
    in: ["openai-chat"],
    without: eachBlock((block) => (block.kind === "tool_call" ? { ...block, id: undefined } : block)),
  },
  {
    why: "reasoning that is no summary is told as one",
    in: ["openai-responses"],
    without: eachBlock((block) =>
      block.kind === "reasoning" ? { ...block, summary: undefined, state: block["state"] && "some" } : block,
    ),
  },
  {
    why: "an answer without a status has ended",
    in: ["openai-responses"],
    without: (answer) => ({
      ...answer,
      finish: answer.finish.map((end) => (end as unknown[]).map((word) => (word === "other" ? "stop" : word))),
    }),
  },
];

/** The same JSON without white space, every digit as it was; undefined for what is none. */
function compact(text: string): string | undefined {
  try {
    return text === "" ? "{}" : writeJson(parseExact(text));
  } catch {
    return undefined;
  }
}

const gist = (protocol: ProtocolName, events: readonly Event[]): Answer =>
  EXCEPTIONS.filter((exception) => exception.in.includes(protocol)).reduce(
    (answer, exception) => exception.without(answer),
    answerOf(events),
  );

for (const protocol of PROTOCOLS)
  t.test(
    `${protocol}: a recorded answer, cut anywhere, says the same when it is written and read again`,
    { skip },
    async (t) => {
      const faults: string[] = [];
      let count = 0;
      for (const recording of all ?? []) {
        const { id, status, streaming, body, path } = recording;
        if (recording.protocol !== protocol || status >= 300 || /count|embed/i.test(path)) continue;
        if (NOT_ONE_ANSWER.some(([pattern]) => pattern.test(id))) continue;
        count++;
        const events = streaming
          ? eventsOf(protocol, framesOf(recording, bytewise(body)))
          : translationOf(protocol).response.decode(body.toString(), SOURCE);
        if (streaming && !isDeepStrictEqual(events, eventsOf(protocol, framesOf(recording, [body]))))
          faults.push(`${id}: cut`);
        if (events.at(-1)?.type === "error") continue;
        const first = gist(protocol, events);
        for (const [form, anew] of Object.entries(writtenAnew(protocol, events)))
          if (!isDeepStrictEqual(gist(protocol, anew), first)) faults.push(`${id}: ${form}`);
      }
      t.same(faults, []);
      t.ok(count > 150, `${count} answers`);
    },
  );
