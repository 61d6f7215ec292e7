import {
  asCount,
  asList,
  asObject,
  asText,
  type Citation,
  dropUndefined,
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
  Steps,
} from "model-gateway/protocol";
import { parseError } from "../openai/errors.ts";
import { readUsage } from "./usage.ts";
import { IMAGE_CALL, OPENAI_RESPONSES, type ReasoningExtra } from "./wire.ts";

/** Events with a whole text, and its kind. The vendor repeats it in later events; others may not. */
const TEXT_ENDS: ReadonlyMap<string, ItemTextKind> = new Map([
  ["response.output_text.done", "text"],
  ["response.refusal.done", "refusal"],
  ["response.reasoning_summary_text.done", "summary"],
  ["response.reasoning_text.done", "reasoning"],
]);

/** Events without content, or with content that the end of their item repeats. The lookahead keeps a long type linear. */
const IGNORED_EVENTS =
  /^(?:keepalive|response\.(?:created|queued|in_progress|\w+\.done|(?:(?=\w*_call)\w+|mcp_\w+|compaction)\..+))$/;

/** The last event of a stream. */
const FINAL_EVENTS: ReadonlySet<string> = new Set(["response.completed", "response.incomplete", "response.failed"]);

const FINAL_STATUS = /^(?:completed|incomplete|failed|cancelled)$/;
/** Statuses without output. Clients of other protocols cannot fetch a response that is generated in the background. */
const FAILED_STATUS = /^(?:failed|cancelled|queued|in_progress)$/;

/** Returns a decoder for a stream of response events. */
export function createDecoder(source: ResponseSource): ResponseDecoder {
  return new ResponsesDecoder(source);
}

/**
 * Decodes a complete response, as a stream of its items and its end.
 * @throws GatewayError `upstream_invalid` if it is not a response
 */
export function* decodeResponse(bytes: Buffer, source: ResponseSource): Steps<Event[]> {
  const body = asObject(yield* Steps.parsingJson(bytes));
  if (!Array.isArray(body?.["output"])) throw new GatewayError("upstream_invalid");
  const out: Event[] = [];
  const items = new ItemDecoder(source);
  out.push(startEvent(body, source));
  for (const [index, item] of asList(body["output"]).entries()) {
    items.completeItem(index, asObject(item) ?? {}, out);
    if (Steps.endsStep(index)) yield;
  }
  finish(body, items, out);
  if (out.at(-1)?.type !== "error") out.push({ type: "end" });
  return out;
}

/** The decoder of one stream. */
class ResponsesDecoder implements ResponseDecoder {
  private readonly items: ItemDecoder;
  private started = false;
  /** Whether the end or an error has been decoded. */
  private ended = false;

  constructor(private readonly source: ResponseSource) {
    this.items = new ItemDecoder(source);
  }

  frame(frame: Frame, out: Event[]): void {
    if (this.ended) return;
    const { text } = frame;
    // The vendor sends no such terminator, others do; the response is complete before it. [F]
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
    if (!this.ended) this.fail(new GatewayError("upstream_truncated"), out);
  }

  private fail(fault: Fault, out: Event[]): void {
    this.ended = true;
    out.push({ type: "error", fault });
  }

  private start(response: unknown, out: Event[]): boolean {
    if (this.started) return false;
    this.started = true;
    out.push(startEvent(asObject(response) ?? {}, this.source));
    return true;
  }

  private read(frame: Frame, out: Event[]): void {
    const json = asObject(frame.json());
    const type = asText(json?.["type"]) ?? frame.event;
    const error = asObject(json?.["error"]);
    if (json && (type === "error" || (type === undefined && error))) this.fail(parseError(error ?? json), out);
    else if (!json || type === undefined) this.fail(new GatewayError("upstream_invalid"), out);
    else {
      const isFirst = this.start(json["response"], out);
      if (FINAL_EVENTS.has(type)) this.readFinal(asObject(json["response"]) ?? {}, type, out);
      else if (this.readDelta(type, json, out) || this.readItemEvent(type, json, out)) return;
      else if (!IGNORED_EVENTS.test(type)) out.push({ type: "unmapped", path: type });
      else if (!isFirst) out.push({ type: "ping" });
    }
  }

