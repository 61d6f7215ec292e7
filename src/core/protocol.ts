import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { JsonPath } from "../wire/paths.ts";
import type { JsonObject } from "../wire/values.ts";
import type { Body } from "./body.ts";
import type { ErrorDetails, GatewayError } from "./errors.ts";
import type { Provider } from "./marketplace.ts";
import type { Price } from "./price.ts";
import type { Usage } from "./usage.ts";

/**
 * A wire format: everything that only its vendor's documents tell. One folder under `plugins/protocols/` exports one as
 * its default; `src/` finds the folders by name and knows no vendor.
 */
export interface Protocol {
  /** The name used in gateway.yaml, like `acme-chat`; equal to the folder's name. */
  readonly name: string;
  /**
   * The paths it is served on when gateway.yaml has no `paths:` section, like `/v1/messages`. A last segment `*` takes
   * the rest of the path, slashes included, and hands it to `locate`. A path below a mounted one that is listed here is
   * mounted with it (`/v1/messages` brings `/v1/messages/count_tokens`).
   */
  readonly paths: readonly string[];
  /** The version segment put after a provider's address that is a bare origin, like `/v1`. */
  readonly segment: string;
  /** True for the dialect used when nothing tells which one the caller speaks; exactly one protocol says so. */
  readonly common?: boolean;
  /** Request headers of this protocol that go upstream: exact lower-case names, or prefixes ending in `*`. */
  readonly headers: readonly string[];
  /** Request headers sent upstream when the client sent none: name and value. */
  readonly defaults?: readonly (readonly [name: string, value: string])[];
  /** Whole answers of success are JSON objects, so that what is not is the answer of somebody else. */
  readonly answersJson?: true;
  /** Top-level body members that hold usage in a whole answer, like `usage`. */
  readonly usageMembers: readonly string[];
  /** How its answers hold pictures; undefined: they do not, or not so that they could be charged by number. */
  readonly pictures?: PictureWords;
  /**
   * What its models' tokens are beside those of a usual tokenizer: how many times as many a text has, and how many come to each
   * call of a tool besides its arguments. 1 and 0 where nothing is said.
   */
  readonly tokens?: { readonly times: number; readonly call: number };
  /** A frame written while a stream is silent; nothing may take it for content. */
  readonly ping: Buffer;

