import {
  asList,
  asObject,
  asText,
  type Event,
  type Frame,
  GatewayError,
  type JsonObject,
  parseExact,
  RawJson,
  type ResponseDecoder,
  type ResponseSource,
  Steps,
  type Usage,
  writeJson,
} from "model-gateway/protocol";
import { parseErrorEvent } from "./errors.ts";
import { readUsage } from "./usage.ts";
import {
  ANTHROPIC_MESSAGES,
  CLAUDE,
  finishReasonOf,
  holdsObject,
  type OpaqueKind,
  parseCitation,
  RAW_MEMBERS,
} from "./wire.ts";

/** Returns a decoder for a stream of events. */
export const createDecoder = (source: ResponseSource): ResponseDecoder => new MessageStreamDecoder(source);

/** Decodes a complete message. @throws GatewayError `upstream_invalid` */
export function* decodeResponse(bytes: Buffer, source: ResponseSource): Steps<Event[]> {
  const body = asObject(yield* Steps.parsingJson(bytes, RAW_MEMBERS));
  if (!body) throw new GatewayError("upstream_invalid");
  const content = contentOf(body);
  if (content) return yield* new MessageDecoder(source).message({ ...body, content });
  const fault = parseErrorEvent(body);
  if (!fault) throw new GatewayError("upstream_invalid");
  return [{ type: "error", fault }];
}

/** Returns a message's content; undefined for an error. Imitations of the protocol may have a text, or null, instead of a list. */
function contentOf({ type, content }: JsonObject): readonly unknown[] | undefined {
  if (type === "error") return undefined;
  if (Array.isArray(content) || type !== "message") return Array.isArray(content) ? content : undefined;
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content === null ? [] : undefined;
}

const CLIENT_BLOCKS: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use"]);

/** Reports whether only this vendor understands a type of block. */
const isServerBlock = (type: string): boolean => !CLIENT_BLOCKS.has(type);

/** Decodes what streamed and complete responses have in common: the opening of blocks, and the end. */
class BlockDecoder {
  /** Whether there was a call for the client. */
  private hasCall = false;

  constructor(private readonly source: ResponseSource) {}

  protected start(message: JsonObject, usage: Usage | undefined): Event {
    return {
      type: "start",
      id: asText(message["id"]) ?? "",
      model: asText(message["model"]) ?? this.source.model,
      ...(usage ? { usage } : {}),
    };
  }

  /** Opens a block, with events for its initial content. Returns its type. */
  protected open(block: number, content: JsonObject, out: Event[]): string {
    const type = asText(content["type"]) ?? "";
    const at = { type: "open", block, choice: 0 } as const;
    switch (type) {
      case "text":
        out.push({ ...at, kind: "text" });
        this.text(block, content["text"], out);
        for (const citation of asList(content["citations"])) this.citation(block, citation, out);
        break;
      case "thinking":
        out.push({ ...at, kind: "reasoning" });
        this.text(block, content["thinking"], out);
        this.signature(block, content["signature"], asText(content["thinking"]) ?? "", out);
        break;
      case "redacted_thinking":
        out.push({ ...at, kind: "reasoning", redacted: true });
        out.push({ type: "opaque", block, opaque: this.opaque("redacted", asText(content["data"]) ?? "") });
        break;
      case "tool_use": {
        const id = asText(content["id"]);
        this.hasCall = true;
        out.push({ ...at, kind: "tool_call", ...(id ? { id } : {}), name: asText(content["name"]) ?? "" });
        break;
      }
      default:
        out.push({ ...at, kind: "server", name: type });
    }
    return type;
  }

  protected text(block: number, text: unknown, out: Event[]): void {
    if (typeof text === "string" && text !== "") out.push({ type: "text", block, text });
  }

