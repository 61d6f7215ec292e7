import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { JsonPath } from "../wire/paths.ts";
import type { Body } from "./body.ts";
import type { GatewayError } from "./errors.ts";
import type { Provider } from "./marketplace.ts";
import type { ObjectMembers, VendorObjects } from "./object-members.ts";
import type { Price } from "./price.ts";
import type { Usage } from "./usage.ts";

/**
 * A wire format: everything that only its vendor's documentation defines. Each folder under `plugins/protocols/` exports one as
 * its default export; `src/` finds the folders by name and knows no vendor.
 */
export interface Protocol {
  /** The name used in gateway.yaml, like `acme-chat`; equal to the folder's name. */
  readonly name: string;
  /**
   * The paths it is served on when gateway.yaml has no `paths:` section, like `/v1/messages`. A last segment `*` matches the rest
   * of the path, slashes included, and passes it to `locate`. A path below a mounted one that is listed here is mounted with it
   * (`/v1/messages` brings `/v1/messages/count_tokens`).
   */
  readonly paths: readonly string[];
  /** The version segment appended to a provider's URL that is a bare origin, like `/v1`. */
  readonly versionSegment: string;
  /** True for the default protocol, used when nothing tells which one the caller speaks; exactly one protocol sets it. */
  readonly isDefault?: boolean;
  /** Request headers of this protocol that are sent upstream: exact lower-case names, or prefixes ending in `*`. */
  readonly headers: readonly string[];
  /** Request headers sent upstream when the client did not send them: name and value. */
  readonly defaultHeaders?: readonly (readonly [name: string, value: string])[];
  /** Set if every complete success response is a JSON object, so that anything else comes from another server. */
  readonly respondsWithJson?: true;
  /** Top-level members that hold usage in a complete response, like `usage`. */
  readonly usageMembers: readonly string[];
  /** Those of them that matter only if they contain a word; long ones are not parsed otherwise. */
  readonly usageWords?: Readonly<Record<string, string>>;
  /** Matches ids of complete responses that report the same usage again when they are fetched, besides stored responses. */
  readonly fetchedIds?: RegExp;
  /** How its responses hold images; undefined: they do not, or not in a form that can be charged per image. */
  readonly images?: ImageMembers;
  /**
   * How to estimate its models' token counts from those of a usual tokenizer: the factor for text, and the tokens per tool call
   * and per answer besides their text. Defaults: 1, 0 and 0. `input` has what a request costs besides its text: tokens once and
   * per turn, tokens once where it has tools, and the factor for the JSON text of the tools.
   */
  readonly tokenEstimate?: {
    readonly textFactor: number;
    readonly perToolCall: number;
    readonly perAnswer?: number;
    readonly input?: {
      readonly once?: number;
      readonly perTurn: number;
      readonly tools: number;
      readonly schemaFactor: number;
    };
  };
  /**
   * Returns the audio and the images in a frame of a stream, with the least tokens that they are billed as: of a piece of audio
   * it may be a fraction. Undefined: its usage counts them, or there are none.
   */
  readonly streamedMedia?: (json: unknown) => Iterable<readonly [kind: "audio" | "image", tokens: number]>;
  /**
   * Returns, for one response, a function that is called with the whole response, or with the frames of a stream that are parsed,
   * which are not all. It returns reasoning that ended there and is not in the texts, with about how many tokens it has, as its
   * encrypted state tells by its length. `summarized`: the texts of reasoning up to there are its summary, which the tokens include.
   * `assumed`: only its end is known, and the tokens are a usual number. Undefined: there is none, or nothing is known of it.
   */
  readonly hiddenReasoning?: () => (
    json: unknown,
  ) => Iterable<readonly [kind: "omitted" | "summarized" | "assumed", tokens: number]>;
  /** A frame written while a stream is idle; clients must not take it for content. */
  readonly ping: Buffer;

