import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";
import type { Edit } from "../wire/splice.ts";
import { type TraceContext, traceOf } from "../wire/trace-context.ts";
import { framesOf } from "./answer-frames.ts";
import { type AnswerTextMatch, AnswerTexts } from "./answer-texts.ts";
import { Body } from "./body.ts";
import type { DryRun } from "./dry-run.ts";
import { GatewayError } from "./errors.ts";
import { unnamedNotAllowed } from "./key-scope.ts";
import { type LookAlikes, lookAlikes } from "./look-alikes.ts";
import type { Caller, Credential, Model, Target } from "./marketplace.ts";
import { checkModel, readModel, sameModel } from "./model-name.ts";
import { limitedBy } from "./networks.ts";
import { type OtherModel, otherModelEdits, otherModels } from "./other-models.ts";
import type { Operation, Protocol, StreamState, TextKind } from "./protocol.ts";
import type { Slots } from "./slot.ts";
import type { Stage } from "./stage.ts";
import type { Replace } from "./text-replacer.ts";
import { answerTextsOf, type MapText, mappedTexts, type TextSpan, textsOf, wholeTextsOf } from "./texts.ts";
import type { Usage } from "./usage.ts";

/** What the engine knows of an attempt before any plugin has seen it. */
export interface AttemptStart {
  target: Target;
  protocol: Protocol;
  method: string;
  headers: HeaderList;
  body: Body;
  startedAt: number;
  caller?: string;
}

/** One try at one target. */
export class Attempt {
  readonly target: Target;
  /** The protocol spoken upstream. */
  protocol: Protocol;
  /** What is asked upstream, where that is not the exchange's own operation. */
  operation: Operation | undefined;
  method: string;
  /** Query of the provider's address without `?`, where it is not the client's. */
  query: string | undefined;
  /** Path and query below the provider's origin, in place of what the protocol says. */
  path: string | undefined;
  /** What goes upstream; framing headers are the engine's business. */
  headers: HeaderList;
  /** What goes upstream, as the plugins so far have left it; at first the exchange's own. */
  body: Body;
  /** What a translation of the request leaves out, and changes within its meaning; undefined: nothing was translated. */
  losses: { readonly dropped: readonly string[]; readonly notices: readonly string[] } | undefined;
  /** Whose request it is, as far as refusals of a credential are one caller's alone; undefined: nobody's in particular. */
  readonly caller: string | undefined;
  /** What is shown to the provider; undefined: it has none. */
  credential: Credential | undefined;
  /** Milliseconds since the exchange began. */
  readonly startedAt: number;
  /** The same of when it began to wait for a place at the provider; undefined: there was one. */
  queuedAt: number | undefined;
  /** The same of when the connection was there that was made for it; undefined: none had to be, or it passes unread. */
  connectedAt: number | undefined;
  /** Milliseconds since the exchange began when it was handed to the provider's connections; undefined: not yet, or it passes unread. */
  sentAt: number | undefined;
  /** The same of its answer, a stream's with the first frame, or of its failure. */
  answeredAt: number | undefined;
  status: number | undefined;
  /** True once it was handed to the provider's connections, whatever became of it there. */
  tried = false;
  /** True once the provider may have heard of it. */
  sent = false;
  /** The provider's own id of this request, for the log. */
  requestId: string | undefined;
  error: GatewayError | undefined;
  /** What the provider says in an error that passes as it is, without secrets: for log and ledger, nothing is decided by it. */
  refusal: Pick<GatewayError, "code" | "message"> | undefined;

  constructor(start: AttemptStart) {
    this.target = start.target;
    this.protocol = start.protocol;
    this.method = start.method;
    this.headers = start.headers;
    this.body = start.body;
    this.startedAt = start.startedAt;
    this.caller = start.caller;
  }

  /** Changes the body of this attempt only. @param edits offsets in `body` as it is now */
  edit(edits: readonly Edit[]): void {
    this.body = this.body.edited(edits);
  }

  /** Members that servers which read names in any case take for one that was judged, and the edits that take them out. */
  lookAlikes(): LookAlikes {
    return lookAlikes(this.body, this.protocol);
  }

  /**
   * Puts other names in the place of models that the body names besides the one that is asked for.
   * @param caller for one that may use some models only they are looked for wherever they could stand
   * @throws GatewayError `key_not_allowed` where such a one leaves the choice to the vendor, and what `map` throws
   */
  mapOtherModels(caller: Caller | undefined, map: (model: OtherModel) => string): void {
    const { body, protocol } = this;
    const found = otherModels(body, protocol, caller?.models !== undefined);
    const unnamed = caller?.models && found.find((each) => each.unnamed);
    if (unnamed) throw unnamedNotAllowed(caller, unnamed.path.join("."));
    this.edit(otherModelEdits(body, found, map));
  }
}