  /**
   * Emits a signature; an empty one is ignored. The thinking text that it signs is stored with it: the vendor requires it back
   * unchanged, and not every client receives it, or sends it back unchanged.
   */
  protected signature(block: number, signature: unknown, thinking: string, out: Event[]): void {
    if (typeof signature !== "string" || signature === "") return;
    const opaque = this.opaque("signature", signature);
    out.push({ type: "opaque", block, opaque: thinking === "" ? opaque : { ...opaque, extra: thinking } });
  }

  /**
   * Emits the state of thinking that has no signature. Imitations of the protocol require it back, or lose what the model thought before
   * a call. [D: issues of agents]
   */
  protected unsigned(block: number, thinking: string, out: Event[]): void {
    if (thinking === "" || CLAUDE.test(this.source.model)) return;
    out.push({ type: "opaque", block, opaque: { ...this.opaque("signature", ""), extra: thinking } });
  }

  protected citation(block: number, citation: unknown, out: Event[]): void {
    out.push({ type: "citation", block, citation: parseCitation(citation) });
  }

  /** Adds the events that end an answer. */
  protected finish(ending: JsonObject, usage: Usage | undefined, out: Event[]): void {
    const raw = asText(ending["stop_reason"]) ?? "";
    const sequence = asText(ending["stop_sequence"]);
    const message = asText(asObject(ending["stop_details"])?.["explanation"]);
    const reason = finishReasonOf(raw);
    out.push({
      type: "finish",
      choice: 0,
      // Imitations of the protocol may end an answer with a call as `end_turn` (vLLM), or for a reason of their own; agents run calls
      // only for `tool_use`.
      reason: this.hasCall && (reason === "stop" || reason === "other") ? "tool_calls" : reason,
      raw,
      ...(sequence === undefined ? {} : { stopSequence: sequence }),
      ...(message === undefined ? {} : { message }),
    });
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "end" });
  }

  private opaque(kind: OpaqueKind, data: string) {
    return { protocol: ANTHROPIC_MESSAGES, account: this.source.account, model: this.source.model, kind, data };
  }
}

class MessageDecoder extends BlockDecoder {
  *message(body: JsonObject): Steps<Event[]> {
    const usage = readUsage(body);
    const out: Event[] = [this.start(body, usage)];
    for (const [block, value] of asList(body["content"]).entries()) {
      const content = asObject(value) ?? {};
      const type = this.open(block, content, out);
      if (type === "tool_use") out.push({ type: "arguments", block, text: inputText(content["input"]) });
      if (type === "thinking" && !content["signature"]) this.unsigned(block, asText(content["thinking"]) ?? "", out);
      if (isServerBlock(type)) out.push({ type: "server", block, json: new RawJson(writeJson(content)) });
      out.push({ type: "close", block });
      if (Steps.endsStep(block)) yield;
    }
    this.finish(body, usage, out);
    return out;
  }
}

/** Returns a call's input as JSON text; empty where there is none, which the vendor writes as an empty object. */
function inputText(input: unknown): string {
  if (input instanceof RawJson) return input.text;
  if (typeof input !== "string" || input === "") return "";
  // Imitations of the protocol may send the object as its text.
  return holdsObject(new RawJson(input)) ? input : JSON.stringify(input);
}

/** An open block of a stream. */
interface OpenBlock {
  /** Its number among the events. */
  block: number;
  type: string;
  /** The initial content of a block that only this vendor understands. */
  content: JsonObject | undefined;
  /** That block's input so far; of a call, its initial input until a delta replaces it. */
  input: string;
  /** The thinking text so far, to be stored with its signature. */
  thinking: string;
  /** Whether that thinking has a signature. */
  signed: boolean;
  /** The size of all this in characters. */
  size: number;
}

/** Maximum buffered characters of open blocks; each delta counts for some. */
const MAX_BUFFERED = 8 * 1024 * 1024;
const DELTA_OVERHEAD = 32;

const INVALID_STREAM = { status: 502, kind: "upstream", code: "upstream_invalid" } as const;

