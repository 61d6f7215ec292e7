import type { Operation, StreamState } from "../core/protocol.ts";
import { Frame } from "../wire/frame.ts";
import { inOwnMemory } from "../wire/own-memory.ts";
import type { EncodedFrame } from "./codec.ts";

/** Frames an encoder's output: as server-sent events, or as the elements of one JSON array that is closed at the end. */
export class Framing {
  /** What the client has received. */
  readonly state: StreamState;
  private readonly array: boolean;

  /** @param finished returns what the client's encoder has written completely */
  constructor(operation: Operation, finished?: StreamState["finished"]) {
    this.array = operation.framing === "array";
    this.state = { operation, frames: 0, first: undefined, last: undefined, finished };
  }

  /** The content type of such a stream. */
  get type(): string {
    return this.array ? "application/json; charset=UTF-8" : "text/event-stream; charset=utf-8";
  }

  frames(written: readonly EncodedFrame[]): Frame[] {
    const frames: Frame[] = [];
    for (const encoded of written) frames.push(this.frame(encoded));
    return frames;
  }

  /** Returns what ends the stream after its last frame. */
  close(): Frame[] {
    return this.array ? [this.record(new Frame("element", this.state.frames === 0 ? EMPTY : CLOSE))] : [];
  }

  private frame({ name, data }: EncodedFrame): Frame {
    if (this.array) {
      const separator = this.state.frames === 0 ? "[" : ",\r\n";
      return this.record(new Frame("element", Buffer.from(separator + data)));
    }
    const eventLine = name === undefined ? "" : `event: ${name}\n`;
    return this.record(new Frame("event", Buffer.from(`${eventLine}data: ${data}\n\n`)));
  }

  private record(frame: Frame): Frame {
    const { state } = this;
    state.first ??= inOwnMemory(frame.bytes);
    state.last = frame;
    state.frames++;
    return frame;
  }
}

const EMPTY = Buffer.from("[]");
const CLOSE = Buffer.from("]");
