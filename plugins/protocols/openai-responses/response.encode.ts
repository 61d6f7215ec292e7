import {
  asObject,
  callIds,
  type EncodedFrame,
  type Event,
  type EventOf,
  type FinishReason,
  GatewayError,
  type JsonObject,
  type Opaque,
  type ResponseContext,
  type ResponseEncoder,
  Steps,
  safeId,
  type Usage,
  weightOf,
  writeJson,
} from "model-gateway/protocol";
import { isRefusalReason } from "../openai/response.encode.ts";
import { servedTier } from "../openai/wire.ts";
import {
  CallWriter,
  CompactionWriter,
  ImageWriter,
  type ItemPlace,
  type ItemWriter,
  MessageItemWriter,
  ReasoningWriter,
  SequenceWriter,
} from "./response.encode.items.ts";
import { joined } from "./response.encode.json.ts";
import { writeResponsesUsage } from "./usage.ts";
import { requestsCompaction } from "./wire.ts";

/** Maximum weight buffered of a stream: its last event repeats the whole response. */
const MAX_BUFFERED = 8 * 1024 * 1024;
/** Characters of the response's id in its items' ids. */
const ID_STEM_LENGTH = 36;

/** Returns an encoder for a stream of response events. @throws GatewayError when the response is longer than 8 MiB */
export const createEncoder = (context: ResponseContext): ResponseEncoder => encoderFor(context, false).encoder;

/** Encodes a complete response: the one in the stream's last event. */
export function* encodeResponse(events: readonly Event[], context: ResponseContext): Steps<string> {
  const out: EncodedFrame[] = [];
  const { response, encoder } = encoderFor(context, true);
  yield* Steps.forEachEvent(events, (event) => {
    if (event.type !== "error") encoder.event(event, out);
  });
  return response.completeResponse();
}

function encoderFor(
  context: ResponseContext,
  completeOnly: boolean,
): { response: ResponsesEncoder; encoder: ResponseEncoder } {
  // Read once: it is parsed then, and may be large.
  const compacting = requestsCompaction(context.request["input"]);
  const response = new ResponsesEncoder(context, completeOnly, compacting);
  return { response, encoder: compacting ? new CompactionEncoder(response, context) : response };
}

type ItemBlockEvent = Extract<Event, { block: number }>;

/** The prefix of an item's id, by kind. */
type IdPrefix = "msg" | "rs" | "fc" | "ctc" | "ig" | "cmp";

/**
 * Encodes one response. Items follow each other: blocks that open while another is open wait for its end, because clients
 * attribute events to the last item. An item's own end is written when the next begins or the response ends: only then is it
 * known whether another part follows, and whether it was truncated.
 */
class ResponsesEncoder implements ResponseEncoder {
  readonly keepsText = true;
  private readonly frames: SequenceWriter;
  private readonly output: string[] = [];
  private readonly waiting = new Map<number, ItemBlockEvent[]>();
  private readonly callIds = new Set<string>();
  /** Blocks of other choices than the first. */
  private readonly otherChoices = new Set<number>();
  private readonly echo: string;
  private newCallId: () => string;
  private id: string;
  private created: number;
  private block: number | undefined;
  private item: ItemWriter | undefined;
  private itemCount = 0;
  private weight = 0;
  /** Whether the open block is a text of which nothing is written yet. */
  private textPending = false;
  private refused = false;
  private usage: Usage | undefined;
  private finish: EventOf<"finish"> | undefined;
  /** Whether the answer had content that this protocol cannot express. */
  private hasLost = false;

  /**
   * @param completeOnly whether the complete response is written at once, so that it is already in memory
   * @param compacting whether the response may contain only a compaction
   */
  constructor(
    private readonly context: ResponseContext,
    private readonly completeOnly: boolean,
    private readonly compacting: boolean,
  ) {
    this.frames = new SequenceWriter(completeOnly);
    this.echo = requestEcho(context.request);
    this.id = safeId(context.id);
    this.created = context.created;
    this.newCallId = callIds(this.id);
  }

  event(event: Event, out: EncodedFrame[]): void {
    switch (event.type) {
      case "start":
        this.start(event, out);
        break;
      case "usage":
        this.usage = event.usage;
        break;
      case "finish":
        if (event.choice === 0) this.finish = event;
        break;
      case "end":
        this.end(out);
        break;
      case "unmapped":
        this.hasLost = true;
        this.context.drop(event.path, "It has no form in this protocol.");
        break;
      case "error":
      case "ping":
        break;
      default:
        this.writeBlockEvent(event, out);
    }
  }

