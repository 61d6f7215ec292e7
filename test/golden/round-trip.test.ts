/**
 * What was read, written in the same protocol and read again is the same: the vocabulary carries everything that a
 * protocol says. Bodies whose protocol stays are passed as bytes, so that this is about meaning only.
 */
import { isDeepStrictEqual } from "node:util";
import t from "tap";
import { ENVELOPE_FORMAT } from "../../plugins/protocols/openai-chat/wire.ts";
import type { EncodedRequest } from "../../src/translation/codec.ts";
import type { Conversation, Part } from "../../src/translation/conversation.ts";
import type { Citation, Event } from "../../src/translation/events.ts";
import { type Feature, supportOf } from "../../src/translation/features.ts";
import { safeId } from "../../src/translation/ids.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { ArraySplitter } from "../../src/wire/array.ts";
import { parseExact, RawJson, writeJson } from "../../src/wire/exact.ts";
import { Frame } from "../../src/wire/frame.ts";
import { NestedJson } from "../../src/wire/nested.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { asList, asObject } from "../../src/wire/values.ts";
import { type Recording, recordings } from "../support/recordings.ts";
import { tried } from "../support/sample.ts";
import { contextFor, streamed, translationOf } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { type RecordedRequest, requests } from "./request-matrix.ts";

const all = recordings();
const skip = !all && "recordings are absent";
const SOURCE = { account: "them", model: "any" };

/** What an answer of a protocol always has: a recording without it is a count of tokens, or another protocol's answer. */
const MARKS: Readonly<Record<ProtocolName, RegExp>> = {
  "anthropic-messages": /"type"\s*:\s*"message/,
  gemini: /"(?:candidates|promptFeedback|error)"\s*:/,
  "openai-chat": /"choices"\s*:|"error"\s*:/,
  "openai-responses": /"output"\s*:|"type"\s*:\s*"error"/,
};

/** An answer whose parts that only the vendor understands stand before the text that a source names by its number. */
const RENUMBERED = /test_native_output_with_builtin_tools_stream__0/;

function framesOf({ kinds }: Pick<Recording, "kinds">, pieces: Iterable<Buffer>): Frame[] {
  const splitter = kinds.includes("json_array_stream") ? new ArraySplitter() : new SseSplitter();
  const frames: Frame[] = [];
  for (const piece of pieces) frames.push(...splitter.push(piece));
  return frames;
}

/** A body of which so many bytes come at a time. */
function* cut(body: Buffer, bytes: number): Generator<Buffer> {
  // Each chunk is the reader's own, as one from a socket is.
  for (let at = 0; at < body.length; at += bytes) yield Buffer.from(body.subarray(at, at + bytes));
}

/** Bytes that come at a time: a cut at every place, and pieces that hold a line's end, or whole frames. */
const CUTS = [1, 3, 61];

/** Cuts after which a stream falls into other frames: a decoder is told of frames alone, and says the same of the same ones. */
function cutDifferently({ kinds, body }: Pick<Recording, "kinds" | "body">): number[] {
  const whole = framesOf({ kinds }, [body]);
  return CUTS.filter((bytes) => {
    const frames = framesOf({ kinds }, cut(body, bytes));
    const same = (frame: Frame, i: number) => frame.kind === whole[i]?.kind && frame.bytes.equals(whole[i].bytes);
    return frames.length !== whole.length || !frames.every(same);
  });
}

function eventsOf(protocol: ProtocolName, frames: readonly Frame[]): Event[] {
  const events: Event[] = [];
  const decoder = translationOf(protocol).response.decoder(SOURCE);
  for (const frame of frames) decoder.frame(frame, events);
  decoder.end(events);
  return events;
}

/** The id of answers that came without one. */
const MADE = "made";

