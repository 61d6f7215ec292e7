import {
  callIds,
  type EncodedFrame,
  type Event,
  type EventOf,
  GatewayError,
  type Opaque,
  type ResponseContext,
  type ResponseEncoder,
  safeId,
  type Usage,
  weightOf,
} from "model-gateway/protocol";
import { servedTier } from "../openai/wire.ts";
import { asksCompaction } from "./request.compaction.ts";
import { Compacting } from "./response.compaction.ts";
import { Choosing, isKept, retold } from "./response.native.ts";
import { echoOf, endOf, usageOf } from "./response.words.ts";
import { Call, Compaction, type Item, Message, Picture, type Place, Reasoning, Tape } from "./response.write.ts";

/** A stream's last event repeats the whole answer: so much of it is held, by its weight, and no more. */
const LONGEST = 8 * 1024 * 1024;

/** Writes a stream of response events. @throws GatewayError when the answer is longer than 8 MiB */
export const encoder = (context: ResponseContext): ResponseEncoder =>
  new Choosing(writer(new Answer(context, false), context));

/** Writes a whole response: the one that the stream's last event holds. */
export function encode(events: readonly Event[], context: ResponseContext): string {
  if (isKept(events.at(-1)?.native)) return retold(events);
  const answer = new Answer(context, true);
  const out: EncodedFrame[] = [];
  const writing = writer(answer, context);
  for (const event of events) if (event.type !== "error") writing.event(event, out);
  return answer.whole();
}

const writer = (answer: Answer, context: ResponseContext): ResponseEncoder =>
  asksCompaction(context.request["input"]) ? new Compacting(answer, context) : answer;

type BlockEvent = Extract<Event, { block: number }>;

/** The prefix of an item's id tells its kind. */
type Prefix = "msg" | "rs" | "fc" | "ctc" | "ig" | "cmp";

/**
 * One answer while it is written. Items follow each other: blocks that open while another is open wait for its end,
 * because clients take what comes for the item they saw last. An item's own end is told when the next begins or the
 * answer ends: only then is known whether another part follows, and whether it was cut.
 */
class Answer implements ResponseEncoder {
  private readonly tape: Tape;
  private readonly output: string[] = [];
  private readonly waiting = new Map<number, BlockEvent[]>();
  private readonly callIds = new Set<string>();
  /** Blocks of other choices than the first. */
  private readonly others = new Set<number>();
  private readonly echo: string;
  private newCallId: () => string;
  private id: string;
  private created: number;
  private block: number | undefined;
  private item: Item | undefined;
  private begun = 0;
  private held = 0;
  /** The open block is a text of which nothing is written yet. */
  private late = false;
  private refused = false;
  private usage: Usage | undefined;
  private finish: EventOf<"finish"> | undefined;

