import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";
import type { Edit } from "../wire/splice.ts";
import { readTraceContext, type TraceContext } from "../wire/trace-context.ts";
import type { Answer, Answerer } from "./answer.ts";
import { splitIntoFrames } from "./answer-frames.ts";
import type { Attempt } from "./attempt.ts";
import { awaitedLater } from "./awaited-later.ts";
import { Body } from "./body.ts";
import { type BufferAccount, MAX_UNCOUNTED_BODY } from "./buffer-memory.ts";
import { type Caller, checkCallerType } from "./caller.ts";
import type { DryRun } from "./dry-run.ts";
import { GatewayError } from "./errors.ts";
import type { Form } from "./form.ts";
import type { Head } from "./head.ts";
import { checkTargets, type Model, type Target } from "./marketplace.ts";
import { checkModel, isSameModel, modelEdits, readModel } from "./model-name.ts";
import { addressLimitKey } from "./networks.ts";
import type { Operation, Protocol, TextKind } from "./protocol.ts";
import { ResponseTextReplacer } from "./response-text-replacer.ts";
import type { Slots } from "./slot.ts";
import type { Stage } from "./stage.ts";
import { maskText, unmaskResponseText } from "./text-masks.ts";
import type { Replace, TextMatch } from "./text-replacer.ts";
import { findMatch, replaceMatches, type SearchedRequest } from "./text-search.ts";
import { type MapText, mapTextEdits, requestTexts, responseTexts, type TextSpan, wholeResponseTexts } from "./texts.ts";
import { checkUsage, type Usage } from "./usage.ts";

/**
 * A response in progress. An object and not a closure in the exchange: with a closure, for whatever reason, V8 keeps the
 * exchanges of a busy connection alive one through another until a full mark of the heap, which costs a third of the CPU.
 */
export interface ActiveResponse {
  /**
   * Called when the client has left and a plugin wants the rest of the response.
   * @param brief read on only if nothing but usage is outstanding, and only for a short time
   * @returns false: the rest is not read
   */
  drain(brief: boolean): boolean;
  /** Called when the client has left: ends the response as complete if the client has all of it. Returns false if it has not. */
  endIfDelivered(): boolean;
  /** Writes a whole frame between two frames of the response. Returns false if it is not a stream. */
  push(bytes: Buffer): boolean;
}

/** Told when the client has left, or the exchange was broken off. */
export interface AbortListener {
  onAbort(): void;
}

/** Stands for the response from when a provider has the request until frames of it are sent to the client. */
export const AWAITED_RESPONSE: ActiveResponse = {
  drain: (brief) => !brief,
  endIfDelivered: () => false,
  push: () => false,
};

/**
 * How an exchange ended.
 *
 * - `completed`: the whole response was written to the client's connection: a provider's below 400, or a plugin's of any status; of
 *   a stream at least up to its terminal event, at which some clients leave.
 * - `aborted`: the client left before that.
 * - `upstream_error`: the provider responded with a status from 400 on, whether its body passed or was translated to another
 *   protocol; could not be reached, was too slow or broke off; or its stream reported an error. The status tells which.
 * - `rejected`: refused by the gateway or a plugin, with a status below 500; also a request in progress whose key was revoked,
 *   disabled or expired.
 * - `failed`: a fault of the gateway or a plugin.
 * - `interrupted`: the gateway stopped and could not wait for its end, or an operator cancelled it.
 */
export type Outcome = "completed" | "aborted" | "upstream_error" | "rejected" | "failed" | "interrupted";

/** What the engine knows about a request before any plugin has seen it: what `Exchange` says of each holds here too. */
export type ExchangeStart = Pick<Exchange, "id" | "time" | "arrivedAt" | "method" | "path" | "query" | "headers"> &
  Pick<Exchange, "credentials" | "protocol" | "operation"> &
  Partial<Pick<Exchange, "address" | "origin" | "uploader" | "pathModel" | "strict">> & {
    /** The model named in the path, which takes the place of the body's. */
    deployment?: string | undefined;
  };

/** What an exchange costs, as recorded in the ledger. */
interface ExchangeCharge {
  readonly tokens: number;
  /** Nano-dollars, for limits; where there is no price, at least the part that is known. */
  readonly cost: number;
  /** Nano-dollars as recorded in the ledger; absent: no price is known. */
  readonly priced?: number;
  /** The id that the usage belongs to, where it may be reported again: it is charged once. */
  readonly once?: string;
  readonly usage?: Usage;
  /** True if the tokens are, at least in part, an estimate. */
  readonly estimated?: boolean;
}

