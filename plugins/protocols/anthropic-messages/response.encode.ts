import {
  asObject,
  callIds,
  type EncodedFrame,
  type Event,
  type EventOf,
  GatewayError,
  type JsonObject,
  type Opaque,
  type ResponseContext,
  type ResponseEncoder,
  safeId,
  TextKey,
  type Usage,
  weightOf,
} from "model-gateway/protocol";
import { citationOf, webCitation } from "./citations.ts";
import type { OwnEvent } from "./response.blocks.ts";
import { Frames, Message, type Sink } from "./response.sinks.ts";
import { exactUsage, firstUsage, lastUsage } from "./response.usage.ts";
import { STOP_REASONS } from "./words.ts";

type Said = Exclude<Event, { type: "error" }>;

/** The most that waits for the block before it to close, by weight. */
const MOST_WAITING = 8 * 1024 * 1024;

/** Writes a stream of events. */
export function encoder(context: ResponseContext): ResponseEncoder {
  const frames = new Frames();
  const writer = new Writer(context, frames);
  return {
    event(event: Said, out: EncodedFrame[]): void {
      frames.out = out;
      writer.event(event);
    },
  };
}

/** Writes a whole message: what the stream of the same events adds up to. @throws GatewayError `upstream_invalid` */
export function encode(events: readonly Event[], context: ResponseContext): string {
  const message = new Message(context);
  const writer = new Writer(context, message);
  for (const event of events) if (event.type !== "error") writer.event(event);
  return message.whole();
}

const ownOf = (event: { native?: unknown }): OwnEvent | undefined => event.native as OwnEvent | undefined;

/** A block of the answer. Only one can be open in this protocol: the others wait until it is closed. */
interface Slot {
  opening: EventOf<"open">;
  /** Its number in this answer; absent until something of it is written. */
  index?: number;
  /** What came while another block was open. */
  waiting: Event[];
  /** What it weighs while it waits. */
  weight: number;
  /** Part of a reasoning's summary that was written last. */
  part?: number;
  /** Free text of a call became an object with one string. */
  wrapped?: boolean;
  /** What stands for a reasoning of which nothing can be read. */
  redacted?: string;
}

/** Puts events into the order this protocol wants and writes them. */
class Writer {
  private readonly slots = new Map<number, Slot>();
  /** Blocks in the order of their turns, of which so many had theirs: to take out the first of many would move them all. */
  private readonly queue: Slot[] = [];
  private turns = 0;
  private current: Slot | undefined;
  private index = 0;
  private waiting = 0;
  private usage: Usage | undefined;
  private finish: EventOf<"finish"> | undefined;
  private told = false;
  private refused = false;
  private called = false;
  private makeId: (() => string) | undefined;
  /** State on a text of which nothing is written yet. */
  private behind: Opaque | undefined;
  /** The last block, when it is a text. */
  private uses: TextKey | undefined;

  constructor(
    private readonly context: ResponseContext,
    private readonly sink: Sink,
  ) {}

  event(event: Said): void {
    switch (event.type) {
      case "text":
      case "arguments":
      case "opaque":
      case "citation":
      case "media":
      case "server":
      case "close":
        this.inside(event);
        break;
      case "open":
        this.open(event);
        break;
      case "ping":
        this.sink.frame("ping", { type: "ping", ...ownOf(event)?.rest });
        break;
      default:
        this.around(event);
    }
  }

  private around(event: Exclude<Said, { block: number } | { type: "ping" }>): void {
    switch (event.type) {
      case "start":
        this.start(event);
        break;
      case "usage":
        this.usage = event.usage;
        if (this.finish && ownOf(this.finish)) this.ending();
        break;
      case "finish":
        if (event.choice === 0) this.finish ??= event;
        break;
      case "unsaid":
        this.unsaid(event);
        break;
      case "end":
        this.end(event);
        break;
    }
  }

  private start(event: EventOf<"start">): void {
    const own = ownOf(event);
    this.makeId = callIds(event.id === "" ? this.context.id : event.id);
    this.usage = event.usage;
    const usage =
      own?.usage && event.usage ? exactUsage(event.usage, own.usage) : firstUsage(event.usage, this.context);
    const message: JsonObject = {
      id: own ? event.id : messageId(event.id, this.context),
      type: "message",
      role: "assistant",
      model: own ? event.model : this.context.model,
      content: [],
      ...(own?.rest ?? (own ? {} : { stop_reason: null, stop_sequence: null, stop_details: null })),
      usage,
    };
    this.sink.start(message, own?.frame);
  }

