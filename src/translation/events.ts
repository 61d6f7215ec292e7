/**
 * What an answer says, in nobody's wire format: an ordered list of blocks that open, grow and close by their number, and
 * how it ended. Each protocol reads its answers into these events and writes its answers from them.
 *
 * Order: one `start`; blocks; one `finish` for each choice; `usage` (the last one counts); one `end`. An `error` may stand
 * anywhere and is the last event. Block numbers are dense from 0 in the order of opening; several may be open at a time.
 */

import { type Fault } from "../core/fault.ts";
import type { Usage } from "../core/usage.ts";
import type { RawJson } from "../wire/exact.ts";

/** What only the provider that made it can read: a signature, encrypted reasoning. */
export interface Opaque {
  /** The protocol it was received in. */
  protocol: string;
  /** The provider account that made it, as gateway.yaml names it; undefined: it came from the client without an envelope. */
  account?: string;
  /** The vendor's model that made it. */
  model?: string;
  /** What it is in that protocol's words, like `signature` or `redacted`. */
  kind: string;
  /** The very string. */
  data: string;
  /**
   * Where it sat, when the client's protocol could not put it there: on the call with this id, on the media with this
   * `TextKey.ofMedia`, or on the text that follows it. Absent: on the reasoning it comes with.
   */
  on?: { call: string } | { media: string } | "text";
  /** It was kept here for the client's call, which came without it. */
  recalled?: true;
  /** More that must come back with it, like an item's summary parts; the protocol's own. */
  extra?: unknown;
}

export type BlockKind = "text" | "reasoning" | "refusal" | "tool_call" | "media" | "server";

/** A source that a text names. */
export interface Citation {
  url?: string;
  title?: string;
  /** What the source says there. */
  quote?: string;
  /** First character (UTF-16) in the block's text that it backs. */
  start?: number;
  /** Behind the last. */
  end?: number;
}

/** A block as far as it is known when it opens. */
export type Opening =
  | {
      kind: "text";
      /** What sits on this text; known when it opens. A block can consist of nothing else. */
      opaque?: Opaque;
    }
  /** `summary`: parts of a summary, not the reasoning itself. `redacted`: nothing of it can be read. */
  | { kind: "reasoning"; summary?: boolean; redacted?: boolean }
  | { kind: "refusal" }
  | {
      kind: "tool_call";
      /** Absent: the vendor gave none, and the translation makes one. */
      id?: string;
      name: string;
      namespace?: string;
      /** Its arguments are free text, not JSON. */
      custom?: boolean;
      /** What sits on this call; known when it opens. */
      opaque?: Opaque;
    }
  | { kind: "media"; media: "image" | "audio" | "video" | "file"; mime?: string }
  /** A call of a tool that the vendor runs itself, or its result: understood only by its own protocol. */
  | { kind: "server"; name: string; result: boolean };

export type FinishReason =
  | "stop"
  | "length"
  | "tool_calls"
  | "content_filter"
  | "refusal"
  | "stop_sequence"
  /** The vendor paused a long turn; the client must ask again. */
  | "pause"
  | "context_window"
  /** The model wrote a tool call that cannot be read. */
  | "malformed_call"
  | "other";

export type Event =
  | {
      type: "start";
      id: string;
      /** The vendor's name of the model that answers. */
      model: string;
      /** Unix seconds. */
      created?: number;
      /** What is known of the input's tokens already. */
      usage?: Usage;
    }
  | ({ type: "open"; block: number; choice: number } & Opening)
  /** More of a text, reasoning or refusal; `part` counts the parts of a reasoning's summary. */
  | { type: "text"; block: number; text: string; part?: number; logprobs?: unknown }
  /** More of a tool call's arguments: JSON text, never repaired; free text for a custom tool. */
  | { type: "arguments"; block: number; text: string }
  /** What must come back with this reasoning; a later one of the same block replaces it. */
  | { type: "opaque"; block: number; opaque: Opaque }
  | { type: "citation"; block: number; citation: Citation }
  /** A media block's content, whole: one for each block, for no writer can tell the pieces of a picture from several. */
  | { type: "media"; block: number; base64?: string; url?: string }
  /** A server block's content: what the vendor sent for it, whole. */
  | { type: "server"; block: number; json: RawJson }
  | { type: "close"; block: number }
  /** All that is known so far; the last one counts. */
  | { type: "usage"; usage: Usage }
  | {
      type: "finish";
      choice: number;
      reason: FinishReason;
      /** The vendor's own word. */
      raw?: string;
      /** The sequence that matched. */
      stopSequence?: string;
      /** What the vendor says about it. */
      message?: string;
    }
  /** The vendor reports a failure. Nothing follows. */
  | { type: "error"; fault: Fault }
  /** The vendor shows that it is still there. */
  | { type: "ping" }
  /** Something of the answer that no other protocol can say. */
  | { type: "unsaid"; path: string }
  /** The answer is whole. */
  | { type: "end" };

export type EventOf<Type extends Event["type"]> = Extract<Event, { type: Type }>;