/** @param known usage that has been checked */
function checkCharge({ tokens, cost, priced = 0, once, usage }: ExchangeCharge, known: Usage | undefined): void {
  if (!(Number.isFinite(tokens) && Number.isFinite(cost) && Number.isFinite(priced)))
    throw new TypeError("The amounts of a charge are numbers.");
  if (once !== undefined && typeof once !== "string") throw new TypeError("The id of a charge is a text.");
  if (usage !== undefined && usage !== known) checkUsage(usage);
}

/** @throws GatewayError for a WebSocket: its texts come after the handshake, and would be sent as they are */
function checkMessagesAreSeen({ socket }: Protocol): void {
  if (socket)
    throw new GatewayError("upgrade_required", {
      message: "A plugin of this path changes the texts of requests, and no plugin sees the messages of a WebSocket.",
      hint: "Use a POST request; the operator lists plugins for WebSockets in a chain of their own.",
    });
}

/** Reads the model of an edited body. @throws GatewayError `plugin_failed` where there is none: the client is not to blame for that */
function readEditedModel(body: Body): string {
  if (!body.modelField && body.member("model")?.kind !== "string")
    throw new GatewayError("plugin_failed", { message: "A plugin left a body that names no model." });
  return readModel(body);
}

/** A request and its response, from the arrival of the head to the ledger entry. Plugins share it; the engine ends it. */
export class Exchange {
  readonly id: string;
  /** Unix milliseconds of its arrival. */
  readonly time: number;
  /** `performance.now()` at its arrival. */
  readonly arrivedAt: number;
  /** The client's full address, as far as trusted proxies report it; empty: unknown. */
  readonly address: string;
  /** Scheme and host that the client used; set on a path with `pass`. */
  readonly origin: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly query: Query;
  readonly headers: HeaderList;
  /**
   * What the client sent as its key, without `Bearer`: of the headers and the query, from which the engine has removed it.
   */
  readonly credentials: readonly string[];
  /**
   * The id of the key that began the upload which the request continues, as its URL proves; empty: it was begun without a key.
   * Set on a path with `pass`.
   */
  readonly uploader: string | undefined;
  readonly protocol: Protocol;
  readonly operation: Operation;
  readonly pathModel: string | undefined;
  private readonly deployment: string | undefined;
  /** Whether the request is refused if a translation would drop or change something. */
  readonly strict: boolean;

  /** The request's body as edited by the plugins so far; empty until it has been read. */
  body: Body = Body.empty;
  /** Set for a multipart request; `body` then holds only the bytes around the form's `model`. */
  form: Form | undefined;
  /** What a large body takes of the memory for bodies; set by the engine. */
  bodyMemory: Pick<BufferAccount, "retainWhileAnswered" | "releaseAllButRetained" | "close"> | undefined;
  private knownCaller: Caller | undefined;
  model: Model | undefined;
  private knownTargets: Target[] = [];
  /**
   * The error that the client gets when `targets` fail and others were left out only because these keep something that the client
   * can do without.
   */
  objectError: GatewayError | undefined;
  /**
   * A value shared by all requests of one conversation and by no other, so that they keep to one credential; undefined: unknown.
   * It contains no text of the conversation. On a path with `pass`: of all requests about objects of one owner.
   */
  conversation: string | undefined;
  /** The id of the credential that made an object which the request names, where that is known; preferred to others. */
  objectCredential: string | undefined;
  readonly attempts: Attempt[] = [];
  /** The name under which its usage counts once, where it may be reported again. */
  usageName: string | undefined;
  /** Why the provider's usage could not be read, if that failed; contains none of the content. */
  usageError: string | undefined;
  /** Header lines for any response to it, error responses included: name, value, … */
  readonly replyHeaders: string[] = [];
  /** Notices for the client, sent as `gateway-notice` headers. */
  readonly notices: string[] = [];
  /** Request paths, in the client's own terms, that a translation dropped; sent as the `gateway-dropped` header. */
  readonly dropped: string[] = [];
  /**
   * Parts of the response that could not be translated to the client's protocol, for the log; those known before the head is
   * written are sent in the `gateway-dropped` header too.
   */
  readonly droppedFromResponse: string[] = [];
  /**
   * Set by a plugin that responds itself, before a provider is requested. Plugins after it do not see the request; the response
   * passes the response phase of the plugins before it.
   */
  answer: Answer | undefined;
  /** Set by the engine together with `answer`. */
  answerer: Answerer | undefined;
  /** The head of the response, once received. */
  head: Head | undefined;
  /** Whether a stage runs whose frames are translated after it; set by the engine. */
  seesUntranslated = false;
  private usedSlots: Slots | undefined;
  /** True once the response is known to be a stream. */
  streaming = false;
  /** Status sent downstream; 0 until then. */
  status = 0;
  outcome: Outcome = "completed";
  /** Set if the request is only explained: no effect of a plugin may persist. */
  dryRun: DryRun | undefined;
  /**
   * Set by a plugin that wants the rest of a response read, for its usage, after the client has left; where `send` sets it, also a
   * response that a provider has not begun. `end`: only if nothing but usage is outstanding, and only for a short time.
   */
  drain: boolean | "end" = false;
  /** The response in progress, or awaited from a provider that has the request; set by the engine. */
  activeResponse: ActiveResponse | undefined;
  /** The approximate number of output tokens so far; set by the plugin that counts them. */
  progress: { readonly tokens: number } | undefined;
  /** Called each time a WebSocket message has reported usage; set by the plugin that records it. */
  onUsage: ((exchange: Exchange) => void) | undefined;
  /** Bytes of the response body written downstream. */
  written = 0;
  /** Number of writes in which a response that is parsed on its way was sent. */
  bodyWrites = 0;
  /** Milliseconds spent waiting for the client's body. */
  bodyWait = 0;
  /** The close code of a WebSocket. */
  closeCode: number | undefined;
  /** Bytes of the request's body on a passthrough path. */
  received: number | undefined;
  /** The id of the trace that a plugin reports it in, for the log; undefined: the caller's trace. */
  traceId: string | undefined;
  /** Milliseconds from arrival to the first byte of the response body. */
  firstByte: number | undefined;