/** An answer that was written anew: the bytes of its stream, and its events, streamed and whole. */
function writtenAnew(protocol: ProtocolName, events: readonly Event[]) {
  const model = events.find((event) => event.type === "start")?.model ?? SOURCE.model;
  const context = () => contextFor(protocol, { model, id: MADE, seal: ({ data }) => data });
  const body = Buffer.concat(
    streamed(protocol, events, context()).map(({ name, data }) =>
      Buffer.from(`${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`),
    ),
  );
  const { response } = translationOf(protocol);
  return {
    body,
    stream: eventsOf(protocol, framesOf({ kinds: [] }, [body])),
    whole: runAtOnce(response.decode(Buffer.from(runAtOnce(response.encode(events, context()))), SOURCE)),
  };
}

type Members = Record<string, unknown>;

interface Block extends Members {
  kind: string;
  /** All that was said of it, in its order; text that comes in pieces is one. */
  said: Members[];
}

/** All that events say, but for when: what comes in pieces is put together, of the tokens told the last count. */
interface Answer {
  start: Members;
  blocks: Block[];
  finish: Members[];
  usage: Members;
  others: Members[];
  last: string;
}

function answerOf(events: readonly Event[]): Answer {
  const blocks = new Map<number, Block>();
  const answer: Answer = { start: {}, blocks: [], finish: [], usage: {}, others: [], last: "" };
  for (const event of events) {
    answer.last = event.type;
    if (event.type === "ping" || event.type === "end") continue;
    const { type, ...members } = event;
    if (type === "start") answer.start = members;
    else if (type === "usage") answer.usage = { ...event.usage };
    else if (type === "finish") answer.finish.push(members);
    else if (event.type === "open") {
      const { type: _, block, ...opening } = event;
      blocks.set(block, { ...opening, said: [] });
    } else if ("block" in event) say(blocks.get(event.block) as Block, event);
    else answer.others.push({ ...event });
  }
  return { ...answer, blocks: [...blocks.values()] };
}

