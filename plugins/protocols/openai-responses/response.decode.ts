import {
  asCount,
  asList,
  asObject,
  asText,
  type Citation,
  defined,
  type Ending,
  type Event,
  type Fault,
  type FinishReason,
  type Frame,
  GatewayError,
  type JsonObject,
  type Opening,
  RawJson,
  type ResponseDecoder,
  type ResponseSource,
} from "model-gateway/protocol";
import { faultIn } from "../openai/errors.ts";
import { readUsage } from "./usage.ts";
import { NAME, type ReasoningExtra } from "./wire.ts";

/** Events without content, or with content that the end of their item repeats. */
const SILENT =
  /^(?:keepalive|response\.(?:created|queued|in_progress|\w+\.done|(?:\w*_call\w*|mcp_\w+|compaction)\..+))$/;

/** The last event of a stream. */
const LAST: ReadonlySet<string> = new Set(["response.completed", "response.incomplete", "response.failed"]);

const ENDED = /^(?:completed|incomplete|failed|cancelled)$/;
/**
 * Statuses without a response. One still generated in the background would be fetched by its id, which no other protocol can.
 */
const FAILED = /^(?:failed|cancelled|queued|in_progress)$/;

/** Returns a decoder for a stream of response events. */
export function decoder(source: ResponseSource): ResponseDecoder {
  return new ResponsesDecoder(source);
}

/**
 * Decodes a whole response, as a stream of its items and its end.
 * @throws GatewayError `upstream_invalid` when it is not a response
 */
export function decode(text: string, source: ResponseSource): Event[] {
  const body = parsed(text);
  if (!Array.isArray(body?.["output"])) throw new GatewayError("upstream_invalid");
  const out: Event[] = [];
  const items = new ItemDecoder(source);
  out.push(startOf(body, source));
  asList(body["output"]).forEach((each, index) => {
    items.done(index, asObject(each) ?? {}, out);
  });
  finish(body, items, out);
  if (out.at(-1)?.type !== "error") out.push({ type: "end" });
  return out;
}

function parsed(text: string): JsonObject | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The decoder of one stream. */
class ResponsesDecoder implements ResponseDecoder {
  private readonly items: ItemDecoder;
  private started = false;
  /** Whether a failure or the end has been decoded. */
  private over = false;

  constructor(private readonly source: ResponseSource) {
    this.items = new ItemDecoder(source);
  }

  frame(frame: Frame, out: Event[]): void {
    if (this.over) return;
    const { text } = frame;
    // The vendor does not send this mark, others do; the response is complete before it. [F]
    if (text === "[DONE]") return;
    if (text === undefined) {
      out.push({ type: "ping" });
      return;
    }
    try {
      this.read(frame, out);
    } catch (thrown) {
      this.fail(GatewayError.from(thrown, "upstream_invalid"), out);
    }
  }

  end(out: Event[]): void {
    if (!this.over) this.fail(new GatewayError("upstream_truncated"), out);
  }

  private fail(fault: Fault, out: Event[]): void {
    this.over = true;
    out.push({ type: "error", fault });
  }

  private start(response: unknown, out: Event[]): boolean {
    if (this.started) return false;
    this.started = true;
    out.push(startOf(asObject(response) ?? {}, this.source));
    return true;
  }

  private read(frame: Frame, out: Event[]): void {
    const json = asObject(frame.json());
    const type = asText(json?.["type"]) ?? frame.event;
    const error = asObject(json?.["error"]);
    if (json && (type === "error" || (type === undefined && error))) this.fail(faultIn(error ?? json), out);
    else if (!json || type === undefined) this.fail(new GatewayError("upstream_invalid"), out);
    else {
      const first = this.start(json["response"], out);
      if (LAST.has(type)) this.last(asObject(json["response"]) ?? {}, type, out);
      else if (this.grow(type, json, out) || this.item(type, json, out)) return;
      else if (!SILENT.test(type)) out.push({ type: "unsaid", path: type });
      else if (!first) out.push({ type: "ping" });
    }
  }