  /** Writes a compaction, which is complete at its beginning. */
  writeCompaction(summary: string, out: EncodedFrame[]): void {
    this.item = new CompactionWriter(this.beginItem("cmp", out), summary, out);
  }

  /** Returns the items that have ended. */
  finished(): readonly string[] {
    return this.output;
  }

  /** Returns the complete response after its end. */
  completeResponse(): string {
    const { status, incomplete_details: details } = responseStatus(this.finish, this.refused);
    return this.responseJson(status, JSON.stringify(details), joined(this.output), this.usage);
  }

  private start(event: EventOf<"start">, out: EncodedFrame[]): void {
    if (event.id) this.id = safeId(event.id.replace(/^resp_/, ""));
    this.newCallId = callIds(this.id);
    this.created = event.created ?? this.context.created;
    const response = `"response":${this.responseJson("in_progress", "null", "", undefined)}`;
    this.frames.write("response.created", response, out);
    this.frames.write("response.in_progress", response, out);
  }

  private end(out: EncodedFrame[]): void {
    while (this.block !== undefined) {
      this.close(out);
      this.resume(out);
    }
    this.writeRefusalReason(out);
    // The vendor answers with an empty message too, and clients index the first item. [S: litellm]
    if (this.itemCount === 0 && !this.hasLost && this.finish?.reason === "stop") this.writeEmptyText(out);
    const { status } = responseStatus(this.finish, this.refused);
    this.endItem(status === "incomplete" ? status : "completed", out);
    this.declareFinish();
    this.frames.write(`response.${status}`, `"response":${this.completeResponse()}`, out);
  }

  /** Writes the reason of a refusal, from vendors that send it with the finish reason and not as text. */
  private writeRefusalReason(out: EncodedFrame[]): void {
    const { reason, message: text } = this.finish ?? {};
    if (reason === undefined || !isRefusalReason(reason) || !text || this.refused || this.compacting) return;
    this.refused = true;
    const message = this.openMessage(out);
    message.open("refusal", out);
    message.append({ type: "text", block: -1, text }, out);
    message.closeBlock(out);
  }

  /** Declares details of the finish that this protocol cannot express. */
  private declareFinish(): void {
    const { reason, raw, message, stopSequence } = this.finish ?? {};
    if (stopSequence !== undefined) this.context.drop("stop_sequence", "No status says which sequence matched.");
    if (reason === "pause")
      this.context.drop("status", "The vendor paused the turn: send the request again to continue it.");
    if (reason === "malformed_call")
      this.context.drop("status", message ?? "The model wrote a call that cannot be read.");
    if (reason === "other") this.context.drop("status", `The vendor ended the answer with "${raw ?? "no reason"}".`);
    if (reason && isRefusalReason(reason) && !this.refused && message) this.context.drop("incomplete_details", message);
  }

  private responseJson(status: string, details: string, output: string, usage: Usage | undefined): string {
    const head = `"id":"resp_${this.id}","object":"response","created_at":${this.created}`;
    const model = `"model":${JSON.stringify(this.context.model)},"status":"${status}"`;
    const counts = usage ? JSON.stringify(writeResponsesUsage(usage)) : "null";
    const tier = JSON.stringify(servedTier(usage, "ultrafast") ?? "default");
    return `{${head},${model},"error":null,"incomplete_details":${details},"output":[${output}],"usage":${counts},"service_tier":${tier},${this.echo}}`;
  }

  /** Counts buffered events. @throws GatewayError `upstream_invalid` when a stream exceeds the limit */
  addWeight(event: Event): void {
    this.weight += weightOf(event);
    if (this.weight > MAX_BUFFERED && !this.completeOnly)
      throw new GatewayError("upstream_invalid", { message: "The provider's answer is longer than 8 MiB." });
  }

  private writeBlockEvent(event: ItemBlockEvent, out: EncodedFrame[]): void {
    if (event.type === "open" && event.choice !== 0) {
      this.otherChoices.add(event.block);
      this.context.drop(`choices.${event.choice}`, "A response contains one answer.");
    }
    if (this.otherChoices.has(event.block)) return;
    this.addWeight(event);
    if (this.block === undefined || event.block === this.block) this.apply(event, out);
    else if (event.type === "open") this.waiting.set(event.block, [event]);
    else this.waiting.get(event.block)?.push(event);
    if (event.type === "close" && this.block === undefined) this.resume(out);
  }