  /**
   * Returns the operation of a request: `path` is the path it is mounted on, `rest` the text that its `*` matched, still escaped.
   * Undefined: no such path. May throw a GatewayError with more detail.
   */
  locate(path: string, rest: string, query: QueryView): LocatedOperation | undefined;
  /**
   * Returns true when a request on an unknown or shared path comes from a client of this protocol.
   * @param query absent where the path is not served: its query may not be parseable
   */
  recognises(path: string, headers: HeaderList, query?: QueryView): boolean;
  /**
   * Reports whether a request creates a key of the vendor's own, which works without the gateway. `path` is the part below the
   * provider's base URL, decoded, in lower case, without matrix parameters and white space. A path that only begins like such an
   * endpoint (`keys.json`, `keys:`) counts as one: vendors' servers accept more than they document.
   */
  readonly createsKey?: (method: string, path: string) => boolean;
  /**
   * Returns why a provider of this protocol must not be sent this request, although its bytes could pass; undefined: it may be.
   * Some members are known to the vendor only; other servers respond as if they were absent.
   */
  readonly whyNotSendable?: (provider: Provider, body: Body) => GatewayError | undefined;
  /** Returns the header that carries our credential to a provider, as name and value. */
  credential(secret: string): readonly [name: string, value: string];
  /**
   * Returns what an error with a status from 400 to 499 refuses, where its body says that. Undefined: the status decides: 401 our
   * credential everywhere, 403 our credential at this target, 429 our credential for a time, any other the request. Only the
   * vendor's own members may blame our credential, as its messages may quote the client's text.
   */
  refuses?(status: number, body: Buffer): RefusalScope | undefined;
  /** Returns the seconds after which a retry makes sense, where an error says that in its body: a `retry-after` header precedes. */
  retryAfter?(body: Buffer): number | undefined;
  /** Response headers, besides `x-request-id`, that carry the exchange's id to clients of this protocol. */
  readonly idHeaders?: readonly string[];
  /** Response headers of this protocol that are passed downstream: exact lower-case names, or prefixes ending in `*`. */
  readonly responseHeaders?: readonly string[];
  /** Returns an error as a JSON body that this protocol's clients understand. */
  error(error: GatewayError, id: string): string;
  /**
   * Returns an error in the middle of a stream, as bytes that follow a complete frame. After them the connection is cut; an array
   * is closed by them, and the response ends normally.
   */
  streamError(error: GatewayError, id: string, stream: StreamState): Buffer;
  /** Returns what a frame says about the end of the stream. Called for each frame: inspect bytes before parsing. */
  ending(frame: Frame): Ending | undefined;
  /**
   * Reports whether this is a stream's terminal event, after which nothing of the response follows: it is complete, however the
   * connection ends, also where the event reports a failure. Absent where the protocol has no such event.
   */
  terminal?(frame: Frame): boolean;
  /**
   * True where clients may miss the message of a provider's error event after which the connection is cut: unless the terminal
   * event follows it, `streamError` writes that error once more.
   */
  readonly repeatsErrors?: true;
  /** True where usage leaves out counts that are zero, so that one which is absent is known. */
  readonly omitsZeroCounts?: true;
  /** Returns true when a frame may hold usage, judged by its bytes without parsing. */
  holdsUsage(frame: Frame): boolean;
  /** Returns usage from a parsed frame or complete body; `before` is that of earlier frames, later values win. */
  usage(json: unknown, before?: Usage): Usage | undefined;
  /** How a request limits its output; undefined: no tokens are generated. */
  readonly output?: OutputMembers;
  /**
   * Returns header lines that tell clients how far they are from their limits: name, value, …; undefined: the vendor has none.
   * @param now Unix milliseconds
   */
  rateHeaders?(states: RateLimitStates, now: number): string[];
  /** Headers in which a provider reports what is left of its own per-minute limits. */
  readonly remainingRateHeaders?: readonly (readonly [kind: keyof RateLimitStates, header: string])[];
  /** Where human text is located, so that a plugin that reads or changes text is one file for all protocols. */
  readonly texts: {
    /** The texts of a request's parsed body. Any member may have any type. */
    request(body: unknown): Iterable<TextPlace>;
    /** The texts of a complete response or of a frame of a stream, parsed. */
    response(json: unknown): Iterable<TextPlace>;
    /** The names of a request's members in which texts are; the same in other letters are refused where a plugin reads texts. */
    readonly names?: TextNames;
  };
  /** How a request asks for usage in a stream if the vendor sends none by default; see `rewrite`. */
  readonly includeUsage?: IncludeUsage;
  /**
   * Responses of the built-in demo provider that no other protocol could give, like counts or images. Undefined: the engine's
   * script, written with the protocol's own encoder.
   */
  demo?(request: DemoRequest): DemoAnswer | undefined;
  /** Lists models in this protocol's own shape, where that differs from the shared one. */
  readonly listing?: Listing;
  /** The HTTP status that means overloaded; default 503. */
  readonly overloadedStatus?: number;
  /** Its WebSocket messages, where the protocol has any. */
  readonly socket?: SocketProtocol;
  /** Responses that the vendor stores and returns again; undefined: it stores none. */
  readonly storedResponses?: StoredResponses;
  /** How the vendor's other endpoints name objects; undefined: nothing is known about them. */
  readonly vendorObjects?: VendorObjects;
  /** What identifies the conversation of a request; undefined: the protocol has none. */
  readonly conversation?: ConversationFields;
  /** Top-level members that name the client's user or label the request, and are no text for the model. */
  readonly labelMembers?: readonly string[];
  /** Where a request may name models besides the requested one, as vendors' tools do; undefined: nowhere. */
  readonly otherModels?: OtherModelMembers;
  /**
   * Top-level members that may be long, like its messages: their strings are checked only at the start, all others completely.
   */
  readonly longMembers?: readonly string[];
  /** Objects that the vendor keeps; undefined: requests of this protocol name none. */
  readonly objects?: ObjectMembers;
}

