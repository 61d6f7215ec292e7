import {
  asList,
  asObject,
  asText,
  type BlockKind,
  type Citation,
  callIds,
  dropUndefined,
  type EncodedFrame,
  type Event,
  type EventOf,
  type JsonObject,
  type Opaque,
  type ResponseContext,
  type ResponseEncoder,
  Steps,
  TextKey,
  type Usage,
} from "model-gateway/protocol";
import { CHAT_FINISH_REASONS, declareFinish, isRefusalReason } from "../openai/response.encode.ts";
import { expectsUsage, writeUsage } from "../openai/usage.ts";
import { formatDataUrl, servedTier } from "../openai/wire.ts";
import { AFTER_TEXT, ENVELOPE_FORMAT, placeId, type ReasoningPlace, reasoningKey, writeUrlCitation } from "./wire.ts";

/** A block of the response that is being written. */
interface WrittenBlock {
  choice: WrittenChoice;
  kind: BlockKind;
  /** Characters of content before it. */
  textStart: number;
  /** For a tool call, its index in the choice; undefined if the client accepts no further call. */
  call?: number;
  custom?: boolean;
  /** Whether a tool call has received arguments. */
  hasArguments?: boolean;
  mime?: string;
  /** The kind of media. */
  media?: string;
  thought?: WrittenThought;
  /** The opaque state of this text. */
  stateEntry?: WrittenThought;
  /** The sources that it cites. */
  citations: Citation[];
}

/** A reasoning, kept until its choice ends: its envelope must be written with its text, in one piece. */
interface WrittenThought {
  texts: string[];
  hasText: boolean;
  /** The last part of its summary. */
  part: number;
  summary: boolean;
  redacted: boolean;
  opaque?: Opaque;
  /** Whether its state was on an empty text after another text. */
  afterText?: boolean;
  /** Where it was, unless it began the message. */
  place?: ReasoningPlace;
}

interface WrittenChoice {
  index: number;
  started: boolean;
  calls: number;
  /** The id of the first call. */
  firstCall?: string;
  content: number;
  hasRefusal: boolean;
  hasAudio: boolean;
  thoughts: WrittenThought[];
  /** Whether any of them has text. */
  hasThoughtText: boolean;
  annotations: JsonObject[];
  images: JsonObject[];
}

/**
 * Encodes events as deltas to the messages of a response: each is the inside of a JSON object, and a client that merges them
 * has the complete message at the end. Some clients (openai-node) keep only the last value of a member that they do not know;
 * such members are written once, at the end: `reasoning_details`, `annotations`, `images`.
 */
abstract class ChatDeltaWriter {
  /** The open blocks. */
  private readonly blocks = new Map<number, WrittenBlock>();
  private readonly choices = new Map<number, WrittenChoice>();
  private nextId: () => string = callIds("");
  /** Whether the client uses the older `functions`, which allow one call per response. */
  private readonly legacy: boolean;
  /** The place of the answer's calls. */
  private readonly place: string;

  constructor(protected readonly context: ResponseContext) {
    const { tools, turns } = context.conversation;
    this.place = tools.length > 0 ? TextKey.ofPlace(turns) : "";
    this.legacy = Array.isArray(context.request["functions"]) && !Array.isArray(context.request["tools"]);
  }

  /** Writes a delta to a choice's message. `finish` and `logprobs` are JSON. */
  protected abstract writeDelta(choice: number, members: string, finish: string, logprobs: string): void;

  /** Writes members whose values are complete and may be long. */
  protected abstract writeMembers(choice: number, members: JsonObject): void;

  /** Returns the response's id in this protocol's form, and the time of its creation. */
  protected head({ id, created }: EventOf<"start">): { id: string; created: number } {
    const responseId = id === "" ? this.context.id : id;
    this.nextId = callIds(responseId);
    return {
      id: responseId.startsWith("chatcmpl-") ? responseId : `chatcmpl-${responseId}`,
      created: created ?? this.context.created,
    };
  }

  protected write(event: Event): void {
    switch (event.type) {
      case "open":
        this.open(event);
        break;
      case "text":
        this.text(event);
        break;
      case "arguments":
        this.appendArguments(this.blocks.get(event.block), event.text);
        break;
      case "opaque": {
        const thought = this.blocks.get(event.block)?.thought;
        if (thought) this.keepState(thought, event.opaque);
        break;
      }
      case "citation":
        this.blocks.get(event.block)?.citations.push(event.citation);
        break;
      case "media":
        this.media(this.blocks.get(event.block), event);
        break;
      case "close":
        this.close(this.blocks.get(event.block));
        this.blocks.delete(event.block);
        break;
      case "finish":
        this.finish(event);
        break;
    }
  }

