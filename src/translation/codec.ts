/**
 * What a protocol does to be translated into others and from others: two directions for requests and two for answers,
 * all through one vocabulary (conversation.ts, events.ts). A whole answer is the fold of its events.
 */
import { type Fault } from "../core/fault.ts";
import type { Facts } from "../core/marketplace.ts";
import type { Operation, Protocol, QueryView, Task } from "../core/protocol.ts";
import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { NestedJson } from "../wire/nested.ts";
import type { JsonPath } from "../wire/paths.ts";
import type { Conversation } from "./conversation.ts";
import type { Event, Opaque } from "./events.ts";
import type { SupportTable } from "./features.ts";
import type { Steps } from "./steps.ts";

/** A protocol whose clients and providers are translated. */
export interface TranslatedProtocol extends Protocol {
  readonly translation: Translation;
  /** Another protocol that serves some requests better, where a provider speaks both. */
  readonly better?: Better;
}

/** A protocol whose clients are translated, and no vendor's answers. */
export interface ClientProtocol extends Protocol {
  readonly clientTranslation: ClientTranslation;
}

/** Requests that a vendor only serves in full in another of its protocols. */
interface Better {
  /** That protocol's name. */
  readonly protocol: string;
  /** True for a request, parsed, that belongs there. */
  wants(body: Record<string, unknown>): boolean;
}

export interface Translation {
  readonly request: {
    /** Reads a request. @throws GatewayError `invalid_field` with the client's own path as `param`. */
    decode(request: IncomingRequest): Conversation;
    /** The same in steps, for large requests; absent: they are read in one. */
    decoding?(request: IncomingRequest): Steps<Conversation>;
    /** Writes a request for a vendor. @throws GatewayError as `terms.refuse` makes it. */
    encode(conversation: Conversation, terms: EncodeContext): EncodedRequest;
    /** The same in steps, for large requests; absent: they are written in one. */
    encoding?(conversation: Conversation, terms: EncodeContext): Steps<EncodedRequest>;
    /** True where a schema of answers must have an object at its root; the engine wraps others, and unwraps the answer. */
    readonly objectSchemas?: true;
    /** True where turns of the assistant can hold media; the engine puts them into the user's next turn for others. */
    readonly assistantMedia?: true;
    /** Where a request bears opaque state, and what goes with what cannot be read; for requests whose bytes pass. */
    readonly opaque: OpaquePlaces;
    /** What becomes of each feature when it is written. */
    readonly support: SupportTable;
    /**
     * The fields of its own requests, each with the feature it says, for the fidelity table; `said` of a decoded
     * conversation only holds these features.
     */
    readonly fields: readonly (readonly [field: string, feature: keyof SupportTable])[];
  };
  readonly response: {
    /** Reads a stream, frame by frame. */
    decoder(source: ResponseSource): ResponseDecoder;
    /** Reads a whole answer: the JSON text of its body. @throws GatewayError `upstream_invalid`. */
    decode(text: string, source: ResponseSource): Event[];
    /** Writes a stream, event by event. */
    encoder(context: ResponseContext): ResponseEncoder;
    /** Writes a whole answer as JSON text: the fold of the events. */
    encode(events: readonly Event[], context: ResponseContext): string;
    /** Reads an answer that is an error. `text` may be anything, HTML or nothing included. */
    failure(status: number, headers: HeaderList, text: string): Fault;
  };
  /** How tokens are counted; absent: the vendor has no such call. */
  readonly count?: {
    decode(text: string): number;
    encode(total: number): string;
  };
}

/** Where requests of a protocol bear state that only the provider which made it can read. */
export interface OpaquePlaces {
  /** Every place of a request, parsed, in any order. Anything may stand anywhere. */
  find(body: Record<string, unknown>): Iterable<OpaquePlace>;
  /**
   * What cannot stand any more once these have gone: a message without a block, a setting that wants a signature.
   * @param gone the spans of the places whose state cannot be read
   * @param facts of the model that shall read the request
   */
  consequences?(body: Record<string, unknown>, gone: readonly JsonPath[], facts: Facts): Iterable<OpaqueConsequence>;
}

export interface OpaquePlace {
  /** The way to the string. */
  readonly path: JsonPath;
  /** What goes where it cannot be read: a block, an item, a part, or the string's member alone. */
  readonly span: JsonPath;
  /**
   * JSON that takes the span's place, where plain words say what an envelope holds; undefined: none do.
   * @throws GatewayError `invalid_field` for an envelope that has no business here
   */
  readonly instead?: (state: Opaque) => string | undefined;
}

export interface OpaqueConsequence {
  readonly path: JsonPath;
  /** The JSON that takes its place, or is added there; absent: it goes. */
  readonly json?: string;
  /** Told to the client, where it is more than an empty shell that goes. */
  readonly why?: string;
}

/** The client's half of a translation: of a protocol that requests are read from, and that none is ever written to. */
export interface ClientTranslation {
  readonly request: Pick<Translation["request"], "decode" | "decoding" | "fields">;
  readonly response: Pick<Translation["response"], "encoder" | "encode">;
}