  private controller: AbortController | undefined;
  private clientGone = false;
  /** Why the gateway itself breaks it off; undefined: it does not. */
  private interruptedBy: GatewayError | undefined;
  /** Not when a client leaves whose response is read on. */
  private hasFired = false;
  /** `performance.now()` at its end. */
  private endedAt: number | undefined;
  private requestedName: string | undefined;
  private knownError: GatewayError | undefined;
  private knownUsage: Usage | undefined;
  private recordedCharge: ExchangeCharge | undefined;
  private abortListeners: AbortListener[] | undefined;
  /** Number of calls of `replaceText` that have not succeeded. */
  private unreplaced = 0;
  /** What the first failed one of them has thrown. */
  private replaceError: unknown;
  /** What plugins have thrown in `failed`, for the log: it changes nothing for the client. */
  readonly failedErrors: GatewayError[] = [];
  /** The caller for whom it counts among the requests that run concurrently; set by the engine while it does. */
  admittedAs: string | undefined;
  private interruptListeners: Set<() => void> | undefined;

  constructor(arrival: ExchangeStart) {
    this.id = arrival.id;
    this.time = arrival.time;
    this.arrivedAt = arrival.arrivedAt;
    this.address = arrival.address ?? "";
    this.origin = arrival.origin;
    this.method = arrival.method;
    this.path = arrival.path;
    this.query = arrival.query;
    this.headers = arrival.headers;
    this.credentials = arrival.credentials;
    this.uploader = arrival.uploader;
    this.protocol = arrival.protocol;
    this.operation = arrival.operation;
    this.pathModel = arrival.pathModel;
    this.deployment = arrival.deployment;
    this.strict = arrival.strict ?? false;
  }

  /**
   * Takes the request's body.
   * @throws GatewayError `invalid_field` for an invalid model name, `invalid_json`
   */
  receive(body: Body): void {
    this.body = body;
    if (this.operation.storedResponseId !== undefined) return;
    body.check(this.protocol.longMembers);
    if (this.deployment !== undefined) this.body = body.edited(modelEdits(body, this.deployment));
    this.requestedModel = this.pathModel === undefined ? readModel(this.body) : checkModel(this.pathModel);
  }

  /** Whether the client requests a stream. */
  get wantsStream(): boolean {
    const { operation, body } = this;
    return operation.streams === "asked" ? body.member("stream")?.kind === "true" : operation.streams;
  }

