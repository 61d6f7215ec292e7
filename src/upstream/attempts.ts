import { Attempt } from "../core/attempt.ts";
import type { Chain } from "../core/chain.ts";
import { GatewayError } from "../core/errors.ts";
import { AWAITED_RESPONSE, type Exchange } from "../core/exchange.ts";
import { statusFault } from "../core/fault.ts";
import type { Head } from "../core/head.ts";
import type { Provider, Target, Timeouts } from "../core/marketplace.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Operation, Protocol } from "../core/protocol.ts";
import type { Redactor } from "../core/redactor.ts";
import type { ObjectAccess } from "../objects/objects.ts";
import { translationOf } from "../translation/codec.ts";
import { Frame } from "../wire/frame.ts";
import { addMissing, type HeaderList, isEventStream, withLength } from "../wire/headers.ts";
import { dropInvalidTrace } from "../wire/trace-context.ts";
import { addCredential, upstreamPath } from "./address.ts";
import {
  AllowList,
  completeHeaders,
  REQUEST_HEADERS,
  RESPONSE_HEADERS,
  requestIdOf,
  TRACE_HEADERS,
} from "./allow-list.ts";
import { BufferedResponse } from "./buffered-response.ts";
import { DiscardedAnswer } from "./discarded-answer.ts";
import { effectiveStatus } from "./effective-status.ts";
import { ErrorBody } from "./error-body.ts";
import { errorInFrame, peekFirstFrame } from "./first-frame.ts";
import { isUnreadable, redactFrame } from "./frame-errors.ts";
import { callerIdOf, type Health, noTargetError } from "./health.ts";
import { countRefusals, scopeIdempotency } from "./idempotency.ts";
import { detectNonAnswer, type NonAnswer } from "./non-answer.ts";
import { preventRendering } from "./prevent-rendering.ts";
import { addCredentialNotice, recordErrorMessage } from "./provider-message.ts";
import type { ProviderRates } from "./provider-rates.ts";
import type { ProviderSlot, ProviderSlots } from "./provider-slots.ts";
import type { ClientSide, UpstreamProxy } from "./proxy.ts";
import { type AnswerBuffers, isProviderFault, ReceivedAnswer, type UpstreamAnswer } from "./received-answer.ts";
import type { OutgoingRequest } from "./request.ts";
import { requestedWait } from "./requested-wait.ts";
import type { UpstreamResponse } from "./response.ts";
import {
  type AttemptOutcome,
  isRepeatable,
  outcomeOfError,
  outcomeOfStatus,
  type RetryBudget,
  RetryPlan,
  sinceFirstAttempt,
  waitUnlessAborted,
} from "./retry.ts";
import type { TargetHealth } from "./target-health.ts";
import { timeoutError } from "./transport-error.ts";

/** A request with its targets, best first. */
interface RoutedRequest {
  readonly exchange: Exchange;
  readonly targets: readonly Target[];
  readonly chain: Chain;
  readonly client: ClientSide;
  /** Whether it can be sent more than once. */
  readonly canReplay: boolean;
}

/** The outcome of one attempt. */
interface AttemptResult {
  readonly attempt: Attempt;
  readonly outcome: AttemptOutcome;
  /** The provider's response, where one arrived. */
  readonly upstream?: UpstreamResponse;
  /** The error to throw where this attempt is the last one; absent: the client gets the response. */
  readonly error?: GatewayError;
  /** Milliseconds that the provider wants us to wait before a retry; infinite: it wants no retry. */
  readonly wait?: number | undefined;
}

/** Optional collaborators of {@link Upstreams}. */
interface UpstreamsOptions {
  /** Persists what must survive a crash of this process; called before a request is written upstream. */
  persist?(): void;
  readonly rates?: ProviderRates;
  /** Checks the object ids that a request names after it has been translated. */
  readonly objects?: Pick<ObjectAccess, "admitTranslated">;
  /** Whether the caller's trace headers are forwarded to providers. */
  readonly trace?: boolean;
  /** Counts what is buffered of answers. */
  readonly answers?: AnswerBuffers & { readonly maxFrame?: number };
}

