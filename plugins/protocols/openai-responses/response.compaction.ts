import {
  type EncodedFrame,
  type Event,
  type EventOf,
  type FinishReason,
  GatewayError,
  type ResponseContext,
  type ResponseEncoder,
} from "model-gateway/protocol";
import { endOf } from "./response.words.ts";

/** The answer that a compaction is the only item of. */
interface Answer extends ResponseEncoder {
  /** Counts an event whose words are held. @throws GatewayError when they are too many */
  hold(event: Event): void;
  /** The one item. */
  compaction(summary: string, out: EncodedFrame[]): void;
}

/** Ends of an answer whose text is none of a summary: the model wanted to go on otherwise. */
const ASTRAY: ReadonlySet<FinishReason> = new Set(["tool_calls", "pause", "malformed_call"]);

/**
 * Writes the answer to what asked for a compaction in words: its text becomes one item, and nothing else of it is told.
 * Agents break off where there is any other item, or none. [clients seen on the wire]
 */
export class Compacting implements ResponseEncoder {
  /** By block, in the order of opening. */
  private readonly texts = new Map<number, string[]>();
  private finish: EventOf<"finish"> | undefined;

  constructor(
    private readonly answer: Answer,
    private readonly context: ResponseContext,
  ) {}

  /** @throws GatewayError `upstream_invalid` for an answer that holds no summary */
  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void {
    if (event.type === "open") this.open(event);
    else if (event.type === "text") this.grow(event);
    else if (!("block" in event)) {
      if (event.type === "finish" && event.choice === 0) this.finish = event;
      if (event.type === "end") this.end(out);
      this.answer.event(event, out);
    }
  }

  private open(event: EventOf<"open">): void {
    if (event.kind !== "text" || event.choice !== 0) {
      this.context.drop(`output.${event.kind}`, "A compaction holds nothing but text.");
      return;
    }
    this.answer.hold(event);
    this.texts.set(event.block, []);
  }

  private grow(event: EventOf<"text">): void {
    const pieces = this.texts.get(event.block);
    if (!pieces) return;
    this.answer.hold(event);
    pieces.push(event.text);
  }

  /**
   * What was cut says so with its status, whether there is something of a summary or nothing: agents give up at once and
   * name the reason, while they ask again after an error.
   */
  private end(out: EncodedFrame[]): void {
    const { finish } = this;
    const texts = [...this.texts.values()].map((pieces) => pieces.join("")).filter((text) => text.trim() !== "");
    const found = texts.length > 0 && !(finish && ASTRAY.has(finish.reason));
    if (found) this.answer.compaction(texts.join("\n\n"), out);
    else if (endOf(finish, false).status === "completed")
      throw new GatewayError("upstream_invalid", {
        message: "The model was asked to sum up the conversation, and its answer holds no summary.",
      });
  }
}