  /**
   * Whether the client requests a response that is made in the background, and may be fetched later: some servers accept `1` and
   * `"yes"` for `true`.
   */
  get wantsBackground(): boolean {
    const { operation, body, protocol } = this;
    const name = protocol.output?.background;
    const kind = name === undefined || !operation.generates ? undefined : body.member(name)?.kind;
    return kind !== undefined && kind !== "false" && kind !== "null";
  }

  /** The model name that the client requested; a plugin may choose another. @throws TypeError for anything but a text */
  get requestedModel(): string | undefined {
    return this.requestedName;
  }

  set requestedModel(name: string | undefined) {
    if (name !== undefined && typeof name !== "string") throw new TypeError("The name of a model is a text.");
    this.requestedName = name;
  }

  /** Best first. @throws TypeError for anything but a list of targets */
  get targets(): Target[] {
    return this.knownTargets;
  }

  set targets(targets: Target[]) {
    checkTargets(targets);
    this.knownTargets = targets;
  }

  /**
   * Who asks; undefined: unknown. After the plugin that has set it, the engine checks its `expires`, `paths` and `addresses`.
   * @throws TypeError for anything that is no caller
   */
  get caller(): Caller | undefined {
    return this.knownCaller;
  }

  set caller(caller: Caller | undefined) {
    if (caller !== undefined) checkCallerType(caller);
    this.knownCaller = caller;
  }

  /**
   * What went wrong. A stage sets it where the response itself reports a failure but must still pass: the client gets the
   * original bytes, and the outcome is that of the error.
   * @throws TypeError for anything but a GatewayError
   */
  get error(): GatewayError | undefined {
    return this.knownError;
  }

  set error(error: GatewayError | undefined) {
    if (error !== undefined && !(error instanceof GatewayError)) throw new TypeError("The error is no GatewayError.");
    this.knownError = error;
  }

  /** The usage reported by the provider. @throws TypeError for anything that is no usage */
  get usage(): Usage | undefined {
    return this.knownUsage;
  }

  set usage(usage: Usage | undefined) {
    if (usage !== undefined && usage !== this.knownUsage) checkUsage(usage);
    this.knownUsage = usage;
  }

  /** The charge recorded in the ledger; set at the end by the code that writes it. @throws TypeError for anything else */
  get charge(): ExchangeCharge | undefined {
    return this.recordedCharge;
  }

  set charge(charge: ExchangeCharge | undefined) {
    if (charge !== undefined) checkCharge(charge, this.knownUsage);
    this.recordedCharge = charge;
  }

  /**
   * Changes the body for every attempt and every later reader. A new value of `model` changes the requested model.
   * @param edits offsets in the current `body`
   * @throws GatewayError `plugin_failed` when the body is no longer JSON, or no longer names a model
   */
  edit(edits: readonly Edit[]): void {
    const before = this.body;
    const edited = before.edited(edits);
    if (edited !== before && this.pathModel === undefined && !isSameModel(before, edited))
      this.requestedModel = readEditedModel(edited);
    this.body = edited;
  }

  /** Lets go of what no later phase needs of a large request but the client's body. Called by the engine after the response phase. */
  releaseAllButBody(): void {
    for (const attempt of this.attempts) if (attempt.releasesBody) attempt.body = Body.empty;
    if (this.body.length > MAX_UNCOUNTED_BODY) this.body.releaseParsed();
  }

  /** Returns the human texts of the request, in any protocol; of all kinds by default. A form has none. */
  texts(kinds?: readonly TextKind[]): TextSpan[] {
    return requestTexts(this.body, this.protocol, kinds);
  }

  /**
   * Returns the first match of a pattern in the texts of the request. Long texts are searched in many turns of the event loop.
   * @throws SyntaxError for a pattern that matches the empty string; TypeError for any other wrong argument
   */
  findText(match: TextMatch): Promise<TextSpan | undefined> {
    return awaitedLater(findMatch(this.searched, match));
  }

  private get searched(): SearchedRequest {
    return { body: this.body, protocol: this.protocol, hasEnded: () => this.hasFired };
  }

  /**
   * Replaces what a pattern matches in the texts of the request; all other bytes are kept. Long texts are searched in many turns of
   * the event loop, during which the body must not be changed: await it. A phase that ends before has failed, and so has one that
   * catches its error, unless it has answered: the texts would be sent as they were.
   * @throws GatewayError `upgrade_required` for a WebSocket, whose messages no plugin sees
   * @throws SyntaxError for a pattern that matches the empty string; TypeError for any other wrong argument
   */
  replaceText(match: TextMatch, replace: Replace): Promise<void> {
    return awaitedLater(this.replaceMatches(match, replace));
  }