class MessageStreamDecoder extends BlockDecoder implements ResponseDecoder {
  private usage: Usage | undefined;
  /** Open blocks, by the stream's own index of any type. */
  private readonly openBlocks = new Map<unknown, OpenBlock>();
  private blocks = 0;
  private size = 0;
  private started = false;
  /** The delta with the stop reason. */
  private ending: JsonObject | undefined;
  private ended = false;

  frame(frame: Frame, out: Event[]): void {
    if (this.ended || frame.text === undefined || frame.text === "[DONE]") return;
    const json = asObject(frame.json());
    const type = asText(json?.["type"]) ?? frame.event ?? "";
    if (!json) this.fail("An event of the provider's stream is not JSON.", out);
    else if (this.started || type === "message_start" || type === "ping" || type === "error")
      this.read(type, json, frame.text, out);
    else this.fail("The provider's stream does not begin with message_start.", out);
  }

  private read(type: string, json: JsonObject, text: string, out: Event[]): void {
    if (type === "content_block_delta") this.onBlockDelta(json, out);
    else if (type === "content_block_start") this.onBlockStart(json, text, out);
    else if (type === "content_block_stop") this.close(json["index"], out);
    else if (type === "ping") out.push({ type: "ping" });
    else if (type === "message_start") this.onMessageStart(json, out);
    else if (type === "message_delta") this.onMessageDelta(json, out);
    else if (type === "message_stop") this.onMessageStop(out);
    else if (type === "error") this.onError(json, out);
    else out.push({ type: "unmapped", path: type });
  }

  end(out: Event[]): void {
    if (this.ended) return;
    this.ended = true;
    const message = "The provider broke off in the middle of its answer.";
    out.push({ type: "error", fault: { status: 502, kind: "upstream", code: "upstream_truncated", message } });
  }

  private onError(json: JsonObject, out: Event[]): void {
    this.ended = true;
    out.push({
      type: "error",
      fault: parseErrorEvent(json) ?? { ...INVALID_STREAM, message: "The provider reported a failure." },
    });
  }

  private fail(message: string, out: Event[]): void {
    this.ended = true;
    out.push({ type: "error", fault: { ...INVALID_STREAM, message } });
  }

  private onMessageStart(json: JsonObject, out: Event[]): void {
    if (this.started) return;
    this.started = true;
    this.usage = readUsage(json);
    out.push(this.start(asObject(json["message"]) ?? {}, this.usage));
  }

  private onBlockStart(json: JsonObject, text: string, out: Event[]): void {
    const content = exactBlock(asObject(json["content_block"]) ?? {}, text);
    if (!content) {
      this.fail("A block of the provider's stream is nested too deeply.", out);
      return;
    }
    const { index } = json;
    // Imitations of the protocol may not close blocks, and may send a call's input here, where the vendor has `{}`.
    this.close(index, out);
    const block = this.blocks++;
    const type = this.open(block, content, out);
    const input = type === "tool_use" ? inputText(content["input"]) : "";
    const thinking = type === "thinking" ? (asText(content["thinking"]) ?? "") : "";
    const size = isServerBlock(type) ? text.length : input.length;
    this.openBlocks.set(index, {
      block,
      type,
      content: isServerBlock(type) ? content : undefined,
      input,
      thinking,
      signed: Boolean(content["signature"]),
      size,
    });
    this.addBuffered(size, out);
  }

  private addBuffered(characters: number, out: Event[]): void {
    this.size += characters;
    if (this.size > MAX_BUFFERED) this.fail("The provider's blocks are longer than 8 MiB before they are whole.", out);
  }

  private onBlockDelta(json: JsonObject, out: Event[]): void {
    const open = this.openBlocks.get(json["index"]);
    const delta = asObject(json["delta"]);
    if (!open || !delta) this.fail("The provider's stream has content outside of a block.", out);
    else if (open.content) this.server(open, delta, out);
    else this.content(open, delta, out);
  }