  /** Handles events that occur for every few letters. */
  private grow(type: string, json: JsonObject, out: Event[]): boolean {
    const index = asCount(json["output_index"]) ?? 0;
    const delta = asText(json["delta"]) ?? "";
    const place = asCount(json["content_index"] ?? json["summary_index"]) ?? 0;
    switch (type) {
      case "response.output_text.delta":
        this.items.text(index, "text", place, delta, out, json["logprobs"]);
        return true;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.items.arguments(index, delta, out);
        return true;
      case "response.reasoning_summary_text.delta":
        this.items.text(index, "summary", place, delta, out);
        return true;
      case "response.reasoning_text.delta":
        this.items.text(index, "reasoning", place, delta, out);
        return true;
      case "response.refusal.delta":
        this.items.text(index, "refusal", place, delta, out);
        return true;
      default:
        return false;
    }
  }

  /** Handles events that occur a few times per item. */
  private item(type: string, json: JsonObject, out: Event[]): boolean {
    const index = asCount(json["output_index"]) ?? 0;
    const place = asCount(json["content_index"] ?? json["summary_index"]) ?? 0;
    const part = asObject(json["part"]) ?? {};
    switch (type) {
      case "response.output_item.added":
        this.items.added(index, asObject(json["item"]) ?? {}, out);
        return true;
      case "response.output_item.done":
        this.items.done(index, asObject(json["item"]) ?? {}, out);
        return true;
      case "response.content_part.added":
      case "response.content_part.done":
        this.items.part(index, place, part, type === "response.content_part.done", out);
        return true;
      case "response.reasoning_summary_part.added":
      case "response.reasoning_summary_part.done":
        this.items.wholeText(index, "summary", place, asText(part["text"]) ?? "", out);
        return true;
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
        this.items.wholeArguments(index, asText(json["arguments"] ?? json["input"]) ?? "", out);
        return true;
      case "response.output_text.annotation.added":
        this.items.annotation(index, place, json["annotation"], out);
        return true;
      default:
        return false;
    }
  }

  private last(response: JsonObject, type: string, out: Event[]): void {
    const named = asText(response["status"]) ?? "";
    const status = ENDED.test(named) ? named : type.slice("response.".length);
    this.items.rest(asList(response["output"]), out);
    finish({ ...response, status }, this.items, out);
    this.over = true;
    if (out.at(-1)?.type !== "error") out.push({ type: "end" });
  }
}

function startOf(response: JsonObject, source: ResponseSource): Event {
  const created = asCount(response["created_at"]);
  const id = asText(response["id"]) ?? "";
  return { type: "start", id, model: asText(response["model"]) || source.model, ...defined({ created }) };
}

/** Emits the end of the response, from its status, details and items together, and its usage. */
function finish(response: JsonObject, items: ItemDecoder, out: Event[]): void {
  const usage = readUsage(response);
  const status = asText(response["status"]) ?? "completed";
  if (FAILED.test(status)) {
    const error = asObject(response["error"]) ?? { message: `The provider's answer has the status "${status}".` };
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "error", fault: faultIn(error) });
    return;
  }
  if (asObject(response["moderation"])) out.push({ type: "unsaid", path: "moderation" });
  const why = asText(asObject(response["incomplete_details"])?.["reason"]);
  out.push({ type: "finish", choice: 0, reason: reasonOf(status, why, items), raw: why ?? status });
  if (usage) out.push({ type: "usage", usage });
}

const CUT: ReadonlyMap<string | undefined, FinishReason> = new Map([
  ["max_output_tokens", "length"],
  ["content_filter", "content_filter"],
]);

function reasonOf(status: string, why: string | undefined, items: ItemDecoder): FinishReason {
  if (status === "incomplete") return CUT.get(why) ?? "other";
  if (status !== "completed") return "other";
  if (items.called) return "tool_calls";
  return items.refused ? "refusal" : "stop";
}

type ItemTextKind = "text" | "refusal" | "summary" | "reasoning";

/** A block of an item, and its progress. */
interface ItemBlock {
  readonly number: number;
  readonly kind: ItemTextKind | "call" | "server" | "image";
  /** Parts that have text already. */
  readonly filled: Set<number>;
  /** Number of annotations decoded. */
  cited: number;
  open: boolean;
}

/** An output item in progress. A message has a block for each content part, reasoning for its summary and its text. */
interface IncomingItem {
  readonly type: string;
  readonly index: number;
  readonly blocks: Map<number, ItemBlock>;
  done: boolean;
}

