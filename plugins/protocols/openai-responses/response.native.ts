/**
 * The form of an answer besides what it says, so that it can be written exactly as it was: for each frame what remains
 * when all that the vocabulary carries is taken away. Reader and writer both fold the vocabulary's events into the same
 * plain frames; what is kept is how the vendor's own differ from those.
 */
import {
  asList,
  asObject,
  asText,
  type EncodedFrame,
  type Event,
  type EventOf,
  type Frame,
  type JsonObject,
  type ResponseDecoder,
  type ResponseEncoder,
  type Usage,
} from "model-gateway/protocol";
import type { Items } from "./response.items.ts";
import { annotationOf, endOf, usageOf } from "./response.words.ts";

/** The mark behind the last event, which some vendors send. */
const DONE_MARK = "[DONE]";

/** How a value differs from another: not at all, altogether, or in some of its members. */
type Difference = undefined | { value: unknown } | { members: Record<string, Difference>; gone: readonly string[] };

/** What one frame, or a whole body, says beyond the vocabulary. */
class Beyond {
  constructor(
    /** The frame's type; `[DONE]` for that mark; undefined for a body. */
    readonly type: string | undefined,
    /** The frame's event name. */
    readonly name: string | undefined,
    /** The blocks of the items it tells of. */
    readonly blocks: readonly (readonly number[])[],
    readonly part: number,
    readonly difference: Difference,
  ) {}
}

/** On the first event of a stream where that says nothing: shows whose frames follow. */
const SILENCE = new Beyond("", undefined, [], 0, undefined);

/** Reader's side: puts `native` on the last event of each frame that another decoder reads. */
export class Keeping implements ResponseDecoder {
  private readonly told = new Told();
  private whole = false;
  private marked = false;

  /** @param items the decoder's own */
  constructor(
    private readonly events: ResponseDecoder,
    private readonly items: Items,
  ) {}

  frame(frame: Frame, out: Event[]): void {
    const { text } = frame;
    if (text === DONE_MARK) this.marked = true;
    const from = out.length;
    this.events.frame(frame, out);
    if (text === undefined || text === DONE_MARK || this.whole || out.at(-1)?.type === "error") return;
    // The mark behind the last event is still to come, and is told with the end.
    this.whole = out.at(-1)?.type === "end";
    if (this.whole) out.pop();
    this.keep(frame, out, from);
  }

  end(out: Event[]): void {
    if (!this.whole) this.events.end(out);
    else if (this.marked) out.push({ type: "end", native: new Beyond(DONE_MARK, undefined, [], 0, undefined) });
    else out.push({ type: "end" });
  }

  private keep(frame: Frame, out: Event[], from: number): void {
    const json = asObject(frame.json()) ?? {};
    const type = asText(json["type"]) ?? "";
    if (out.length === from) out.push({ type: "ping" });
    for (const event of out.slice(from)) this.told.add(event);
    const index = Number(json["output_index"] ?? 0);
    const place = Number(json["content_index"] ?? json["summary_index"] ?? 0);
    const reasons = type.includes("reasoning") || asObject(json["part"])?.["type"] === "reasoning_text";
    const key = !reasons ? place : type.includes("summary") ? 0 : 1;
    const piece = json["item"] === undefined && json["item_id"] !== undefined;
    const blocks = json["response"] ? this.items.all() : [this.items.blocksOf(index, piece ? key : undefined)];
    const last = out.at(-1) as Event;
    const first = out[from] as Event;
    if (first !== last && first.type === "start") first.native = SILENCE;
    const plain = this.told.frame(type, blocks, reasons ? place : 0, last);
    last.native = new Beyond(type, frame.event, blocks, reasons ? place : 0, differing(plain, json));
  }
}

/** Puts `native` on the last event of a whole body. */
export function keepBody(json: JsonObject, items: Items, out: Event[]): void {
  const told = new Told();
  for (const event of out) told.add(event);
  const blocks = items.all();
  const last = out.at(-1) as Event;
  last.native = new Beyond(undefined, undefined, blocks, 0, differing(told.response(blocks, true), json));
}