  private async replaceMatches(match: TextMatch, replace: Replace): Promise<void> {
    this.unreplaced++;
    try {
      checkMessagesAreSeen(this.protocol);
      const { body } = this;
      const edits = await replaceMatches(this.searched, match, replace);
      if (this.body !== body) throw new Error("The body was changed while texts of it were being replaced.");
      this.edit(edits);
      this.unreplaced--;
    } catch (thrown) {
      this.replaceError ??= thrown;
      throw thrown;
    }
  }

  /**
   * Replaces each text that a pattern matches in the request by a mask like `<email-1>`, the same one for the same text, to be restored by
   * `unmaskResponseText`. Members that name the client's user or label the request (`user`, `metadata`) are left out if it
   * matches in them. In all else like `replaceText`: await it.
   * @param name of the masks: letters a to z and hyphens
   * @throws GatewayError as `replaceText`; `unsupported_media_type` for a form; `body_too_large` for more than 100,000 different texts
   */
  maskText(name: string, match: TextMatch): Promise<void> {
    return awaitedLater(maskText(this, name, match));
  }

  /** Whether texts would be sent as they are that a plugin wanted to replace. Called by the engine at the end of each phase. */
  get hasUnreplacedText(): boolean {
    return this.unreplaced > 0 && this.answer === undefined;
  }

  /** Why they were not replaced. Called by the engine. */
  unreplacedReason(): unknown {
    return this.replaceError ?? new Error("The phase has ended before replaceText has: await it.");
  }

  /**
   * Replaces the request's whole texts of these kinds, in one turn of the event loop; all other bytes are kept.
   * @throws GatewayError `upgrade_required` for a WebSocket, whose messages no plugin sees
   */
  mapText(kinds: readonly TextKind[], map: MapText): void {
    checkMessagesAreSeen(this.protocol);
    this.edit(mapTextEdits(this.body, this.protocol, kinds, map));
  }

  /**
   * Returns the texts, or pieces of texts, in a response frame; for use in a stage. In a stream, those with the same `piece` are one
   * text; one without may repeat what came in pieces, so leave it out of a count if its kind has come in pieces.
   */
  responseTexts(frame: Frame, kinds?: readonly TextKind[]): TextSpan[] {
    return responseTexts(frame.json(), this.answerProtocol, kinds);
  }

  /**
   * Returns the texts of a complete response, streamed or not, from the bytes of `head.readBody` or those that a stage has
   * collected. Each text is complete, and left out where it repeats its pieces or another member's text.
   */
  completeResponseTexts(bytes: Buffer, kinds?: readonly TextKind[]): TextSpan[] {
    const { head } = this;
    const { framing } = (this.seesUntranslated ? head?.translated : undefined) ?? head ?? {};
    return wholeResponseTexts(splitIntoFrames(bytes, framing, head?.maxFrame), this.answerProtocol, kinds);
  }

  /**
   * Returns a stage that replaces what a pattern matches in the texts of the response, streamed or not, in any protocol. A match
   * is found wherever the stream cuts it. Undefined: the response has no texts. For the response phase.
   * @throws SyntaxError for a pattern that can match the empty string
   */
  replaceResponseText(match: TextMatch, replace: Replace): Stage | undefined {
    const { head } = this;
    const { texts } = this.answerProtocol;
    if (!head || !texts || head.status >= 300) return undefined;
    const answer = new ResponseTextReplacer(texts, match, replace);
    if (head.framing) return answer.stage;
    if (!head.headers.get("content-type")?.startsWith("application/json")) return undefined;
    head.headers.delete("content-length");
    return answer.wholeStage(head.reserve);
  }

  /**
   * Returns a stage that restores in the texts of the response what `maskText` has replaced by masks of these names. Undefined: it has
   * replaced nothing. Masks of former requests, in a conversation that the provider has kept, stay. For the response phase.
   */
  unmaskResponseText(...names: string[]): Stage | undefined {
    return unmaskResponseText(this, names);
  }

  /** Values that plugins keep for this exchange, each in its slot. */
  get slots(): Slots {
    this.usedSlots ??= new Map();
    return this.usedSlots;
  }

  /** Whether a plugin keeps any. */
  get hasSlots(): boolean {
    return this.usedSlots !== undefined;
  }