  /** Decodes an event that is sent for every few characters; returns false for others. */
  private readDelta(type: string, json: JsonObject, out: Event[]): boolean {
    const index = asCount(json["output_index"]) ?? this.items.findIndex(type, json);
    const delta = asText(json["delta"]) ?? "";
    const partIndex = asCount(json["content_index"] ?? json["summary_index"]) ?? 0;
    switch (type) {
      case "response.output_text.delta":
        this.items.appendText(index, "text", partIndex, delta, out, json["logprobs"]);
        return true;
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        this.items.appendArguments(index, delta, out);
        return true;
      case "response.reasoning_summary_text.delta":
        this.items.appendText(index, "summary", partIndex, delta, out);
        return true;
      case "response.reasoning_text.delta":
        this.items.appendText(index, "reasoning", partIndex, delta, out);
        return true;
      case "response.refusal.delta":
        this.items.appendText(index, "refusal", partIndex, delta, out);
        return true;
      default:
        return false;
    }
  }

  /** Decodes an event that is sent a few times per item; returns false for others. */
  private readItemEvent(type: string, json: JsonObject, out: Event[]): boolean {
    const index = asCount(json["output_index"]) ?? this.items.findIndex(type, json);
    const partIndex = asCount(json["content_index"] ?? json["summary_index"]) ?? 0;
    const part = asObject(json["part"]) ?? {};
    const ended = TEXT_ENDS.get(type);
    if (ended) {
      const text = asText(json["text"] ?? json["refusal"]) ?? "";
      this.items.completeText(index, ended, partIndex, text, out, json["logprobs"]);
      return true;
    }
    switch (type) {
      case "response.output_item.added":
        this.items.addItem(index, asObject(json["item"]) ?? {}, out);
        return true;
      case "response.output_item.done":
        this.items.completeItem(index, asObject(json["item"]) ?? {}, out);
        return true;
      case "response.content_part.added":
      case "response.content_part.done":
        this.items.readPart(index, partIndex, part, type === "response.content_part.done", out);
        return true;
      case "response.reasoning_summary_part.added":
      case "response.reasoning_summary_part.done":
        this.items.completeText(index, "summary", partIndex, asText(part["text"]) ?? "", out);
        return true;
      case "response.function_call_arguments.done":
      case "response.custom_tool_call_input.done":
        this.items.completeArguments(index, callArguments(json), out);
        return true;
      case "response.output_text.annotation.added":
        this.items.addAnnotation(index, partIndex, json["annotation"], out);
        return true;
      default:
        return false;
    }
  }

  private readFinal(response: JsonObject, type: string, out: Event[]): void {
    const reportedStatus = asText(response["status"]) ?? "";
    const status = FINAL_STATUS.test(reportedStatus) ? reportedStatus : type.slice("response.".length);
    this.items.completeOutput(asList(response["output"]), out);
    finish({ ...response, status }, this.items, out);
    this.ended = true;
    if (out.at(-1)?.type !== "error") out.push({ type: "end" });
  }
}

function startEvent(response: JsonObject, source: ResponseSource): Event {
  const created = asCount(response["created_at"]);
  const id = asText(response["id"]) ?? "";
  return { type: "start", id, model: asText(response["model"]) || source.model, ...dropUndefined({ created }) };
}

/** Emits the end of the response, from its status, details and items together, and its usage. */
function finish(response: JsonObject, items: ItemDecoder, out: Event[]): void {
  const usage = readUsage(response);
  const status = asText(response["status"]) ?? "completed";
  if (FAILED_STATUS.test(status)) {
    const error = asObject(response["error"]) ?? { message: `The provider's answer has the status "${status}".` };
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "error", fault: parseError(error) });
    return;
  }
  if (asObject(response["moderation"])) out.push({ type: "unmapped", path: "moderation" });
  const incompleteReason = asText(asObject(response["incomplete_details"])?.["reason"]);
  out.push({
    type: "finish",
    choice: 0,
    reason: finishReasonOf(status, incompleteReason, items),
    raw: incompleteReason ?? status,
  });
  if (usage) out.push({ type: "usage", usage });
}

const INCOMPLETE_REASONS: ReadonlyMap<string | undefined, FinishReason> = new Map<string | undefined, FinishReason>([
  ["max_output_tokens", "length"],
  // Compatible servers leave the reason out; other protocols would otherwise say that the answer is finished.
  [undefined, "length"],
  ["content_filter", "content_filter"],
]);