/**
 * What a provider's error refuses.
 *
 * - `credential`: our credential, for any request.
 * - `target`: our credential, for this model (which may not exist any more) or this endpoint.
 * - `request`: the content of the request, with any credential.
 * - `object`: the request, because it names an object that the account of our credential does not have.
 * - `state`: the request, because of state in it (a signature, encrypted reasoning) that this provider did not make.
 * - `summary`: the request, because it asks for a summary of the reasoning, which the account of our credential may not.
 */
export type RefusalScope = "credential" | "target" | "request" | "object" | "state" | "summary";

/**
 * Returns the maximum tokens of an image that a model draws, with its previews.
 * @param asked returns a member of the request, or of the tool in it, as it is there
 */
type ImageTokens = (model: string | undefined, asked: (name: string) => unknown) => number;

/** How a protocol reports images that are charged per image. */
export interface ImageMembers {
  /** Members with an image's content: each image of a complete response has one of them, or all. */
  readonly contentMembers: readonly string[];
  /** Top-level members of requests, and of some responses, that give the size and quality of an image. */
  readonly sizeMember: string;
  readonly qualityMember: string;
  /** Top-level members of requests that `tokensOf` asks for. */
  readonly tokenMembers: readonly string[];
  readonly tokensOf: ImageTokens;
  /** Names of operations that make images from other images. */
  readonly editOperations: readonly string[];
}

/** The members of a request that limit its output, and those that decide which rates apply to it. */
interface OutputMembers {
  /** Paths of the maximum number of tokens; where several are given, the largest counts. */
  readonly tokens: readonly JsonPath[];
  /** Paths of the multiplier: a number, or a list with one response for each element. */
  readonly multipliers: readonly JsonPath[];
  /** Members that request a service tier; default `service_tier`. */
  readonly tierMembers?: readonly string[];
  /** A member, its value that requests a more expensive service, and the tier whose rates then apply. */
  readonly premiumTier?: readonly [member: string, value: string, tier: string];
  /**
   * A list of models that the vendor may try one after the other for the same response; its entries may hold the members above
   * too. A string in its place leaves the choice to the vendor.
   */
  readonly fallbackModels?: string;
  /** The type of the vendor's tool that generates images, the maximum tokens of an image, and those of one that was not reported. */
  readonly imageTool?: readonly [tool: string, tokensOf: ImageTokens, usual?: ImageTokens];
  /** What marks the vendor's web search in a request: the beginning of a tool's type, a member of a tool, or of the request. */
  readonly searchMarks?: readonly string[];
  /** A member that requests a response made later, unless it is false: its usage is reported when the response is fetched. */
  readonly background?: string;
}

/** The state of the nearest limits per minute. */
export interface RateLimitStates {
  readonly requests?: RateLimitState;
  readonly tokens?: RateLimitState;
}

/** The state of a limit per minute. */
export interface RateLimitState {
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds until the full limit is available again. */
  readonly reset: number;
}

/** The author or the purpose of a text. */
export type TextKind = "system" | "user" | "assistant" | "reasoning" | "tool_call" | "tool_result";

/** Where human text is located in a request, a response or a frame of a stream. */
export interface TextPlace {
  /** The path of the string. */
  readonly path: JsonPath;
  readonly kind: TextKind;
  /** In a frame: pieces of the same name form one text, in the order of their frames. Absent: the text is complete here. */
  readonly piece?: string;
  /** The string itself contains JSON, like a tool call's arguments: inserted text is escaped once more. */
  readonly json?: true;
  /** In a response: the text that this member has, where some vendors repeat it in other members. */
  readonly alternative?: TextAlternative;
}