  /** @param silent it is written as a whole, so that all of it is at hand already. */
  constructor(
    private readonly context: ResponseContext,
    private readonly silent: boolean,
  ) {
    this.tape = new Tape(silent);
    this.echo = echoOf(context.request);
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
      case "unsaid":
        this.context.drop(event.path, "It has no form in this protocol.");
        break;
      case "error":
      case "ping":
        break;
      default:
        this.grow(event, out);
    }
  }

  /** A compaction, which is whole from its beginning. */
  compaction(summary: string, out: EncodedFrame[]): void {
    this.item = new Compaction(this.next("cmp", out), summary, out);
  }

  /** The whole response, once it has ended. */
  whole(): string {
    const { status, incomplete_details: details } = endOf(this.finish, this.refused);
    return this.response(status, JSON.stringify(details), this.output.join(), this.usage);
  }

  private start(event: EventOf<"start">, out: EncodedFrame[]): void {
    if (event.id) this.id = safeId(event.id.replace(/^resp_/, ""));
    this.newCallId = callIds(this.id);
    this.created = event.created ?? this.context.created;
    const response = `"response":${this.response("in_progress", "null", "", undefined)}`;
    this.tape.write("response.created", response, out);
    this.tape.write("response.in_progress", response, out);
  }

  private end(out: EncodedFrame[]): void {
    while (this.block !== undefined) {
      this.close(out);
      this.resume(out);
    }
    const { status } = endOf(this.finish, this.refused);
    this.settle(status === "incomplete" ? status : "completed", out);
    this.declare();
    this.tape.write(`response.${status}`, `"response":${this.whole()}`, out);
  }

  /** What the end says that this protocol has no word for. */
  private declare(): void {
    const { reason, raw, message } = this.finish ?? {};
    if (reason === "pause") this.context.drop("status", "The vendor paused: ask again to let it go on.");
    if (reason === "malformed_call")
      this.context.drop("status", message ?? "The model wrote a call that cannot be read.");
    if (reason === "other") this.context.drop("status", `The vendor ended the answer with "${raw ?? "no reason"}".`);
    if (reason === "refusal" && message && !this.refused) this.context.drop("incomplete_details", message);
  }

  private response(status: string, details: string, output: string, usage: Usage | undefined): string {
    const head = `"id":"resp_${this.id}","object":"response","created_at":${this.created}`;
    const model = `"model":${JSON.stringify(this.context.model)},"status":"${status}"`;
    const told = usage ? JSON.stringify(usageOf(usage)) : "null";
    const tier = JSON.stringify(servedTier(usage) ?? "default");
    return `{${head},${model},"error":null,"incomplete_details":${details},"output":[${output}],"usage":${told},"service_tier":${tier},${this.echo}}`;
  }

  /** Counts what is held until the end. @throws GatewayError `upstream_invalid` when that is too much of a stream */
  hold(event: Event): void {
    this.held += weightOf(event);
    if (this.held > LONGEST && !this.silent)
      throw new GatewayError("upstream_invalid", { message: "The provider's answer is longer than 8 MiB." });
  }

  private grow(event: BlockEvent, out: EncodedFrame[]): void {
    if (event.type === "open" && event.choice !== 0) {
      this.others.add(event.block);
      this.context.drop(`choices.${event.choice}`, "A response holds one answer.");
    }
    if (this.others.has(event.block)) return;
    this.hold(event);
    if (this.block === undefined || event.block === this.block) this.apply(event, out);
    else if (event.type === "open") this.waiting.set(event.block, [event]);
    else this.waiting.get(event.block)?.push(event);
    if (event.type === "close" && this.block === undefined) this.resume(out);
  }

  /** The blocks that waited, up to the first that is still open. */
  private resume(out: EncodedFrame[]): void {
    for (const [block, events] of this.waiting) {
      this.waiting.delete(block);
      for (const event of events) this.apply(event, out);
      if (this.block !== undefined) return;
    }
  }

  private apply(event: BlockEvent, out: EncodedFrame[]): void {
    if (event.type === "open") {
      if (this.open(event, out)) this.block = event.block;
    } else if (event.block === this.block) {
      if (this.late && (event.type === "text" ? event.text !== "" : event.type === "citation")) this.text(out);
      if (event.type === "close") this.close(out);
      else this.item?.grow(event, out);
    }
  }

  private close(out: EncodedFrame[]): void {
    this.item?.close(out);
    this.block = undefined;
    this.late = false;
  }

  /** Answers whether the block has a form here. */
  private open(event: EventOf<"open">, out: EncodedFrame[]): boolean {
    switch (event.kind) {
      case "text":
        if (event.opaque) this.state({ ...event.opaque, on: "text" }, out);
        // State can sit on a text that never comes; an empty one would be sent back as an answer.
        if (event.opaque) this.late = true;
        else this.text(out);
        return true;
      case "refusal":
        this.refused = true;
        this.message(out).open("refusal", out);
        return true;
      case "reasoning":
        this.item = new Reasoning(this.next("rs", out), out);
        return true;
      case "tool_call":
        this.call(event, out);
        return true;
      case "media":
        if (event.media === "image") this.item = new Picture(this.next("ig", out), event.mime, out);
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

  private text(out: EncodedFrame[]): void {
    this.late = false;
    this.message(out).open("text", out);
  }

  private message(out: EncodedFrame[]): Message {
    if (this.item instanceof Message) return this.item;
    const message = new Message(this.next("msg", out), out);
    this.item = message;
    return message;
  }

  private call(event: EventOf<"open"> & { kind: "tool_call" }, out: EncodedFrame[]): void {
    // Two calls with one id could not be told apart by the client, and its SDK throws.
    let id = event.id || this.newCallId();
    for (let n = 2; this.callIds.has(id); n++) id = `${event.id}_${n}`;
    this.callIds.add(id);
    if (event.opaque) this.state({ ...event.opaque, on: { call: id } }, out);
    this.item = new Call(this.next(event.custom ? "ctc" : "fc", out), event, id, out);
  }

  /** State that sits on what follows: an item of its own directly before it. */
  private state(opaque: Opaque, out: EncodedFrame[]): void {
    this.item = new Reasoning(this.next("rs", out), out);
    this.item.grow({ type: "opaque", block: 0, opaque }, out);
  }

  /** The place of a new item, when the one before has ended. */
  private next(prefix: Prefix, out: EncodedFrame[]): Place {
    this.settle("completed", out);
    const index = this.begun++;
    return { id: `${prefix}_${this.id.slice(-40)}_${index}`, index, tape: this.tape, context: this.context };
  }

  private settle(status: "completed" | "incomplete", out: EncodedFrame[]): void {
    if (this.item) this.output.push(this.item.done(status, out));
    this.item = undefined;
  }
}