function finishReasonOf(status: string, incompleteReason: string | undefined, items: ItemDecoder): FinishReason {
  if (status === "incomplete") return INCOMPLETE_REASONS.get(incompleteReason) ?? "other";
  if (status !== "completed") return "other";
  if (items.hasToolCall) return "tool_calls";
  return items.hasRefusal ? "refusal" : "stop";
}

type ItemTextKind = "text" | "refusal" | "summary" | "reasoning";

/** A block of an item, and its progress. */
interface ItemBlock {
  readonly number: number;
  readonly kind: ItemTextKind | "call" | "server" | "image";
  /** Parts that have text already. */
  readonly filledParts: Set<number>;
  /** Number of annotations decoded. */
  annotationCount: number;
  open: boolean;
}

/** An output item in progress. A message has a block for each content part, reasoning for its summary and its text. */
interface IncomingItem {
  readonly type: string;
  readonly index: number;
  readonly blocks: Map<number, ItemBlock>;
  done: boolean;
}

/** Maximum number of items per response: the size limit of events does not count items without content. */
const MAX_ITEMS = 10_000;

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
  hasToolCall = false;
  hasRefusal = false;
  private readonly items = new Map<number, IncomingItem>();
  /** Items by their own id and that of their call. */
  private readonly itemsById = new Map<string, IncomingItem>();
  /** The last item of each type. */
  private readonly lastItems = new Map<string, IncomingItem>();
  private nextIndex = 0;
  /** Whether items begin without an index: one after the other, while the ends of all follow at the stream's end. */
  private inOrder = false;
  private blockCount = 0;

  constructor(private readonly source: ResponseSource) {}

  /**
   * Returns the index of an event's item where the event does not tell it, as those of imitations of the protocol [S: llama.cpp]: of
   * the item with the event's id, or the last one of its type, or a new one.
   */
  findIndex(eventType: string, event: JsonObject): number {
    const json = asObject(event["item"]);
    const ids = json ? itemIds(json) : [asText(event["item_id"]) ?? ""];
    const known = ids.map((id) => this.itemsById.get(id)).find((item) => item !== undefined);
    if (eventType === "response.output_item.added") {
      this.inOrder = true;
      return known?.done === false ? known.index : this.nextIndex;
    }
    const last = this.lastItems.get(itemTypeOf(eventType, event));
    return (known ?? (last?.done === false ? last : undefined))?.index ?? this.nextIndex;
  }

  /** Begins an item. */
  addItem(index: number, json: JsonObject, out: Event[]): void {
    if (this.items.has(index)) return;
    const item = this.createItem(index, asText(json["type"]) ?? "", out, json);
    if (isCall(item.type)) this.openCall(item, json, out);
  }

  /** Begins or continues a text, refusal or reasoning. @param partIndex the index of its part in the item */
  appendText(
    index: number,
    kind: ItemTextKind,
    partIndex: number,
    text: string,
    out: Event[],
    logprobs?: unknown,
  ): void {
    const block = this.blockFor(index, kind, partIndex, out);
    if (block?.open) this.pushText(block, partIndex, text, out, logprobs);
  }

  /** Decodes a complete text, from vendors that do not stream it. */
  completeText(
    index: number,
    kind: ItemTextKind,
    partIndex: number,
    text: string,
    out: Event[],
    logprobs?: unknown,
  ): void {
    const block = this.blockFor(index, kind, partIndex, out);
    if (block?.open && !block.filledParts.has(partNumber(kind, partIndex)))
      this.pushText(block, partIndex, text, out, logprobs);
  }

  /** Begins or completes a part of a message or of raw reasoning. */
  readPart(index: number, partIndex: number, json: JsonObject, isComplete: boolean, out: Event[]): void {
    const kind = PART_KINDS.get(asText(json["type"]));
    if (kind === undefined) {
      if (isComplete) out.push({ type: "unmapped", path: `output.${index}.content.${partIndex}` });
      return;
    }
    this.completeText(index, kind, partIndex, asText(json["text"] ?? json["refusal"]) ?? "", out, json["logprobs"]);
    if (kind === "reasoning") return;
    const block = this.items.get(index)?.blocks.get(partIndex);
    if (block === undefined) return;
    for (const annotation of asList(json["annotations"]).slice(block.annotationCount))
      this.addAnnotation(index, partIndex, annotation, out);
    if (isComplete) closeBlock(block, out);
  }

  addAnnotation(index: number, partIndex: number, json: unknown, out: Event[]): void {
    const block = this.items.get(index)?.blocks.get(partIndex);
    if (block?.kind !== "text") return;
    const citation = parseCitation(asObject(json) ?? {});
    if (citation && block.open) out.push({ type: "citation", block: block.number, citation });
    else
      out.push({ type: "unmapped", path: `output.${index}.content.${partIndex}.annotations.${block.annotationCount}` });
    block.annotationCount++;
  }

  /** Appends to a call's arguments or input. For an unknown call they are decoded at its end. */
  appendArguments(index: number, text: string, out: Event[]): void {
    const block = this.items.get(index)?.blocks.get(0);
    if (block?.kind === "call" && block.open) pushArguments(block, text, out);
  }

  /** Completes a call's arguments or input: only the item itself follows. */
  completeArguments(index: number, text: string, out: Event[]): void {
    const block = this.items.get(index)?.blocks.get(0);
    if (block?.kind !== "call" || !block.open) return;
    if (!block.filledParts.has(0)) pushArguments(block, text, out);
    closeBlock(block, out);
  }

  completeItem(index: number, json: JsonObject, out: Event[]): void {
    const item = this.items.get(index) ?? this.createItem(index, asText(json["type"]) ?? "", out, json);
    if (item.done) return;
    if (item.type === "message") this.readMessage(item, json, out);
    else if (item.type === "reasoning") this.readReasoning(item, json, out);
    else if (isCall(item.type)) {
      this.openCall(item, json, out);
      this.completeArguments(index, callArguments(json), out);
    } else if (!this.readImage(item, json, out)) {
      const { number: block } = this.openBlock(item, 0, "server", { kind: "server", name: item.type }, out);
      out.push({ type: "server", block, json: new RawJson(JSON.stringify(json)) });
    }
    for (const block of item.blocks.values()) closeBlock(block, out);
    item.done = true;
  }

  /**
   * Ends the response: decodes items that only the last event contains, and closes those without an end. They are matched by their
   * order among those of a type, not by id, because vendors change ids in mid-stream [F: OpenRouter, Copilot]. Items of other types
   * may be missing there, or come in another order.
   */
  completeOutput(output: readonly unknown[], out: Event[]): void {
    const decodedItems = [...this.items.values()].sort((a, b) => a.index - b.index);
    const unmatched = Map.groupBy<unknown, IncomingItem>(decodedItems.toReversed(), ({ type }) => type);
    for (const value of output) {
      const json = asObject(value) ?? {};
      const item = unmatched.get(json["type"])?.pop();
      if (!item?.done) this.completeItem(item?.index ?? this.nextIndex, json, out);
    }
    for (const item of decodedItems) if (!item.done) this.completeItem(item.index, { type: item.type }, out);
  }

  /** @throws GatewayError when there are too many */
  private createItem(index: number, type: string, out: Event[], json: JsonObject = {}): IncomingItem {
    if (this.items.size >= MAX_ITEMS)
      throw new GatewayError("upstream_invalid", {
        message: `The provider's answer has more than ${MAX_ITEMS} items.`,
      });
    const item: IncomingItem = { type, index, blocks: new Map(), done: false };
    this.items.set(index, item);
    // Some encoders write one block at a time: the answer would wait for the end of the thoughts.
    if (this.inOrder)
      for (const block of this.lastItems.get("reasoning")?.blocks.values() ?? []) closeBlock(block, out);
    for (const id of itemIds(json)) this.itemsById.set(id, item);
    this.lastItems.set(type, item);
    this.nextIndex = Math.max(this.nextIndex, index + 1);
    return item;
  }

  private openBlock(
    item: IncomingItem,
    key: number,
    kind: ItemBlock["kind"],
    opening: Opening,
    out: Event[],
  ): ItemBlock {
    const block: ItemBlock = {
      number: this.blockCount++,
      kind,
      filledParts: new Set(),
      annotationCount: 0,
      open: true,
    };
    item.blocks.set(key, block);
    out.push({ type: "open", block: block.number, choice: 0, ...opening });
    return block;
  }

  private blockFor(index: number, kind: ItemTextKind, partIndex: number, out: Event[]): ItemBlock | undefined {
    const item = this.items.get(index) ?? this.createItem(index, itemType(kind), out);
    if (item.done || item.type !== itemType(kind)) return undefined;
    const key = kind === "summary" ? SUMMARY_BLOCK : kind === "reasoning" ? TEXT_BLOCK : partIndex;
    const existing = item.blocks.get(key);
    if (existing) return existing.kind === kind ? existing : undefined;
    if (kind === "refusal") this.hasRefusal = true;
    return this.openBlock(item, key, kind, OPENINGS[kind], out);
  }

  private pushText(block: ItemBlock, partIndex: number, text: string, out: Event[], logprobs: unknown): void {
    const hasLogprobs = asList(logprobs).length > 0;
    if (text === "" && !hasLogprobs) return;
    const part = partNumber(block.kind, partIndex);
    block.filledParts.add(part);
    const partMember = block.kind === "summary" || part > 0 ? { part } : undefined;
    out.push({ type: "text", block: block.number, text, ...partMember, ...(hasLogprobs ? { logprobs } : undefined) });
  }

  private readMessage(item: IncomingItem, json: JsonObject, out: Event[]): void {
    const content = json["content"];
    // Some servers send the text itself.
    const parts = typeof content === "string" ? [{ type: "output_text", text: content }] : asList(content);
    parts.forEach((part, partIndex) => {
      this.readPart(item.index, partIndex, asObject(part) ?? {}, true, out);
    });
    // The final answer continues as plain text; interim commentary has no equivalent.
    if (json["phase"] === "commentary") out.push({ type: "unmapped", path: `output.${item.index}.phase` });
  }

  private readReasoning(item: IncomingItem, json: JsonObject, out: Event[]): void {
    const summary = asList(json["summary"]);
    const content = asList(json["content"]);
    const texts = (list: readonly unknown[]) => list.map((part) => asText(asObject(part)?.["text"]) ?? "");
    texts(summary).forEach((text, n) => {
      this.completeText(item.index, "summary", n, text, out);
    });
    texts(content).forEach((text, n) => {
      this.completeText(item.index, "reasoning", n, text, out);
    });
    const encrypted = asText(json["encrypted_content"]);
    if (!encrypted) return;
    const [first] = [...item.blocks.values()].filter(({ open }) => open);
    if (!first && item.blocks.size > 0) {
      out.push({ type: "unmapped", path: `output.${item.index}.encrypted_content` });
      return;
    }
    const opening: Opening = { kind: "reasoning", redacted: true };
    const { number: block } = first ?? this.openBlock(item, SUMMARY_BLOCK, "summary", opening, out);
    const { account, model } = this.source;
    const extra: ReasoningExtra = dropUndefined({
      summary: summary.length > 0 ? texts(summary) : undefined,
      content: content.length > 0 ? texts(content) : undefined,
    });
    const extraMember = Object.keys(extra).length > 0 ? { extra } : undefined;
    const opaque = { protocol: OPENAI_RESPONSES, account, model, kind: "encrypted", data: encrypted, ...extraMember };
    out.push({ type: "opaque", block, opaque });
  }

  /** Decodes an image that the model made: a response in every protocol with images. */
  private readImage(item: IncomingItem, json: JsonObject, out: Event[]): boolean {
    const base64 = asText(json["result"]);
    if (item.type !== IMAGE_CALL || !base64) return false;
    const mime = `image/${asText(json["output_format"]) ?? "png"}`;
    const { number: block } = this.openBlock(item, 0, "image", { kind: "media", media: "image", mime }, out);
    out.push({ type: "media", block, base64 });
    return true;
  }

  private openCall(item: IncomingItem, json: JsonObject, out: Event[]): void {
    if (item.blocks.size > 0) return;
    this.hasToolCall = true;
    const id = asText(json["call_id"]) || asText(json["id"]) || undefined;
    const namespace = asText(json["namespace"]) || undefined;
    const custom = item.type === "custom_tool_call" ? true : undefined;
    const name = asText(json["name"]) ?? "";
    const block = this.openBlock(
      item,
      0,
      "call",
      { kind: "tool_call", name, ...dropUndefined({ id, namespace, custom }) },
      out,
    );
    pushArguments(block, callArguments(json), out);
  }
}

