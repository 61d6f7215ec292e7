import {
  asList,
  asObject,
  asText,
  type Decoder,
  type Event,
  type Frame,
  GatewayError,
  type JsonObject,
  parseExact,
  RawJson,
  type Source,
  type Usage,
  writeJson,
} from "model-gateway";
import { citationFrom, citationRest } from "./citations.ts";
import { faultIn } from "./failure.ts";
import { usage as usageOf } from "./usage.ts";
import { isObject, NAME, type OpaqueKind, reasonOf, without } from "./words.ts";

/** What an event's `native` holds: members that the event has no word for, or a whole frame that says nothing in it. */
export interface OwnEvent {
  rest?: JsonObject | undefined;
  /** Members of the frame around what `rest` belongs to. */
  frame?: JsonObject | undefined;
  /** The vendor's usage object, for its members; numbers are taken from the event. */
  usage?: JsonObject | undefined;
  /** An opening block as it came, for those that are only this vendor's. */
  block?: JsonObject;
  /** Arguments that the opening of the call held already. */
  begun?: boolean;
  /** A frame that is no event of ours. */
  whole?: JsonObject;
  name?: string | undefined;
}

/** Reads a stream of events. */
export const decoder = (source: Source): Decoder => new Stream(source);

/** Reads a whole message. @throws GatewayError `upstream_invalid` */
export function decode(text: string, source: Source): Event[] {
  let body: JsonObject | undefined;
  try {
    body = asObject(parseExact(text, RAW));
  } catch (cause) {
    throw new GatewayError("upstream_invalid", { cause });
  }
  if (!body) throw new GatewayError("upstream_invalid");
  const fault = body["type"] === "error" ? faultIn(body) : undefined;
  if (fault) return [{ type: "error", fault }];
  if (!Array.isArray(body["content"])) throw new GatewayError("upstream_invalid");
  return new Whole(source).message(body);
}

const RAW = new Set(["input"]);
const MESSAGE = ["id", "type", "role", "model", "content", "usage"];
const ENDING = ["stop_reason", "stop_sequence", "stop_details"];

/** Reads blocks and how an answer ended, which streamed and whole answers have in common. */
class Blocks {
  constructor(protected readonly source: Source) {}

  protected native(own: OwnEvent): { native?: OwnEvent } {
    return this.source.native ? { native: own } : {};
  }

  protected opaque(kind: OpaqueKind, data: string) {
    return { protocol: NAME, account: this.source.account, model: this.source.model, kind, data };
  }

  /** `start`, from a message; `ending` names members that are read where it ends. */
  protected start(message: JsonObject, usage: Usage | undefined, ending: readonly string[], frame?: JsonObject): Event {
    const own = (): OwnEvent => ({
      rest: without(message, [...MESSAGE, ...ending]),
      usage: asObject(message["usage"]),
      frame,
    });
    return {
      type: "start",
      id: asText(message["id"]) ?? "",
      model: asText(message["model"]) ?? this.source.model,
      ...(usage ? { usage } : {}),
      ...(this.source.native ? { native: own() } : {}),
    };
  }

  /** Opens a block and tells what it holds already. @param begun its `native` keeps the input that it began with */
  protected open(block: number, content: JsonObject, out: Event[], begun = false): string {
    const type = asText(content["type"]) ?? "";
    const at = { type: "open", block, choice: 0 } as const;
    const own = (...taken: string[]): { native?: OwnEvent } =>
      this.source.native ? { native: { rest: without(content, ["type", ...taken]) } } : {};
    switch (type) {
      case "text":
        out.push({
          ...at,
          kind: "text",
          ...own("text", ...(asList(content["citations"]).length > 0 ? ["citations"] : [])),
        });
        this.text(block, content["text"], out);
        for (const citation of asList(content["citations"])) out.push(this.citation(block, citation));
        return type;
      case "thinking":
        out.push({ ...at, kind: "reasoning", ...own("thinking", "signature") });
        this.text(block, content["thinking"], out);
        if (content["signature"]) this.signature(block, content["signature"], out);
        return type;
      case "redacted_thinking":
        out.push({ ...at, kind: "reasoning", redacted: true, ...own("data") });
        out.push({ type: "opaque", block, opaque: this.opaque("redacted", asText(content["data"]) ?? "") });
        return type;
      case "tool_use":
        out.push({ ...at, kind: "tool_call", ...called(content), ...own("id", "name", ...(begun ? [] : ["input"])) });
        return type;
      default:
        out.push({
          ...at,
          kind: "server",
          name: type,
          result: /_result$/.test(type),
          ...this.native({ block: content }),
        });
        return type;
    }
  }

  protected text(block: number, text: unknown, out: Event[]): void {
    if (typeof text === "string" && text !== "") out.push({ type: "text", block, text });
  }

  protected signature(block: number, signature: unknown, out: Event[], own?: OwnEvent): void {
    if (typeof signature !== "string") return;
    out.push({ type: "opaque", block, opaque: this.opaque("signature", signature), ...(own ? { native: own } : {}) });
  }

