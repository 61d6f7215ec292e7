import { asObject, type Citation, type EncodedFrame, type Event, type JsonObject } from "model-gateway/protocol";
import { writeUsage } from "../openai/usage.ts";
import { type AnswerNative, at, type Spot } from "./response.record.ts";

/**
 * Writes the very frames that events were read from: their frames without what the vocabulary carries, filled from the
 * events. All are held until the end, for what stood in an early frame can be said by a late event.
 */
export class SameFrames {
  private readonly frames: AnswerNative[] = [];
  private readonly events: Event[] = [];

  event(event: Event): void {
    const native = event.native as AnswerNative | undefined;
    if (native?.frame !== undefined) this.frames.push(native);
    if (native?.spots) this.events.push(event);
  }

  /** The frames, in order. */
  written(): EncodedFrame[] {
    for (const event of this.events)
      for (const spot of (event.native as AnswerNative).spots ?? []) this.fill(spot, event);
    return this.frames.map(({ frame, name }) => ({
      data: typeof frame === "string" ? frame : JSON.stringify(frame),
      ...(name === undefined ? {} : { name }),
    }));
  }

  private fill(spot: Spot, event: Event): void {
    const parent = at(this.frames[spot.frame]?.frame, spot.path.slice(0, -1));
    if (!parent) return;
    const name = spot.path.at(-1) as string;
    parent[name] = spotValue(spot, event);
  }
}

/** True for events that were read with `native`. */
export const isSame = (event: Event | undefined): boolean =>
  (event?.native as AnswerNative | undefined)?.frame !== undefined;

function spotValue({ of, before, path }: Spot, event: Event): unknown {
  switch (event.type) {
    case "usage":
      return numberIn(writeUsage(event.usage), path.slice(1));
    case "citation": {
      const value = event.citation[of as keyof Citation];
      return typeof value === "number" ? value + (before ?? 0) : value;
    }
    case "opaque":
      return asObject(JSON.parse(event.opaque.data))?.[of];
    case "open":
      if (event.kind !== "tool_call") return undefined;
      if (of === "type") return event.custom ? "custom" : "function";
      if (of === "opaque") return JSON.parse(event.opaque?.data ?? "null");
      return of === "id" ? event.id : event.name;
    default:
      return (event as unknown as JsonObject)[of];
  }
}

const numberIn = (usage: JsonObject, path: Spot["path"]): unknown =>
  at(usage, path.slice(0, -1))?.[path.at(-1) as string];