const PART_KINDS: ReadonlyMap<string | undefined, ItemTextKind> = new Map([
  ["output_text", "text"],
  ["text", "text"],
  ["refusal", "refusal"],
  ["reasoning_text", "reasoning"],
]);

const isCall = (type: string): boolean => type === "function_call" || type === "custom_tool_call";
const itemIds = (json: JsonObject): string[] => ["id", "call_id"].flatMap((member) => asText(json[member]) || []);
/** Returns the type of the item that an event is about. */
function itemTypeOf(eventType: string, { item, part }: JsonObject): string {
  if (item !== undefined) return asText(asObject(item)?.["type"]) ?? "";
  const kind = PART_KINDS.get(asText(asObject(part)?.["type"]));
  if (kind !== undefined) return itemType(kind);
  return /^response\.(reasoning|function_call|custom_tool_call)_/.exec(eventType)?.[1] ?? "message";
}
const itemType = (kind: ItemTextKind): string => (kind === "text" || kind === "refusal" ? "message" : "reasoning");
/** Returns a call's arguments or input; some servers send an object instead of its text. */
function callArguments(json: JsonObject): string {
  const value = json["arguments"] ?? json["input"];
  return typeof value === "object" && value !== null ? JSON.stringify(value) : (asText(value) ?? "");
}
/** Returns the part's number where one block has several. */
const partNumber = (kind: ItemBlock["kind"], partIndex: number): number =>
  kind === "summary" || kind === "reasoning" ? partIndex : 0;