  /**
   * Which operation a request asks for: `path` is the path it is mounted on, `rest` the text its `*` took, still escaped.
   * Undefined: no such path. May refuse with a GatewayError that tells more.
   */
  locate(path: string, rest: string, query: QueryView): Located | undefined;
  /**
   * True when a request on an unknown or shared path comes from a client of this protocol.
   * @param query absent where the path is not served: it may not be one that can be read
   */
  recognises(path: string, headers: HeaderList, query?: QueryView): boolean;
  /**
   * Whether a call makes a key of the vendor's own, which works without the gateway: `path` is what stands below the
   * provider's address, decoded, in lower case, without matrix parameters and white space. What only begins like such a
   * call (`keys.json`, `keys:`) is one: vendors' servers forgive more than they write down.
   */
  readonly mints?: (method: string, path: string) => boolean;
  /**
   * Why a provider that speaks it must not be sent this request, though its bytes could pass; undefined: it may. Some
   * members only the vendor itself knows; others answer as if they were not there.
   */
  readonly beyond?: (provider: Provider, body: Body) => GatewayError | undefined;
  /** The header that shows a provider our credential, as name and value. */
  credential(secret: string): readonly [name: string, value: string];
  /**
   * What an error with a status from 400 to 499 refuses, where its body says that; undefined: what the status says, which is
   * our credential everywhere of a 401, at this target of a 403, and the request of others. Of our credential only members of
   * the vendor's own count, as its words may repeat the client's.
   */
  refuses?(status: number, body: Buffer): Refused | undefined;
  /** Response headers that carry the exchange's id to clients of this protocol, besides `x-request-id`. */
  readonly idHeaders?: readonly string[];
  /** Response headers of this protocol that come back down: exact lower-case names, or prefixes ending in `*`. */
  readonly answerHeaders?: readonly string[];
  /** An error as the JSON body that this protocol's clients understand. */
  error(error: GatewayError, id: string): string;
  /**
   * The same in the middle of a stream, as bytes that follow a complete frame: the connection is cut after them; an array
   * is closed by them, and the answer ends.
   */
  streamError(error: GatewayError, id: string, stream: StreamState): Buffer;
  /** What a frame says of the end of the stream. Called for each frame: look at bytes before parsing. */
  ending(frame: Frame): Ending | undefined;
  /**
   * True for a stream's terminal event, behind which nothing of the answer follows: it is whole, however the connection ends
   * then. Not given where there is no such event.
   */
  terminal?(frame: Frame): boolean;
  /** True when a frame may hold usage, as its bytes look without parsing. */
  holdsUsage(frame: Frame): boolean;
  /** Usage from a parsed frame or whole body; `before` is what earlier frames told, later values win. */
  usage(json: unknown, before?: Usage): Usage | undefined;
  /** How a request limits what comes out; undefined: no tokens come out. */
  readonly output?: OutputWords;
  /**
   * Header lines that tell clients how far off their limits are: name, value, …; undefined: the vendor has none.
   * @param now Unix milliseconds
   */
  rateHeaders?(distances: RateDistances, now: number): string[];
  /** Headers in which a provider tells what is left of its own limits of a minute. */
  readonly ratesLeft?: readonly (readonly [kind: keyof RateDistances, header: string])[];
  /** Where human text stands, so that a plugin that reads or changes text is one file for all protocols. */
  readonly texts: {
    /** In a request's body, parsed. Anything may stand anywhere. */
    request(body: unknown): Iterable<TextPlace>;
    /** In a whole answer, or in a frame of a stream, parsed. */
    response(json: unknown): Iterable<TextPlace>;
  };
  /** How a request asks for usage in a stream where the vendor sends none unasked; see `rewrite`. */
  readonly includeUsage?: IncludeUsage;
  /**
   * Answers of the built-in demo provider that no other protocol could give, like counts or pictures. Undefined: the
   * engine's script, told through the protocol's own encoder (translation/demo.ts).
   */
  demo?(request: DemoRequest): DemoAnswer | undefined;
  /** Lists models in this protocol's own shape, where it differs from the shared one. */
  readonly listing?: Listing;
  /** The HTTP status that says the service is overloaded; 503. */
  readonly overloaded?: number;
  /** What is said over a WebSocket, where the protocol has that. */
  readonly socket?: SocketWords;
  /** Answers that the vendor keeps and gives out again; undefined: it keeps none. */
  readonly kept?: KeptAnswers;
  /** How its vendor's other calls name objects; undefined: nothing is known of them. */
  readonly vendor?: VendorObjects;
  /** What makes requests one conversation; undefined: there are none. */
  readonly conversation?: ConversationWords;
  /** Where a request may name models besides its own, as vendors' tools do; undefined: nowhere. */
  readonly otherModels?: OtherModelWords;
  /** Top-level members that may be long, like its messages: their strings are checked at their start, all others' to their end. */
  readonly long?: readonly string[];
  /** Objects that the vendor keeps; undefined: requests of this protocol name none. */
  readonly objects?: ObjectWords;
}

/**
 * What a provider's error refuses.
 *
 * - `credential`: our credential, whatever is asked.
 * - `target`: our credential, for this model or this call.
 * - `request`: the request, whoever shows it: what it says.
 * - `object`: the request, as it names what the account of our credential does not have.
 */
export type Refused = "credential" | "target" | "request" | "object";

/** How pictures that are charged by number are told. */
export interface PictureWords {
  /** Names of members: each picture of a whole answer has one of them, or all. */
  readonly marks: readonly string[];
  /** Top-level members of requests, and of some answers, that say how large and how good a picture is. */
  readonly size: string;
  readonly quality: string;
  /** Tokens of a picture at most, where nobody has told them. */
  readonly tokens: number;
  /** Operations that make pictures from others. */
  readonly edits: readonly string[];
}