/** What stands around the part of a form that the body holds: in front of it what waits, behind it what streams through. */
export interface Form {
  /** False: what stands behind the body has not come yet, and can be sent once. */
  readonly replayable: boolean;
  /** Short fields that say how much may come out, as far as they have come. */
  readonly texts: ReadonlyMap<string, string>;
  /** The whole form, with this in the place of the body; an error on the way ends the request. */
  around(body: readonly Buffer[]): readonly Buffer[] | AsyncIterable<Buffer>;
  /** Bytes of the whole form with so many in the place of the body; undefined when the client did not say. */
  lengthAround(body: number): number | undefined;
  /** Frees what waits. */
  close(): void;
}

/** An answer that a plugin gives itself, in the client's protocol; no provider is asked then. */
export interface Answer {
  /** 200. */
  status?: number;
  /** `content-type` is JSON, or for a streamed body the type of the operation's streams, unless it stands here. */
  headers?: Record<string, string>;
  /** Whole; or streamed, in pieces that may be cut anywhere and are asked for as fast as the client reads. */
  body: string | Buffer | Iterable<Buffer> | AsyncIterable<Buffer>;
}

/** Whether a status can stand at the head of an answer. Vendors may send what no RFC knows. */
export const isFinal = (status: number): boolean => Number.isInteger(status) && status >= 200 && status <= 999;

/** The plugin that has answered. */
export interface Answerer {
  readonly name: string;
  /** Its place in the chain. */
  readonly at: number;
  /** How its answer is named where that fails, like `cache.answer`. */
  readonly origin: string;
  /** Milliseconds that each piece of its answer may take; 0: no end. */
  readonly deadline: number;
}

/** The head of an upstream's answer; stages and plugins of the response phase may change it. */
export interface Head {
  status: number;
  headers: HeaderList;
  /** How the body is framed when it is a stream; undefined for a body that comes in pieces. */
  framing?: "sse" | "array" | undefined;
  /**
   * Reads the answer to its end before the head goes down; stages see the very same bytes afterwards.
   * @throws GatewayError when the answer breaks off, or is larger than `limit` bytes.
   */
  whole?(limit: number): Promise<Buffer>;
  /** True while somebody waits for `whole`. */
  reading?: boolean;
  /** Set by whoever translates the answer: `framing` is then the client's, and this is what came and what has gone. */
  translated?: TranslatedHead;
}

/**
 * What a provider answered to an attempt of which the client gets nothing: another attempt follows, or the error is told in the
 * gateway's words. Nothing of its body is read unless somebody keeps it.
 */
export interface FailedAnswer {
  /** Its status and headers, without the gateway's own secrets. */
  readonly head: Head;
  /**
   * Reads its body beside whatever follows, for a second at most and up to so many bytes; of several the most counts. Settles when
   * nothing more of it is read: the phase should not wait for that, for the next attempt waits for the phase. What is cut off there
   * may end with the beginning of a secret: ask for more than is shown.
   */
  keep(limit: number): Promise<void>;
  /** What has come of the body so far, without the gateway's own secrets; of a stream its first event. */
  readonly body: Buffer;
  /** Bytes that have come of it. */
  readonly bytes: number;
  /** Whether `body` is all of it. */
  readonly whole: boolean;
}

/**
 * An answer that is on its way. No closure stands for it in an exchange: with one, whatever its reason, V8 keeps the exchanges of
 * a busy connection alive one by another until it marks all of the heap, which costs a third of the CPU.
 */
export interface Delivery {
  /**
   * The client has left, and somebody wants to know the rest.
   * @param brief only of one that has come to its end but for its usage, and not for long
   * @returns false: it is not read on
   */
  readOn(brief: boolean): boolean;
  /** Writes a whole frame between two of the answer's. False: it is no stream. */
  push(bytes: Buffer): boolean;
}

/** What the engine must know of an answer that a stage writes anew. */
interface TranslatedHead {
  /** How the upstream frames its body. */
  framing: Head["framing"];
  /** The client's stream so far, kept by that stage. */
  state: StreamState;
}

