/**
 * What was read, written in the same protocol and read again is the same: the vocabulary carries everything that a
 * protocol says. Bodies whose protocol stays are passed as bytes, so that this is about meaning only.
 */
import { isDeepStrictEqual } from "node:util";
import t from "tap";
import type { EncodedRequest } from "../../src/translation/codec.ts";
import type { Conversation, Part } from "../../src/translation/conversation.ts";
import type { Event } from "../../src/translation/events.ts";
import { type Feature, supportOf } from "../../src/translation/features.ts";
import { safeId } from "../../src/translation/ids.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { parseExact, RawJson, writeJson } from "../../src/wire/exact.ts";
import { Frame } from "../../src/wire/frame.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { Query } from "../../src/wire/query.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { asObject } from "../../src/wire/values.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { tried } from "../support/sample.ts";
import { streamed, translationOf, wishFor } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { type RecordedRequest, requests } from "./request-matrix.ts";

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
      const { type: _, block, choice, ...opening } = event;
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
      t.ok(count > tried(150), `${count} answers`);
    },
  );

/** Recorded requests that cannot be written, with the reason. */
const NOT_WRITTEN: readonly [recordings: RegExp, reason: string][] = [
  [/direct-url-document-mistral|openrouter_document_url|perplexity_sonar-pro_understands_docx/, "other vendors' Chat"],
  [/invalid_temperature|anthropic_completion_error/, "sent to be refused"],
];

function readRequestOf({ protocol, operation }: RecordedRequest, text: string): Conversation {
  const { stream } = JSON.parse(text) as { stream?: unknown };
  return translationOf(protocol).request.decode({
    operation,
    task: operation.task ?? "generate",
    streaming: operation.streams === "asked" ? stream === true : operation.streams,
    text,
    headers: new HeaderList([]),
    query: new Query(""),
    open: (data, kind) => ({ protocol, kind, data }),
    sealed: () => false,
    recall: () => undefined,
  });
}

/** A conversation written in its own protocol, and what was declared of it: the paths of what was left out or changed. */
interface Written {
  encoded: EncodedRequest;
  dropped: Set<string>;
  changed: Set<string>;
}

function written(protocol: ProtocolName, conversation: Conversation): Written {
  const dropped = new Set<string>();
  const changed = new Set<string>();
  const { budget = -1 } = conversation.reasoning ?? {};
  const encoded = translationOf(protocol).request.encode(conversation, {
    client: protocol,
    model: "any",
    facts: { system_in_place: true, ...(budget >= 0 ? { thinking: "budget" } : {}) },
    names: new ToolNames(),
    drop: (path) => void dropped.add(path),
    change: (path) => void changed.add(path),
    refuse: (path, why): never => {
      throw new Error(`${path}: ${why}`);
    },
  });
  return { encoded, dropped, changed };
}

/** Members of a conversation that a feature says. */
const SAID: Partial<Record<Feature, string>> = {
  ...{ citations: "citations", name: "name", phase: "phase", media_detail: "detail", cache_mark: "cache" },
  ...{ audio_out: "modalities", image_out: "modalities", store: "store", top_k: "topK", tier: "tier" },
  ...{ reasoning_effort: "reasoning", reasoning_budget: "reasoning", reasoning_summary: "reasoning" },
};

/** Members that say where something stands, or that a protocol makes up where it needs one. */
const MADE_UP = ["at", "paths", "uses", "changed", "apart", "filename"];

/** What is never written: what the protocol's own table does not map, and what was declared to be left out. */
function unwritten(protocol: ProtocolName, { uses }: Conversation, { dropped, changed }: Written): Set<string> {
  const { support } = translationOf(protocol).request;
  const features = Object.keys(SAID) as Feature[];
  const unmapped = features.filter((feature) => supportOf(support, feature).support !== "mapped");
  const declared = uses.filter(({ path }) => dropped.has(path) || changed.has(path)).map(({ feature }) => feature);
  return new Set([...MADE_UP, ...[...unmapped, ...declared].map((feature) => SAID[feature] ?? feature)]);
}