  private open(opening: EventOf<"open">): void {
    const slot: Slot = { opening, waiting: [], weight: 0 };
    if (opening.choice !== 0) {
      this.context.drop(`choices.${opening.choice}`, "A message holds one answer.");
      return;
    }
    this.slots.set(opening.block, slot);
    if (!this.current) this.begin(slot);
    else {
      this.queue.push(slot);
      this.hold(slot, opening);
    }
  }

  private hold(slot: Slot, event: Event): void {
    const weight = weightOf(event);
    slot.weight += weight;
    this.waiting += weight;
    if (this.waiting > MOST_WAITING)
      throw new GatewayError("upstream_invalid", { message: "The provider's blocks grow side by side beyond 8 MiB." });
  }

  private inside(event: Exclude<Event, { type: "open" }> & { block: number }): void {
    const slot = this.slots.get(event.block);
    if (!slot) return;
    if (slot === this.current) this.write(slot, event);
    else this.wait(slot, event);
    while (this.current === undefined && this.turns < this.queue.length) this.next();
  }

  private wait(slot: Slot, event: Event): void {
    // What cannot be told need not be kept.
    if (event.type === "media" || event.type === "server") return;
    this.hold(slot, event);
    slot.waiting.push(event);
  }

  /** The next block gets its turn: what waited is written. */
  private next(): void {
    const slot = this.queue[this.turns++];
    if (!slot) return;
    if (this.turns === this.queue.length) this.queue.length = this.turns = 0;
    this.waiting -= slot.weight;
    this.begin(slot);
    for (const event of slot.waiting) this.write(slot, event);
    slot.waiting = [];
  }

  private begin(slot: Slot): void {
    this.current = slot;
    const { opening } = slot;
    const own = ownOf(opening);
    if (own?.block) this.openAs(slot, own.block);
    else if (opening.kind === "server" || opening.kind === "media") this.drop(opening);
    else if (opening.kind === "tool_call") this.call(slot, opening, own);
    else if (opening.kind === "text" && opening.opaque) {
      this.flush();
      this.behind = { ...opening.opaque, on: "text" };
    }
    // A block without anything in it is refused when it comes back, so that one is only opened for something.
    else if (own && !redacts(opening)) this.ensure(slot);
  }

  private call(slot: Slot, opening: Extract<EventOf<"open">, { kind: "tool_call" }>, own: OwnEvent | undefined): void {
    const id = opening.id ? safeId(opening.id) : (this.makeId?.() ?? "");
    this.called = true;
    this.flush();
    if (opening.opaque) this.carry({ ...opening.opaque, on: { call: id } });
    const index = this.openAs(slot, { type: "tool_use", id, name: opening.name, input: {}, ...own?.rest });
    if (!own) this.sink.grow(index, "input_json_delta", "");
    slot.wrapped = opening.custom === true;
    if (slot.wrapped) this.sink.grow(index, "input_json_delta", '{"input":"');
  }

  /** What sits on a call or a text travels in a block of its own before it. */
  private carry(opaque: Opaque): void {
    const index = this.index++;
    this.uses = undefined;
    this.sink.open(index, { type: "redacted_thinking", data: this.context.seal(opaque) });
    this.sink.close(index);
  }

  /**
   * State on a text is only written when something follows. Behind a text it would be the message's last block, and
   * Claude Code takes that for the answer [S]: it is remembered by the text instead.
   */
  private flush(): void {
    const { behind } = this;
    this.behind = undefined;
    if (behind) this.carry(behind);
  }

  private openAs(slot: Slot, block: JsonObject): number {
    this.flush();
    this.uses = block["type"] === "text" ? new TextKey() : undefined;
    const index = this.index++;
    slot.index = index;
    this.sink.open(index, block);
    return index;
  }

  /** The block's number, opened now if it was not yet. */
  private ensure(slot: Slot): number {
    if (slot.index !== undefined) return slot.index;
    const rest = ownOf(slot.opening)?.rest;
    if (slot.opening.kind !== "reasoning") return this.openAs(slot, { type: "text", text: "", ...rest });
    return this.openAs(slot, { type: "thinking", thinking: "", signature: "", ...rest });
  }

  private write(slot: Slot, event: Event): void {
    switch (event.type) {
      case "text":
        this.text(slot, event);
        break;
      case "arguments":
        this.arguments(slot, event);
        break;
      case "opaque":
        this.opaque(slot, event);
        break;
      case "citation":
        this.cite(slot, event);
        break;
      case "close":
        this.close(slot, event);
        break;
    }
  }

