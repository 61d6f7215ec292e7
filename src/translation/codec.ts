/**
 * The interface between a protocol and translation: codecs for requests and responses in both directions, all through one
 * vocabulary (conversation.ts, events.ts). A whole response is the fold of its events.
 */
import type { Body } from "../core/body.ts";
import type { Fault } from "../core/fault.ts";
import type { Facts } from "../core/marketplace.ts";
import type { Operation, Protocol, Task } from "../core/protocol.ts";
import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { NestedJson } from "../wire/nested.ts";
import type { JsonPath } from "../wire/paths.ts";
import type { Conversation } from "./conversation.ts";
import type { Event, Opaque } from "./events.ts";
import type { SupportTable } from "./features.ts";
import type { Steps } from "./steps.ts";

/** A protocol that can be translated on the client's and on the provider's side. */
export interface TranslatedProtocol extends Protocol {
  readonly translation: Translation;
  /** Another protocol that serves some requests better, where a provider supports both. */
  readonly better?: BetterProtocol;
}

/** A protocol that is translated on the client's side only: no provider is called with it. */
export interface ClientProtocol extends Protocol {
  readonly clientTranslation: ClientTranslation;
}

/** Requests that a vendor supports in full only in another of its protocols. */
interface BetterProtocol {
  /** The other protocol's name. */
  readonly protocol: string;
  /** Reports whether a client's request of this protocol needs the other one at a target. @param body parsed */
  isNeededFor(body: Record<string, unknown>, target: Pick<EncodeContext, "model" | "facts">): boolean;
  /** Does the same for a request that is translated into this protocol. */
  isNeededForConversation(conversation: Conversation, target: Pick<EncodeContext, "model" | "facts">): boolean;
}

export interface Translation {
  readonly request: {
    /**
     * Parses a request, in steps between which a large one lets others have their turn.
     * @throws GatewayError `invalid_field` with the client's own path as `param`.
     */
    decode(request: IncomingRequest): Steps<Conversation>;
    /** Names of members whose original text `decode` needs; absent: `parameters` and `schema`. */
    readonly rawMembers?: ReadonlySet<string>;
    /** Serializes a request for a vendor, in steps. @throws GatewayError as `context.refuse` makes it. */
    encode(conversation: Conversation, context: EncodeContext): Steps<EncodedRequest>;
    /** True where the response schema's root must be an object; the engine wraps other schemas, and unwraps the response. */
    readonly objectSchemas?: true;
    /** True where assistant turns can hold media; for other protocols the engine moves them into the user's next turn. */
    readonly assistantMedia?: true;
    /**
     * Finds opaque state in a request, and what is removed with unreadable state; for requests that pass without translation.
     */
    readonly opaque: OpaquePlaces;
    /** How each feature is handled when a request is serialized. */
    readonly support: SupportTable;
    /**
     * The fields of this protocol's requests, each with the feature it expresses, for the fidelity table; `uses` of a decoded
     * conversation holds only these features.
     */
    readonly fields: readonly (readonly [field: string, feature: keyof SupportTable])[];
  };
  readonly response: {
    /** Returns a decoder for a stream, frame by frame. */
    decoder(source: ResponseSource): ResponseDecoder;
    /** Parses a whole response, in steps. @param bytes its body: JSON in UTF-8 @throws GatewayError `upstream_invalid`. */
    decode(bytes: Buffer, source: ResponseSource): Steps<Event[]>;
    /** Returns an encoder for a stream, event by event. */
    encoder(context: ResponseContext): ResponseEncoder;
    /** Serializes a whole response as JSON text, in steps: the fold of the events. */
    encode(events: readonly Event[], context: ResponseContext): Steps<string>;
    /** Parses an error response. `text` can be anything, including HTML or nothing. */
    decodeError(status: number, headers: HeaderList, text: string): Fault;
  };
  /** Codec of token counts; absent: the vendor has no endpoint for them. */
  readonly count?: {
    decode(text: string): number;
    encode(total: number): string;
  };
}

/** Finds opaque state in a protocol's requests: state that only the provider which created it can read. */
export interface OpaquePlaces {
  /** Returns every place in a parsed request, in any order. The body is not validated: any value can be anywhere. */
  find(body: Record<string, unknown>): Iterable<OpaquePlace>;
  /**
   * Returns what becomes invalid once these are removed: a message without a block, a setting that requires a signature.
   * @param removedPaths the spans of the places whose state cannot be read
   * @param target the model that will receive the request
   */
  consequences?(
    body: Record<string, unknown>,
    removedPaths: readonly JsonPath[],
    target: StateTarget,
  ): Iterable<OpaqueConsequence>;
  /** Repairs requests that lost state before the gateway; absent: the vendor requires none. */
  readonly lost?: LostState;
}

