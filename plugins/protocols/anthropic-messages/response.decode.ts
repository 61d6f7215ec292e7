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
  type Usage,
  writeJson,
} from "model-gateway/protocol";
import { faultIn } from "./failure.ts";
import { Blocks, isServer, type OwnEvent } from "./response.blocks.ts";
import { usage as usageOf } from "./usage.ts";
import { isObject, without } from "./words.ts";

/** Reads a stream of events. */
export const decoder = (source: ResponseSource): ResponseDecoder => new Stream(source);

/** Reads a whole message. @throws GatewayError `upstream_invalid` */
export function decode(text: string, source: ResponseSource): Event[] {
  let body: JsonObject | undefined;
  try {
    body = asObject(parseExact(text, RAW));
  } catch (cause) {
    throw new GatewayError("upstream_invalid", { cause });
  }
  if (!body) throw new GatewayError("upstream_invalid");
  if (body["type"] !== "error" && Array.isArray(body["content"])) return new Whole(source).message(body);
  const fault = faultIn(body);
  if (!fault) throw new GatewayError("upstream_invalid");
  return [{ type: "error", fault }];
}

const RAW = new Set(["input"]);
const ENDING = ["stop_reason", "stop_sequence", "stop_details"];

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
      if (type === "tool_use") out.push({ type: "arguments", block, text: inputText(content["input"]) });
      if (isServer(type)) out.push({ type: "server", block, json: raw(content) });
      out.push({ type: "close", block });
    });
    const ending = Object.fromEntries(ENDING.filter((name) => name in body).map((name) => [name, body[name]]));
    out.push(this.finish(ending, { rest: endingRest(ending) }));
    if (usage) out.push({ type: "usage", usage });
    out.push({ type: "end" });
    return out;
  }
}

const raw = (value: unknown): RawJson => new RawJson(writeJson(value));

/** A call's input as JSON text; empty where there is none, which the vendor writes as an empty object. */
function inputText(input: unknown): string {
  if (input instanceof RawJson) return input.text;
  return typeof input === "string" && input !== "" ? JSON.stringify(input) : "";
}

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

class Stream extends Blocks implements ResponseDecoder {
  private usage: Usage | undefined;
  /** Blocks that have begun, by the stream's own number, whatever that is. */
  private readonly unclosed = new Map<unknown, Open>();
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
    const { index } = json;
    this.leave(index, out);
    const block = this.blocks++;
    // Imitations of the protocol send a call's input here, where the vendor sends an empty object.
    const begun = content["type"] === "tool_use" ? inputText(content["input"]) : "";
    const type = this.open(block, content, out, begun !== "");
    const held = isServer(type) ? text.length : begun.length;
    this.unclosed.set(index, { block, type, content: isServer(type) ? content : undefined, input: begun, held });
    this.hold(held, out);
  }

  private hold(characters: number, out: Event[]): void {
    this.held += characters;
    if (this.held > MOST_HELD) this.fail("The provider's blocks are longer than 8 MiB before they are whole.", out);
  }

  private delta(json: JsonObject, out: Event[]): void {
    const open = this.unclosed.get(json["index"]);
    const delta = asObject(json["delta"]);
    if (!open || !delta) this.fail("The provider's stream has content outside of a block.", out);
    else if (open.content) this.server(open, json, delta, out);
    else this.content(open, json, delta, out);
  }

  /** A delta that does not fit its block adds nothing to it. [S: the SDK's accumulator] */
  private content(open: Open, json: JsonObject, delta: JsonObject, out: Event[]): void {
    const { block, type: kind } = open;
    const type = asText(delta["type"]) ?? "content_block_delta";
    if (type === "text_delta" && kind === "text") this.grow("text", block, "text", json, delta, out);
    else if (type === "input_json_delta" && kind === "tool_use") {
      // As the vendor's clients have it, the deltas take the place of what the call began with.
      if (asText(delta["partial_json"])) open.input = "";
      this.grow("arguments", block, "partial_json", json, delta, out);
    } else if (type === "thinking_delta" && kind === "thinking") this.grow("text", block, "thinking", json, delta, out);
    else if (type === "signature_delta" && kind === "thinking")
      this.signature(block, delta["signature"], out, this.own(json, delta, "signature"));
    else if (type === "citations_delta" && kind === "text") out.push(this.citation(block, delta["citation"]));
    else this.unsaid(type, json, out);
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
    this.close(json["index"], out, without(json, ["type", "index"]));
  }

  /** Closes what imitations forget to close. Between equals it stays open. */
  private leave(index: unknown, out: Event[]): void {
    if (!this.source.native) this.close(index, out);
  }

  private close(index: unknown, out: Event[], frame?: JsonObject): void {
    const open = this.unclosed.get(index);
    if (!open) return;
    this.unclosed.delete(index);
    this.held -= open.held;
    const { block, content, input } = open;
    if (content) out.push({ type: "server", block, json: serverJson(content, input) });
    else if (input !== "") out.push({ type: "arguments", block, text: input, ...this.native({ begun: true }) });
    out.push({ type: "close", block, ...this.native({ frame }) });
  }

  private last(json: JsonObject, out: Event[]): void {
    const delta = asObject(json["delta"]) ?? {};
    this.usage = usageOf(json, this.usage);
    const usage = asObject(json["usage"]);
    const tells = typeof delta["stop_reason"] === "string" && !this.finished;
    const frame = without(json, ["type", "delta", "usage"]);
    if (tells) {
      this.finished = true;
      for (const index of this.unclosed.keys()) this.leave(index, out);
      out.push(this.finish(delta, { rest: endingRest(delta), frame, usage }));
    }
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
