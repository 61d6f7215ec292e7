import {
  asObject,
  type EncodedFrame,
  GatewayError,
  type JsonObject,
  RawJson,
  type ResponseContext,
  writeJson,
} from "model-gateway/protocol";
import { holdsObject } from "./wire.ts";

/** Each delta type's member of the block. */
const DELTAS = {
  text_delta: "text",
  thinking_delta: "thinking",
  input_json_delta: "partial_json",
  signature_delta: "signature",
} as const;

type DeltaType = keyof typeof DELTAS;

/** The output of blocks: as frames, or into one message. */
export interface BlockWriter {
  start(message: JsonObject): void;
  open(index: number, block: JsonObject): void;
  /** Appends to the open block. */
  append(index: number, type: DeltaType, text: string): void;
  cite(index: number, citation: JsonObject): void;
  close(index: number): void;
  finish(delta: JsonObject, usage: JsonObject): void;
  /** Writes a frame of its own: `ping` or `message_stop`. */
  frame(name: string, json: JsonObject): void;
}

/** Stop reasons that may occur in the middle of a call. */
const TRUNCATING_REASONS: ReadonlySet<string> = new Set(["max_tokens", "model_context_window_exceeded", "refusal"]);

/**
 * The arguments of a response's calls, one call after the other. Clients treat the arguments of a successful response as
 * complete.
 */
class CallInputs {
  /** The open call's arguments so far; undefined: the open block is not a call. */
  private input: string[] | undefined;
  /** Calls whose arguments are not an object. */
  private readonly malformed: number[] = [];

  open({ type }: JsonObject): void {
    this.input = type === "tool_use" ? [] : undefined;
  }

  add(text: string): void {
    this.input?.push(text);
  }

  /** Returns the arguments of the closing call, where they are an object. */
  close(index: number): RawJson | undefined {
    if (!this.input) return undefined;
    const input = new RawJson(this.input.join("") || "{}");
    this.input = undefined;
    if (holdsObject(input)) return input;
    this.malformed.push(index);
    return undefined;
  }

  /**
   * Returns the call that was truncated, if any.
   * @throws GatewayError `upstream_invalid` when a call's arguments are not an object, unless the response was truncated there
   */
  truncatedCall({ stop_reason }: JsonObject): number | undefined {
    const [truncated, ...others] = this.malformed;
    if (truncated !== undefined && (others.length > 0 || !TRUNCATING_REASONS.has(String(stop_reason))))
      throw new GatewayError("upstream_invalid", {
        message: "The arguments of the model's tool call are not a JSON object.",
      });
    return truncated;
  }
}

/** Writes a response as the frames of a stream. */
export class FrameWriter implements BlockWriter {
  out: EncodedFrame[] = [];
  private readonly inputs = new CallInputs();

  start(message: JsonObject): void {
    this.frame("message_start", { type: "message_start", message });
  }

  open(index: number, block: JsonObject): void {
    this.inputs.open(block);
    const data = `{"type":"content_block_start","index":${index},"content_block":${writeJson(block)}}`;
    this.out.push({ name: "content_block_start", data });
  }

  append(index: number, type: DeltaType, text: string): void {
    if (type === "input_json_delta") this.inputs.add(text);
    const delta = `{"type":"${type}","${DELTAS[type]}":${JSON.stringify(text)}}`;
    const data = `{"type":"content_block_delta","index":${index},"delta":${delta}}`;
    this.out.push({ name: "content_block_delta", data });
  }

  cite(index: number, citation: JsonObject): void {
    const delta = { type: "citations_delta", citation };
    this.frame("content_block_delta", { type: "content_block_delta", index, delta });
  }

  close(index: number): void {
    this.inputs.close(index);
    this.out.push({ name: "content_block_stop", data: `{"type":"content_block_stop","index":${index}}` });
  }

  /** Ends the stream. @throws GatewayError `upstream_invalid` in the same cases as `MessageWriter.finish` */
  finish(delta: JsonObject, usage: JsonObject): void {
    this.inputs.truncatedCall(delta);
    this.frame("message_delta", { type: "message_delta", delta, usage });
  }

  frame(name: string, json: JsonObject): void {
    this.out.push({ name, data: writeJson(json) });
  }
}

/** Members of usage that `message_delta` replaces. [S: the SDK's accumulator, but for the last two] */
const USAGE_MEMBERS = [
  "input_tokens",
  "cache_creation_input_tokens",
  "cache_read_input_tokens",
  "output_tokens",
  "output_tokens_details",
  "server_tool_use",
  "cache_creation",
  "service_tier",
];

/** Accumulates a response to a message as the vendor's SDK accumulates a stream. */
export class MessageWriter implements BlockWriter {
  private message: JsonObject = {};
  private readonly content: JsonObject[] = [];
  private readonly inputs = new CallInputs();
  /** The open text's citations so far. */
  private citations: JsonObject[] = [];

  constructor(private readonly context: Pick<ResponseContext, "drop">) {}

  get whole(): JsonObject {
    return { ...this.message, content: this.content };
  }

  start(message: JsonObject): void {
    this.message = message;
  }

  open(_index: number, block: JsonObject): void {
    this.content.push({ ...block });
    this.inputs.open(block);
    this.citations = [];
  }

  append(index: number, type: DeltaType, text: string): void {
    const block = this.content[index] as JsonObject;
    if (type === "input_json_delta") this.inputs.add(text);
    else if (type === "signature_delta") block["signature"] = text;
    else block[DELTAS[type]] = String(block[DELTAS[type]] ?? "") + text;
  }

  cite(index: number, citation: JsonObject): void {
    this.citations.push(citation);
    (this.content[index] as JsonObject)["citations"] = this.citations;
  }

  close(index: number): void {
    const input = this.inputs.close(index);
    if (input) (this.content[index] as JsonObject)["input"] = input;
  }

  /**
   * Ends the message.
   * @throws GatewayError `upstream_invalid` when a call's arguments are not an object, unless the response was truncated there
   */
  finish(delta: JsonObject, usage: JsonObject): void {
    const totals = asObject(this.message["usage"]) ?? {};
    for (const name of USAGE_MEMBERS) if (usage[name] !== undefined && usage[name] !== null) totals[name] = usage[name];
    this.message = { ...this.message, ...delta, usage: totals };
    const truncated = this.inputs.truncatedCall(delta);
    if (truncated === undefined) return;
    this.content.splice(truncated, 1);
    this.context.drop("content.tool_use", "The answer was cut within the call.");
  }

  frame(): void {}
}