/** Where a request says how much may come out. */
export interface OutputWords {
  /** The ways to the number of tokens at most; where several are given, the largest counts. */
  readonly tokens: readonly JsonPath[];
  /** The ways to what that is multiplied by: a number, or a list whose elements are each answered. */
  readonly times: readonly JsonPath[];
  /** Members that ask for a service tier; absent: `service_tier`. */
  readonly service?: readonly string[];
  /** A member, the value with which it asks for a dearer service, and the tier whose rates hold then. */
  readonly tier?: readonly [member: string, value: string, tier: string];
  /**
   * A list of models of which the vendor may ask each one behind the other for the same answer; what is said above may stand
   * in its entries too. A text in its place leaves the choice to the vendor.
   */
  readonly further?: string;
  /** The type of a tool of the vendor's that draws, and the tokens of a picture that it draws, at most. */
  readonly draws?: readonly [tool: string, tokens: number];
  /** A member that asks for an answer that is made later, unless it is false: what that used is told to whoever fetches it. */
  readonly later?: string;
}

/** How far off the nearest limits are. */
export interface RateDistances {
  readonly requests?: RateDistance;
  readonly tokens?: RateDistance;
}

/** How far off a limit of a minute is. */
export interface RateDistance {
  readonly limit: number;
  readonly left: number;
  /** Milliseconds until all of it is there again. */
  readonly reset: number;
}

/** Whose words a text is, or what it is for. */
export type TextKind = "system" | "user" | "assistant" | "reasoning" | "tool_call" | "tool_result";

/** Where human text stands in a request, an answer or a frame of a stream. */
export interface TextPlace {
  /** The way to the string. */
  readonly path: JsonPath;
  readonly kind: TextKind;
  /** In a frame: pieces with the same name are one text, in the order of their frames. Absent: the text is whole here. */
  readonly piece?: string;
  /** The string is JSON text itself, like the arguments of a call: what is put into it is escaped once more. */
  readonly json?: true;
}

/** What only a protocol knows of its WebSockets. */
export interface SocketWords {
  /** As `Protocol.locate`, for a handshake; the model is what the query names. */
  locate(path: string, rest: string, query: QueryView): Located | undefined;
  /** The parameter of the query that names the model. */
  readonly model: string;
  /** Other parameters of the query that may name what is used, in lower case. */
  readonly elsewhere: readonly string[];
  /** Of these, those that name an object that a key has made. */
  readonly objects: readonly string[];
  /** How the entry of Sec-WebSocket-Protocol begins in which a browser sends its key, having no other place for it. */
  readonly key: string;
  /** How other entries begin that would tell the provider whose account it is, and so never go there. */
  readonly hidden: readonly string[];
  /** Texts of which one stands in each message of a client that names something; others are not parsed. */
  readonly marks: readonly string[];
  /** What such a message, parsed, names besides what the handshake did. */
  names(message: unknown): Iterable<SocketName>;
  /** The message that tells of an error on an open socket. */
  error(error: GatewayError, id: string): string;
  /** Usage with what a text message of the provider adds to it. Called for each message: look at bytes before parsing. */
  usage(message: Buffer, before?: Usage): Usage | undefined;
}

/** A model or an object that a message on a WebSocket names. */
export interface SocketName {
  readonly kind: "model" | "object";
  readonly name: string;
  /** Where it stands, in the client's own words. */
  readonly param: string;
}

/** The query of a request, decoded. */
export interface QueryView {
  /** The first value of that name; null where there is none. */
  get(name: string): string | null;
}

/** `complete`: the answer is whole. `error`: the upstream reported a failure in its own words. */
export type Ending = "complete" | "error";

export interface Located {
  operation: Operation;
  /** The model the path names, decoded; absent when the body names it. */
  model?: string;
}

/** What is asked of a conversational protocol: an answer, or only the number of tokens in the question. */
export type Task = "generate" | "count";

/** One thing a protocol can be asked to do. */
export interface Operation {
  /** Unique in its protocol, like `messages` or `count_tokens`. */
  readonly name: string;
  readonly method: "POST" | "GET" | "DELETE";
  /** `json`: read whole and scanned. `multipart`: streamed through, only its `model` part is looked at. */
  readonly body: "json" | "multipart" | "none";
  /** Whether answers stream: always, never, or when the body's `stream` member is true. */
  readonly streams: boolean | "asked";
  /** How a stream is framed; `array`: one JSON array, an element a frame. */
  readonly framing: "sse" | "array";
  /** False for operations that generate nothing, like counting tokens: no usage is recorded for them. */
  readonly generates: boolean;
  /** The id of the kept answer it is about, instead of a model. */
  readonly kept?: string;
  /** What it asks for in any protocol; absent: it is not translated. */
  readonly task?: Task;
  /** The path below the provider's address, like `/messages`; `model` is the vendor's name, not yet escaped. */
  upstream(model: string): string;
}

