import {
  callIds,
  dropUndefined,
  type EncodedFrame,
  type Event,
  type EventOf,
  GatewayError,
  isEmptyArguments,
  type JsonObject,
  type Opaque,
  type ResponseContext,
  type ResponseEncoder,
  Steps,
  safeId,
  TextKey,
  type Usage,
  weightOf,
} from "model-gateway/protocol";
import { type BlockWriter, FrameWriter, MessageWriter } from "./response.encode.writers.ts";
import { asksForThinking } from "./support.thinking.ts";
import { messageDeltaUsage, messageStartUsage } from "./usage.ts";
import { STOP_REASONS, writeCitation } from "./wire.ts";

type WritableEvent = Exclude<Event, { type: "error" }>;

/** Maximum weight of events that are buffered until the preceding block closes. */
const MAX_BUFFERED = 8 * 1024 * 1024;

/** Returns an encoder for a stream of events. */
export function createEncoder(context: ResponseContext): ResponseEncoder {
  const frames = new FrameWriter();
  const blocks = new BlockEncoder(context, frames);
  return {
    event(event: WritableEvent, out: EncodedFrame[]): void {
      frames.out = out;
      blocks.event(event);
    },
  };
}

/** Encodes a complete message: the accumulated stream of the same events. @throws GatewayError `upstream_invalid` */
export function* encodeResponse(events: readonly Event[], context: ResponseContext): Steps<string> {
  const message = new MessageWriter(context);
  const blocks = new BlockEncoder(context, message);
  yield* Steps.forEachEvent(events, (event) => {
    if (event.type !== "error") blocks.event(event);
  });
  return yield* Steps.writingJson(message.whole);
}

/** Maximum characters of arguments that may turn out to be empty. */
const MAX_EMPTY_ARGUMENTS = 16;

/** A block of the response. Only one can be open in this protocol: later ones wait until it is closed. */
interface AnswerBlock {
  opening: EventOf<"open">;
  /** Its number in this response; absent until something is written. */
  index?: number;
  /** Events that arrived while another block was open. */
  waiting: Event[];
  /** The weight of these events. */
  weight: number;
  /** Part of a reasoning's summary that was written last. */
  part?: number;
  /** Whether a call's free text is wrapped in an object with one string. */
  wrapped?: boolean;
  /** A call's arguments while they may turn out to be empty; absent once some are written. */
  pendingArguments?: string;
  /** The state of unreadable reasoning. */
  redacted?: string;
  /** The state of reasoning that is not shown. */
  hidden?: Opaque;
  /** The state of reasoning of which it only names the origin. */
  origin?: Opaque;
}

const MEDIA_NAMES = { image: "an image", audio: "sound", video: "a film", file: "a file" } as const;

/** Puts events into the order that this protocol requires, and encodes them. */
class BlockEncoder {
  private readonly blocks = new Map<number, AnswerBlock>();
  /** Blocks in order, with the number already processed: removing the first of many would move the rest. */
  private readonly queue: AnswerBlock[] = [];
  private queueStart = 0;
  private current: AnswerBlock | undefined;
  private index = 0;
  private waitingWeight = 0;
  private usage: Usage | undefined;
  private finish: EventOf<"finish"> | undefined;
  private hasRefusal = false;
  private hasToolCall = false;
  /** Whether a text or a call is written. */
  private hasContent = false;
  /** The first media, for which messages have no block. */
  private droppedMedia: keyof typeof MEDIA_NAMES | undefined;
  private nextId: (() => string) | undefined;
  /** State of a text of which nothing is written yet. */
  private pendingState: Opaque | undefined;
  /** Thoughts of which only the origin is known, still open: the state of a call that follows is their signature. */
  private unsigned: { index: number; origin: Opaque } | undefined;
  /** Whether reasoning is shown: the vendor sends none to a client that has not requested it. */
  private readonly showsThinking: boolean;
  /** Where it is not: state so far, for the next call, and how much of it a text follows. */
  private hiddenState: Opaque[] = [];
  private markedStates = 0;
  /** The last state of the answer. */
  private lastState: Opaque | undefined;
  /** The key of the last block, when it is a text. */
  private textKey: TextKey | undefined;
  /** The key of the conversation before the answer. */
  private turnsKey = "";

  constructor(
    private readonly context: ResponseContext,
    private readonly output: BlockWriter,
  ) {
    this.showsThinking = asksForThinking(context.conversation);
  }