/**
 * What a value means, without what goes without saying: false, nothing, the name of a tool in its result, that an effort
 * asks for thinking. A mark holds for a short time or a long one, an id is what every protocol takes.
 */
function meaning(value: unknown, unsaid: ReadonlySet<string>): unknown {
  if (value instanceof RawJson) return value.text;
  if (Array.isArray(value)) return value.map((each) => meaning(each, unsaid));
  const object = asObject(value);
  if (!object) return value;
  const usual = (name: string, each: unknown): boolean =>
    each === undefined ||
    each === false ||
    (name === "ttl" && (each === "5m" || each === "30m")) ||
    (name === "name" && object["kind"] === "tool_result") ||
    (name === "budget" && each === -1);
  const members = Object.entries(object).filter(([name, each]) => !unsaid.has(name) && !usual(name, each));
  return Object.fromEntries(
    members.map(([name, each]) => {
      if (name === "ttl") return [name, "long"];
      return [name, /^(id|callId)$/.test(name) ? safeId(String(each)) : meaning(each, unsaid)];
    }),
  );
}

/**
 * What a request asks. Neighbours of one role are one turn, whose empty texts are none; tools stand in any order.
 * @param dropped paths of parts that were left out
 */
function asked(conversation: Conversation, unsaid: ReadonlySet<string>, dropped?: ReadonlySet<string>) {
  const turns: { role: string; parts: unknown[] }[] = [];
  for (const { role, parts } of conversation.turns) {
    const left = parts.filter((part) => !dropped?.has(part.at) && !(part.kind === "text" && part.text.trim() === ""));
    const last = turns.at(-1);
    const said = left.map((part) => meaning(part, unsaid));
    if (last?.role === role) last.parts.push(...said);
    else if (said.length > 0) turns.push({ role, parts: said });
  }
  const { turns: _, turnsAt: __, tools, choices, toolChoice, format, reasoning, ...rest } = conversation;
  const effort = asObject(meaning(reasoning, unsaid)) ?? {};
  const settings = {
    ...rest,
    choices: choices === 1 ? undefined : choices,
    toolChoice: toolChoice?.mode === "auto" ? undefined : toolChoice,
    format: format?.kind === "text" ? undefined : format,
    reasoning: Object.keys(effort).length === 0 ? undefined : effort,
  };
  return {
    settings: meaning(settings, unsaid),
    turns,
    tools: tools.map((tool) => JSON.stringify(meaning(tool, unsaid))).sort(),
  };
}

for (const protocol of PROTOCOLS)
  t.test(`${protocol}: a recorded request says the same when it is written and read again`, { skip }, async (t) => {
    const faults: string[] = [];
    let count = 0;
    for (const request of (requests() ?? []).filter((each) => each.protocol === protocol)) {
      if (NOT_WRITTEN.some(([pattern]) => pattern.test(request.id))) continue;
      count++;
      const first = readRequestOf(request, request.text);
      const anew = written(protocol, first);
      const again = readRequestOf({ ...request, operation: anew.encoded.operation }, anew.encoded.body);
      const unsaid = unwritten(protocol, first, anew);
      const before = asked(first, unsaid, anew.dropped);
      const after = asked(again, unsaid);
      // A part that was declared to be changed is another one.
      const changed = first.turns.some(({ at, parts }) =>
        parts.some((part) => [at, part.at, ...within(part)].some((path) => anew.changed.has(path))),
      );
      if (changed) after.turns = before.turns;
      if (!isDeepStrictEqual(before, after)) faults.push(request.id);
    }
    t.same(faults, []);
    t.ok(count > tried(150), `${count} requests`);
  });

/** The paths of what stands in a tool's result. */
const within = (part: Part): string[] => (part.kind === "tool_result" ? part.parts.map(({ at }) => at) : []);