/** A request as it came. */
export interface IncomingRequest {
  operation: Operation;
  task: Task;
  streaming: boolean;
  /** The body as JSON text; it is an object. */
  text: string;
  headers: HeaderList;
  query: QueryView;
  /**
   * Reads an opaque string that the client sent back: what an envelope of ours holds, or, when it is none, a raw one
   * of the client's own protocol. @throws GatewayError when an envelope is not one that we made.
   */
  open(text: string, kind: string): Opaque;
  /** True for strings that look like our envelopes. */
  sealed(text: string): boolean;
  /**
   * Envelopes kept where a client has no place for them, by call id, or by what was said before and the TextKey; a fallback
   * only. The key is not asked for its text where nothing is kept.
   */
  recall(key: { toString(): string }): Opaque | undefined;
}

/** What the writer of a request is given. */
export interface EncodeContext {
  /** The protocol the client speaks, for messages. */
  readonly client: string;
  /** The vendor's name of the model. */
  readonly model: string;
  readonly facts: Facts;
  readonly names: ToolNameMap;
  /** Whether state that other providers made was left out of the conversation. */
  readonly pruned?: boolean;
  /** Leaves something out and says so; with `strict` it refuses instead. `path` is the client's own. */
  drop(path: string, why: string): void;
  /** Changes something within its meaning and says so, like an effort that is clamped. */
  change(path: string, why: string): void;
  /** Checks JSON texts within the request's strings, like arguments; their limits apply to all of the request's together. */
  readonly nested: Pick<NestedJson, "kindOf">;
  /** Refuses the request with a 400 that names the client's field. @param hint what to do, where removing it is not the way */
  refuse(path: string, why: string, hint?: string): never;
}

/** Names of tools that fit the target, and the way back. */
export interface ToolNameMap {
  /** A name with only `allowed` characters (a class for a RegExp, like `a-zA-Z0-9_-`) and at most `longest` of them. */
  fit(name: string, allowed: string, longest: number): string;
  /** The client's name for a name that was fitted. */
  back(name: string): string;
  /** Remembers that a name stands for a tool that takes free text, or one in a namespace. */
  mark(fitted: string, original: { name: string; namespace?: string; custom?: boolean }): void;
  /** What was marked; a plain function otherwise. */
  original(fitted: string): { name: string; namespace?: string; custom?: boolean };
}

/** A request for a vendor. */
export interface EncodedRequest {
  operation: Operation;
  /** Query without `?`; absent: none. */
  query?: string;
  headers?: readonly (readonly [name: string, value: string])[];
  /** JSON text. */
  body: string;
}

/** Where an answer comes from. */
export interface ResponseSource {
  /** The provider account and the vendor's model, for opaque state. */
  account: string;
  model: string;
}

/** Reads the frames of one stream. State lives inside. Never throws: a broken stream becomes an `error` event. */
export interface ResponseDecoder {
  frame(frame: Frame, out: Event[]): void;
  /** The upstream has ended its answer: emits what is open, or an `error` when it is not whole. */
  end(out: Event[]): void;
}

/** A frame to be written: an event's data as JSON text (or a literal of the protocol), and its name where it has one. */
export interface EncodedFrame {
  name?: string;
  data: string;
}

/** Writes the frames of one stream. State lives inside. Errors are written by `Protocol.streamError`, never here. */
export interface ResponseEncoder {
  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void;
  /** What of the answer has been written whole, as JSON texts, where `Protocol.streamError` tells it again. */
  finished?(): readonly string[];
}

/** What the writer of an answer is given. */
export interface ResponseContext {
  /** The name of the model as the client asked for it. */
  model: string;
  /** The exchange's id, to make ids from where the upstream gave none. */
  id: string;
  /** Unix seconds, where the upstream gave none. */
  created: number;
  /** What the client asked. */
  conversation: Conversation;
  /** The client's parsed body, for what the protocol echoes. */
  request: Record<string, unknown>;
  /** An envelope for opaque state: standard base64 that starts with `gw1state`. */
  seal(opaque: Opaque): string;
  /** An id that the gateway makes for a part of the answer, with its owner's mark: 17 characters longer. */
  mark(id: string): string;
  /** Keeps an envelope that the client has no place for, or may strip, by the key that recalls it. */
  remember(key: string, opaque: Opaque): void;
  /** Says that something of the answer could not be told. */
  drop(path: string, why: string): void;
}

/** How a protocol is translated; undefined: only its bytes pass. */
export const translationOf = (protocol: Protocol): Translation | undefined =>
  (protocol as Partial<TranslatedProtocol>).translation;

/** True where a protocol can be translated, in both directions. */
export const translates = (protocol: Protocol): protocol is TranslatedProtocol => translationOf(protocol) !== undefined;

/** The protocol that serves some requests of this one better. */
export const betterOf = (protocol: Protocol): Better | undefined => (protocol as Partial<TranslatedProtocol>).better;

/** How the clients of a protocol are served by providers of others; undefined: they are not. */
export const clientSide = (protocol: Protocol): ClientTranslation | undefined =>
  translationOf(protocol) ?? (protocol as Partial<ClientProtocol>).clientTranslation;

/** The same for a protocol that is known to have one. @throws Error where it has none */
export function clientHalf(protocol: Protocol): ClientTranslation {
  const half = clientSide(protocol);
  if (!half) throw new Error(`The protocol ${protocol.name} has no translation for its clients.`);
  return half;
}