  event(event: WritableEvent): void {
    switch (event.type) {
      case "text":
      case "arguments":
      case "opaque":
      case "citation":
      case "media":
      case "server":
      case "close":
        this.blockEvent(event);
        break;
      case "open":
        this.open(event);
        break;
      case "ping":
        this.output.frame("ping", { type: "ping" });
        break;
      case "start":
        this.start(event);
        break;
      case "usage":
        this.usage = event.usage;
        break;
      case "finish":
        if (event.choice === 0) this.finish ??= event;
        break;
      case "unmapped":
        this.context.drop(event.path, "A message has no such member.");
        break;
      case "end":
        this.end();
        break;
    }
  }

  private start(event: EventOf<"start">): void {
    this.nextId = callIds(event.id === "" ? this.context.id : event.id);
    this.usage = event.usage;
    this.turnsKey = this.context.conversation.turnsKey ?? "";
    this.output.start({
      id: messageId(event.id, this.context),
      type: "message",
      role: "assistant",
      model: this.context.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      usage: messageStartUsage(event.usage, this.context),
    });
  }

  private open(opening: EventOf<"open">): void {
    const block: AnswerBlock = { opening, waiting: [], weight: 0 };
    if (opening.choice !== 0) {
      this.context.drop(`choices.${opening.choice}`, "A message contains one answer.");
      return;
    }
    this.blocks.set(opening.block, block);
    if (!this.current) this.startBlock(block);
    else {
      this.queue.push(block);
      this.addWeight(block, opening);
    }
  }

  private addWeight(block: AnswerBlock, event: Event): void {
    const weight = weightOf(event);
    block.weight += weight;
    this.waitingWeight += weight;
    if (this.waitingWeight > MAX_BUFFERED)
      throw new GatewayError("upstream_invalid", { message: "The provider's blocks grow side by side beyond 8 MiB." });
  }

  private blockEvent(event: Exclude<Event, { type: "open" }> & { block: number }): void {
    const block = this.blocks.get(event.block);
    if (!block) return;
    if (block === this.current) this.write(block, event);
    else this.buffer(block, event);
    while (this.current === undefined && this.queueStart < this.queue.length) this.startNext();
  }

  private buffer(block: AnswerBlock, event: Event): void {
    // Events without a block in this protocol need not be buffered.
    if (event.type === "media" || event.type === "server") return;
    this.addWeight(block, event);
    block.waiting.push(event);
  }

  /** Starts the next block, and encodes its waiting events. */
  private startNext(): void {
    const block = this.queue[this.queueStart++];
    if (!block) return;
    if (this.queueStart === this.queue.length) this.queue.length = this.queueStart = 0;
    this.waitingWeight -= block.weight;
    this.startBlock(block);
    for (const event of block.waiting) this.write(block, event);
    block.waiting = [];
  }

  /** Starts a block. Texts and reasoning open with their first text: an empty block that a client sends back is refused. */
  private startBlock(block: AnswerBlock): void {
    this.current = block;
    const { opening } = block;
    if (opening.kind === "server" || opening.kind === "media") this.drop(opening);
    else if (opening.kind === "tool_call") this.call(block, opening);
    else if (opening.kind === "text" && opening.opaque) {
      this.flushState();
      const state: Opaque = { ...opening.opaque, on: "text" };
      if (this.showsThinking) this.pendingState = state;
      else this.hiddenState.push(state);
    }
  }

  private call(block: AnswerBlock, opening: Extract<EventOf<"open">, { kind: "tool_call" }>): void {
    const id = opening.id ? safeId(opening.id, "escape") : (this.nextId?.() ?? "");
    this.hasToolCall = true;
    this.flushState();
    this.writeHiddenState();
    if (opening.opaque) this.writeCallState({ ...opening.opaque, on: { call: id } });
    // `caller` is required by the SDKs' types. [S]
    const caller = { type: "direct" };
    const index = this.openBlock(block, { type: "tool_use", id, name: opening.name, input: {}, caller });
    this.output.append(index, "input_json_delta", "");
    block.wrapped = opening.custom === true;
    if (!block.wrapped) block.pendingArguments = "";
    else this.output.append(index, "input_json_delta", '{"input":"');
  }

  /** Writes a call's state where thoughts precede it as their signature: some clients send back no `redacted_thinking`. */
  private writeCallState(opaque: Opaque): void {
    if (this.unsigned) this.sign(opaque);
    else this.writeState(opaque);
  }