/** Tries the targets of an exchange, best first, until one gives a response that is not worth a retry. */
export class Upstreams {
  private readonly requestAllowLists = new Map<Provider, Map<Protocol, AllowList>>();
  private readonly responseAllowLists = new Map<Protocol, AllowList>();
  /** Those that have refused to summarise reasoning, so that not each request is refused first. */
  private readonly withoutSummary = new WeakSet<Provider>();

  constructor(
    private readonly proxy: UpstreamProxy,
    private readonly redactor: Redactor,
    readonly health: Health,
    private readonly budget: RetryBudget,
    readonly slots: ProviderSlots,
    private readonly options: UpstreamsOptions = {},
  ) {}

  /** Persists what must survive a crash of this process; called before bytes leave that depend on it. */
  readonly persist = (): void => this.options.persist?.();

  /**
   * Returns the first response that is no reason to retry, or the last response whatever its status. docs/decisions/0002 says
   * what is retried, and where; nothing is retried once a byte has gone to the client.
   * @throws GatewayError of the last attempt.
   */
  reach(exchange: Exchange, chain: Chain, client: ClientSide): Promise<UpstreamAnswer> {
    const targets = this.health.ordered(exchange.targets, callerIdOf(exchange));
    const target = this.firstTarget(targets, callerIdOf(exchange));
    if (!target) throw noTargetError(exchange);
    this.budget.countRequest();
    // Read before the first attempt: a form that is streamed through can be sent to one provider only.
    const canReplay = exchange.form?.replayable !== false;
    const request = { exchange, targets, chain, client, canReplay };
    return this.tryTarget(request, target).then((result) => {
      const { attempt, outcome, upstream, error } = result;
      return outcome === "final" && upstream && !error
        ? this.buildAnswer(upstream, exchange, attempt, upstream.status === 429)
        : this.retry(request, result);
    });
  }

  /** Tries further targets after the first one, where that makes sense, and returns or throws what comes last. */
  private async retry(request: RoutedRequest, first: AttemptResult): Promise<UpstreamAnswer> {
    const { exchange, targets, chain, canReplay } = request;
    let retries: RetryPlan | undefined;
    for (let result = first; ; ) {
      const { attempt, outcome, upstream, error, wait } = result;
      if (outcome !== "final" && canReplay)
        retries ??= new RetryPlan(exchange, targets, this.budget, this.health, this.slots);
      const next = retries?.nextAfter(attempt, outcome, wait);
      if (next) {
        exchange.activeResponse = undefined;
        if (upstream) await this.discardResponse(upstream, exchange, attempt, chain);
        if (next.wait > 0) await waitUnlessAborted(next.wait, exchange);
        result = await this.tryTarget(request, next.target);
        continue;
      }
      // A final 429 is about this very request, and would be repeated.
      const exhausted = retries?.exhausted(wait) === true || (outcome === "final" && upstream?.status === 429);
      const objectError = isAnswer(outcome) || outcome === "broken" ? undefined : exchange.objectError;
      if (upstream && !error && !objectError) return this.buildAnswer(upstream, exchange, attempt, exhausted);
      if (upstream) await this.discardResponse(upstream, exchange, attempt, chain);
      if (objectError) throw objectError;
      const thrown = previousFailure(exchange) ?? (error as GatewayError);
      if (exhausted) thrown.retry = false;
      throw thrown;
    }
  }

  /** Ends a response that the client does not get. Plugins with a `failed` phase see it first. */
  private discardResponse(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    chain: Chain,
  ): void | Promise<void> {
    if (!chain.hasFailedPhase) return upstream.destroy();
    const { status, headers: received } = upstream;
    const headers = this.redactor.headers(received.filter(this.responseAllowList(attempt.protocol).allows));
    const framing = framingOf(status, received.get("content-type"), attempt.operation ?? exchange.operation);
    const answer = new DiscardedAnswer(upstream, { status, headers, framing }, this.redactor);
    const notified = chain.failed(exchange, attempt, answer);
    return notified instanceof Promise ? notified.then(() => answer.closeUnread()) : answer.closeUnread();
  }