function pushArguments(block: ItemBlock, text: string, out: Event[]): void {
  if (text === "") return;
  block.filledParts.add(0);
  out.push({ type: "arguments", block: block.number, text });
}

function closeBlock(block: ItemBlock, out: Event[]): void {
  if (!block.open) return;
  block.open = false;
  out.push({ type: "close", block: block.number });
}

/** Returns the citation of an annotation; undefined for a file without a name. */
function parseCitation(json: JsonObject): Citation | undefined {
  const url = asText(json["url"]);
  const title = asText(json["title"]) ?? asText(json["filename"]);
  if (url === undefined && title === undefined) return undefined;
  const start = asCount(json["start_index"] ?? json["index"]);
  const end = asCount(json["end_index"] ?? json["index"]);
  return dropUndefined({ url, title, start, end });
}

const ERROR = "error";
const ENDINGS: ReadonlyMap<string | undefined, Ending> = new Map<string, Ending>([
  ["response.completed", "complete"],
  ["response.incomplete", "complete"],
  ["response.failed", "error"],
  [ERROR, "error"],
]);
const ERROR_MEMBER = Buffer.from('"error"');
/** Maximum length of a first line that names an ending: `event: response.incomplete`. */
const MAX_EVENT_LINE = 27;
const LF = 10;
const CR = 13;