/** Maximum number of items per response: one can be added without an event of any weight. */
const MOST_ITEMS = 10_000;

/** Keys of a reasoning item's two blocks. */
const SUMMARY_BLOCK = 0;
const TEXT_BLOCK = 1;

const OPENINGS: Readonly<Record<ItemTextKind, Opening>> = {
  text: { kind: "text" },
  refusal: { kind: "refusal" },
  summary: { kind: "reasoning", summary: true },
  reasoning: { kind: "reasoning" },
};

/** Decodes output items, whole or in parts, into blocks. Everything may arrive twice: known content is not repeated. */
class ItemDecoder {
  /** Whether there was a call for the client. */
  called = false;
  refused = false;
  private readonly items = new Map<number, IncomingItem>();
  private opened = 0;

  constructor(private readonly source: ResponseSource) {}

  /** Begins an item. */
  added(index: number, json: JsonObject, out: Event[]): void {
    if (this.items.has(index)) return;
    const item = this.make(index, asText(json["type"]) ?? "");
    if (isCall(item.type)) this.call(item, json, out);
  }

  /** Begins or continues a text, refusal or reasoning. `place`: the index of its part in the item. */
  text(index: number, kind: ItemTextKind, place: number, text: string, out: Event[], logprobs?: unknown): void {
    const block = this.block(this.items.get(index) ?? this.make(index, typeOf(kind)), kind, place, out);
    if (block?.open) this.pushText(block, place, text, out, logprobs);
  }

  /** Decodes a whole text, for vendors that did not stream it. */
  wholeText(index: number, kind: ItemTextKind, place: number, text: string, out: Event[], logprobs?: unknown): void {
    const item = this.items.get(index) ?? this.make(index, typeOf(kind));
    const block = this.block(item, kind, place, out);
    if (block?.open && !block.filled.has(partOf(kind, place))) this.pushText(block, place, text, out, logprobs);
  }

  /** Begins or completes a part of a message or of raw reasoning. */
  part(index: number, place: number, json: JsonObject, whole: boolean, out: Event[]): void {
    const kind = KINDS.get(asText(json["type"]));
    if (kind === undefined) {
      if (whole) out.push({ type: "unsaid", path: `output.${index}.content.${place}` });
      return;
    }
    this.wholeText(index, kind, place, asText(json["text"] ?? json["refusal"]) ?? "", out, json["logprobs"]);
    if (kind === "reasoning") return;
    const block = this.items.get(index)?.blocks.get(place);
    if (block === undefined) return;
    for (const each of asList(json["annotations"]).slice(block.cited)) this.annotation(index, place, each, out);
    if (whole) close(block, out);
  }

  annotation(index: number, place: number, json: unknown, out: Event[]): void {
    const block = this.items.get(index)?.blocks.get(place);
    if (block?.kind !== "text") return;
    const citation = citationOf(asObject(json) ?? {});
    if (citation && block.open) out.push({ type: "citation", block: block.number, citation });
    else out.push({ type: "unsaid", path: `output.${index}.content.${place}.annotations.${block.cited}` });
    block.cited++;
  }

  /** Appends to a call's arguments or input. Those of an unknown call come with its end. */
  arguments(index: number, text: string, out: Event[]): void {
    const block = this.items.get(index)?.blocks.get(0);
    if (block?.kind === "call" && block.open) pushArguments(block, text, out);
  }

  /** Completes a call's arguments or input: only the item itself follows. */
  wholeArguments(index: number, text: string, out: Event[]): void {
    const block = this.items.get(index)?.blocks.get(0);
    if (block?.kind !== "call" || !block.open) return;
    if (!block.filled.has(0)) pushArguments(block, text, out);
    close(block, out);
  }

  /** Completes an item. */
  done(index: number, json: JsonObject, out: Event[]): void {
    const item = this.items.get(index) ?? this.make(index, asText(json["type"]) ?? "");
    if (item.done) return;
    if (item.type === "message") this.message(item, json, out);
    else if (item.type === "reasoning") this.reasoning(item, json, out);
    else if (isCall(item.type)) {
      this.call(item, json, out);
      this.wholeArguments(index, argumentsOf(json), out);
    } else if (!this.image(item, json, out)) {
      const result = item.type.endsWith("_output");
      const { number: block } = this.open(item, 0, "server", { kind: "server", name: item.type, result }, out);
      out.push({ type: "server", block, json: new RawJson(JSON.stringify(json)) });
    }
    for (const block of item.blocks.values()) close(block, out);
    item.done = true;
  }