/**
 * How an exchange ended.
 *
 * - `completed`: all of the answer was given to the client's connection: a provider's below 400, or a plugin's of any status.
 * - `aborted`: the client left before that.
 * - `upstream_error`: the provider answered with a status from 400 on, whether its words passed or were told in another
 *   protocol; could not be reached, was too slow, broke off; or its stream told of an error. The status tells which.
 * - `rejected`: refused by the gateway or a plugin, with a status below 500; also one that ran when its key was revoked, was
 *   disabled or expired.
 * - `failed`: the gateway's or a plugin's own fault.
 * - `interrupted`: the gateway stopped and could not wait for its end.
 */
export type Outcome = "completed" | "aborted" | "upstream_error" | "rejected" | "failed" | "interrupted";

/** What the engine knows of a request before any plugin has seen it. */
export interface Arrival {
  id: string;
  /** Unix milliseconds. */
  time: number;
  /** `performance.now()` at arrival. */
  clock: number;
  /** Of the client, as far as proxies that are trusted tell; empty when it is not known. */
  address?: string;
  /** Scheme and host by which the client asked; told where requests pass unread. */
  origin?: string | undefined;
  method: string;
  /** Path without query, in its canonical form. */
  path: string;
  query: Query;
  headers: HeaderList;
  /** Everything that may be a gateway key, in the order of its places; already taken out of headers and query. */
  credentials: readonly string[];
  protocol: Protocol;
  operation: Operation;
  /** The model that the path names, if it does. */
  pathModel?: string | undefined;
  /** Whether the path refuses what a translation would drop. */
  strict?: boolean;
}

/** What an exchange comes to, as the ledger has it. */
interface ExchangeCharge {
  readonly tokens: number;
  /** Nano-dollars, for limits: of what has no price at least what is known of it. */
  readonly cost: number;
  /** The same as the ledger has it; absent: it has no price. */
  readonly priced?: number;
  /** What the usage belongs to, where it may be told again: it counts once. */
  readonly once?: string;
  readonly usage?: Usage;
  /** The tokens are a guess, in whole or in part. */
  readonly estimated?: boolean;
}

/** A request and its response, from the head's arrival to the ledger entry. Plugins share it; the engine owns its end. */
export class Exchange {
  readonly id: string;
  readonly time: number;
  readonly clock: number;
  /** The client's, in full; empty when it is not known. */
  readonly address: string;
  /** Scheme and host by which the client asked; known on a path with `pass`. */
  readonly origin: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly query: Query;
  readonly headers: HeaderList;
  readonly credentials: readonly string[];
  readonly protocol: Protocol;
  readonly operation: Operation;
  readonly pathModel: string | undefined;
  private readonly strictPath: boolean;

  /** The request's bytes as the plugins so far have left them; empty until they are in. */
  body: Body = Body.empty;
  /** Set for a multipart request; the body then holds only the bytes around the form's `model`. */
  form: Form | undefined;
  caller: Caller | undefined;
  /** The name the client asked for. */
  requestedModel: string | undefined;
  model: Model | undefined;
  /** Best first. */
  targets: Target[] = [];
  /**
   * Set where other targets were left out, because only these keep something that the client can do without: what it is told
   * when these cannot answer.
   */
  unkept: GatewayError | undefined;
  /**
   * What all requests of its conversation have in common, and those of no other, so that they keep to one credential too;
   * undefined: nobody knows. It holds no words of it.
   */
  conversation: string | undefined;
  readonly attempts: Attempt[] = [];
  usage: Usage | undefined;
  /** Why the provider's usage could not be read, where that failed; nothing of what was read. */
  unread: string | undefined;
  /** What it comes to, as the ledger has it; known when it has ended. Set by who writes that. */
  charge: ExchangeCharge | undefined;
  /** Header lines of any answer to it, refusals too: name, value, … */
  readonly replyHeaders: string[] = [];
  /** Things the client should know, sent as `gateway-notice` headers. */
  readonly notices: string[] = [];
  /** The client's own paths of what a translation left out, sent as the `gateway-dropped` header. */
  readonly dropped: string[] = [];
  /**
   * What of the answer could not be told in the client's protocol, for the log; what is known of it before the head is
   * written is sent in the `gateway-dropped` header, too.
   */
  readonly droppedFromAnswer: string[] = [];
  /**
   * Set by a plugin that answers itself, before a provider is asked. Nothing behind it sees the request; the answer passes
   * the response phase of the plugins in front of it.
   */
  answer: Answer | undefined;
  /** Set by the engine together with `answer`. */
  answerer: Answerer | undefined;
  /** The head of the answer, once it is in. */
  head: Head | undefined;
  /** What plugins keep for this exchange, each in its slot. */
  readonly slots: Slots = new Map();
  /** True once the answer is known to be a stream. */
  streaming = false;
  /** Status sent downstream; 0 before. */
  status = 0;
  outcome: Outcome = "completed";
  /**
   * What went wrong. A stage sets it where the answer itself tells of a failure and shall pass all the same: the client gets
   * what came, and the outcome is that of the error.
   */
  error: GatewayError | undefined;
  /** Set where the request is only explained: nothing that a plugin does for it may last. */
  dryRun: DryRun | undefined;
  /**
   * Set by a plugin that wants the rest of an answer read, for its usage, once the client has left in the middle of it. `end`:
   * only where nothing but usage is left of a stream, and for a moment.
   */
  drains: boolean | "end" = false;
  /** The answer that is on its way; set by the engine. */
  delivery: Delivery | undefined;
  /** Tokens that came out so far, about; set by who counts them. */
  progress: { readonly tokens: number } | undefined;
  /** Called each time that a message of a WebSocket has told usage; set by who records it. */
  told: ((exchange: Exchange) => void) | undefined;
  /** Bytes of the answer's body written downstream. */
  written = 0;
  /** The writes that was in, of an answer that is read on its way. */
  pieces = 0;
  /** Milliseconds for which the client's body was waited for. */
  waited = 0;
  /** Of a WebSocket: the code it was closed with. */
  closeCode: number | undefined;
  /** Bytes of the request's body, where it passes unread. */
  received: number | undefined;
  /** The trace that it is told in, for the log, where a plugin has begun one; else it is the caller's. */
  traceId: string | undefined;
  /** Milliseconds from arrival to the first byte of the answer's body. */
  firstByte: number | undefined;