  /** Ends thoughts that were left open. */
  private sign(state = this.unsigned?.origin): void {
    const { unsigned } = this;
    this.unsigned = undefined;
    if (!unsigned || !state) return;
    this.output.append(unsigned.index, "signature_delta", this.context.seal(state));
    this.output.close(unsigned.index);
  }

  /** Writes the state of a call or a text as a block before it. */
  private writeState(opaque: Opaque): void {
    this.sign();
    const index = this.index++;
    this.textKey = undefined;
    this.output.open(index, { type: "redacted_thinking", data: this.context.seal(opaque) });
    this.output.close(index);
  }

  /**
   * Writes a text's state only when something follows. After the text it would be the message's last block, which Claude Code
   * takes for the response [S]: it is remembered by the text instead.
   */
  private flushState(): void {
    const { pendingState } = this;
    this.pendingState = undefined;
    if (pendingState) this.writeState(pendingState);
  }

  /**
   * Writes state that was held because reasoning is not shown: between the texts and a call, since clients that request no
   * thinking take the first block for the answer, and only a turn with calls is continued from its reasoning.
   */
  private writeHiddenState(): void {
    this.markedStates = 0;
    for (const state of this.hiddenState.splice(0)) this.writeState(state);
  }

  /** Marks held state of reasoning: a text will stand between the reasoning's place and the state. */
  private markHiddenState(): void {
    const { hiddenState } = this;
    // Each once: an answer may have many texts.
    for (; this.markedStates < hiddenState.length; this.markedStates++) {
      const state = hiddenState[this.markedStates] as Opaque;
      if (state.on === undefined) hiddenState[this.markedStates] = { ...state, on: "reasoning" };
    }
  }

  private openBlock(block: AnswerBlock, content: JsonObject): number {
    const signed = this.pendingState !== undefined;
    this.flushState();
    this.sign();
    this.textKey = content["type"] === "text" ? new TextKey(signed) : undefined;
    if (this.textKey) this.markHiddenState();
    if (block.opening.kind !== "reasoning") this.hasContent = true;
    const index = this.index++;
    block.index = index;
    this.output.open(index, content);
    return index;
  }

  private hides({ opening }: AnswerBlock): boolean {
    return opening.kind === "reasoning" && !this.showsThinking;
  }

  /** Returns the block's index, and opens the block if necessary. */
  private ensureOpen(block: AnswerBlock): number {
    if (block.index !== undefined) return block.index;
    if (block.opening.kind !== "reasoning") return this.openBlock(block, { type: "text", text: "" });
    return this.openBlock(block, { type: "thinking", thinking: "", signature: "" });
  }

  private write(block: AnswerBlock, event: Event): void {
    switch (event.type) {
      case "text":
        this.text(block, event);
        break;
      case "arguments":
        this.arguments(block, event);
        break;
      case "opaque":
        this.opaque(block, event);
        break;
      case "citation":
        this.cite(block, event);
        break;
      case "close":
        this.close(block);
        break;
    }
  }

  private text(block: AnswerBlock, { text, part }: EventOf<"text">): void {
    if (text === "" || this.hides(block)) return;
    const index = this.ensureOpen(block);
    if (block.opening.kind !== "reasoning") {
      if (block.opening.kind === "refusal") this.hasRefusal = true;
      this.textKey?.add(text);
      this.output.append(index, "text_delta", text);
      return;
    }
    const startsPart = block.part !== undefined && part !== undefined && part !== block.part;
    if (part !== undefined) block.part = part;
    this.output.append(index, "thinking_delta", startsPart ? `\n\n${text}` : text);
  }