  private keepState(thought: WrittenThought, opaque: Opaque): void {
    thought.opaque = opaque;
    const { on, ...state } = opaque;
    if (typeof on === "object" && "media" in on) this.context.remember(on.media, state);
  }

  private choice(index: number): WrittenChoice {
    return this.choices.getOrInsertComputed(index, () => ({
      index,
      started: false,
      calls: 0,
      content: 0,
      hasRefusal: false,
      hasAudio: false,
      thoughts: [],
      hasThoughtText: false,
      annotations: [],
      images: [],
    }));
  }

  /** Writes a delta; before a choice's first one also the role, with a content that is empty or null. */
  private add(choice: WrittenChoice, members: string, content = "null", finish = "null", logprobs = "null"): void {
    if (!choice.started) {
      choice.started = true;
      this.writeDelta(choice.index, `"role":"assistant","content":${content},"refusal":null`, "null", "null");
    }
    if (members !== "" || finish !== "null") this.writeDelta(choice.index, members, finish, logprobs);
  }

  private addMembers(choice: WrittenChoice, members: JsonObject): void {
    this.add(choice, "");
    this.writeMembers(choice.index, members);
  }

  private open(event: EventOf<"open">): void {
    const choice = this.choice(event.choice);
    const block: WrittenBlock = { choice, kind: event.kind, textStart: choice.content, citations: [] };
    this.blocks.set(event.block, block);
    switch (event.kind) {
      case "text":
        if (!choice.started) this.add(choice, "", '""');
        if (event.opaque) block.stateEntry = addStateEntry(choice, { ...event.opaque, on: "text" });
        break;
      case "reasoning":
        block.thought = addThought(choice, {
          summary: event.summary === true,
          redacted: event.redacted === true,
          place: { text: choice.content, calls: choice.calls },
        });
        break;
      case "tool_call":
        this.call(block, event);
        break;
      case "media":
        block.media = event.media;
        if (event.mime !== undefined) block.mime = event.mime;
        break;
      case "server":
        this.context.drop(event.name, "Chat Completions shows nothing of the vendor's tools");
        break;
      case "refusal":
        choice.hasRefusal = true;
    }
  }

  private call(block: WrittenBlock, event: EventOf<"open"> & { kind: "tool_call" }): void {
    const { choice } = block;
    block.custom = event.custom === true;
    if (this.legacy && choice.calls > 0) {
      this.context.drop("function_call", "a client of `functions` accepts one call per answer");
      return;
    }
    block.call = choice.calls++;
    const name = JSON.stringify(event.name);
    if (this.legacy) {
      if (event.opaque) this.context.drop("function_call", "`function_call` has no member for the vendor's state");
      this.add(choice, `"function_call":{"name":${name},"arguments":""}`);
      return;
    }
    const id = event.id ?? this.nextId();
    choice.firstCall ??= id;
    const extra = event.opaque ? this.callState(choice, id, event.opaque) : "";
    const inner = block.custom
      ? `"type":"custom","custom":{"name":${name},"input":""}`
      : `"type":"function","function":{"name":${name},"arguments":""}`;
    this.add(choice, `"tool_calls":[{"index":${block.call},"id":${JSON.stringify(id)},${inner}${extra}}]`);
  }

  private callState(choice: WrittenChoice, call: string, opaque: Opaque): string {
    const callOpaque: Opaque = { ...opaque, on: { call } };
    addStateEntry(choice, callOpaque);
    this.context.remember(`${call} ${this.place}`, opaque);
    return `,"extra_content":{"google":{"thought_signature":"${this.context.seal(callOpaque)}"}}`;
  }

  private appendArguments(block: WrittenBlock | undefined, text: string): void {
    if (block?.call === undefined) return;
    block.hasArguments = true;
    const json = JSON.stringify(text);
    const inner = block.custom ? `"custom":{"input":${json}}` : `"function":{"arguments":${json}}`;
    const call = `"tool_calls":[{"index":${block.call},${inner}}]`;
    this.add(block.choice, this.legacy ? `"function_call":{"arguments":${json}}` : call);
  }