/** Returns how an event ends the stream, if it does. */
export const ending = (frame: Frame): Ending | undefined => ENDINGS.get(lastEventType(frame));

/** Reports whether an event has the final response, completed or failed. A bare `error` has none. */
export function terminal(frame: Frame): boolean {
  const type = lastEventType(frame);
  return type !== ERROR && ENDINGS.has(type);
}

/**
 * Returns the type of an event that may end the stream. Events have their type twice: in an `event:` line, which comes first, and
 * as `type`. Some vendors omit the line; then the type is searched in the data.
 */
function lastEventType(frame: Frame): string | undefined {
  const { bytes } = frame;
  // "e" of `event:`; a frame that begins otherwise has no such line, or has it after a comment or its data.
  if (bytes[0] === 0x65) {
    let end = 6;
    while (end <= MAX_EVENT_LINE && bytes[end] !== LF && bytes[end] !== CR) end++;
    return end > MAX_EVENT_LINE ? undefined : bytes.toString("latin1", 6, end).trim();
  }
  if (!frame.mayContain("response") && !bytes.includes(ERROR_MEMBER)) return undefined;
  const json = asObject(frame.json());
  const type = asText(json?.["type"]);
  return !ENDINGS.has(type) && asObject(json?.["error"]) ? ERROR : type;
}
