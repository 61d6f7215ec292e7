import {
  asObject,
  type EncodedFrame,
  GatewayError,
  type JsonObject,
  RawJson,
  type ResponseContext,
  writeJson,
} from "model-gateway/protocol";
import { isObject } from "./words.ts";

/** What a delta adds to: the type of the delta, and its member. */
export const DELTAS = {
  text_delta: "text",
  thinking_delta: "thinking",
  input_json_delta: "partial_json",
  signature_delta: "signature",
} as const;

export type DeltaType = keyof typeof DELTAS;

/** Where an answer is written to, block by block: as frames, or folded into a message. */
export interface Sink {
  start(message: JsonObject, frame?: JsonObject): void;
  open(index: number, block: JsonObject): void;
  /** More of the open block. `rest` and `frame`: members beside it. */
  grow(index: number, type: DeltaType, text: string, rest?: JsonObject, frame?: JsonObject): void;
  cite(index: number, citation: JsonObject): void;
  close(index: number, frame?: JsonObject): void;
  finish(delta: JsonObject, usage: JsonObject | undefined, frame?: JsonObject): void;
  /** A frame of its own: `ping`, `message_stop`, or one that is nobody else's. */
  frame(name: string, json: JsonObject): void;
}

/** Writes frames. */
export class Frames implements Sink {
  out: EncodedFrame[] = [];

  start(message: JsonObject, frame?: JsonObject): void {
    this.frame("message_start", { type: "message_start", message, ...frame });
  }

  open(index: number, block: JsonObject): void {
    const json = `{"type":"content_block_start","index":${index},"content_block":${writeJson(block)}}`;
    this.out.push({ name: "content_block_start", data: json });
  }

  grow(index: number, type: DeltaType, text: string, rest?: JsonObject, frame?: JsonObject): void {
    const more = rest ? `,${writeJson(rest).slice(1, -1)}` : "";
    const beside = frame ? `,${writeJson(frame).slice(1, -1)}` : "";
    const delta = `{"type":"${type}","${DELTAS[type]}":${JSON.stringify(text)}${more}}`;
    const json = `{"type":"content_block_delta","index":${index},"delta":${delta}${beside}}`;
    this.out.push({ name: "content_block_delta", data: json });
  }

  cite(index: number, citation: JsonObject): void {
    const delta = { type: "citations_delta", citation };
    this.frame("content_block_delta", { type: "content_block_delta", index, delta });
  }

  close(index: number, frame?: JsonObject): void {
    const beside = frame ? `,${writeJson(frame).slice(1, -1)}` : "";
    this.out.push({ name: "content_block_stop", data: `{"type":"content_block_stop","index":${index}${beside}}` });
  }

  finish(delta: JsonObject, usage: JsonObject | undefined, frame?: JsonObject): void {
    this.frame("message_delta", { type: "message_delta", delta, usage, ...frame });
  }

  frame(name: string, json: JsonObject): void {
    this.out.push({ name, data: writeJson(json) });
  }
}

/** Members of usage that `message_delta` replaces. [S: the SDK's accumulator, but for the last two] */
const TOTALS = [
  "input_tokens",
  "cache_creation_input_tokens",
  "cache_read_input_tokens",
  "output_tokens",
  "output_tokens_details",
  "server_tool_use",
  "cache_creation",
  "service_tier",
];

/** Ends that may come in the middle of a call. */
const CUT: ReadonlySet<string> = new Set(["max_tokens", "model_context_window_exceeded", "refusal"]);

/** Folds an answer into a message as the vendor's SDK folds a stream. */
export class Message implements Sink {
  private message: JsonObject = {};
  private readonly content: JsonObject[] = [];
  /** Arguments of the open call so far. */
  private input = "";
  /** Citations of the open text so far. */
  private citations: JsonObject[] = [];
  /** Calls whose arguments are no object. */
  private readonly unfit: number[] = [];

  constructor(private readonly context: Pick<ResponseContext, "drop">) {}

  /** The message as JSON text. */
  whole(): string {
    return writeJson({ ...this.message, content: this.content });
  }

  start(message: JsonObject): void {
    this.message = message;
  }

  open(_index: number, block: JsonObject): void {
    this.content.push({ ...block });
    this.input = "";
    this.citations = [];
  }

  grow(index: number, type: DeltaType, text: string): void {
    const block = this.content[index] as JsonObject;
    if (type === "input_json_delta") this.input += text;
    else if (type === "signature_delta") block["signature"] = text;
    else block[DELTAS[type]] = String(block[DELTAS[type]] ?? "") + text;
  }

  cite(index: number, citation: JsonObject): void {
    this.citations.push(citation);
    (this.content[index] as JsonObject)["citations"] = this.citations;
  }

  close(index: number): void {
    const block = this.content[index] as JsonObject;
    if (block["type"] !== "tool_use") return;
    const input = new RawJson(this.input === "" ? "{}" : this.input);
    if (isObject(input)) block["input"] = input;
    else this.unfit.push(index);
  }

  /** @throws GatewayError `upstream_invalid` when a call's arguments are not an object, unless the answer was cut there */
  finish(delta: JsonObject, usage: JsonObject | undefined, frame?: JsonObject): void {
    const totals = asObject(this.message["usage"]) ?? {};
    for (const name of TOTALS) if (usage?.[name] !== undefined && usage[name] !== null) totals[name] = usage[name];
    this.message = { ...this.message, ...delta, usage: totals, ...frame };
    const [cut, ...more] = this.unfit;
    if (cut === undefined) return;
    if (more.length > 0 || !CUT.has(String(delta["stop_reason"])))
      throw new GatewayError("upstream_invalid", {
        message: "The arguments of the model's tool call are not a JSON object.",
      });
    this.content.splice(cut, 1);
    this.context.drop("content.tool_use", "The answer was cut within the call.");
  }

  frame(): void {}
}