  /** Encodes the buffered blocks, up to the first that is still open. */
  private resume(out: EncodedFrame[]): void {
    for (const [block, events] of this.waiting) {
      this.waiting.delete(block);
      for (const event of events) this.apply(event, out);
      if (this.block !== undefined) return;
    }
  }

  private apply(event: ItemBlockEvent, out: EncodedFrame[]): void {
    if (event.type === "open") {
      if (this.open(event, out)) this.block = event.block;
      else this.hasLost = true;
    } else if (event.block === this.block) {
      if (this.textPending && (event.type === "text" ? event.text !== "" : event.type === "citation"))
        this.openText(out);
      if (event.type === "close") this.close(out);
      else this.item?.append(event, out);
    }
  }

  private close(out: EncodedFrame[]): void {
    this.item?.closeBlock(out);
    this.block = undefined;
    this.textPending = false;
  }

  /** Opens a block; returns false if this protocol cannot express it. */
  private open(event: EventOf<"open">, out: EncodedFrame[]): boolean {
    switch (event.kind) {
      case "text":
        if (event.opaque) this.writeState({ ...event.opaque, on: "text" }, out);
        // The text after this state may never arrive; an empty one would be sent back as an assistant's message.
        if (event.opaque) this.textPending = true;
        else this.openText(out);
        return true;
      case "refusal":
        this.refused = true;
        this.openMessage(out).open("refusal", out);
        return true;
      case "reasoning":
        this.item = new ReasoningWriter(this.beginItem("rs", out), out);
        return true;
      case "tool_call":
        this.openCall(event, out);
        return true;
      case "media":
        if (event.media === "image") this.item = new ImageWriter(this.beginItem("ig", out), event.mime, out);
        else this.context.drop(`output.${event.media}`, `An answer cannot hold ${event.media} in this protocol.`);
        return event.media === "image";
      case "server":
        this.context.drop(
          `output.${event.name}`,
          `What the vendor's own tool did (${event.name}) has no form in this protocol.`,
        );
        return false;
    }
  }

  private openText(out: EncodedFrame[]): void {
    this.textPending = false;
    this.openMessage(out).open("text", out);
  }

  private writeEmptyText(out: EncodedFrame[]): void {
    this.openText(out);
    this.item?.closeBlock(out);
  }

  private openMessage(out: EncodedFrame[]): MessageItemWriter {
    if (this.item instanceof MessageItemWriter) return this.item;
    const message = new MessageItemWriter(this.beginItem("msg", out), out);
    this.item = message;
    return message;
  }

  private openCall(event: EventOf<"open"> & { kind: "tool_call" }, out: EncodedFrame[]): void {
    // The client could not distinguish two calls with one id, and its SDK throws.
    let id = event.id || this.newCallId();
    for (let n = 2; this.callIds.has(id); n++) id = `${event.id}_${n}`;
    this.callIds.add(id);
    if (event.opaque) this.writeState({ ...event.opaque, on: { call: id } }, out);
    this.item = new CallWriter(this.beginItem(event.custom ? "ctc" : "fc", out), event, id, out);
  }

  /**
   * Writes state of the following item: with the thoughts directly before it if these have none of their own, else as an item of
   * its own. Some clients send back the state of a single reasoning item. [clients seen on the wire]
   */
  private writeState(opaque: Opaque, out: EncodedFrame[]): void {
    if (!(this.item instanceof ReasoningWriter && this.item.isUnsigned))
      this.item = new ReasoningWriter(this.beginItem("rs", out), out);
    this.item.append({ type: "opaque", block: 0, opaque }, out);
  }

  /** Ends the previous item, and returns the place of a new one. */
  private beginItem(prefix: IdPrefix, out: EncodedFrame[]): ItemPlace {
    this.endItem("completed", out);
    const index = this.itemCount++;
    // Clients repeat items by their ids alone. The vendor's own have at most 64 characters.
    const id = this.context.mark(`${prefix}_${this.id.slice(-ID_STEM_LENGTH)}_${index}`);
    return { id, index, frames: this.frames, context: this.context };
  }

  private endItem(status: "completed" | "incomplete", out: EncodedFrame[]): void {
    if (this.item) this.output.push(this.item.finish(status, out));
    this.item = undefined;
  }
}