/** What the reply knows of a stream when it has to break it off. */
export interface StreamState {
  operation: Operation;
  /** Frames written so far. */
  frames: number;
  /** A few first bytes of the stream, enough to find an id or a sequence in. */
  first: Buffer | undefined;
  /** The last frame written. */
  last: Frame | undefined;
  /** What of the answer has been written whole, as JSON texts; undefined: it passes as it came, and nobody keeps that. */
  finished?: () => readonly string[];
}

export interface IncludeUsage {
  /** True when the parsed request does not ask for usage although it streams. */
  missing(body: unknown): boolean;
  /** The member to add or replace at top level, and its JSON. */
  member(body: unknown): { name: string; json: string };
  /** True for the frame that only exists because of that. */
  extra(frame: Frame): boolean;
}

export interface ListedModel {
  id: string;
  name: string;
  description?: string;
  /** Unix seconds. */
  created: number;
  context?: number;
  output?: number;
  can: readonly string[];
  /** The protocols in which it can be asked, by their names: `native`, `translated` or `mixed`. */
  protocols: Readonly<Record<string, string>>;
  price: Price;
}

/** Answers that a vendor keeps, named by an id of its own. */
export interface KeptAnswers {
  /** What a request wants of a kept answer: `rest` is the path behind the first of the protocol's paths. */
  locate(method: string, rest: string): Operation | undefined;
  /** What may stand behind an id there, as a segment of its own. */
  readonly below: readonly string[];
  /** Answers that are made after the request for them has ended: their usage is told to whoever asks, as often as that is. */
  readonly late: {
    /** Top-level members of a whole answer that `id` looks at. */
    readonly members: readonly string[];
    /** The id of such an answer, whole or in a frame; undefined for any other. */
    id(json: unknown): string | undefined;
  };
}

/** How a vendor's whole interface names objects: for paths whose requests pass unread. */
export interface VendorObjects {
  /** Parts of paths behind which an id stands, in lower case: `files`, `fine_tuning/jobs`. */
  readonly collections: readonly string[];
  /** What may stand in an id's place without being one. */
  readonly actions: readonly string[];
  /** Collections that anybody may read, like `models`. */
  readonly anybodys: readonly string[];
  /** Where bodies name objects (`anywhere`), and the members of answers in which ids of what was made stand. */
  readonly words: ObjectWords;
  /**
   * Collections whose objects tell of others that came of them, each with the members in which those ids stand. They are read
   * in answers that are the object itself: below it stand contents, which may be anybody's words.
   */
  readonly derived: Readonly<Record<string, readonly string[]>>;
  /**
   * Members in which answers about a collection tell an address at the vendor's where clients go on with the key that they have,
   * at the top or in the entries of `data`.
   */
  readonly addresses?: Readonly<Record<string, readonly string[]>>;
  /** How files are uploaded in several requests; undefined: nothing is known of that. */
  readonly uploads?: UploadWords;
}

/** Uploads that begin with a request whose answer tells where the bytes go. */
export interface UploadWords {
  /** The first part of their paths, in front of the version: `/upload`. */
  readonly path: string;
  /** Headers of theirs, in both directions: exact lower-case names, or prefixes ending in `*`. */
  readonly headers: readonly string[];
  /** Those of an answer that hold an address where the client goes on. */
  readonly addresses: readonly string[];
  /** The parameter of the query by which such an address is told: what is sent there is a file. */
  readonly session: string;
}

/** Where a request says which conversation it belongs to. */
export interface ConversationWords {
  /** The ways to names of it in the body, surest first. */
  readonly members: readonly JsonPath[];
  /** Headers in which agents name a session or thread of theirs. Seen on the wire. */
  readonly headers: readonly string[];
  /** The top-level member that holds its turns, the first one first. */
  readonly turns: string;
}