/** One of several members that may all have one text: to redact it all are changed, to read it one is enough. */
export interface TextAlternative {
  /** The name of the text. */
  readonly of: string;
  /** The name of the member. */
  readonly member: string;
}

/** What a protocol says over WebSockets. */
export interface SocketProtocol {
  /** Like `Protocol.locate`, for a handshake; the model is the one that the query names. */
  locate(path: string, rest: string, query: QueryView): LocatedOperation | undefined;
  /** The query parameter that names the model. */
  readonly modelParameter: string;
  /** Other query parameters that may name a model or an object, in lower case. */
  readonly otherParameters: readonly string[];
  /** Those of `otherParameters` that name an object made with a key. */
  readonly objectParameters: readonly string[];
  /** The prefix of the Sec-WebSocket-Protocol entry in which a browser sends its key, as it cannot set other headers. */
  readonly keyPrefix: string;
  /** Prefixes of other entries, which would tell the provider whose account it is and are never sent upstream. */
  readonly hiddenPrefixes: readonly string[];
  /** Texts that mark a client message that names a model or an object; messages without any of them are not parsed. */
  readonly nameMarkers: readonly string[];
  /** Returns the models and objects that such a message, parsed, names in addition to the handshake. */
  namesIn(message: unknown): Iterable<SocketName>;
  /** Returns the message that reports an error on an open socket. */
  error(error: GatewayError, id: string): string;
  /**
   * Returns, for one connection, a function that returns the usage including that of a provider's text message. It is called with
   * each message: inspect bytes before parsing.
   */
  usageReader(): (message: Buffer, before?: Usage) => Usage | undefined;
}

/** A model or an object named in a WebSocket message. */
export interface SocketName {
  readonly kind: "model" | "object";
  readonly name: string;
  /** Its location, in the client's own terms. */
  readonly path: JsonPath;
}

/** The decoded query of a request. */
export interface QueryView {
  /** Returns the first value of that name, or null. */
  get(name: string): string | null;
}

/** `complete`: the response is whole. `error`: the upstream reported a failure in its own words. */
export type Ending = "complete" | "error";

/** The operation that a path stands for. */
interface LocatedOperation {
  operation: Operation;
  /** The model that the path names, decoded; absent when the body names it. */
  model?: string;
}

/** What a conversational request asks for: a response, or only the number of tokens in the prompt. */
export type Task = "generate" | "count";

/** One thing that a protocol can be asked to do. */
export interface Operation {
  /** Unique in its protocol, like `messages` or `count_tokens`. */
  readonly name: string;
  readonly method: "POST" | "GET" | "DELETE";
  /** `json`: read whole and scanned. `multipart`: streamed through, only its `model` part is parsed. */
  readonly body: "json" | "multipart" | "none";
  /** Whether responses are streamed: always, never, or when the body's `stream` member is true. */
  readonly streams: boolean | "asked";
  /** How a stream is framed; `array`: one JSON array, one frame for each element. */
  readonly framing: "sse" | "array";
  /** False for operations that generate nothing, like counting tokens: no usage is recorded for them. */
  readonly generates: boolean;
  /** The id of the stored response that it addresses, instead of a model. */
  readonly storedResponseId?: string;
  /** What it asks for independent of the protocol; absent: it cannot be translated. */
  readonly task?: Task;
  /** Returns the path below the provider's base URL, like `/messages`; `model` is the vendor's name, not yet escaped. */
  upstream(model: string): string;
}

/** What is known of a stream when the gateway has to break it off. */
export interface StreamState {
  operation: Operation;
  /** Frames written so far. */
  frames: number;
  /** The first few bytes of the stream, enough to find an id or a sequence number in. */
  first: Buffer | undefined;
  /** The last frame written. */
  last: Frame | undefined;
  /**
   * The parts of the response that were written completely, as JSON texts; undefined: it passes unchanged, and they are not kept.
   */
  finished?: (() => readonly string[]) | undefined;
}

/** How the usage of a stream is asked for where the vendor sends none by default. */
interface IncludeUsage {
  /** Reports whether the parsed request streams but does not ask for usage. */
  missing(body: unknown): boolean;
  /** Reports whether the client expects usage, also where it asks in a way that not every provider knows. */
  expected(body: unknown): boolean;
  /** The top-level member to add or replace, and its JSON. */
  member(body: unknown): { name: string; json: string };
  /** Reports whether a frame was sent only because of that member. */
  extra(frame: Frame): boolean;
}