/** Finish reasons of responses that are not a summary: the model did something else. */
const NON_SUMMARY_REASONS: ReadonlySet<FinishReason> = new Set(["tool_calls", "pause", "malformed_call"]);

/**
 * Encodes the response to a request for a compaction: its text becomes one item, and nothing else is written. Agents fail on
 * any other item, or none. [clients seen on the wire]
 */
class CompactionEncoder implements ResponseEncoder {
  readonly keepsText = true;
  /** Texts by block, in the order of opening. */
  private readonly texts = new Map<number, string[]>();
  private finish: EventOf<"finish"> | undefined;

  constructor(
    private readonly response: ResponsesEncoder,
    private readonly context: ResponseContext,
  ) {}

  /** Encodes an event. @throws GatewayError `upstream_invalid` for a response without a summary */
  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    if (event.type === "open") this.openText(event);
    else if (event.type === "text") this.appendText(event);
    else if (!("block" in event)) {
      if (event.type === "finish" && event.choice === 0) this.finish = event;
      if (event.type === "end") this.end(out);
      this.response.event(event, out);
    }
  }

  private openText(event: EventOf<"open">): void {
    if (event.kind !== "text" || event.choice !== 0) {
      this.context.drop(`output.${event.kind}`, "A compaction contains only text.");
      return;
    }
    this.response.addWeight(event);
    this.texts.set(event.block, []);
  }

  private appendText(event: EventOf<"text">): void {
    const pieces = this.texts.get(event.block);
    if (!pieces) return;
    this.response.addWeight(event);
    pieces.push(event.text);
  }

  /**
   * Ends the response. A truncated one has that as its status, with or without a partial summary: agents then stop and report
   * the reason, while they retry after an error.
   */
  private end(out: EncodedFrame[]): void {
    const { finish } = this;
    const texts = [...this.texts.values()].map((pieces) => pieces.join("")).filter((text) => text.trim() !== "");
    const hasSummary = texts.length > 0 && !(finish && NON_SUMMARY_REASONS.has(finish.reason));
    if (hasSummary) this.response.writeCompaction(texts.join("\n\n"), out);
    else if (responseStatus(finish, false).status === "completed")
      throw new GatewayError("upstream_invalid", {
        message: "The model was asked to sum up the conversation, and its answer contains no summary.",
      });
  }
}

const INCOMPLETE_REASONS: Readonly<Record<FinishReason, string | undefined>> = {
  stop: undefined,
  length: "max_output_tokens",
  tool_calls: undefined,
  content_filter: "content_filter",
  // The vendor's own refusals are ordinary responses, with a refusal part; see `responseStatus`.
  refusal: "content_filter",
  stop_sequence: undefined,
  pause: undefined,
  context_window: "max_output_tokens",
  malformed_call: undefined,
  other: undefined,
};

/** Returns `status` and `incomplete_details`. @param refused whether a refusal part has been written */
function responseStatus(finish: EventOf<"finish"> | undefined, refused: boolean) {
  const reason = finish && !(refused && finish.reason === "refusal") ? INCOMPLETE_REASONS[finish.reason] : undefined;
  return reason === undefined
    ? { status: "completed", incomplete_details: null }
    : { status: "incomplete", incomplete_details: { reason } };
}

/** Returns the members that echo the request, as JSON text without braces; members that it lacks have the vendor's defaults. */
function requestEcho(request: JsonObject): string {
  const echo: JsonObject = {
    background: false,
    instructions: request["instructions"] ?? null,
    max_output_tokens: request["max_output_tokens"] ?? null,
    max_tool_calls: request["max_tool_calls"] ?? null,
    metadata: request["metadata"] ?? {},
    parallel_tool_calls: request["parallel_tool_calls"] ?? true,
    previous_response_id: null,
    prompt_cache_key: request["prompt_cache_key"] ?? null,
    reasoning: { effort: null, summary: null, ...asObject(request["reasoning"]) },
    safety_identifier: request["safety_identifier"] ?? null,
    // Neither the gateway nor the provider stores the response.
    store: false,
    temperature: request["temperature"] ?? 1,
    text: { format: { type: "text" }, ...asObject(request["text"]) },
    tool_choice: request["tool_choice"] ?? "auto",
    tools: request["tools"] ?? [],
    top_logprobs: request["top_logprobs"] ?? 0,
    top_p: request["top_p"] ?? 1,
    truncation: request["truncation"] ?? "disabled",
    user: request["user"] ?? null,
  };
  return writeJson(echo).slice(1, -1);
}