  /**
   * Ends the response: decodes items that only the last event holds, and ends those whose end is missing. They are matched by
   * order and type, not by id, because vendors change ids in mid-stream [F: OpenRouter, Copilot].
   */
  rest(output: readonly unknown[], out: Event[]): void {
    const waiting = [...this.items.values()].sort((a, b) => a.index - b.index);
    let free = (waiting.at(-1)?.index ?? -1) + 1;
    let at = 0;
    for (const each of output) {
      const json = asObject(each) ?? {};
      const item = waiting[at]?.type === json["type"] ? waiting[at++] : undefined;
      if (!item?.done) this.done(item?.index ?? free++, json, out);
    }
    for (const item of waiting) if (!item.done) this.done(item.index, { type: item.type }, out);
  }

  /** Creates an item. @throws GatewayError when there are too many */
  private make(index: number, type: string): IncomingItem {
    if (this.items.size >= MOST_ITEMS)
      throw new GatewayError("upstream_invalid", {
        message: `The provider's answer has more than ${MOST_ITEMS} items.`,
      });
    const item: IncomingItem = { type, index, blocks: new Map(), done: false };
    this.items.set(index, item);
    return item;
  }

  private open(item: IncomingItem, key: number, kind: ItemBlock["kind"], opening: Opening, out: Event[]): ItemBlock {
    const block: ItemBlock = { number: this.opened++, kind, filled: new Set(), cited: 0, open: true };
    item.blocks.set(key, block);
    out.push({ type: "open", block: block.number, choice: 0, ...opening });
    return block;
  }

  private block(item: IncomingItem, kind: ItemTextKind, place: number, out: Event[]): ItemBlock | undefined {
    if (item.done || item.type !== typeOf(kind)) return undefined;
    const key = kind === "summary" ? SUMMARY_BLOCK : kind === "reasoning" ? TEXT_BLOCK : place;
    const known = item.blocks.get(key);
    if (known) return known.kind === kind ? known : undefined;
    if (kind === "refusal") this.refused = true;
    return this.open(item, key, kind, OPENINGS[kind], out);
  }

  private pushText(block: ItemBlock, place: number, text: string, out: Event[], logprobs: unknown): void {
    const likely = asList(logprobs).length > 0;
    if (text === "" && !likely) return;
    const part = partOf(block.kind, place);
    block.filled.add(part);
    const numbered = block.kind === "summary" || part > 0 ? { part } : undefined;
    out.push({ type: "text", block: block.number, text, ...numbered, ...(likely ? { logprobs } : undefined) });
  }

  private message(item: IncomingItem, json: JsonObject, out: Event[]): void {
    asList(json["content"]).forEach((each, place) => {
      this.part(item.index, place, asObject(each) ?? {}, true, out);
    });
    // The final answer continues as plain text; interim commentary has no equivalent.
    if (json["phase"] === "commentary") out.push({ type: "unsaid", path: `output.${item.index}.phase` });
  }

  private reasoning(item: IncomingItem, json: JsonObject, out: Event[]): void {
    const summary = asList(json["summary"]);
    const content = asList(json["content"]);
    const texts = (list: readonly unknown[]) => list.map((each) => asText(asObject(each)?.["text"]) ?? "");
    texts(summary).forEach((text, n) => {
      this.wholeText(item.index, "summary", n, text, out);
    });
    texts(content).forEach((text, n) => {
      this.wholeText(item.index, "reasoning", n, text, out);
    });
    const encrypted = asText(json["encrypted_content"]);
    if (!encrypted) return;
    const [first] = [...item.blocks.values()].filter(({ open }) => open);
    const opening: Opening = { kind: "reasoning", redacted: true };
    const { number: block } = first ?? this.open(item, SUMMARY_BLOCK, "summary", opening, out);
    const { account, model } = this.source;
    const extra: ReasoningExtra = defined({
      summary: summary.length > 0 ? texts(summary) : undefined,
      content: content.length > 0 ? texts(content) : undefined,
    });
    const whole = Object.keys(extra).length > 0 ? { extra } : undefined;
    const opaque = { protocol: NAME, account, model, kind: "encrypted", data: encrypted, ...whole };
    out.push({ type: "opaque", block, opaque });
  }