/** True for what was kept here. */
export const isKept = (native: unknown): boolean => native instanceof Beyond;

/** Writer's side: chooses by the first event that tells between the frames as they were and those of another encoder. */
export class Choosing implements ResponseEncoder {
  private chosen: ResponseEncoder | undefined;

  constructor(private readonly other: ResponseEncoder) {}

  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    if (!this.chosen && event.type === "ping" && event.native === undefined) return;
    this.chosen ??= isKept(event.native) ? new Retelling() : this.other;
    this.chosen.event(event, out);
  }
}

/** A whole body as it was. */
export function retold(events: readonly Event[]): string {
  const retelling = new Retelling();
  const out: EncodedFrame[] = [];
  for (const event of events) retelling.event(event, out);
  return out.at(-1)?.data ?? "";
}

class Retelling implements ResponseEncoder {
  private readonly told = new Told();

  event(event: Event, out: EncodedFrame[]): void {
    this.told.add(event);
    const { native } = event;
    if (!(native instanceof Beyond) || native === SILENCE) return;
    if (native.type === DONE_MARK) {
      out.push({ data: DONE_MARK });
      return;
    }
    const { type, name, blocks, part, difference } = native;
    const plain = type === undefined ? this.told.response(blocks, true) : this.told.frame(type, blocks, part, event);
    const data = JSON.stringify(applied(plain, difference));
    out.push(name === undefined ? { data } : { name, data });
  }
}

/** All that the vocabulary said of a block. */
interface ToldBlock {
  readonly opening: EventOf<"open">;
  readonly texts: string[];
  readonly annotations: JsonObject[];
  logprobs?: unknown[];
  encrypted?: string;
  json?: unknown;
}

/** Where a frame repeats the whole of what its deltas said. */
const DONE: ReadonlyMap<string, string> = new Map([
  ["response.output_text.done", "text"],
  ["response.refusal.done", "refusal"],
  ["response.reasoning_text.done", "text"],
  ["response.reasoning_summary_text.done", "text"],
  ["response.function_call_arguments.done", "arguments"],
  ["response.custom_tool_call_input.done", "input"],
]);

/** The fold of the vocabulary's events, and the plain frames it comes to. */
class Told {
  private readonly blocks = new Map<number, ToldBlock>();
  private start: EventOf<"start"> | undefined;
  private end: EventOf<"finish"> | undefined;
  private usage: Usage | undefined;
  private frames = 0;

  add(event: Event): void {
    if (event.type === "start") this.start = event;
    else if (event.type === "finish") this.end = event;
    else if (event.type === "usage") this.usage = event.usage;
    else if (event.type === "open") this.blocks.set(event.block, { opening: event, texts: [], annotations: [] });
    else if ("block" in event) this.grow(this.blocks.get(event.block) as ToldBlock, event);
  }

  private grow(block: ToldBlock, event: Event): void {
    if (event.type === "text" || event.type === "arguments") {
      const part = (event.type === "text" && event.part) || 0;
      block.texts[part] = (block.texts[part] ?? "") + event.text;
      if (event.type === "text" && event.logprobs)
        block.logprobs = [...(block.logprobs ?? []), ...asList(event.logprobs)];
    } else if (event.type === "citation") block.annotations.push(annotationOf(event.citation));
    else if (event.type === "opaque") block.encrypted = event.opaque.data;
    else if (event.type === "server") block.json = event.json.value;
    else if (event.type === "media") block.texts.push(event.base64 ?? "");
  }

  /** A frame as far as the vocabulary tells it. */
  frame(type: string, blocks: readonly (readonly number[])[], part: number, event: Event): JsonObject {
    const plain: JsonObject = { type, sequence_number: this.frames++ };
    const [first = []] = blocks;
    const block = this.blocks.get(first[0] ?? -1);
    const member = DONE.get(type);
    if (/^response\.[a-z_]+$/.test(type)) plain["response"] = this.response(blocks, this.end !== undefined);
    else if (type.startsWith("response.output_item.")) plain["item"] = this.item(first);
    else if (event.type === "citation") plain["annotation"] = annotationOf(event.citation);
    else if (event.type === "text") Object.assign(plain, { delta: event.text, logprobs: event.logprobs ?? [] });
    else if (event.type === "arguments") plain["delta"] = event.text;
    else if (block && member) plain[member] = block.texts[part] ?? "";
    else if (block && type.includes("_part.")) plain["part"] = this.part(block, part);
    return plain;
  }