  private text(event: EventOf<"text">): void {
    const block = this.blocks.get(event.block);
    if (!block) return;
    const { choice, kind, thought } = block;
    if (thought) {
      // Separate reasonings are paragraphs in `reasoning_content`; their entries in `reasoning_details` are unchanged.
      const isFirst = event.text !== "" && !thought.hasText;
      const startsParagraph = isFirst && choice.hasThoughtText;
      if (isFirst) thought.hasText = choice.hasThoughtText = true;
      const text = appendThought(thought, event);
      this.add(choice, `"reasoning_content":${JSON.stringify(startsParagraph ? `\n\n${text}` : text)}`);
      return;
    }
    const member = kind === "refusal" ? "refusal" : "content";
    if (kind === "text") choice.content += event.text.length;
    const logprobs = event.logprobs === undefined ? "null" : logprobsJson(member, event.logprobs);
    this.add(choice, `"${member}":${JSON.stringify(event.text)}`, "null", "null", logprobs);
  }

  /** Encodes images in OpenRouter's format at the end of the message, and audio in OpenAI's. */
  private media(block: WrittenBlock | undefined, event: EventOf<"media">): void {
    if (!block) return;
    const { media, mime, choice } = block;
    if (media === "audio" && event.base64 !== undefined) {
      choice.hasAudio = true;
      this.addMembers(choice, { audio: { id: `audio_${this.context.id}`, data: event.base64 } });
    } else if (media === "image") {
      const url = event.url ?? formatDataUrl(mime ?? "image/png", event.base64 ?? "");
      choice.images.push({ index: choice.images.length, type: "image_url", image_url: { url } });
    } else this.context.drop(media ?? "media", "Chat Completions has no place for it");
  }

  private close(block: WrittenBlock | undefined): void {
    if (!block) return;
    const { choice, textStart, stateEntry, kind } = block;
    // The arguments of a call without any are an empty object.
    if (kind === "tool_call" && !block.hasArguments && !block.custom) this.appendArguments(block, "{}");
    const length = choice.content - textStart;
    if (stateEntry && textStart > 0 && length === 0) stateEntry.afterText = true;
    // A citation without a range refers to the whole text.
    if (block.citations.some(({ url }) => url === undefined))
      this.context.drop("annotations", "a source without an address has no place in Chat Completions");
    for (const citation of block.citations.filter(({ url }) => url !== undefined))
      choice.annotations.push(writeUrlCitation({ start: 0, end: length, ...citation }, textStart));
  }

  private finish(event: EventOf<"finish">): void {
    const choice = this.choice(event.choice);
    // The reason for a refusal, from vendors that send it with the finish reason and not as text.
    if (isRefusalReason(event.reason) && event.message && !choice.hasRefusal) {
      choice.hasRefusal = true;
      this.add(choice, `"refusal":${JSON.stringify(event.message)}`);
    }
    const details = choice.thoughts.flatMap((thought, index) => this.detailsOf(thought, index));
    this.rememberReasoning(choice, details);
    const lists = Object.entries({
      images: choice.images,
      reasoning_details: details,
      annotations: choice.annotations,
    });
    const filled = lists.filter(([, list]) => list.length > 0);
    if (filled.length > 0) this.addMembers(choice, Object.fromEntries(filled));
    declareFinish(event, choice.hasRefusal, this.context);
    // All that was kept for the end has been written.
    this.choices.delete(event.choice);
    const isEmpty = !isRefusalReason(event.reason) && isWithoutContent(choice);
    const members = isEmpty && choice.started ? '"content":""' : "";
    this.add(choice, members, isEmpty ? '""' : "null", `"${this.finishReason(event, choice)}"`);
  }

  /**
   * Stores reasoning with the first call: SDKs that run tools automatically send calls back without it, and some models then
   * stop reasoning.
   */
  private rememberReasoning({ firstCall, thoughts }: WrittenChoice, details: readonly JsonObject[]): void {
    if (firstCall === undefined || !thoughts.some(({ opaque }) => opaque && opaque.on === undefined)) return;
    const data = JSON.stringify(details);
    const key = `${reasoningKey(firstCall)} ${this.place}`;
    this.context.remember(key, { protocol: "openai-chat", kind: "reasoning_details", data });
  }

  private finishReason({ reason }: EventOf<"finish">, { hasRefusal }: WrittenChoice): string {
    if (reason === "refusal" && hasRefusal) return "stop";
    return reason === "tool_calls" && this.legacy ? "function_call" : CHAT_FINISH_REASONS[reason];
  }