  private arguments(block: AnswerBlock, { text }: EventOf<"arguments">): void {
    const { index, wrapped, pendingArguments } = block;
    if (index === undefined || text === "") return;
    const json = wrapped ? JSON.stringify(text).slice(1, -1) : (pendingArguments ?? "") + text;
    if (pendingArguments !== undefined && json.length <= MAX_EMPTY_ARGUMENTS && !/^\s*\{/.test(json))
      block.pendingArguments = json;
    else {
      delete block.pendingArguments;
      this.output.append(index, "input_json_delta", json);
    }
  }

  private opaque(block: AnswerBlock, { opaque }: EventOf<"opaque">): void {
    const { opening } = block;
    this.lastState = opaque;
    // It belongs to media, which this protocol's responses cannot contain.
    if (typeof opaque.on === "object" && "media" in opaque.on) return;
    if (this.hides(block)) {
      block.hidden = opaque;
      return;
    }
    delete block.origin;
    if (opening.kind === "reasoning" && block.index !== undefined && opaque.data === "") {
      block.origin = opaque;
      return;
    }
    const sealed = this.context.seal(opaque);
    // A later one replaces it, and this block cannot grow: it is written when it closes.
    if (opening.kind === "reasoning" && opening.redacted) block.redacted = sealed;
    else this.output.append(this.ensureOpen(block), "signature_delta", sealed);
  }

  private cite(block: AnswerBlock, event: EventOf<"citation">): void {
    const citation = writeCitation(event.citation, this.citationKey);
    if (citation) this.output.cite(this.ensureOpen(block), citation);
    else this.context.drop("content.citations", "A citation without a URL cannot be written.");
  }

  /** Returns what makes a citation known as another vendor's: the vendor refuses a conversation with a key that is not its own. */
  private readonly citationKey = (): string => {
    const { protocol = "", account, model } = this.lastState ?? {};
    return this.context.seal({ protocol, ...dropUndefined({ account, model }), kind: "citation", data: "" });
  };

  private drop(opening: EventOf<"open">): void {
    const blockName = opening.kind === "server" ? opening.name : opening.kind;
    if (opening.kind === "media") this.droppedMedia ??= opening.media;
    this.context.drop(`content.${blockName}`, "A message has no such block.");
  }

  private close(block: AnswerBlock): void {
    const { hidden } = block;
    // Empty state only names the origin of a text, which is not shown.
    if (hidden && hidden.data !== "") this.hiddenState.push(hidden);
    if (block.redacted !== undefined) this.openBlock(block, { type: "redacted_thinking", data: block.redacted });
    const { index, pendingArguments } = block;
    if (index !== undefined && block.wrapped) this.output.append(index, "input_json_delta", '"}');
    if (index !== undefined && pendingArguments)
      this.output.append(index, "input_json_delta", isEmptyArguments(pendingArguments) ? "{}" : pendingArguments);
    if (index !== undefined && block.origin) this.unsigned = { index, origin: block.origin };
    else if (index !== undefined) this.output.close(index);
    this.blocks.delete(block.opening.block);
    this.current = undefined;
  }

  private end(): void {
    while (this.current || this.queueStart < this.queue.length) {
      if (this.current) this.close(this.current);
      else this.startNext();
    }
    this.sign();
    // A text's state after the last call would be the last block, which some clients take for the answer.
    this.hiddenState = this.hiddenState.filter(({ on }) => this.hasToolCall && on !== "text");
    this.writeHiddenState();
    if (this.droppedMedia && !this.hasContent) this.writeMediaNotice(this.droppedMedia);
    if (this.pendingState && this.textKey) this.context.remember(`${this.turnsKey} ${this.textKey}`, this.pendingState);
    else this.flushState();
    this.output.finish(this.stopMembers(), messageDeltaUsage(this.usage));
    this.output.frame("message_stop", { type: "message_stop" });
  }

  /** Writes a placeholder text: a response with only media would be empty, as if the model had not responded. */
  private writeMediaNotice(media: keyof typeof MEDIA_NAMES): void {
    const index = this.index++;
    this.output.open(index, { type: "text", text: "" });
    this.output.append(
      index,
      "text_delta",
      `[The model made ${MEDIA_NAMES[media]}, which a message cannot show in this protocol.]`,
    );
    this.output.close(index);
  }

  private stopMembers(): JsonObject {
    const { finish } = this;
    const reason = this.stopReason(finish);
    const refusal = { type: "refusal", category: null, explanation: finish?.message ?? null };
    return {
      stop_reason: reason,
      stop_sequence: reason === "stop_sequence" ? (finish?.stopSequence ?? null) : null,
      stop_details: reason === "refusal" ? refusal : null,
    };
  }

  private stopReason(finish: EventOf<"finish"> | undefined): string {
    const reason = finish?.reason ?? "stop";
    if (reason === "malformed_call" || reason === "other")
      this.context.drop("stop_reason", `A message has no stop reason for ${finish?.raw ?? reason}.`);
    if (reason === "stop" && this.hasRefusal) return "refusal";
    // Some vendors have another reason after tool calls: clients of this protocol rely on the reason.
    if ((reason === "stop" || reason === "other") && this.hasToolCall) return "tool_use";
    return STOP_REASONS[reason];
  }
}

/** Returns `msg_…`, the same for the same response. */
function messageId(id: string, context: ResponseContext): string {
  const responseId = id === "" ? context.id : id;
  return responseId.startsWith("msg_") ? responseId : `msg_${safeId(responseId)}`;
}