  private text(slot: Slot, event: EventOf<"text">): void {
    const own = ownOf(event);
    if (event.text === "" && !own) return;
    const index = this.ensure(slot);
    if (slot.opening.kind !== "reasoning") {
      if (slot.opening.kind === "refusal") this.refused = true;
      this.uses?.add(event.text);
      this.sink.grow(index, "text_delta", event.text, own?.rest, own?.frame);
      return;
    }
    const apart = slot.part !== undefined && event.part !== undefined && event.part !== slot.part;
    if (event.part !== undefined) slot.part = event.part;
    this.sink.grow(index, "thinking_delta", apart ? `\n\n${event.text}` : event.text, own?.rest, own?.frame);
  }

  private arguments(slot: Slot, event: EventOf<"arguments">): void {
    const own = ownOf(event);
    if (slot.index === undefined || (event.text === "" && !own) || own?.begun) return;
    const text = slot.wrapped ? JSON.stringify(event.text).slice(1, -1) : event.text;
    this.sink.grow(slot.index, "input_json_delta", text, own?.rest, own?.frame);
  }

  private opaque(slot: Slot, event: EventOf<"opaque">): void {
    const sealed = this.context.seal(event.opaque);
    const own = ownOf(event);
    // A later one replaces it, and this block cannot grow: it is written when it closes.
    if (redacts(slot.opening)) slot.redacted = sealed;
    else this.sink.grow(this.ensure(slot), "signature_delta", sealed, own?.rest, own?.frame);
  }

  private cite(slot: Slot, event: EventOf<"citation">): void {
    const own = ownOf(event);
    const citation = own?.rest ? citationOf(event.citation, own.rest) : webCitation(event.citation);
    if (citation) this.sink.cite(this.ensure(slot), citation);
    else this.context.drop("content.citations", "A citation without a URL cannot be told.");
  }

  private drop(opening: EventOf<"open">): void {
    const what = opening.kind === "server" ? opening.name : opening.kind;
    this.context.drop(`content.${what}`, "A message has no such block.");
  }

  private close(slot: Slot, event: EventOf<"close"> | undefined): void {
    if (slot.redacted !== undefined)
      this.openAs(slot, { type: "redacted_thinking", data: slot.redacted, ...ownOf(slot.opening)?.rest });
    if (slot.index !== undefined && slot.wrapped) this.sink.grow(slot.index, "input_json_delta", '"}');
    if (slot.index !== undefined) this.sink.close(slot.index, event && ownOf(event)?.frame);
    this.slots.delete(slot.opening.block);
    this.current = undefined;
  }

  private unsaid(event: EventOf<"unsaid">): void {
    const own = ownOf(event);
    if (own?.whole) this.sink.frame(own.name ?? "", own.whole);
    else this.context.drop(event.path, "A message has no such member.");
  }

  private end(event: EventOf<"end">): void {
    while (this.current || this.turns < this.queue.length) {
      // What the very same stream left open stays open.
      if (this.current && ownOf(this.current.opening)) break;
      if (this.current) this.close(this.current, undefined);
      else this.next();
    }
    if (this.behind && this.uses) this.context.remember(`${this.uses}`, this.behind);
    else this.flush();
    this.ending();
    this.sink.frame("message_stop", { type: "message_stop", ...ownOf(event)?.rest });
  }

  private ending(): void {
    const { finish, usage } = this;
    const own = finish && ownOf(finish);
    if (this.told) return;
    this.told = true;
    if (!own) this.sink.finish(this.delta(finish), lastUsage(usage));
    else this.sink.finish(exactDelta(finish, own), own.usage && usage && exactUsage(usage, own.usage), own.frame);
  }

  private delta(finish: EventOf<"finish"> | undefined): JsonObject {
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
      this.context.drop("stop_reason", `A message cannot say that it ended with ${finish?.raw ?? reason}.`);
    if (reason === "stop" && this.refused) return "refusal";
    // Some vendors have another word for it that they called: clients of this protocol go by the reason.
    if ((reason === "stop" || reason === "other") && this.called) return "tool_use";
    return STOP_REASONS[reason];
  }
}

const redacts = (opening: EventOf<"open">): boolean => opening.kind === "reasoning" && opening.redacted === true;

function exactDelta(finish: EventOf<"finish">, own: OwnEvent): JsonObject {
  const details = asObject(own.rest?.["stop_details"]);
  return {
    stop_reason: finish.raw,
    stop_sequence: finish.stopSequence ?? null,
    ...own.rest,
    ...(details && finish.message !== undefined ? { stop_details: { ...details, explanation: finish.message } } : {}),
  };
}

/** `msg_…`, the same for the same answer. */
function messageId(id: string, context: ResponseContext): string {
  const known = id === "" ? context.id : id;
  return known.startsWith("msg_") ? known : `msg_${safeId(known)}`;
}