/** A request's body, as far as its top level tells what it asks. */
export type AskedBody = Pick<Body, "member" | "slice">;

/** Where a request names models besides the one that it asks for. */
export interface OtherModelWords {
  /** Top-level members below which a text in a member `model` names one, however deep it stands. */
  readonly below: readonly string[];
  /** Top-level members in which such members stand again, however deep, like tools that an item brings along. */
  readonly around?: readonly string[];
  /** Members in which the vendor looks for none: schemas, examples, labels. */
  readonly unread: readonly string[];
  /** What stands in front of a name, or is left out. */
  readonly prefix?: string;
  /** Top-level members in which a text leaves the choice of models to the vendor. */
  readonly unnamed?: readonly string[];
}

/** How a vendor names the objects that it keeps: files, stores, containers, answers and their items. */
export interface ObjectWords {
  /** Top-level members of a request that name one. */
  readonly top: readonly string[];
  /** Members that name one wherever they stand. Their value is an id, a list of ids, or an object with its `id`. */
  readonly anywhere: readonly string[];
  /** The same, where a text in their place names nothing: a voice of the vendor's, the words of a prompt. */
  readonly asObjects?: readonly string[];
  /** The `type` of objects whose own `id` names another one. */
  readonly references?: readonly string[];
  /** The same, with a member that may say all of it: by types, the names of these members. Other protocols read no id there. */
  readonly whole?: Readonly<Record<string, string>>;
  /**
   * The same for items that say what the vendor made, which no other protocol looks up either: by types, the member (`sealed`)
   * that leaves nothing to look up, and those (`beside`) with which the id may be a client's own.
   */
  readonly recalled?: Readonly<Record<string, { readonly sealed: string; readonly beside: readonly string[] }>>;
  /** The `type` of objects in a member `source` that stand for what any key made; such a request names the type. */
  readonly sources?: readonly string[];
  /** Whether an element of a list that says nothing but its `id` names another one too, without a `type`. */
  readonly untyped?: true;
  /** Members in which the vendor looks for none: arguments, schemas, labels. */
  readonly unread: readonly string[];
  /** The id in a text that stands in such a member; undefined: it names nothing that the vendor keeps. */
  readonly id?: (text: string) => string | undefined;
  /** What may stand in front of such an id: the rest is the name of a place whose objects are nobody's own, like a bucket. */
  readonly places?: string;
  /** Members of addresses that name something only where they begin with `places`, and only to who speaks the protocol. */
  readonly addresses?: readonly string[];
  /** What is told where an object named there is not known, if clients need other words to go on. */
  readonly unknown?: (param: string) => ErrorDetails | undefined;
  /** False where the answer to a request makes nothing that can be named. Called for each answer: looks at bytes. */
  makes?(request: AskedBody): boolean;
  /** Top-level members of an answer in which ids of what it made stand. */
  readonly members: readonly string[];
  /** The ids in these members, or in an event of a stream. */
  made(json: JsonObject, request: AskedBody): Iterable<string>;
  /** False for a frame that tells no id. Called for each frame: looks at bytes. */
  tells(frame: Frame): boolean;
}

export interface Listing {
  /**
   * A page of them, all where the query asks for none. They are those that can be asked in this protocol.
   * @throws GatewayError `invalid_field` for a page that there is not
   */
  list(models: readonly ListedModel[], query: QueryView): unknown;
  /** The query's parameters by which a page is asked for. */
  readonly parameters: readonly string[];
  one(model: ListedModel): unknown;
}

export interface DemoRequest {
  operation: Operation;
  /** The vendor model: `echo`, `tool`, `reasoning`, `image`, `slow`, `error-429`, … */
  model: string;
  /** The parsed JSON body; undefined for multipart. */
  body: unknown;
  streaming: boolean;
  query: QueryView;
}

export interface DemoAnswer {
  status: number;
  headers: Record<string, string>;
  /** One entry for a whole body; a stream's frames in order. */
  frames: readonly DemoFrame[];
}

export interface DemoFrame {
  /** Milliseconds to wait before this frame. */
  after?: number;
  bytes: string | Buffer;
  /** Break the connection instead of writing. */
  cut?: boolean;
}