  /** Applies a delta; one that does not fit its block is ignored. [S: the SDK's accumulator] */
  private content(open: OpenBlock, delta: JsonObject, out: Event[]): void {
    const { block, type: kind } = open;
    const type = asText(delta["type"]) ?? "content_block_delta";
    if (type === "text_delta" && kind === "text") this.text(block, delta["text"], out);
    else if (type === "input_json_delta" && kind === "tool_use") {
      const text = partialJson(delta);
      if (text === "") return;
      // As in the vendor's SDK, deltas replace the call's initial input.
      open.input = "";
      out.push({ type: "arguments", block, text });
    } else if (type === "thinking_delta" && kind === "thinking") {
      open.thinking += asText(delta["thinking"]) ?? "";
      this.text(block, delta["thinking"], out);
    } else if (type === "signature_delta" && kind === "thinking") {
      open.signed ||= Boolean(delta["signature"]);
      this.signature(block, delta["signature"], open.thinking, out);
    } else if (type === "citations_delta" && kind === "text") this.citation(block, delta["citation"], out);
    else out.push({ type: "unmapped", path: type });
  }

  private server(open: OpenBlock, delta: JsonObject, out: Event[]): void {
    const partialInput = asText(delta["partial_json"]) ?? "";
    open.input += partialInput;
    open.size += partialInput.length + DELTA_OVERHEAD;
    this.addBuffered(partialInput.length + DELTA_OVERHEAD, out);
  }

  private close(index: unknown, out: Event[]): void {
    const open = this.openBlocks.get(index);
    if (!open) return;
    this.openBlocks.delete(index);
    this.size -= open.size;
    const { block, content, input } = open;
    if (!open.signed) this.unsigned(block, open.thinking, out);
    if (content) out.push({ type: "server", block, json: serverJson(content, input) });
    else if (input !== "") out.push({ type: "arguments", block, text: input });
    out.push({ type: "close", block });
  }

  private closeAll(out: Event[]): void {
    for (const index of this.openBlocks.keys()) this.close(index, out);
  }

  private onMessageDelta(json: JsonObject, out: Event[]): void {
    const delta = asObject(json["delta"]) ?? {};
    this.usage = readUsage(json, this.usage);
    if (typeof delta["stop_reason"] === "string" && !this.ending) {
      this.ending = delta;
      this.closeAll(out);
    }
    if (this.usage && !this.ending) out.push({ type: "usage", usage: this.usage });
  }

  private onMessageStop(out: Event[]): void {
    const { ending, usage } = this;
    this.closeAll(out);
    // Only now: imitations of the protocol may send the reason before their last block, which may be a call.
    if (ending) this.finish(ending, usage, out);
    else this.fail("The provider's answer ends without a reason.", out);
    this.ended = true;
  }
}

/** Returns a delta's part of a call's input, which an imitation of the protocol may send as the whole object. */
function partialJson({ partial_json: part }: JsonObject): string {
  return typeof part === "object" && part !== null ? JSON.stringify(part) : (asText(part) ?? "");
}

/** Parses a block and keeps every digit of its JSON; undefined for JSON that is too deep to be serialized again. */
function exactBlock(content: JsonObject, text: string): JsonObject | undefined {
  const type = asText(content["type"]) ?? "";
  const input = asObject(content["input"]);
  if (!isServerBlock(type) && (type !== "tool_use" || !input || Object.keys(input).length === 0)) return content;
  try {
    return asObject(asObject(parseExact(text, RAW_MEMBERS))?.["content_block"]) ?? content;
  } catch {
    return undefined;
  }
}

/** Returns a block that only this vendor understands, with its streamed input. */
function serverJson(content: JsonObject, input: string): RawJson {
  const completeInput = new RawJson(input);
  return new RawJson(writeJson(holdsObject(completeInput) ? { ...content, input: completeInput } : content));
}