  /** Decodes an image that the model made: a response in every protocol with images. */
  private image(item: IncomingItem, json: JsonObject, out: Event[]): boolean {
    const base64 = asText(json["result"]);
    if (item.type !== "image_generation_call" || !base64) return false;
    const mime = `image/${asText(json["output_format"]) ?? "png"}`;
    const { number: block } = this.open(item, 0, "image", { kind: "media", media: "image", mime }, out);
    out.push({ type: "media", block, base64 });
    return true;
  }

  private call(item: IncomingItem, json: JsonObject, out: Event[]): void {
    if (item.blocks.size > 0) return;
    this.called = true;
    const id = asText(json["call_id"]) || asText(json["id"]) || undefined;
    const namespace = asText(json["namespace"]) || undefined;
    const custom = item.type === "custom_tool_call" ? true : undefined;
    const name = asText(json["name"]) ?? "";
    const block = this.open(item, 0, "call", { kind: "tool_call", name, ...defined({ id, namespace, custom }) }, out);
    pushArguments(block, argumentsOf(json), out);
  }
}

const KINDS: ReadonlyMap<string | undefined, ItemTextKind> = new Map([
  ["output_text", "text"],
  ["text", "text"],
  ["refusal", "refusal"],
  ["reasoning_text", "reasoning"],
]);

const isCall = (type: string): boolean => type === "function_call" || type === "custom_tool_call";
const typeOf = (kind: ItemTextKind): string => (kind === "text" || kind === "refusal" ? "message" : "reasoning");
const argumentsOf = (json: JsonObject): string => asText(json["arguments"] ?? json["input"]) ?? "";
/** Returns the part's number where one block has several. */
const partOf = (kind: ItemBlock["kind"], place: number): number =>
  kind === "summary" || kind === "reasoning" ? place : 0;

function pushArguments(block: ItemBlock, text: string, out: Event[]): void {
  if (text === "") return;
  block.filled.add(0);
  out.push({ type: "arguments", block: block.number, text });
}

function close(block: ItemBlock, out: Event[]): void {
  if (!block.open) return;
  block.open = false;
  out.push({ type: "close", block: block.number });
}

/** Returns the citation of an annotation; undefined for a file without a name. */
function citationOf(json: JsonObject): Citation | undefined {
  const url = asText(json["url"]);
  const title = asText(json["title"]) ?? asText(json["filename"]);
  if (url === undefined && title === undefined) return undefined;
  const start = asCount(json["start_index"] ?? json["index"]);
  const end = asCount(json["end_index"] ?? json["index"]);
  return defined({ url, title, start, end });
}

const ENDINGS: ReadonlyMap<string | undefined, Ending> = new Map<string, Ending>([
  ["response.completed", "complete"],
  ["response.incomplete", "complete"],
  ["response.failed", "error"],
  ["error", "error"],
]);
const ERROR = Buffer.from('"error"');
/** Maximum length of a first line that names an ending: `event: response.incomplete`. */
const LONGEST_NAME = 27;
const LF = 10;
const CR = 13;

/**
 * Returns how an event ends the stream, if it does. Events have their name twice: in an `event:` line, which comes first, and
 * as `type`. Some vendors omit the line; then the type is searched in the data.
 */
export function ending(frame: Frame): Ending | undefined {
  const { bytes } = frame;
  // "e" of `event:`; a frame that begins otherwise has no such line, or has it after a comment or its data.
  if (bytes[0] === 0x65) {
    let end = 6;
    while (end <= LONGEST_NAME && bytes[end] !== LF && bytes[end] !== CR) end++;
    return end > LONGEST_NAME ? undefined : ENDINGS.get(bytes.toString("latin1", 6, end).trim());
  }
  if (!frame.mayContain("response") && !bytes.includes(ERROR)) return undefined;
  const json = asObject(frame.json());
  return ENDINGS.get(asText(json?.["type"])) ?? (asObject(json?.["error"]) ? "error" : undefined);
}