  private detailsOf({ opaque, texts, summary, redacted, ...where }: WrittenThought, index: number): JsonObject[] {
    if (!opaque) return [];
    const text = texts.join("");
    const textMembers = redacted || (summary && text === "") ? {} : summary ? { summary: text } : { text };
    return detailEntries(this.context.seal(opaque), index, {
      ...textMembers,
      ...dropUndefined({ id: entryId(where) }),
    });
  }
}

/**
 * Whether an answer has nothing but thoughts, as Claude's after a tool at times. Its content is an empty text, like OpenAI's:
 * after null some agents ask again until their turns are used up, and OpenAI refuses it in the next request.
 */
const isWithoutContent = ({ content, calls, hasRefusal, hasAudio, images }: WrittenChoice): boolean =>
  content + calls + images.length === 0 && !hasRefusal && !hasAudio;

function addThought(
  { thoughts }: WrittenChoice,
  members: Pick<WrittenThought, "summary" | "redacted" | "opaque" | "place">,
): WrittenThought {
  const thought = { texts: [], hasText: false, part: 0, ...members };
  thoughts.push(thought);
  return thought;
}

/** Adds state that is on a call or text to the reasoning, for clients that keep none on calls or texts. */
const addStateEntry = (choice: WrittenChoice, opaque: Opaque): WrittenThought =>
  addThought(choice, { summary: false, redacted: true, opaque });

/** Appends text to a reasoning and returns it; parts of a summary are paragraphs. */
function appendThought(thought: WrittenThought, { text, part }: EventOf<"text">): string {
  const startsParagraph = part !== undefined && part > thought.part && thought.texts.length > 0;
  if (part !== undefined) thought.part = part;
  const appended = startsParagraph ? `\n\n${text}` : text;
  thought.texts.push(appended);
  return appended;
}

/** Returns the logprobs of content or refusal as JSON. */
function logprobsJson(member: "content" | "refusal", tokens: unknown): string {
  const json = JSON.stringify(tokens);
  return member === "content" ? `{"content":${json},"refusal":null}` : `{"content":null,"refusal":${json}}`;
}

/** Returns the `id` of an entry for the place of its reasoning or state; undefined for the beginning of the message. */
function entryId({ afterText, place }: Pick<WrittenThought, "afterText" | "place">): string | undefined {
  if (afterText) return AFTER_TEXT;
  return place && place.text + place.calls > 0 ? placeId(place) : undefined;
}

/** Returns the entries of `reasoning_details` that carry a reasoning's envelope to the client and back. */
function detailEntries(
  envelope: string,
  index: number,
  { text, summary, id }: { text?: string; summary?: string; id?: string },
): JsonObject[] {
  const common = { format: ENVELOPE_FORMAT, index, ...dropUndefined({ id }) };
  if (summary !== undefined)
    return [
      { type: "reasoning.summary", summary, ...common },
      { type: "reasoning.encrypted", data: envelope, ...common },
    ];
  if (text === undefined) return [{ type: "reasoning.encrypted", data: envelope, ...common }];
  return [{ type: "reasoning.text", text, signature: envelope, ...common }];
}

/** Creates an encoder for a stream of chunks. Usage is in a last chunk without choices, if the client requested it. */
export function createEncoder(context: ResponseContext): ResponseEncoder {
  return new ChatStreamWriter(context);
}

class ChatStreamWriter extends ChatDeltaWriter implements ResponseEncoder {
  private out: EncodedFrame[] = [];
  /** The text of each chunk before its choices, and after them. */
  private chunkStart = "";
  private readonly chunkEnd: string;
  private usage: Usage | undefined;
  private readonly includesUsage: boolean;

  constructor(context: ResponseContext) {
    super(context);
    this.includesUsage = expectsUsage(context.request);
    this.chunkEnd = this.includesUsage ? ',"usage":null}' : "}";
  }

  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    this.out = out;
    switch (event.type) {
      case "start": {
        const { id, created } = this.head(event);
        const [ownId, model] = [JSON.stringify(id), JSON.stringify(this.context.model)];
        this.chunkStart = `{"id":${ownId},"object":"chat.completion.chunk","created":${created},"model":${model},"choices":[`;
        break;
      }
      case "usage":
        this.usage = event.usage;
        break;
      case "end":
        if (this.includesUsage && this.usage)
          out.push({ data: `${this.chunkStart}],${JSON.stringify(usageMembers(this.usage)).slice(1)}` });
        out.push({ data: "[DONE]" });
        break;
      default:
        this.write(event);
    }
  }

  protected writeDelta(choice: number, members: string, finish: string, logprobs: string): void {
    const choiceEnd = `"delta":{${members}},"logprobs":${logprobs},"finish_reason":${finish}}]`;
    this.out.push({ data: `${this.chunkStart}{"index":${choice},${choiceEnd}${this.chunkEnd}` });
  }

  protected writeMembers(choice: number, members: JsonObject): void {
    this.writeDelta(choice, JSON.stringify(members).slice(1, -1), "null", "null");
  }
}