  /**
   * Returns the best target whose provider has a free slot, or the best one of all where no usable target's provider has one.
   */
  firstTarget(targets: readonly Target[], caller?: string): Target | undefined {
    const [best] = targets;
    if (!best || this.slots.hasFree(best.provider)) return best;
    return (
      targets.find((target) => this.slots.hasFree(target.provider) && this.health.isUsable(target, caller)) ?? best
    );
  }

  /**
   * Takes a slot for an attempt without alternatives, which is sent at once.
   * @throws GatewayError `overloaded`, `client_gone`
   */
  async dispatch(exchange: Exchange, attempt: Attempt): Promise<ProviderSlot> {
    const slot = await this.slots.acquire(attempt.target.provider, exchange);
    // While an object's owner was looked up, or a plugin ran, the client may have left, or its key been revoked.
    if (exchange.isBrokenOff) {
      slot.release();
      throw new GatewayError("client_gone");
    }
    attempt.dispatched = true;
    attempt.sent = true;
    this.persist();
    return slot;
  }

  /** @throws GatewayError where the provider has no free slot, and none becomes free within the time of the request */
  private async tryTarget({ exchange, targets, chain, client }: RoutedRequest, target: Target): Promise<AttemptResult> {
    const wasUsable = targets.length > 1 && this.health.isUsable(target, callerIdOf(exchange));
    const acquired = this.slots.acquire(target.provider, exchange);
    const queuedAt = acquired instanceof Promise ? exchange.elapsed : undefined;
    const slot = acquired instanceof Promise ? await acquired : acquired;
    const { total } = target.provider.timeouts;
    if (queuedAt !== undefined && total > 0 && sinceFirstAttempt(exchange) >= total) {
      slot.release();
      throw timeoutError("total", total, target.provider.url.host);
    }
    const attempt = this.createAttempt(exchange, target);
    attempt.queuedAt = queuedAt;
    exchange.attempts.push(attempt);
    let hasStarted = false;
    let upstream: UpstreamResponse | undefined;
    try {
      await chain.send(exchange, attempt);
      const admission = this.options.objects?.admitTranslated(exchange, attempt);
      if (admission) await admission;
      if (wasUsable && this.isReplaceable(target, targets, exchange))
        throw new GatewayError("upstream_unreachable", {
          message: "The target was suspended while the request waited.",
        });
      addCredential(attempt);
      attempt.dispatched = true;
      attempt.sent = true;
      attempt.dispatchedAt = exchange.elapsed;
      const onStart = (isNewConnection: boolean) => {
        hasStarted = true;
        exchange.activeResponse = AWAITED_RESPONSE;
        // A reused connection needs no timestamp, which saves reading the clock.
        if (isNewConnection) attempt.connectedAt = exchange.elapsed;
        this.persist();
      };
      upstream = await this.proxy.send(
        outgoingRequest(exchange, attempt, {
          onEnd: createEndListener(this.health.recordStart(attempt), slot),
          onStart,
        }),
        client,
      );
      const result = this.classifyResponse(upstream, exchange, attempt);
      return result instanceof Promise ? await result : result;
    } catch (thrown) {
      upstream?.destroy();
      slot.release();
      exchange.activeResponse = undefined;
      const error = GatewayError.from(thrown);
      const { code } = error;
      attempt.error = error;
      attempt.respondedAt = exchange.elapsed;
      if (attempt.sent)
        this.health.recordNoResponse(attempt, code.startsWith("upstream_"), hasStarted ? clientWaitTime(exchange) : 0);
      // A client that leaves before a connection has taken the request has reached no provider.
      if (code === "upstream_unreachable" || !hasStarted) attempt.sent = false;
      return { attempt, outcome: outcomeOfError(code), error };
    }
  }