  /** The response as far as the vocabulary tells it. */
  response(blocks: readonly (readonly number[])[], whole: boolean): JsonObject {
    const { id, model, created } = this.start ?? {};
    return {
      ...{ object: "response", id, model, created_at: created },
      ...(whole ? endOf(this.end) : { status: "in_progress", incomplete_details: null }),
      usage: whole && this.usage ? usageOf(this.usage) : null,
      output: whole ? blocks.map((each) => this.item(each)) : [],
    };
  }

  private item(blocks: readonly number[]): unknown {
    const [first, ...more] = blocks.map((block) => this.blocks.get(block) as ToldBlock);
    if (!first) return {};
    const { opening, texts } = first;
    if (opening.kind === "server") return first.json ?? {};
    if (opening.kind === "media") return { type: "image_generation_call", result: texts.join("") };
    if (opening.kind === "tool_call") {
      const { id, name, namespace, custom } = opening;
      const named = { call_id: id, name, ...(namespace === undefined ? undefined : { namespace }) };
      const text = texts[0] ?? "";
      return custom
        ? { type: "custom_tool_call", ...named, input: text }
        : { type: "function_call", ...named, arguments: text };
    }
    const parts = [first, ...more];
    if (opening.kind !== "reasoning")
      return { type: "message", role: "assistant", content: parts.map((part) => this.part(part, 0)) };
    const texted = (summary: boolean) =>
      parts
        .filter(({ opening }) => opening.kind === "reasoning" && (opening.summary === true) === summary)
        .flatMap((block) => Array.from(block.texts, (_, n) => this.part(block, n)));
    const content = texted(false);
    const encrypted = parts.find(({ encrypted }) => encrypted !== undefined)?.encrypted;
    return {
      ...{ type: "reasoning", summary: texted(true) },
      ...(content.length > 0 ? { content } : undefined),
      ...(encrypted === undefined ? undefined : { encrypted_content: encrypted }),
    };
  }

  private part({ opening, texts, annotations, logprobs = [] }: ToldBlock, part: number): JsonObject {
    const text = texts[part] ?? "";
    if (opening.kind === "text") return { type: "output_text", text, annotations, logprobs };
    if (opening.kind === "refusal") return { type: "refusal", refusal: text };
    return { type: opening.kind === "reasoning" && opening.summary ? "summary_text" : "reasoning_text", text };
  }
}

function differing(plain: unknown, actual: unknown): Difference {
  if (Object.is(plain, actual)) return undefined;
  const [one, two] = [membersOf(plain), membersOf(actual)];
  const lists = Array.isArray(plain) && Array.isArray(actual) && plain.length === actual.length;
  if (!one || !two || (Array.isArray(plain) || Array.isArray(actual) ? !lists : false)) return { value: actual };
  const members: Record<string, Difference> = {};
  for (const name of Object.keys(two)) {
    const difference = name in one ? differing(one[name], two[name]) : { value: two[name] };
    if (difference) members[name] = difference;
  }
  const gone = Object.keys(one).filter((name) => !(name in two));
  return gone.length + Object.keys(members).length > 0 ? { members, gone } : undefined;
}

function applied(plain: unknown, difference: Difference): unknown {
  if (difference === undefined) return plain;
  if ("value" in difference) return difference.value;
  const value = (Array.isArray(plain) ? [...plain] : { ...(plain as object) }) as Record<string, unknown>;
  for (const [name, each] of Object.entries(difference.members)) value[name] = applied(value[name], each);
  for (const name of difference.gone) delete value[name];
  return value;
}

const membersOf = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