/** Encodes a complete response: the merged deltas of a stream, always with usage. */
export function* encodeResponse(events: readonly Event[], context: ResponseContext): Steps<string> {
  const writer = new ChatWholeWriter(context);
  yield* Steps.forEachEvent(events, (event) => writer.event(event));
  return yield* Steps.writingJson(writer.body);
}

/** Returns the members for usage, and for the service tier if the provider reported one. */
const usageMembers = (usage: Usage): JsonObject => ({
  usage: writeUsage(usage),
  ...dropUndefined({ service_tier: servedTier(usage) }),
});

interface MergedChoice {
  index: number;
  message: JsonObject;
  logprobs: JsonObject | null;
  finish_reason: unknown;
}

class ChatWholeWriter extends ChatDeltaWriter {
  readonly body: JsonObject = { id: "", object: "chat.completion", created: 0, model: this.context.model, choices: [] };
  private readonly merged = new Map<number, MergedChoice>();

  event(event: Event): void {
    if (event.type === "start") Object.assign(this.body, this.head(event));
    else if (event.type === "usage") Object.assign(this.body, usageMembers(event.usage));
    else if (event.type === "end") this.body["choices"] = [...this.merged.values()].sort((a, b) => a.index - b.index);
    else this.write(event);
  }

  protected writeDelta(index: number, members: string, finish: string, logprobs: string): void {
    const choice = this.mergedChoice(index);
    mergeDelta(choice.message, JSON.parse(`{${members}}`) as JsonObject);
    if (logprobs !== "null") {
      choice.logprobs ??= { content: null, refusal: null };
      mergeDelta(choice.logprobs, JSON.parse(logprobs) as JsonObject);
    }
    if (finish !== "null") choice.finish_reason = JSON.parse(finish);
  }

  protected writeMembers(index: number, members: JsonObject): void {
    mergeDelta(this.mergedChoice(index).message, members);
  }

  private mergedChoice(index: number): MergedChoice {
    const create = () => ({ index, message: {}, logprobs: null, finish_reason: null });
    return this.merged.getOrInsertComputed(index, create);
  }
}

/** Merges a delta into a message as the SDKs do: strings and lists are appended, calls are merged by index. */
function mergeDelta(message: JsonObject, delta: JsonObject): void {
  for (const [name, value] of Object.entries(delta)) {
    if (value === null) message[name] ??= null;
    else if (name === "tool_calls") mergeToolCalls(message, asList(value));
    else if (name === "function_call" || name === "audio") mergeInner(message, name, asObject(value) ?? {});
    else if (Array.isArray(value)) appendItems(message, name, value);
    else if (name === "role" || asText(message[name]) === undefined) message[name] = value;
    else message[name] = `${message[name]}${value}`;
  }
}

function mergeToolCalls(message: JsonObject, deltas: readonly unknown[]): void {
  const calls = (message["tool_calls"] as JsonObject[] | undefined) ?? [];
  message["tool_calls"] = calls;
  for (const value of deltas) {
    const { index, ...call } = value as JsonObject & { index: number };
    const existing = calls[index];
    if (existing === undefined) calls[index] = call;
    else
      for (const kind of ["function", "custom"]) if (call[kind]) mergeInner(existing, kind, call[kind] as JsonObject);
  }
}

/** Merges a nested object, where only the streamed strings are appended. */
function mergeInner(outer: JsonObject, name: string, delta: JsonObject): void {
  const inner = asObject(outer[name]) ?? {};
  outer[name] = inner;
  for (const [member, value] of Object.entries(delta))
    inner[member] = ["arguments", "input", "data"].includes(member) ? `${inner[member] ?? ""}${value}` : value;
}

/** Appends to a list in place, because a response has many deltas. */
function appendItems(message: JsonObject, name: string, items: readonly unknown[]): void {
  const list = message[name];
  if (Array.isArray(list)) for (const item of items) list.push(item);
  else message[name] = items;
}