/** The part of a model that decides which state it requires. */
type StateTarget = Pick<EncodeContext, "model" | "facts" | "url">;

interface LostState {
  /** Reports whether a request may lack state that its target requires, without parsing all of it. */
  mayBeIn(body: Body, target: StateTarget): boolean;
  /** Returns what makes a request acceptable that its target is certain to refuse for the state that it lacks. */
  repairs(body: Record<string, unknown>, target: StateTarget): Iterable<OpaqueConsequence>;
}

export interface OpaquePlace {
  /** Path of the string. */
  readonly path: JsonPath;
  /** What is removed where the state cannot be read: a block, an item, a part, or only the string's member. */
  readonly span: JsonPath;
  /** Whether it is of what a search found, not of reasoning. */
  readonly isFound?: boolean;
  /**
   * Returns JSON to replace the span with, where plain fields can express what an envelope holds; undefined: they cannot.
   * @throws GatewayError `invalid_field` for an envelope that is not allowed here
   */
  readonly replacement?: (state: Opaque) => string | undefined;
}

export interface OpaqueConsequence {
  readonly path: JsonPath;
  /** JSON to replace or add at the path (the index -1 adds a first element to a list); absent: it is removed. */
  readonly json?: string;
  /** Notice to the client, where more than an empty shell is removed. */
  readonly why?: string;
}

/** The client's half of a translation: of a protocol whose requests are decoded, and never encoded for a provider. */
export interface ClientTranslation {
  readonly request: Pick<Translation["request"], "decode" | "rawMembers" | "fields">;
  readonly response: Pick<Translation["response"], "encoder" | "encode">;
}

/** A client's request. */
export interface IncomingRequest {
  task: Task;
  streaming: boolean;
  /** The body as JSON text, which is an object. Read it only where `parsed` is missing: that of a large one is made on demand. */
  readonly text: string;
  /** The body as `parseExact` returns it, where it is large and has been parsed in steps. */
  parsed?: unknown;
  /**
   * Opens an opaque string that the client sent back: the content of one of the gateway's envelopes, otherwise raw state
   * of the client's own protocol. @throws GatewayError for an envelope that this gateway did not make.
   */
  open(text: string, kind: string): Opaque;
  /** Reports whether a string looks like one of the gateway's envelopes. */
  isEnvelope(text: string): boolean;
  /**
   * Returns an envelope kept for a client whose protocol has no place for it, by call id and place, or by PrefixKey and TextKey; a
   * fallback only. The key is not converted to a string where nothing is kept.
   */
  recall(key: { toString(): string }): Opaque | undefined;
}

/** What the encoder of a request receives. */
export interface EncodeContext {
  /** The vendor's name of the model. */
  readonly model: string;
  readonly facts: Facts;
  /** The provider's URL: some protocols have other fields at other addresses. */
  readonly url?: URL;
  readonly names: ToolNameMap;
  /** Whether the provider refuses to summarise the reasoning. */
  readonly withoutSummary?: boolean;
  /** Records that a field is left out; with `strict` it refuses instead. `path` is the client's own. */
  drop(path: string, why: string): void;
  /** Records that a value changes within its meaning, like an effort that is clamped. */
  change(path: string, why: string): void;
  /** Checks JSON texts within the request's strings, like arguments; their limits apply to all of the request's together. */
  readonly nested: Pick<NestedJson, "kindOf">;
  /** Refuses the request with a 400 that names the client's field. @param hint what to do, where removing it is not the way */
  refuse(path: string, why: string, hint?: string): never;
}