  protected citation(block: number, citation: unknown): Event {
    return {
      type: "citation",
      block,
      citation: citationFrom(citation),
      ...(this.source.native ? { native: { rest: citationRest(citation) } satisfies OwnEvent } : {}),
    };
  }

  protected finish(ending: JsonObject, own: OwnEvent): Event {
    const raw = asText(ending["stop_reason"]) ?? "";
    const sequence = asText(ending["stop_sequence"]);
    const message = asText(asObject(ending["stop_details"])?.["explanation"]);
    return {
      type: "finish",
      choice: 0,
      reason: reasonOf(raw),
      raw,
      ...(sequence === undefined ? {} : { stopSequence: sequence }),
      ...(message === undefined ? {} : { message }),
      ...this.native(own),
    };
  }
}

function called(content: JsonObject): { id?: string; name: string } {
  const id = asText(content["id"]);
  return { ...(id ? { id } : {}), name: asText(content["name"]) ?? "" };
}

/** Members of an ending that the event does not carry: whether details were told, and what else they say. */
function endingRest(ending: JsonObject): JsonObject | undefined {
  return without(ending, ["stop_reason", "stop_sequence"]);
}

class Whole extends Blocks {
  message(body: JsonObject): Event[] {
    const usage = usageOf(body);
    const out: Event[] = [this.start(body, usage, ENDING)];
    asList(body["content"]).forEach((value, block) => {
      const content = asObject(value) ?? {};
      const type = this.open(block, content, out);
      const { input } = content;
      if (type === "tool_use") out.push({ type: "arguments", block, text: input ? writeJson(input) : "" });
      if (out.at(-1)?.type === "open" && isServer(type)) out.push({ type: "server", block, json: raw(content) });
      out.push({ type: "close", block });
    });
    const ending = Object.fromEntries(ENDING.filter((name) => name in body).map((name) => [name, body[name]]));
    out.push(this.finish(ending, { rest: endingRest(ending) }));
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "end" });
    return out;
  }
}

const OURS: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use"]);
const isServer = (type: string): boolean => !OURS.has(type);
const raw = (value: unknown): RawJson => new RawJson(writeJson(value));

/** A block of a stream that is open. */
interface Open {
  /** Our number of it. */
  block: number;
  type: string;
  /** Of a block that only this vendor understands: what it began with. */
  content: JsonObject | undefined;
  /** The input so far of such a block; of a call, what it began with and no delta has told otherwise. */
  input: string;
  /** What all of that counts for. */
  held: number;
}

/** The most that open blocks hold until they are whole, in characters; each delta counts for some. */
const MOST_HELD = 8 * 1024 * 1024;
const DELTA = 32;

const BROKEN = { status: 502, kind: "upstream", code: "upstream_invalid" } as const;

class Stream extends Blocks implements Decoder {
  private usage: Usage | undefined;
  private readonly open_ = new Map<number, Open>();
  private blocks = 0;
  private held = 0;
  private started = false;
  private finished = false;
  private over = false;

  frame(frame: Frame, out: Event[]): void {
    if (this.over || frame.text === undefined || frame.text === "[DONE]") return;
    const json = asObject(frame.json());
    const type = asText(json?.["type"]) ?? frame.event ?? "";
    if (!json) this.fail("An event of the provider's stream is not JSON.", out);
    else if (this.started || type === "message_start" || type === "ping" || type === "error")
      this.read(type, json, frame.text, out);
    else this.fail("The provider's stream does not begin with message_start.", out);
  }

  private read(type: string, json: JsonObject, text: string, out: Event[]): void {
    if (type === "content_block_delta") this.delta(json, out);
    else if (type === "content_block_start") this.begin(json, text, out);
    else if (type === "content_block_stop") this.stop(json, out);
    else if (type === "ping") out.push({ type: "ping", ...this.native({ rest: without(json, ["type"]) }) });
    else if (type === "message_start") this.first(json, out);
    else if (type === "message_delta") this.last(json, out);
    else if (type === "message_stop") this.complete(json, out);
    else if (type === "error") this.broken(json, out);
    else this.unsaid(type, json, out);
  }

  end(out: Event[]): void {
    if (this.over) return;
    this.over = true;
    const message = "The provider broke off in the middle of its answer.";
    out.push({ type: "error", fault: { status: 502, kind: "upstream", code: "upstream_truncated", message } });
  }

  private broken(json: JsonObject, out: Event[]): void {
    this.over = true;
    out.push({ type: "error", fault: faultIn(json) ?? { ...BROKEN, message: "The provider reported a failure." } });
  }

  private fail(message: string, out: Event[]): void {
    this.over = true;
    out.push({ type: "error", fault: { ...BROKEN, message } });
  }

  /** Something that only this protocol can say. */
  private unsaid(path: string, whole: JsonObject, out: Event[]): void {
    out.push({ type: "unsaid", path, ...this.native({ whole, name: asText(whole["type"]) }) });
  }

  private first(json: JsonObject, out: Event[]): void {
    if (this.started) return;
    this.started = true;
    const message = asObject(json["message"]) ?? {};
    this.usage = usageOf(json);
    out.push(this.start(message, this.usage, [], without(json, ["type", "message"])));
  }

