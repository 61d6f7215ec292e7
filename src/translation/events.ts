/**
 * A response, independent of any wire format: an ordered list of numbered blocks that open, grow and close, and the way it
 * ended. Each protocol decodes its responses into these events and encodes them from these.
 *
 * Order: one `start`; blocks; one `finish` for each choice; `usage` (the last one counts); one `end`. An `error` can come
 * anywhere and is the last event. Block numbers are dense from 0 in the order of opening; several blocks may be open at a
 * time.
 */

import type { Fault } from "../core/fault.ts";
import type { Usage } from "../core/usage.ts";
import type { RawJson } from "../wire/exact.ts";

/** State that only the provider that created it can read: a signature, encrypted reasoning. */
export interface Opaque {
  /** The protocol that it was received in. */
  protocol: string;
  /**
   * The provider account that created it, as gateway.yaml names it; undefined: it came from the client without an envelope.
   */
  account?: string;
  /** The vendor's model that created it. */
  model?: string;
  /** Its kind in that protocol's terms, like `signature` or `redacted`. */
  kind: string;
  /** The unchanged string. */
  data: string;
  /**
   * The part it belongs to, when the client's protocol has no place for it there: the call with this id, the media with this
   * `TextKey.ofMedia`, the text that follows it, or the reasoning before the texts that precede it. Absent: the reasoning that
   * holds it.
   */
  on?: { call: string } | { media: string } | "text" | "reasoning";
  /** With `on: "reasoning"`: how many characters of these texts were behind the reasoning. Absent: all. */
  textBehind?: number;
  /** True where the client did not send it and the gateway recalled it. */
  recalled?: true;
  /** Further state that must be sent back with it, like an item's summary parts; specific to the protocol. */
  extra?: unknown;
}

export type BlockKind = "text" | "reasoning" | "refusal" | "tool_call" | "media" | "server";

/** A source that a text cites. */
export interface Citation {
  url?: string;
  title?: string;
  /** The cited text of the source. */
  quote?: string;
  /** Start of the supported text in the block, in UTF-16 units. */
  start?: number;
  /** Exclusive end of it. */
  end?: number;
}

/** A block's properties that are known when it opens. */
export type Opening =
  | {
      kind: "text";
      /** State of this text; known when it opens. A block can consist of it alone. */
      opaque?: Opaque;
    }
  /** `summary`: parts of a summary, not the reasoning itself. `redacted`: none of it is readable. */
  | { kind: "reasoning"; summary?: boolean; redacted?: boolean }
  | { kind: "refusal" }
  | {
      kind: "tool_call";
      /** Absent: the vendor gave none, and the translation generates one. */
      id?: string;
      name: string;
      namespace?: string;
      /** Whether its arguments are free text instead of JSON. */
      custom?: boolean;
      /** State of this call; known when it opens. */
      opaque?: Opaque;
    }
  | { kind: "media"; media: "image" | "audio" | "video" | "file"; mime?: string }
  /** A call or result of a tool that the vendor runs itself: understood only by its own protocol. */
  | { kind: "server"; name: string };

export type FinishReason =
  | "stop"
  | "length"
  | "tool_calls"
  | "content_filter"
  | "refusal"
  | "stop_sequence"
  /** The vendor paused a long turn; the client must send another request. */
  | "pause"
  | "context_window"
  /** The model wrote a tool call that cannot be parsed. */
  | "malformed_call"
  | "other";

export type Event =
  | {
      type: "start";
      id: string;
      /** The vendor's name of the model that responds. */
      model: string;
      /** Unix seconds. */
      created?: number;
      /** Token usage known at the start. */
      usage?: Usage;
    }
  | ({ type: "open"; block: number; choice: number } & Opening)
  /** More of a text, reasoning or refusal; `part` counts the parts of a reasoning's summary. */
  | { type: "text"; block: number; text: string; part?: number; logprobs?: unknown }
  /** More of a tool call's arguments: JSON text, never repaired; free text for a custom tool. */
  | { type: "arguments"; block: number; text: string }
  /** State that must be sent back with this reasoning; a later one of the same block replaces it. */
  | { type: "opaque"; block: number; opaque: Opaque }
  | { type: "citation"; block: number; citation: Citation }
  /**
   * A media block's whole content. One event per block: no encoder could distinguish the pieces of an image from several
   * images.
   */
  | { type: "media"; block: number; base64?: string; url?: string }
  /** A server block's whole content, as the vendor sent it. */
  | { type: "server"; block: number; json: RawJson }
  | { type: "close"; block: number }
  /** Token usage so far; the last event counts. */
  | { type: "usage"; usage: Usage }
  | {
      type: "finish";
      choice: number;
      reason: FinishReason;
      /** The vendor's own value. */
      raw?: string;
      /** The stop sequence that matched. */
      stopSequence?: string;
      /** The vendor's message about it. */
      message?: string;
    }
  /** The vendor reports a failure. No event follows. */
  | { type: "error"; fault: Fault }
  /** The vendor signals that the connection is alive. */
  | { type: "ping" }
  /** A part of the response that no other protocol can express. */
  | { type: "unmapped"; path: string }
  /** The response is complete. */
  | { type: "end" };

export type EventOf<Type extends Event["type"]> = Extract<Event, { type: Type }>;