  /**
   * Reports whether a target is no longer usable, and another one is: while this request waited for a slot or a plugin, the target
   * may have been suspended, or another request may have begun to probe it.
   */
  private isReplaceable(target: Target, targets: readonly Target[], exchange: Exchange): boolean {
    const caller = callerIdOf(exchange);
    if (this.health.isUsable(target, caller)) return false;
    const tried = new Set(exchange.attempts.map((attempt) => attempt.target));
    return targets.some((other) => !tried.has(other) && this.health.isUsable(other, caller));
  }

  /** Judges a response: of a stream also its first frame, if that arrives soon. */
  private classifyResponse(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
  ): MaybePromise<AttemptResult> {
    const { status, headers } = upstream;
    const requestId = requestIdOf(headers);
    if (requestId !== undefined) attempt.requestId = this.redactor.text(requestId);
    if (status >= 300) return this.judgeStatus(upstream, exchange, attempt);
    const framing = framingOf(status, headers.get("content-type"), attempt.operation ?? exchange.operation);
    const error = framing
      ? this.firstFrameError(upstream, framing, exchange, attempt)
      : this.firstBytesError(upstream, headers, exchange, attempt);
    return error instanceof Promise
      ? error.then((found) => this.judgeStatus(upstream, exchange, attempt, found))
      : this.judgeStatus(upstream, exchange, attempt, error);
  }

  /** @param error set where a response with a successful status is an error all the same */
  private judgeStatus(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    error?: GatewayError,
  ): MaybePromise<AttemptResult> {
    const status = error?.status ?? upstream.status;
    if (error) attempt.error = error;
    attempt.status = status;
    if (status >= 400) return this.judgeError(upstream, exchange, attempt, error);
    return this.recordResult({ attempt, outcome: outcomeOfStatus(status), upstream }, exchange, status, error);
  }

  private async judgeError(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    error: GatewayError | undefined,
  ): Promise<AttemptResult> {
    // Some vendors answer 400 where others answer 401, or 403 where others answer 400.
    const status = error?.status ?? (await effectiveStatus(upstream, attempt));
    // Of a request as its client wrote it the error may repeat the client's words: one must not take summaries from all.
    if (attempt.refusedSummary && attempt.isTranslated) this.withoutSummary.add(attempt.target.provider);
    const seconds =
      status === 429 || status >= 500
        ? ((await requestedWait(upstream, upstream.headers, attempt.protocol)) ?? error?.retryAfter)
        : undefined;
    const wait = seconds === undefined ? undefined : seconds * 1000;
    const outcome = attempt.refusedState || attempt.refusedSummary ? "unreadable" : outcomeOfStatus(status);
    return this.recordResult({ attempt, outcome, upstream, wait }, exchange, status, error);
  }

  /** @param status what the response amounts to */
  private recordResult(
    result: Required<Pick<AttemptResult, "attempt" | "outcome" | "upstream">> & Pick<AttemptResult, "wait">,
    exchange: Exchange,
    status: number,
    error: GatewayError | undefined,
  ): AttemptResult {
    const { attempt, upstream, wait } = result;
    const { headers } = upstream;
    attempt.respondedAt = exchange.elapsed;
    this.options.rates?.record(attempt, headers);
    this.health.recordResponse(attempt, status, wait, attempt.respondedAt - waitStart(exchange, attempt));
    const forbidsRetry = headers.get("x-should-retry") === "false";
    if (!forbidsRetry && !error) return result;
    return { ...result, ...(forbidsRetry && { wait: Number.POSITIVE_INFINITY }), ...(error && { error }) };
  }