function say({ said }: Block, { block: _, ...saying }: Extract<Event, { block: number }>): void {
  const last = said.at(-1);
  const grows = saying.type === "text" || saying.type === "arguments";
  if (!grows || last?.["type"] !== saying.type || last["part"] !== (saying as Members)["part"])
    said.push({ ...saying });
  else {
    last["text"] += saying.text;
    const { logprobs } = saying as Members;
    if (logprobs !== undefined) last["logprobs"] = [last["logprobs"] ?? [], logprobs].flat();
  }
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

const eachSaying = (change: (saying: Members, block: Block) => Members[]) =>
  eachBlock((block) => ({ ...block, said: block.said.flatMap((saying) => change(saying, block)) }));

const without = ({ ...members }: Members, ...names: string[]): Members => {
  for (const name of names) delete members[name];
  return members;
};

const textOf = ({ said }: Block): string => said.map(({ text }) => text ?? "").join("");

const citationIn = ({ citation }: Members): Citation => citation as Citation;

/** The same but for the usage and for how each choice ended. */
const eachEnding =
  (usage: (usage: Members) => Members, finish = (ending: Members): Members => ending) =>
  (answer: Answer): Answer => ({ ...answer, usage: usage(answer.usage), finish: answer.finish.map(finish) });

/** Gemini's other names of reasons: a number for each, and what stands for a reason that its SDK does not know. */
const ENDS: Readonly<Record<string, string>> = { "1": "STOP", MODEL_ARMOR: "SAFETY" };

/** Ids that the Chat encoder makes for calls. */
const MADE_CALL = /^call_[\w-]{1,24}_\d+$/;

interface Thought {
  text: string;
  /** What only the vendor can read. */
  state: unknown;
}

/**
 * Thoughts of a Chat answer in their order. Entries of `reasoning_details` that this gateway wrote hold the state of the
 * thought they stand for; where there are any, thoughts outside of them are the same ones without their state.
 */
function thoughtsOf(blocks: readonly Block[]): Thought[] {
  const all = blocks.map((block) => {
    const opaque = block.said.map((saying) => asObject(saying["opaque"])).find((each) => each !== undefined);
    const entry = opaque?.["kind"] === "reasoning_details" ? asObject(JSON.parse(String(opaque["data"]))) : undefined;
    const own = entry?.["format"] === ENVELOPE_FORMAT ? entry : undefined;
    // An entry that repeats text of another block has it in its state alone.
    return {
      text: textOf(block) || String(own?.["text"] ?? own?.["summary"] ?? ""),
      own,
      state: own ? (own["signature"] ?? own["data"]) : opaque?.["data"],
    };
  });
  const own = all.filter((thought) => thought.own !== undefined);
  const thoughts: Thought[] = [];
  for (const { text, own: entry, state } of own.length > 0 ? own : all) {
    const last = thoughts.at(-1);
    // The text of a summary stands in an entry of its own before that of its state.
    if (entry && last && last.state === undefined && text === "") last.state = state;
    else thoughts.push({ text, state });
  }
  return thoughts;
}

/** A saying of a reasoning as Responses writes it: the texts of the reasoning itself are parts of the summary. */
function asSummary({ opaque, ...saying }: Members): Members {
  const part = saying["type"] === "text" ? { part: saying["part"] ?? 0 } : {};
  const state = asObject(opaque);
  const { content = [], summary = [] } = asObject(state?.["extra"]) ?? {};
  const extra = { summary: [...asList(summary), ...asList(content)] };
  return { ...saying, ...part, ...(state ? { opaque: { ...state, extra } } : {}) };
}

/** Names of the tier that nobody asked for. */
const USUAL_TIER: ReadonlySet<unknown> = new Set([
  "on_demand",
  "ON_DEMAND",
  "standard",
  "default",
  "provisioned",
  "",
  undefined,
]);

const EXCEPTIONS: readonly Exception[] = [
  {
    why: "what only the vendor understands is passed as bytes, and never written anew",
    in: PROTOCOLS,
    without: (answer) => ({ ...answer, blocks: answer.blocks.filter(({ kind }) => kind !== "server"), others: [] }),
  },
  {
    why: "the last count of tokens is the one that counts, and the vendor's own object for it is not kept",
    in: PROTOCOLS,
    without: ({ start, ...answer }) => ({
      ...answer,
      start: without(start, "usage"),
      usage: without(answer.usage, "raw"),
    }),
  },
  {
    why: "OpenRouter's and xAI's members for costs and for runs of their tools are not members of OpenAI's usage",
    in: ["openai-chat", "openai-responses"],
    without: eachEnding((usage) => without(usage, "providerCost", "serverTools")),
  },
  {
    why: "`iterations` hold tokens of other models and passes: they are for the ledger, and clients get only the sums",
    in: ["anthropic-messages"],
    without: eachEnding((usage) => without(usage, "besides", "model")),
  },
  {
    why: "only Vertex has `createTime`; the Gemini API does not",
    in: ["gemini"],
    without: ({ start, ...answer }) => ({ ...answer, start: without(start, "created") }),
  },
  {
    why: "no arguments are an empty object, and an event's data is one line: white space between members may change",
    in: PROTOCOLS,
    without: eachBlock((block) => {
      const text = textOf(block);
      return block.kind === "tool_call"
        ? { ...block, said: [{ type: "arguments", text: compact(text) ?? text }] }
        : block;
    }),
  },
  {
    why: "a call that the answer's end cut is left out of a whole answer where arguments are an object",
    in: ["anthropic-messages"],
    without(answer) {
      const isCut = (block: Block) => block.kind === "tool_call" && compact(textOf(block)) === undefined;
      return { ...answer, blocks: answer.blocks.filter((block) => !isCut(block)) };
    },
  },
  {
    why: "the SDK's type wants a count of every tool, so that a tool that did not run has a 0",
    in: ["anthropic-messages"],
    without: eachEnding((usage) => {
      const ran = Object.entries(asObject(usage["serverTools"]) ?? {}).filter(([, count]) => count !== 0);
      return { ...usage, serverTools: Object.fromEntries(ran) };
    }),
  },
  {
    why: "clients require counts of reasoning and of cached tokens: 0 where none is told",
    in: ["openai-chat"],
    without: eachEnding((usage) => {
      const told = (side: string, name: string) => {
        const counts = asObject(usage[side]) ?? {};
        return counts[name] === 0 ? without(counts, name) : counts;
      };
      return { ...usage, in: told("in", "cached"), out: told("out", "reasoning") };
    }),
  },
  {
    why: "clients require counts of cached and of written tokens: 0 where none is told",
    in: ["anthropic-messages"],
    without: eachEnding((usage) => {
      const counts = asObject(usage["in"]) ?? {};
      const isUnwritten = asObject(counts["write"])?.["unsplit"] === 0;
      return { ...usage, in: without(counts, counts["cached"] === 0 ? "cached" : "", isUnwritten ? "write" : "") };
    }),
  },
  {
    why: "that nobody asked for a tier has several names",
    in: ["gemini", "openai-chat", "openai-responses"],
    without: eachEnding((usage) => (USUAL_TIER.has(usage["tier"]) ? without(usage, "tier") : usage)),
  },
  {
    why: "the reason of an end has one name",
    in: ["gemini"],
    without: eachEnding(
      (usage) => usage,
      (ending) => ({ ...ending, raw: ENDS[String(ending["raw"])] ?? ending["raw"] }),
    ),
  },
  {
    why: "an answer with calls ends with `tool_calls`, also where the vendor says `stop`, `function_call` or nothing",
    in: ["openai-chat"],
    without: eachEnding(
      (usage) => usage,
      (ending) => ({ ...ending, raw: ending["reason"] === "tool_calls" ? "tool_calls" : (ending["raw"] ?? "stop") }),
    ),
  },
  {
    why: "an id has the mark of its kind in front, and an answer without one gets one",
    in: ["openai-chat", "openai-responses"],
    without: ({ start, ...answer }) => ({
      ...answer,
      start: {
        ...start,
        id: String(start["id"])
          .replace(/^(?:chatcmpl-|resp_)/, "")
          .replace(MADE, ""),
      },
    }),
  },
  {
    why: "thoughts are told to Chat's clients at once, and again with their state behind the answer, but read once",
    in: ["openai-chat"],
    without({ blocks, ...answer }) {
      const reasoning = blocks.filter(({ kind }) => kind === "reasoning");
      const thoughts = thoughtsOf(reasoning);
      const told = reasoning.map(textOf).join("").replaceAll(/\s/g, "");
      const rest = blocks.filter(({ kind }) => kind !== "reasoning");
      return { ...answer, blocks: rest, others: [...answer.others, { thoughts, told }] };
    },
  },
  {
    why: "a call without an id gets one",
    in: ["openai-chat"],
    without: eachBlock((block) =>
      block.kind === "tool_call" && (!block["id"] || MADE_CALL.test(String(block["id"])))
        ? { ...block, id: undefined }
        : block,
    ),
  },
  {
    why: "in a whole answer the sources of a text stand behind it",
    in: ["anthropic-messages", "openai-chat", "openai-responses"],
    without: eachBlock((block) => {
      const rest = block.said.filter(({ type }) => type !== "text");
      const all = { ...block.said.find(({ type }) => type === "text"), text: textOf(block) };
      return block.kind === "text" ? { ...block, said: [all, ...rest] } : block;
    }),
  },
  {
    why: "a source without a place or a title backs the whole text and has an empty one; one without a URL is not told",
    in: ["openai-chat", "openai-responses"],
    without: eachSaying((saying, block) => {
      if (saying["type"] !== "citation") return [saying];
      const { url, ...citation } = citationIn(saying);
      const told = { title: "", start: 0, end: textOf(block).length, ...citation, url };
      return url === undefined ? [] : [{ ...saying, citation: told }];
    }),
  },
  {
    why: "a source without a place backs the whole text, and is told once without what it says there",
    in: ["gemini"],
    without: eachBlock((block) => {
      const told = block.said.map((saying) => {
        if (saying["type"] !== "citation") return saying;
        return {
          ...saying,
          citation: { start: 0, end: textOf(block).length, ...without({ ...citationIn(saying) }, "quote") },
        };
      });
      return {
        ...block,
        said: told.filter((one, i) => i === told.findIndex((other) => isDeepStrictEqual(other, one))),
      };
    }),
  },
  {
    why: "searches are counted by their queries, which are not told again",
    in: ["gemini"],
    without: eachEnding((usage) => without(usage, "serverTools")),
  },
  {
    why: "reasoning that is no summary is told as one",
    in: ["openai-responses"],
    without: eachBlock(({ said, ...block }) =>
      block.kind === "reasoning" ? { ...block, summary: undefined, said: said.map(asSummary) } : { ...block, said },
    ),
  },
  {
    why: "an answer without a status, or with one that is no word of the vendor's, has ended",
    in: ["openai-responses"],
    without: eachEnding(
      (usage) => usage,
      (ending) => (ending["reason"] === "other" ? { ...ending, reason: "stop", raw: "completed" } : ending),
    ),
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

/** So many differences are printed; of the others only the names. */
const SHOWN = 3;

for (const protocol of PROTOCOLS)
  t.test(
    `${protocol}: a recorded answer, split anywhere, has the same content when it is encoded and decoded again`,
    { skip },
    async (t) => {
      const faults: string[] = [];
      let count = 0;
      for (const recording of all ?? []) {
        const { id, status, streaming, body, path } = recording;
        if (recording.protocol !== protocol || status >= 300 || /count|embed/i.test(path)) continue;
        if (!MARKS[protocol].test(body.toString()) || RENUMBERED.test(id)) continue;
        count++;
        for (const bytes of streaming ? cutDifferently(recording) : []) faults.push(`${id}: cut every ${bytes} bytes`);
        const events = streaming
          ? eventsOf(protocol, framesOf(recording, [body]))
          : runAtOnce(translationOf(protocol).response.decode(body, SOURCE));
        if (events.at(-1)?.type === "error") continue;
        const first = gist(protocol, events);
        const { body: written, ...forms } = writtenAnew(protocol, events);
        for (const bytes of cutDifferently({ kinds: [], body: written }))
          faults.push(`${id}: cut every ${bytes} bytes when it is written`);
        for (const [form, anew] of Object.entries(forms)) {
          const again = gist(protocol, anew);
          if (isDeepStrictEqual(again, first)) continue;
          faults.push(`${id}: ${form}`);
          if (faults.length <= SHOWN) t.same(again, first, `${id}: ${form}`);
        }
      }
      t.same(faults, []);
      t.ok(count > tried(150), `${count} answers`);
    },
  );

/** Perplexity's Chat takes a file's bytes without their media type. */
const WITHOUT_TYPE = /perplexity_sonar-pro_understands_docx/;

/** Recorded requests that their vendor refused too. */
const refusedByVendor = new Set((all ?? []).filter(({ status }) => status === 400).map(({ id }) => id));

/** Reports whether a request uses what the protocol's own table refuses, like other vendors' members of Chat. */
const usesRefused = (protocol: ProtocolName, { uses }: Conversation): boolean =>
  uses.some(({ feature }) => supportOf(translationOf(protocol).request.support, feature).support === "refused");

function readRequestOf({ protocol, operation }: RecordedRequest, text: string): Conversation {
  const { stream } = JSON.parse(text) as { stream?: unknown };
  return runAtOnce(
    translationOf(protocol).request.decode({
      task: operation.task ?? "generate",
      streaming: operation.streams === "asked" ? stream === true : operation.streams,
      text,
      open: (data, kind) => ({ protocol, kind, data }),
      isEnvelope: () => false,
      recall: () => undefined,
    }),
  );
}

/** Reports whether a request cannot be written, as it should be: its vendor refused it, or the protocol's table does. */
function isRefused(request: RecordedRequest): boolean {
  let conversation: Conversation | undefined;
  try {
    conversation = readRequestOf(request, request.text);
    written(request.protocol, conversation);
    return false;
  } catch {
    return (
      refusedByVendor.has(request.id) || (conversation !== undefined && usesRefused(request.protocol, conversation))
    );
  }
}

/** A conversation written in its own protocol, and what was declared of it: the paths of what was left out or changed. */
interface Written {
  encoded: EncodedRequest;
  dropped: Set<string>;
  changed: Set<string>;
}

/** A model that takes all that its protocol has: in Chat few of OpenAI's own, in Messages the vendor's. */
const takesAll = (protocol: ProtocolName): string =>
  protocol === "anthropic-messages" ? "claude" : "gpt-5-search-api";

function written(protocol: ProtocolName, conversation: Conversation): Written {
  const dropped = new Set<string>();
  const changed = new Set<string>();
  const { budget = -1 } = conversation.reasoning ?? {};
  const encoded = runAtOnce(
    translationOf(protocol).request.encode(conversation, {
      model: takesAll(protocol),
      facts: { system_in_place: true, ...(budget >= 0 ? { thinking: "budget" } : {}) },
      names: new ToolNames(),
      nested: new NestedJson(),
      drop: (path) => void dropped.add(path),
      change: (path) => void changed.add(path),
      refuse: (path, why): never => {
        throw new Error(`${path}: ${why}`);
      },
    }),
  );
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
 * asks for thinking, that a function has no properties. A mark holds for a short time or a long one, an id is what every protocol takes.
 */
function meaning(value: unknown, unsaid: ReadonlySet<string>): unknown {
  if (value instanceof RawJson) return value.text.replace('{"properties":{},', "{");
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
 * What a request asks. Neighbours of one role are one turn, whose empty texts are none; developers speak for the system; tools stand in
 * any order.
 * @param dropped paths of parts that were left out
 */
function asked(conversation: Conversation, unsaid: ReadonlySet<string>, dropped?: ReadonlySet<string>) {
  const turns: { role: string; parts: unknown[] }[] = [];
  for (const { role: own, parts } of conversation.turns) {
    const role = own === "developer" ? "system" : own;
    const left = parts.filter((part) => !dropped?.has(part.at) && !(part.kind === "text" && part.text.trim() === ""));
    const last = turns.at(-1);
    const said = left.map((part) => meaning(part, unsaid));
    if (last?.role === role) last.parts.push(...said);
    else if (said.length > 0) turns.push({ role, parts: said });
  }
  // The key of the turns is made of them, before neighbours are joined.
  const { turns: _, turnsAt: __, turnsKey: ___, tools, choices, toolChoice, format, reasoning, ...rest } = conversation;
  const effort = asObject(meaning(reasoning, unsaid)) ?? {};
  const settings = {
    ...rest,
    choices: choices === 1 ? undefined : choices,
    parallel: rest.parallel === true ? undefined : rest.parallel,
    tier: rest.tier === "auto" ? undefined : rest.tier,
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
  t.test(
    `${protocol}: a recorded request has the same content when it is encoded and decoded again`,
    { skip },
    async (t) => {
      const faults: string[] = [];
      let count = 0;
      for (const request of (requests() ?? []).filter((each) => each.protocol === protocol)) {
        if (WITHOUT_TYPE.test(request.id) || isRefused(request)) continue;
        const first = readRequestOf(request, request.text);
        count++;
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
        if (isDeepStrictEqual(before, after)) continue;
        faults.push(request.id);
        if (faults.length <= SHOWN) t.same(after, before, request.id);
      }
      t.same(faults, []);
      t.ok(count > tried(150), `${count} requests`);
    },
  );

/** The paths of what stands in a tool's result. */
const within = (part: Part): string[] => (part.kind === "tool_result" ? part.parts.map(({ at }) => at) : []);