  private controller: AbortController | undefined;
  private gone = false;
  /** Why the gateway itself breaks it off; undefined: it does not. */
  private broken: GatewayError | undefined;
  /** `performance.now()` at its end. */
  private ended: number | undefined;
  private readonly abortListeners: (() => void)[] = [];
  /** Set while it has a place among those that run at a time. */
  admitted = false;
  private interruptListeners: Set<() => void> | undefined;

  constructor(arrival: Arrival) {
    this.id = arrival.id;
    this.time = arrival.time;
    this.clock = arrival.clock;
    this.address = arrival.address ?? "";
    this.origin = arrival.origin;
    this.method = arrival.method;
    this.path = arrival.path;
    this.query = arrival.query;
    this.headers = arrival.headers;
    this.credentials = arrival.credentials;
    this.protocol = arrival.protocol;
    this.operation = arrival.operation;
    this.pathModel = arrival.pathModel;
    this.strictPath = arrival.strict ?? false;
  }

  /** Whether what would be dropped or changed of a request is refused: its path says so, or the client. */
  get strict(): boolean {
    return this.strictPath || /^(?:1|true)$/i.test(this.headers.get("gateway-strict") ?? "");
  }

  /** The client's request has come. @throws GatewayError `invalid_field` for a model's name that is none, `invalid_json` */
  receive(body: Body): void {
    this.body = body;
    if (this.operation.kept !== undefined) return;
    body.check(this.protocol.long);
    this.requestedModel = this.pathModel === undefined ? readModel(body) : checkModel(this.pathModel);
  }

  /**
   * Changes the body, for every attempt and for all who look at it from now on. Another name put in its `model` is another
   * model asked for.
   * @param edits offsets in `body` as it is now
   * @throws GatewayError when the body is no longer JSON, or names no model any more
   */
  edit(edits: readonly Edit[]): void {
    const before = this.body;
    const edited = before.edited(edits);
    // Also finds out whether it is still JSON, as long as it is known whose edit this was.
    if (edited !== before && this.pathModel === undefined && !sameModel(before, edited))
      this.requestedModel = readModel(edited);
    this.body = edited;
  }

  /** The human texts of the request, in any protocol; of all kinds unless some are named. A form has none. */
  texts(kinds?: readonly TextKind[]): TextSpan[] {
    return textsOf(this.body, this.protocol, kinds);
  }

  /** Puts other texts in the place of the request's texts of these kinds; all other bytes stay. */
  mapText(kinds: readonly TextKind[], map: MapText): void {
    this.edit(mappedTexts(this.body, this.protocol, kinds, map));
  }