  /** Returns the error that a stream's first frame reports, if it reports one. */
  private firstFrameError(
    upstream: UpstreamResponse,
    framing: NonNullable<Head["framing"]>,
    { protocol }: Exchange,
    attempt: Attempt,
  ): MaybePromise<GatewayError | undefined> {
    const { first_frame: limit } = this.budget.limits;
    if (limit === 0) return undefined;
    const isError = (frame: Frame) => attempt.protocol.ending(frame) === "error";
    const errorOf = (frame: Frame | "none" | undefined): GatewayError | undefined => {
      if (frame === "none") return invalidResponse("The provider's stream ended before its first event.");
      if (!frame) return undefined;
      const error = this.reportedError(frame, attempt, protocol);
      if (error || !isUnreadable(frame, attempt.protocol)) return error;
      return invalidResponse("The first event of the provider's stream is not JSON.");
    };
    const frame = peekFirstFrame(upstream, framing, limit, isError);
    return frame instanceof Promise ? frame.then(errorOf) : errorOf(frame);
  }

  /**
   * Returns an error where a non-streamed response is no valid answer: a proxy's HTML page, an empty body, or an error object.
   */
  private firstBytesError(
    upstream: UpstreamResponse,
    headers: HeaderList,
    exchange: Exchange,
    attempt: Attempt,
  ): MaybePromise<GatewayError | undefined> {
    const { protocol, operation = exchange.operation } = attempt;
    const { first_frame: limit } = this.budget.limits;
    if (WEB_PAGE.test(headers.get("content-type") ?? ""))
      return invalidResponse("The provider answered with a web page.", "Correct the provider's url in gateway.yaml.");
    if (limit === 0 || !protocol.respondsWithJson || !(operation.generates || operation.task)) return undefined;
    const nonAnswer = detectNonAnswer(upstream, operation.framing === "array", limit, attempt);
    if (nonAnswer === undefined) return undefined;
    return nonAnswer instanceof Promise
      ? nonAnswer.then((found) => this.nonAnswerError(found, upstream, exchange, attempt))
      : this.nonAnswerError(nonAnswer, upstream, exchange, attempt);
  }

  private nonAnswerError(
    nonAnswer: NonAnswer | undefined,
    { status, headers }: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
  ): GatewayError | undefined {
    if (nonAnswer === undefined) return undefined;
    if (nonAnswer instanceof Frame) return this.reportedError(nonAnswer, attempt, exchange.protocol);
    if (nonAnswer === "empty") return invalidResponse(`The provider answered ${status} with nothing.`);
    const [name = "of no type"] = /^[\w.+/-]{1,80}/.exec(headers.get("content-type") ?? "") ?? [];
    return invalidResponse(`The provider answered ${status} with no JSON object (${name}).`);
  }

  private reportedError(frame: Frame, attempt: Attempt, { overloadedStatus }: Protocol): GatewayError | undefined {
    return errorInFrame(redactFrame(frame, attempt.protocol, this.redactor), attempt, overloadedStatus);
  }

  /** Creates an attempt as plugins first see it: same protocol, the client's body, and the headers that may be forwarded. */
  createAttempt(exchange: Exchange, target: Target): Attempt {
    const { protocol, operation } = exchange;
    const headers = exchange.headers.filter(this.requestAllowList(protocol, target.provider).allows);
    dropInvalidTrace(headers);
    if (protocol.respondsWithJson && !READABLE_FORM.test(headers.get("accept") ?? "*")) headers.delete("accept");
    scopeIdempotency(headers, exchange, target);
    addMissing(headers, protocol.defaultHeaders);
    const attempt = new Attempt({
      target,
      protocol,
      method: operation.method,
      headers,
      body: exchange.body,
      startedAt: exchange.elapsed,
      caller: callerIdOf(exchange),
    });
    const { conversation, objectCredential } = exchange;
    attempt.credential = this.health.credential(target, conversation, attempt.caller, objectCredential);
    attempt.withoutState = exchange.attempts.some((earlier) => earlier.refusedState && earlier.target === target);
    attempt.withoutSummary = this.withoutSummary.has(target.provider);
    return attempt;
  }

  /** Returns a filter for the response headers that go to clients of a protocol. */
  responseHeaders(protocol: Protocol): (received: HeaderList) => HeaderList {
    const { allows } = this.responseAllowList(protocol);
    return (received) => this.redactor.headers(received.filter(allows));
  }