  /** The last attempt; undefined: no provider has been requested. */
  get attempt(): Attempt | undefined {
    return this.attempts.at(-1);
  }

  /** The number of requests made to providers; targets that could not take the request do not count. */
  get providerRequests(): number {
    let requests = 0;
    for (const { dispatched } of this.attempts) if (dispatched) requests++;
    return requests;
  }

  /** The protocol of the response at this point of the chain: the provider's until it is translated. */
  get answerProtocol(): Protocol {
    const isTranslated = this.head?.translated && !this.seesUntranslated;
    return isTranslated ? this.protocol : (this.attempt?.protocol ?? this.protocol);
  }

  /** The key for limits per address: the client's address, for IPv6 its /64. */
  get network(): string {
    return addressLimitKey(this.address);
  }

  /** The caller's trace context; undefined: none was sent. */
  get trace(): TraceContext | undefined {
    return readTraceContext(this.headers);
  }

  /** The exchange as `done` would see it if it ended now. */
  get asEnded(): this {
    return this;
  }

  /** Milliseconds since arrival; after the end, its total duration. */
  get elapsed(): number {
    return (this.endedAt ?? performance.now()) - this.arrivedAt;
  }

  /** Marks the end. Called by the engine before plugins record it, as that may take time. */
  end(): void {
    this.endedAt ??= performance.now();
  }

  /** True once the client has left. */
  get aborted(): boolean {
    return this.clientGone;
  }

  /** The error for the client once the gateway breaks it off, as when it stops and can wait no longer. */
  get interruption(): GatewayError | undefined {
    return this.interruptedBy;
  }

  /**
   * Fires when the client leaves, unless the response is then read on (`drain`), when the gateway breaks it off, and when a
   * plugin was too slow for it (`plugin_timeout`). Created on demand: most exchanges never need it.
   */
  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.hasFired) this.controller.abort();
    }
    return this.controller.signal;
  }

  /** Whether `signal` has fired. */
  get isBrokenOff(): boolean {
    return this.hasFired;
  }

  /** Runs `listener` when `signal` fires, at once if it already has. Returns a function that unsubscribes. */
  onAbort(listener: () => void): () => void {
    const entry = { onAbort: listener };
    this.addAbortListener(entry);
    return () => this.removeAbortListener(entry);
  }

  /** Does the same for an object, without functions of its own: each request has two. Called by the engine. */
  addAbortListener(listener: AbortListener): void {
    if (this.hasFired) listener.onAbort();
    else if (this.abortListeners) this.abortListeners.push(listener);
    else this.abortListeners = [listener];
  }

  removeAbortListener(listener: AbortListener): void {
    const { abortListeners = [] } = this;
    const at = abortListeners.lastIndexOf(listener);
    // Nearly always the last one, and `splice` returns a list.
    if (at >= 0 && at === abortListeners.length - 1) abortListeners.pop();
    else if (at >= 0) abortListeners.splice(at, 1);
  }

  /** Handles the client's disconnection. Called by the engine, once. */
  abort(): void {
    if (this.clientGone || this.interruptedBy || this.activeResponse?.endIfDelivered()) return;
    this.clientGone = true;
    if (!this.drain || !this.activeResponse?.drain(this.drain === "end")) this.fireAbort();
  }

  /** Breaks it off, once: by default because the gateway stops and can wait no longer. */
  interrupt(why = new GatewayError("interrupted")): void {
    if (this.interruptedBy) return;
    this.interruptedBy = why;
    this.fireAbort();
    for (const listener of this.interruptListeners ?? []) listener();
  }

  /** Runs `listener` when the gateway breaks it off, at once if it already has. Returns a function that unsubscribes. */
  onInterrupt(listener: () => void): () => void {
    if (this.interruptedBy) listener();
    this.interruptListeners ??= new Set();
    this.interruptListeners.add(listener);
    return () => void this.interruptListeners?.delete(listener);
  }

  /** Fires `signal` once the exchange has failed, so that a plugin's own requests for it end. Called by the engine. */
  cancel(): void {
    if (!this.hasFired) this.fireAbort();
  }

  private fireAbort(): void {
    this.hasFired = true;
    this.controller?.abort();
    for (const listener of this.abortListeners?.splice(0) ?? []) listener.onAbort();
  }

  /** Writes a whole frame downstream now, between two frames of the response. Returns false if no stream is open. */
  push(bytes: Buffer): boolean {
    return this.activeResponse?.push(bytes) === true;
  }
}