  private begin(json: JsonObject, text: string, out: Event[]): void {
    const content = exactBlock(asObject(json["content_block"]) ?? {}, text);
    if (!content) {
      this.fail("A block of the provider's stream is nested too deeply.", out);
      return;
    }
    const index = Number(json["index"]);
    const block = this.blocks++;
    // Imitations of the protocol send a call's input here, where the vendor sends an empty object.
    const { input } = content;
    const begun = content["type"] === "tool_use" && input instanceof RawJson ? input.text : "";
    const type = this.open(block, content, out, begun !== "");
    const held = isServer(type) ? text.length : begun.length;
    this.open_.set(index, { block, type, content: isServer(type) ? content : undefined, input: begun, held });
    this.hold(held, out);
  }

  private hold(characters: number, out: Event[]): void {
    this.held += characters;
    if (this.held > MOST_HELD) this.fail("The provider's blocks are longer than 8 MiB before they are whole.", out);
  }

  private delta(json: JsonObject, out: Event[]): void {
    const open = this.open_.get(json["index"] as number);
    const delta = asObject(json["delta"]);
    if (!open || !delta) this.fail("The provider's stream has content outside of a block.", out);
    else if (open.content) this.server(open, json, delta, out);
    else {
      // As the vendor's clients have it, the deltas take the place of what the call began with.
      if (open.input !== "" && delta["partial_json"]) open.input = "";
      this.content(open.block, json, delta, out);
    }
  }

  private content(block: number, json: JsonObject, delta: JsonObject, out: Event[]): void {
    const { type } = delta;
    if (type === "text_delta") this.grow("text", block, "text", json, delta, out);
    else if (type === "input_json_delta") this.grow("arguments", block, "partial_json", json, delta, out);
    else if (type === "thinking_delta") this.grow("text", block, "thinking", json, delta, out);
    else if (type === "signature_delta")
      this.signature(block, delta["signature"], out, this.own(json, delta, "signature"));
    else if (type === "citations_delta") out.push(this.citation(block, delta["citation"]));
    else this.unsaid(String(type), json, out);
  }

  private grow(
    type: "text" | "arguments",
    block: number,
    name: string,
    json: JsonObject,
    delta: JsonObject,
    out: Event[],
  ): void {
    const text = delta[name];
    if (typeof text !== "string") return;
    if (this.source.native) out.push({ type, block, text, native: this.own(json, delta, name) });
    else if (text !== "") out.push({ type, block, text });
  }

  private own(json: JsonObject, delta: JsonObject, name: string): OwnEvent | undefined {
    if (!this.source.native) return undefined;
    return { rest: without(delta, ["type", name]), frame: without(json, ["type", "index", "delta"]) };
  }

  private server(open: Open, json: JsonObject, delta: JsonObject, out: Event[]): void {
    const more = asText(delta["partial_json"]) ?? "";
    open.input += more;
    open.held += more.length + DELTA;
    if (this.source.native) this.unsaid(open.type, json, out);
    this.hold(more.length + DELTA, out);
  }

  private stop(json: JsonObject, out: Event[]): void {
    const index = json["index"] as number;
    const open = this.open_.get(index);
    if (!open) return;
    this.open_.delete(index);
    this.held -= open.held;
    const { block, content, input } = open;
    if (content) out.push({ type: "server", block, json: serverJson(content, input) });
    else if (input !== "") out.push({ type: "arguments", block, text: input, ...this.native({ begun: true }) });
    out.push({ type: "close", block, ...this.native({ frame: without(json, ["type", "index"]) }) });
  }

  private last(json: JsonObject, out: Event[]): void {
    const delta = asObject(json["delta"]) ?? {};
    this.usage = usageOf(json, this.usage);
    const usage = asObject(json["usage"]);
    const tells = typeof delta["stop_reason"] === "string" && !this.finished;
    const frame = without(json, ["type", "delta", "usage"]);
    if (tells) out.push(this.finish(delta, { rest: endingRest(delta), frame, usage }));
    this.finished ||= tells;
    if (this.usage) out.push({ type: "usage", usage: this.usage });
  }

  private complete(json: JsonObject, out: Event[]): void {
    if (!this.finished) this.fail("The provider's answer ends without a reason.", out);
    else out.push({ type: "end", ...this.native({ rest: without(json, ["type"]) }) });
    this.over = true;
  }
}

/** A block with every digit of what stays JSON; undefined for JSON that is too deep to be written again. */
function exactBlock(content: JsonObject, text: string): JsonObject | undefined {
  const type = asText(content["type"]) ?? "";
  const input = asObject(content["input"]);
  if (!isServer(type) && (type !== "tool_use" || !input || Object.keys(input).length === 0)) return content;
  try {
    return asObject(asObject(parseExact(text, RAW))?.["content_block"]) ?? content;
  } catch {
    return undefined;
  }
}

/** A block that only this vendor understands, with the input that came in pieces. */
function serverJson(content: JsonObject, input: string): RawJson {
  const told = new RawJson(input);
  return new RawJson(writeJson(isObject(told) ? { ...content, input: told } : content));
}