  /** The texts, or pieces of texts, of a frame of the answer: for a stage. */
  answerTexts(frame: Frame, kinds?: readonly TextKind[]): TextSpan[] {
    return answerTextsOf(frame.json(), this.answerProtocol, kinds);
  }

  /**
   * The texts of an answer that is in, streamed or whole: for what `head.whole` gives, or what a stage has put together.
   * Each is whole itself.
   */
  wholeTexts(bytes: Buffer, kinds?: readonly TextKind[]): TextSpan[] {
    return wholeTextsOf(framesOf(bytes, this.head?.framing), this.answerProtocol, kinds);
  }

  /**
   * A stage that replaces what a pattern matches in the texts of the answer, streamed or whole, in any protocol: a match is
   * found wherever the stream cuts it. Undefined where an answer has no texts. For the response phase.
   * @throws SyntaxError for a pattern that matches nothing at all
   */
  mapAnswerText(match: AnswerTextMatch, replace: Replace): Stage | undefined {
    const { head } = this;
    const { texts } = this.answerProtocol;
    if (!head || !texts || head.status >= 300) return undefined;
    const answer = new AnswerTexts(texts, match, replace);
    if (head.framing) return answer.stage;
    if (!head.headers.get("content-type")?.startsWith("application/json")) return undefined;
    head.headers.delete("content-length");
    return answer.wholeStage();
  }

  /** The last attempt; undefined when no provider has been asked. */
  get attempt(): Attempt | undefined {
    return this.attempts.at(-1);
  }

  /** How many times a provider was asked: targets that could not take the request are none of them. */
  get tries(): number {
    let tries = 0;
    for (const { tried } of this.attempts) if (tried) tries++;
    return tries;
  }

  /** The protocol of the answer as the plugins so far have left it: the provider's until it is translated. */
  private get answerProtocol(): Protocol {
    return this.head?.translated ? this.protocol : (this.attempt?.protocol ?? this.protocol);
  }

  /** What limits per address go by: the client's address, of IPv6 the /64. */
  get network(): string {
    return limitedBy(this.address);
  }

  /** Where in a trace of the caller's it belongs; undefined: nowhere that it has told. */
  get trace(): TraceContext | undefined {
    return traceOf(this.headers);
  }

  /** Milliseconds since arrival; once it has ended, those it took. */
  get elapsed(): number {
    return (this.ended ?? performance.now()) - this.clock;
  }

  /** It has ended. Called by the engine, before anybody records it: that may take time of its own. */
  end(): void {
    this.ended ??= performance.now();
  }

  /** True once the client has left. */
  get aborted(): boolean {
    return this.gone;
  }

  /** Set once the gateway breaks it off, as when it stops and can wait no longer: what the client is told. */
  get interruption(): GatewayError | undefined {
    return this.broken;
  }

  /** Fires when the client leaves, or the gateway breaks it off. Made on demand: most exchanges never need one. */
  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.gone || this.broken) this.controller.abort();
    }
    return this.controller.signal;
  }

  /** Runs `leave` when `signal` fires, at once if it has; the answer takes it back. */
  onAbort(leave: () => void): () => void {
    if (this.gone || this.broken) {
      leave();
      return () => {};
    }
    this.abortListeners.push(leave);
    return () => {
      const at = this.abortListeners.indexOf(leave);
      if (at >= 0) this.abortListeners.splice(at, 1);
    };
  }

  /** The client has left. Called by the engine, once. */
  abort(): void {
    if (this.gone || this.broken) return;
    this.gone = true;
    if (!this.drains || !this.delivery?.readOn(this.drains === "end")) this.leave();
  }

  /** The gateway breaks it off: because it stops and can wait no longer, unless it says another reason. Called by the engine, once. */
  interrupt(why = new GatewayError("interrupted")): void {
    if (this.broken) return;
    this.broken = why;
    this.leave();
    for (const act of this.interruptListeners ?? []) act();
  }

  /** Runs `act` when the gateway breaks it off, at once if it has; the answer takes it back. */
  onInterrupt(act: () => void): () => void {
    if (this.broken) act();
    this.interruptListeners ??= new Set();
    this.interruptListeners.add(act);
    return () => void this.interruptListeners?.delete(act);
  }

  private leave(): void {
    this.controller?.abort();
    for (const leave of this.abortListeners.splice(0)) leave();
  }

  /** Writes a whole frame downstream now, between two frames of the answer. False: no stream is open. */
  push(bytes: Buffer): boolean {
    return this.delivery?.push(bytes) === true;
  }
}