  private requestAllowList(protocol: Protocol, provider: Provider): AllowList {
    return this.requestAllowLists.get(provider)?.get(protocol) ?? this.addRequestAllowList(protocol, provider);
  }

  private addRequestAllowList(protocol: Protocol, provider: Provider): AllowList {
    const { forward, idempotency } = provider;
    const forwarded = idempotency === undefined ? forward : [...forward, idempotency];
    const trace = this.options.trace === true ? TRACE_HEADERS : [];
    const list = new AllowList([...REQUEST_HEADERS, ...trace, ...protocol.headers, ...forwarded]);
    this.requestAllowLists.getOrInsertComputed(provider, () => new Map()).set(protocol, list);
    return list;
  }

  private responseAllowList(protocol: Protocol): AllowList {
    return this.responseAllowLists.get(protocol) ?? this.addResponseAllowList(protocol);
  }

  private addResponseAllowList(protocol: Protocol): AllowList {
    const list = new AllowList([...RESPONSE_HEADERS, ...(protocol.responseHeaders ?? [])]);
    this.responseAllowLists.set(protocol, list);
    return list;
  }

  /** @param exhausted whether our retries are used up: clients are then told not to retry */
  private buildAnswer(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    exhausted: boolean,
  ): UpstreamAnswer | Promise<UpstreamAnswer> {
    const { status, headers: received } = upstream;
    const { redactor } = this;
    const { protocol } = attempt;
    const headers = redactor.headers(received.filter(this.responseAllowList(protocol).allows));
    preventRendering(headers);
    completeHeaders(status, headers);
    if (exhausted && status >= 400) headers.set("x-should-retry", "false");
    const framing = framingOf(status, headers.get("content-type"), attempt.operation ?? exchange.operation);
    // The length belongs to the provider's framing, or to a body that a 204 or 304 does not have (RFC 9110 §8.6).
    if (framing || status === 204 || status === 304) headers.delete("content-length");
    if (status >= 400) return this.buildErrorAnswer(upstream, exchange, attempt, headers, framing);
    const { answers } = this.options;
    const head = { status, headers, framing, maxFrame: answers?.maxFrame };
    return new ReceivedAnswer(upstream, head, { exchange, attempt, health: this.health, redactor, answers });
  }

  /** @param headers those that the client gets */
  private async buildErrorAnswer(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    headers: HeaderList,
    framing: Head["framing"],
  ): Promise<UpstreamAnswer> {
    const { status } = upstream;
    const { redactor } = this;
    const { protocol } = attempt;
    const body = await ErrorBody.readFrom(upstream, redactor).catch((thrown: unknown) => {
      attempt.error = GatewayError.from(thrown);
      if (status < 500 && isProviderFault(attempt.error)) this.health.recordEnd(attempt, "broken");
      throw attempt.error;
    });
    // Between different protocols the error is translated, and its message is stored with the exchange.
    if (protocol === exchange.protocol) {
      recordErrorMessage(attempt, exchange, body.bytes, redactor);
      // One vendor reports an unknown credential with a 400.
      const isAboutCredential =
        status < 500 && (status === 401 || isCredentialError(protocol, status, upstream.headers, body.bytes));
      addCredentialNotice(attempt, exchange, isAboutCredential);
    }
    const sized = headers.has("content-length") ? withLength(headers, body.bytes.length) : headers;
    return new BufferedResponse(body, { status, headers: sized, framing });
  }
}

/** Reports whether a provider's error says that it does not know the credential. */
const isCredentialError = (protocol: Protocol, status: number, headers: HeaderList, body: Buffer): boolean =>
  translationOf(protocol)?.response.decodeError(status, headers, body.toString()).kind === "authentication";

const WEB_PAGE = /^text\/html\b/i;

/** What a client accepts that can be read: in another form, like protobuf, usage and errors could not. */
const READABLE_FORM = /\bjson\b|event-stream|\*/i;