/** A model in the list of those that a caller may use. */
export interface ListedModel {
  id: string;
  name: string;
  description?: string;
  /** Unix seconds. */
  created: number;
  context?: number;
  output?: number;
  /** What requests may use, like `tools` or `vision`: `can` in gateway.yaml. */
  capabilities: readonly string[];
  /** The protocols it can be requested in, by name: `native`, `translated` or `mixed`. */
  protocols: Readonly<Record<string, string>>;
  price: Price;
}

/** Responses that a vendor stores under an id of its own. */
interface StoredResponses {
  /**
   * Returns the operation that a request for a stored response wants; `rest` is the path after the first of the protocol's paths.
   */
  locate(method: string, rest: string): Operation | undefined;
  /** Path segments that may follow an id there. */
  readonly subpaths: readonly string[];
  /** Responses that are made after their request has ended: their usage is reported with every fetch. */
  readonly background: {
    /** Top-level members of a complete response that these functions need. */
    readonly members: readonly string[];
    /** Returns the id of such a response, complete or in a frame; undefined for any other. */
    id(json: unknown): string | undefined;
    /** Reports whether a complete response says that it is still being made: its usage is not the final one. */
    unfinished(json: unknown): boolean;
    /** Reports whether a complete response says that it is no such response: the request that made it reported its usage. */
    foreground(json: unknown): boolean;
  };
}

/** The members and headers of a request that identify its conversation. */
interface ConversationFields {
  /** Paths of members that identify it, the most reliable first. */
  readonly members: readonly JsonPath[];
  /** Headers in which agents name their session or thread. Observed on the wire. */
  readonly headers: readonly string[];
  /** The top-level member that holds its turns, oldest first. */
  readonly turns: string;
  /** Members by which a part of a turn marks the end of a prompt prefix that is to be cached; undefined: there are none. */
  readonly cacheMarks?: readonly string[];
}

/** The members in which a request names models besides the requested one. */
export interface OtherModelMembers {
  /** Top-level members that are the name of one, or a list of names. */
  readonly topLevel?: readonly string[];
  /** Top-level members below which a string in a member like `model` or `judge_model` names one, at any depth. */
  readonly searched: readonly string[];
  /** Top-level members that contain the searched members again, at any depth, like tools inside an item. */
  readonly containers?: readonly string[];
  /** Members that the vendor does not search: schemas, examples, labels. */
  readonly notSearched: readonly string[];
  /** An optional prefix of a name. */
  readonly prefix?: string;
  /** Members, at the top or in tools, in which a string leaves the choice of models to the vendor. */
  readonly vendorChoice?: readonly string[];
  /** What `type` or `id` says of tools that run a model of the vendor's choice where they name none. */
  readonly choosingTools?: readonly string[];
  /** The same of tools whose model is one of the vendor's choice unless their own member `model` names it. */
  readonly defaultModelTools?: readonly string[];
}

/** Names of members that lead to texts. Data of the client's own, like a tool's arguments, is among neither. */
export interface TextNames {
  /** Members with objects or lists in which texts are. */
  readonly containers: readonly string[];
  /** Members that are texts, or decide what kind of text is beside them. */
  readonly members: readonly string[];
}

/** How models are listed in the shape of one protocol. */
export interface Listing {
  /**
   * Returns a page of the models that can be requested in this protocol; all of them if the query asks for no page.
   * @throws GatewayError `invalid_field` for a page that does not exist
   */
  list(models: readonly ListedModel[], query: QueryView): unknown;
  /** The query parameters that request a page. */
  readonly parameters: readonly string[];
  one(model: ListedModel): unknown;
}

/** A request to the built-in demo provider. */
export interface DemoRequest {
  operation: Operation;
  /** The vendor model: `echo`, `tool`, `reasoning`, `image`, `slow`, `error-429`, … */
  model: string;
  /** The parsed JSON body; undefined for multipart. */
  body: unknown;
  streaming: boolean;
}

/** A response of the built-in demo provider. */
export interface DemoAnswer {
  status: number;
  headers: Record<string, string>;
  /** One entry for a complete body; for a stream its frames in order. */
  frames: readonly DemoFrame[];
}

/** A piece of its body. */
export interface DemoFrame {
  /** Milliseconds to wait before this frame. */
  after?: number;
  bytes: string | Buffer;
  /** Breaks the connection instead of writing. */
  cut?: boolean;
}