/** Maps tool names to names valid at the target, and back. */
export interface ToolNameMap {
  /**
   * Returns a tool's name at the target, which begins with its namespace and differs from that of every other tool. It has only
   * `allowed` characters (a class for a RegExp, like `a-zA-Z0-9_-`) and at most `longest` of them.
   * @param tool `custom`, or of that kind, if it takes free text and is sent as a function
   * @param prefix what the target requires before it
   */
  fitTool(
    tool: { name: string; namespace?: string | undefined; custom?: boolean | undefined; kind?: string },
    allowed: string,
    longest: number,
    prefix?: string,
  ): string;
  /** Returns the client's tool for a fitted name; a plain function for any other name. */
  original(fitted: string): { name: string; namespace?: string; custom?: boolean };
  /**
   * Fits the names of a tool's arguments likewise, for its calls before and in the response. Returns those that change;
   * undefined: none does. @param tool its fitted name
   */
  fitMembers(tool: string, members: readonly string[], allowed: string, longest: number): FittedMembers | undefined;
  /** Returns the names of a tool's arguments that were changed; undefined: none was. @param tool its fitted name */
  membersOf(tool: string): FittedMembers | undefined;
}

/** Names of a tool's arguments that differ at the target: its names by the client's, and the reverse. */
export interface FittedMembers {
  readonly fitted: ReadonlyMap<string, string>;
  readonly own: ReadonlyMap<string, string>;
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

/** The origin of a response. */
export interface ResponseSource {
  /** The provider account and the vendor's model, for opaque state. */
  account: string;
  model: string;
}

/** Decodes the frames of one stream; stateful. Never throws: a broken stream becomes an `error` event. */
export interface ResponseDecoder {
  /** Set if it keeps texts that it has decoded: they count as memory, as reasoning and arguments always do. */
  readonly keepsText?: true;
  frame(frame: Frame, out: Event[]): void;
  /** Ends the stream: emits what is still open, or an `error` when the response is incomplete. */
  end(out: Event[]): void;
}

/** A frame to write: an event's data as JSON text (or a literal of the protocol), and the event's name if it has one. */
export interface EncodedFrame {
  name?: string;
  data: string;
}

/** Encodes the frames of one stream; stateful. Errors are written by `Protocol.streamError`, never here. */
export interface ResponseEncoder {
  /** Set if it keeps texts that it has encoded: they count as memory, as reasoning and arguments always do. */
  readonly keepsText?: true;
  event(event: Exclude<Event, { type: "error" }>, out: EncodedFrame[]): void;
  /** Returns the completely written items of the response as JSON texts, where `Protocol.streamError` repeats them. */
  finished?(): readonly string[];
}

/** What the encoder of a response receives. */
export interface ResponseContext {
  /** The model's name as the client requested it. */
  model: string;
  /** The exchange's id, from which ids are derived where the upstream gave none. */
  id: string;
  /** Unix seconds, where the upstream gave none. */
  created: number;
  /**
   * The client's request. It is let go once an event has been encoded: read it in a constructor, or when the answer starts, as
   * it is decoded anew later.
   */
  readonly conversation: Conversation;
  /** The client's body, for fields that the protocol echoes: each is parsed when it is read. */
  request: Record<string, unknown>;
  /** Returns an envelope for opaque state: standard base64 that starts with `gw1state`. */
  seal(opaque: Opaque): string;
  /** Returns an id that the gateway generates for a part of the response, with its owner's mark: 17 characters longer. */
  mark(id: string): string;
  /** Keeps an envelope that the client has no place for, or may strip, under the key for `recall`. */
  remember(key: string, opaque: Opaque): void;
  /** Records that a part of the response could not be expressed. */
  drop(path: string, why: string): void;
}

/** Returns a protocol's translation; undefined: it is never translated. */
export const translationOf = (protocol: Protocol): Translation | undefined =>
  (protocol as Partial<TranslatedProtocol>).translation;

/** Reports whether a protocol can be translated on both sides. */
export const isTranslatable = (protocol: Protocol): protocol is TranslatedProtocol =>
  translationOf(protocol) !== undefined;

/** Returns the protocol that serves some requests of this one better. */
export const betterProtocolOf = (protocol: Protocol): BetterProtocol | undefined =>
  (protocol as Partial<TranslatedProtocol>).better;

/** Returns the client's half of a protocol's translation; undefined: its clients need a provider that supports it. */
export const clientTranslationOf = (protocol: Protocol): ClientTranslation | undefined =>
  translationOf(protocol) ?? (protocol as Partial<ClientProtocol>).clientTranslation;

/** Does the same for a protocol that must have one. @throws Error where it has none */
export function requireClientTranslation(protocol: Protocol): ClientTranslation {
  const translation = clientTranslationOf(protocol);
  if (!translation) throw new Error(`The protocol ${protocol.name} has no translation for its clients.`);
  return translation;
}