const invalidResponse = (message: string, hint?: string): GatewayError =>
  new GatewayError("upstream_invalid", { message, ...(hint !== undefined && { hint }) });

/**
 * Returns the milliseconds from the exchange's start from which an attempt waits for its provider: the upload of a streamed form is
 * the client's own time.
 */
const waitStart = ({ form, arrivedAt }: Exchange, { startedAt }: Attempt): number =>
  form ? Math.max(startedAt, form.lastReadAt - arrivedAt) : startedAt;

/** Returns the milliseconds that a client which has left waited for the last attempt; 0 where it has not left. */
function clientWaitTime(exchange: Exchange): number {
  const { aborted, form, attempts, elapsed } = exchange;
  const last = attempts.at(-1);
  return last && aborted && form?.replayable !== false ? elapsed - waitStart(exchange, last) : 0;
}

/** Returns the listener for the end of an attempt. */
const createEndListener = (health: TargetHealth, slot: ProviderSlot) => (): void => {
  health.end();
  slot.release();
};

/** Reports whether an attempt that is the last one has ended with what the provider says about the request itself. */
const isAnswer = (outcome: AttemptOutcome): boolean => outcome === "final" || outcome === "unreadable";

/** Errors of one target that another target may not have. */
const TARGET_ERRORS: ReadonlySet<string> = new Set(["not_translatable", "object_not_found"]);

/**
 * Replaces an error that only says that the last target cannot take the request: the cause is the failure of the target before
 * it. An error with details is kept, because it tells the client how to phrase the request for both targets.
 */
function previousFailure({ attempts }: Exchange): GatewayError | undefined {
  const last = attempts.at(-1)?.error;
  const { status } = attempts.findLast((attempt) => attempt.status !== undefined) ?? {};
  if (!last || !TARGET_ERRORS.has(last.code) || last.details || status === undefined) return undefined;
  const { kind } = statusFault(status, "");
  const message = `The provider answered ${status}, and another one cannot take the request: ${last.message}`;
  return new GatewayError("upstream_failed", { status, kind, message });
}

function outgoingRequest(
  exchange: Exchange,
  attempt: Attempt,
  { onEnd, onStart }: Required<Pick<OutgoingRequest, "onEnd" | "onStart">>,
): OutgoingRequest {
  const { target, credential, headers, body } = attempt;
  const { provider } = target;
  const { form } = exchange;
  const { idempotency } = provider;
  if (idempotency !== undefined && !headers.has(idempotency)) {
    const refusals = countRefusals(exchange, target);
    const key = `${exchange.id}-${exchange.targets.indexOf(target)}`;
    headers.append(idempotency, refusals > 0 ? `${key}-${refusals + 1}` : key);
  }
  return {
    origin: provider.url,
    method: attempt.method,
    path: upstreamPath(exchange, attempt),
    headers: headers.lines,
    body: form ? form.withBody(body.pieces) : body.pieces,
    length: form?.lengthWithBody(body.length),
    credentialId: credential?.account ?? provider.name,
    warm: provider.warm,
    repeatable: idempotency !== undefined || isRepeatable(exchange),
    timeouts: exchange.attempts.length > 1 ? remainingTimeouts(provider.timeouts, exchange) : provider.timeouts,
    onStart,
    onEnd,
  };
}

/** Returns the timeouts of another attempt, with what is left of the request's total time. */
function remainingTimeouts(timeouts: Timeouts, exchange: Exchange): Timeouts {
  const { total } = timeouts;
  return total === 0 ? timeouts : { ...timeouts, total: Math.max(1, total - sinceFirstAttempt(exchange)) };
}

/** Returns how the body of a response is framed. */
export function framingOf(status: number, type: string | undefined, operation: Operation): Head["framing"] {
  if (isEventStream(type)) return "sse";
  const array = operation.framing === "array" && operation.streams === true;
  return array && status === 200 && /^application\/json\b/i.test(type ?? "") ? "array" : undefined;
}
