import type { Chain } from "../core/chain.ts";
import { GatewayError } from "../core/errors.ts";
import { Attempt, type Exchange, type Head } from "../core/exchange.ts";
import { faultOf } from "../core/fault.ts";
import type { Provider, Target, Timeouts } from "../core/marketplace.ts";
import type { Operation, Protocol } from "../core/protocol.ts";
import type { Redactor } from "../core/redactor.ts";
import type { Objects } from "../objects/objects.ts";
import { translationOf } from "../translation/codec.ts";
import { Frame } from "../wire/frame.ts";
import { HeaderList } from "../wire/headers.ts";
import { retryAfter } from "../wire/retry-after.ts";
import { dropInvalidTrace } from "../wire/trace-context.ts";
import { authenticate, pathOf } from "./address.ts";
import { AllowList, adviseRetry, REQUEST_HEADERS, RESPONSE_HEADERS, requestIdIn, TRACE_HEADERS } from "./allow-list.ts";
import { asFile } from "./as-file.ts";
import { BufferedResponse } from "./buffered-response.ts";
import { ErrorBody } from "./error-body.ts";
import { noAnswer } from "./first-bytes.ts";
import { firstFrame, reportedIn } from "./first-frame.ts";
import { callerOf, type Health, switchedOff } from "./health.ts";
import { scopeIdempotency } from "./idempotency.ts";
import type { Place, Places } from "./places.ts";
import type { ProviderRates } from "./provider-rates.ts";
import { keepWords, noteCredential } from "./provider-words.ts";
import type { ClientSide, UpstreamProxy } from "./proxy.ts";
import { statusMeant } from "./refused.ts";
import type { OutgoingRequest } from "./request.ts";
import type { UpstreamResponse } from "./response.ts";
import {
  isRepeatable,
  pause,
  type RetryBudget,
  sinceFirst,
  Tries,
  type Verdict,
  verdictOf,
  verdictOn,
} from "./retry.ts";
import type { TargetHealth } from "./target-health.ts";
import { UnservedAnswer } from "./unserved-answer.ts";

/** The response of an attempt, whose head has been read and whose body has not. */
export interface UpstreamAnswer {
  head: Head;
  read: UpstreamResponse["read"];
  resume(): void;
  destroy(): void;
  /** Reports whether a frame is the terminal event of the provider's protocol. */
  terminal?(frame: Frame): boolean;
  /** Returns an error frame of the provider without the secrets in it, and any other frame unchanged. */
  clean?(frame: Frame): Frame;
}

/** The outcome of one attempt. */
interface AttemptResult {
  readonly attempt: Attempt;
  readonly verdict: Verdict;
  /** The provider's response, where one arrived. */
  readonly upstream?: UpstreamResponse;
  /** The error to throw where this attempt is the last one; absent: the client gets the response. */
  readonly error?: GatewayError;
  /** Milliseconds that the provider wants us to wait before a retry; infinite: it wants no retry. */
  readonly wait?: number | undefined;
}

/** Optional collaborators of {@link Upstreams}. */
interface UpstreamsBeside {
  /** Persists what must survive a crash of this process; called before a request is written upstream. */
  persist?(): void;
  readonly rates?: ProviderRates;
  /** Checks the object ids that a request names after it has been translated. */
  readonly objects?: Pick<Objects, "admitTranslated">;
  /** Whether the caller's trace headers are forwarded to providers. */
  readonly trace?: boolean;
}

/** Tries the targets of an exchange, best first, until one gives a response that is not worth a retry. */
export class Upstreams {
  private readonly up = new Map<Provider, Map<Protocol, AllowList>>();
  private readonly down = new Map<Protocol, AllowList>();

  constructor(
    private readonly proxy: UpstreamProxy,
    private readonly redactor: Redactor,
    readonly health: Health,
    private readonly budget: RetryBudget,
    readonly places: Places,
    private readonly beside: UpstreamsBeside = {},
  ) {}

  /** Persists what must survive a crash of this process; called before bytes leave that depend on it. */
  readonly persist = (): void => this.beside.persist?.();

  /**
   * Returns the first response that is no reason to retry, or the last response whatever its status. docs/decisions/0002 says
   * what is retried, and where; nothing is retried once a byte has gone to the client.
   * @throws GatewayError of the last attempt.
   */
  async reach(exchange: Exchange, chain: Chain, client: ClientSide): Promise<UpstreamAnswer> {
    const targets = this.health.ordered(exchange.targets, callerOf(exchange));
    let target = this.first(targets, callerOf(exchange));
    if (!target) throw exchange.targets.length > 0 ? switchedOff() : new GatewayError("no_target");
    this.budget.arrived();
    // Read before the first attempt: a form that is streamed through can be sent to one provider only.
    const once = exchange.form?.replayable === false;
    let tries: Tries | undefined;
    for (;;) {
      const result = await this.attempt(exchange, target, chain, client);
      const { attempt, verdict, upstream, error, wait } = result;
      if (verdict !== "final" && !once) tries ??= new Tries(exchange, targets, this.budget, this.health, this.places);
      const next = tries?.after(attempt, verdict, wait);
      if (next) {
        if (upstream) await this.endUnserved(upstream, exchange, attempt, chain);
        if (next.wait > 0) await pause(next.wait, exchange);
        target = next.target;
        continue;
      }
      // A final 429 is about this very request, and would be repeated.
      const spent = tries?.exhausted(wait) === true || (verdict === "final" && upstream?.status === 429);
      if (exchange.unkept && verdict !== "final" && verdict !== "broken") {
        if (upstream) await this.endUnserved(upstream, exchange, attempt, chain);
        throw exchange.unkept;
      }
      if (upstream && !error) return this.answered(upstream, exchange, attempt, spent);
      if (upstream) await this.endUnserved(upstream, exchange, attempt, chain);
      const thrown = unserved(exchange) ?? (error as GatewayError);
      if (spent) thrown.retry = false;
      throw thrown;
    }
  }

  /** Ends a response that the client does not get. Plugins with a `failed` phase see it first. */
  private endUnserved(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    chain: Chain,
  ): void | Promise<void> {
    if (!chain.hasFailed) return upstream.destroy();
    const received = new HeaderList(upstream.headers);
    const headers = this.redactor.headers(received.filter(this.downward(attempt.protocol).passes));
    const operation = attempt.operation ?? exchange.operation;
    const framing = framingOf(upstream.status, received.get("content-type"), operation);
    const answer = new UnservedAnswer(upstream, { status: upstream.status, headers, framing }, this.redactor);
    try {
      const told = chain.failed(exchange, attempt, answer);
      return told instanceof Promise ? told.finally(() => answer.leave()) : answer.leave();
    } catch (thrown) {
      answer.leave();
      throw thrown;
    }
  }

  /**
   * Returns the best target whose provider has a free place, or the best one of all where no usable target's provider has one.
   */
  first(targets: readonly Target[], caller?: string): Target | undefined {
    const [best] = targets;
    if (!best || this.places.free(best.provider)) return best;
    return targets.find((target) => this.places.free(target.provider) && this.health.usable(target, caller)) ?? best;
  }

  /** @throws GatewayError where the provider has no free place, and none becomes free in time */
  private async attempt(exchange: Exchange, target: Target, chain: Chain, client: ClientSide): Promise<AttemptResult> {
    const taken = this.places.take(target.provider, exchange);
    const queuedAt = taken instanceof Promise ? exchange.elapsed : undefined;
    const place = taken instanceof Promise ? await taken : taken;
    const attempt = this.begin(exchange, target);
    attempt.queuedAt = queuedAt;
    exchange.attempts.push(attempt);
    let begun = false;
    try {
      await chain.send(exchange, attempt);
      const judged = this.beside.objects?.admitTranslated(exchange, attempt);
      if (judged) await judged;
      authenticate(attempt);
      attempt.tried = true;
      attempt.sent = true;
      attempt.sentAt = exchange.elapsed;
      const sending = (made: boolean) => {
        begun = true;
        // A reused connection needs no timestamp, which saves reading the clock.
        if (made) attempt.connectedAt = exchange.elapsed;
        this.persist();
      };
      const upstream = await this.proxy.send(
        outgoing(exchange, attempt, { over: ending(this.health.begin(attempt), place), sending }),
        client,
      );
      return await this.judged(upstream, exchange, attempt);
    } catch (thrown) {
      place.leave();
      const error = GatewayError.from(thrown);
      const { code } = error;
      attempt.error = error;
      attempt.answeredAt = exchange.elapsed;
      if (attempt.sent) this.health.unanswered(attempt, code.startsWith("upstream_"), begun ? waitedIn(exchange) : 0);
      // A client that leaves before a connection has taken the request has reached no provider.
      if (code === "upstream_unreachable" || !begun) attempt.sent = false;
      return { attempt, verdict: verdictOn(code), error };
    }
  }

  /** Judges a response: of a stream also its first frame, if that arrives soon. */
  private async judged(upstream: UpstreamResponse, exchange: Exchange, attempt: Attempt): Promise<AttemptResult> {
    let { status } = upstream;
    let error: GatewayError | undefined;
    const headers = new HeaderList(upstream.headers);
    const requestId = requestIdIn(headers);
    if (requestId !== undefined) attempt.requestId = this.redactor.text(requestId);
    const framing = framingOf(status, headers.get("content-type"), attempt.operation ?? exchange.operation);
    if (status < 300) {
      error = await (framing
        ? this.beginning(upstream, framing, exchange, attempt)
        : this.misplaced(upstream, headers, exchange, attempt));
      if (error) {
        attempt.error = error;
        status = error.status;
      }
    }
    attempt.status = status;
    // Some vendors answer 400 where others answer 401, or 403 where others answer 400.
    if (upstream.status >= 400) status = await statusMeant(upstream, attempt);
    const seconds = status === 429 || status >= 500 ? (retryAfter(headers) ?? error?.retryAfter) : undefined;
    const wait = seconds === undefined ? undefined : seconds * 1000;
    attempt.answeredAt = exchange.elapsed;
    this.beside.rates?.see(attempt, headers);
    this.health.answered(attempt, status, wait, attempt.answeredAt - attempt.startedAt);
    const once = headers.get("x-should-retry") === "false";
    return {
      attempt,
      verdict: verdictOf(status),
      upstream,
      wait: once ? Number.POSITIVE_INFINITY : wait,
      ...(error ? { error } : {}),
    };
  }

  /** Returns the error that a stream's first frame reports, if it reports one. */
  private async beginning(
    upstream: UpstreamResponse,
    framing: NonNullable<Head["framing"]>,
    { protocol }: Exchange,
    attempt: Attempt,
  ): Promise<GatewayError | undefined> {
    const { first_frame: limit } = this.budget.limits;
    if (limit === 0) return undefined;
    const frame = await firstFrame(upstream, framing, limit);
    if (frame === "none") return invalid("The provider's stream ended before its first event.");
    return frame && this.reported(frame, attempt, protocol);
  }

  /**
   * Returns an error where a non-streamed response is no valid answer: a proxy's HTML page, an empty body, or an error object.
   */
  private async misplaced(
    upstream: UpstreamResponse,
    headers: HeaderList,
    exchange: Exchange,
    attempt: Attempt,
  ): Promise<GatewayError | undefined> {
    const { protocol, operation = exchange.operation } = attempt;
    const { first_frame: limit } = this.budget.limits;
    const type = headers.get("content-type") ?? "";
    if (/^text\/html\b/i.test(type))
      return invalid("The provider answered with a web page.", "Correct the provider's url in gateway.yaml.");
    if (limit === 0 || !protocol.answersJson || !(operation.generates || operation.task)) return undefined;
    const found = await noAnswer(upstream, operation.framing === "array", limit);
    if (found instanceof Frame) return this.reported(found, attempt, exchange.protocol);
    if (found === "empty") return invalid(`The provider answered ${upstream.status} with nothing.`);
    const [name = "of no type"] = /^[\w.+/-]{1,80}/.exec(type) ?? [];
    return found && invalid(`The provider answered ${upstream.status} with no JSON object (${name}).`);
  }

  private reported(frame: Frame, attempt: Attempt, { overloaded }: Protocol): GatewayError | undefined {
    return reportedIn(redacted(frame, attempt.protocol, this.redactor), attempt, overloaded);
  }

  close(): Promise<void> {
    return this.proxy.close();
  }

  /** Creates an attempt as plugins first see it: same protocol, the client's body, and the headers that may be forwarded. */
  begin(exchange: Exchange, target: Target): Attempt {
    const { protocol, operation } = exchange;
    const headers = exchange.headers.filter(this.upward(protocol, target.provider).passes);
    dropInvalidTrace(headers);
    scopeIdempotency(headers, exchange, target);
    if (protocol.defaults)
      for (const [name, value] of protocol.defaults) if (!headers.has(name)) headers.append(name, value);
    const attempt = new Attempt({
      target,
      protocol,
      method: operation.method,
      headers,
      body: exchange.body,
      startedAt: exchange.elapsed,
      caller: callerOf(exchange),
    });
    attempt.credential = this.health.credential(target, exchange.conversation, attempt.caller);
    return attempt;
  }

  /** Returns a filter for the response headers that go to clients of a protocol. */
  responseHeaders(protocol: Protocol): (received: HeaderList) => HeaderList {
    const { passes } = this.downward(protocol);
    return (received) => this.redactor.headers(received.filter(passes));
  }

  private upward(protocol: Protocol, provider: Provider): AllowList {
    const lists = this.up.get(provider) ?? new Map<Protocol, AllowList>();
    let list = lists.get(protocol);
    if (!list) {
      const { forward, idempotency } = provider;
      const more = idempotency === undefined ? forward : [...forward, idempotency];
      const trace = this.beside.trace === true ? TRACE_HEADERS : [];
      list = new AllowList([...REQUEST_HEADERS, ...trace, ...protocol.headers, ...more]);
      this.up.set(provider, lists.set(protocol, list));
    }
    return list;
  }

  private downward(protocol: Protocol): AllowList {
    let list = this.down.get(protocol);
    if (!list) {
      list = new AllowList([...RESPONSE_HEADERS, ...(protocol.answerHeaders ?? [])]);
      this.down.set(protocol, list);
    }
    return list;
  }

  /** @param spent our retries are used up, so clients are told not to retry */
  private answered(
    upstream: UpstreamResponse,
    exchange: Exchange,
    attempt: Attempt,
    spent: boolean,
  ): UpstreamAnswer | Promise<UpstreamAnswer> {
    const { status } = upstream;
    const { redactor } = this;
    const { protocol } = attempt;
    const received = new HeaderList(upstream.headers);
    const headers = redactor.headers(received.filter(this.downward(protocol).passes));
    asFile(headers);
    adviseRetry(status, headers);
    if (spent && status >= 400) headers.set("x-should-retry", "false");
    const framing = framingOf(status, headers.get("content-type"), attempt.operation ?? exchange.operation);
    // The length belongs to the provider's framing, or to a body that a 204 or 304 does not have (RFC 9110 §8.6).
    if (framing || status === 204 || status === 304) headers.delete("content-length");
    if (status >= 400)
      return ErrorBody.of(upstream, redactor).then(
        (body) => {
          // Between different protocols the error is translated, and its message is stored with the exchange.
          if (protocol === exchange.protocol) {
            keepWords(attempt, exchange, body.bytes, redactor);
            // One vendor reports an unknown credential with a 400.
            const about = status < 500 && (status === 401 || isAboutKey(protocol, status, received, body.bytes));
            noteCredential(attempt, exchange, about);
          }
          if (headers.has("content-length")) headers.set("content-length", String(body.bytes.length));
          return new BufferedResponse(body, { status, headers, framing });
        },
        (thrown) => {
          attempt.error = GatewayError.from(thrown);
          throw attempt.error;
        },
      );
    const answer: UpstreamAnswer = new BufferedResponse(upstream, { status, headers, framing });
    if (framing) {
      answer.clean = (frame) => redacted(frame, protocol, redactor);
      answer.terminal = (frame) => protocol.terminal?.(frame) === true;
    }
    return answer;
  }
}

/** Reports whether a provider's error says that it does not know the credential. */
const isAboutKey = (protocol: Protocol, status: number, headers: HeaderList, body: Buffer): boolean =>
  translationOf(protocol)?.response.failure(status, headers, body.toString()).kind === "authentication";

const invalid = (message: string, hint?: string): GatewayError =>
  new GatewayError("upstream_invalid", { message, ...(hint !== undefined && { hint }) });

/**
 * Returns the milliseconds that a client which has left waited for the last attempt; 0 where it has not left. The upload of a
 * streamed form counts as the client's own time.
 */
function waitedIn({ aborted, form, attempts, elapsed }: Exchange): number {
  const { startedAt = elapsed } = attempts.at(-1) ?? {};
  return aborted && form?.replayable !== false ? elapsed - startedAt : 0;
}

/** Returns the listener for the end of an attempt. */
const ending = (health: TargetHealth, place: Place): OutgoingRequest["over"] & object => ({
  end: (broken) => {
    health.end(broken);
    place.leave();
  },
});

/** Redacts error frames; all other frames pass byte for byte. */
function redacted(frame: Frame, protocol: Protocol, redactor: Redactor): Frame {
  if (protocol.ending(frame) !== "error") return frame;
  const bytes = redactor.bytes(frame.bytes);
  return bytes === frame.bytes ? frame : new Frame(frame.kind, bytes);
}

/** Errors of one target that another target may not have. */
const UNTAKEN: ReadonlySet<string> = new Set(["not_translatable", "object_not_found"]);

/**
 * Replaces an error that only says that the last target cannot take the request: the cause is the failure of the target before
 * it. An error with details is kept, because it tells the client how to phrase the request for both targets.
 */
function unserved({ attempts }: Exchange): GatewayError | undefined {
  const last = attempts.at(-1)?.error;
  const { status } = attempts.findLast((attempt) => attempt.status !== undefined) ?? {};
  if (!last || !UNTAKEN.has(last.code) || last.details || status === undefined) return undefined;
  const { kind } = faultOf(status, "");
  const message = `The provider answered ${status}, and another one cannot take the request: ${last.message}`;
  return new GatewayError("upstream_failed", { status, kind, message });
}

function outgoing(
  exchange: Exchange,
  attempt: Attempt,
  { over, sending }: Required<Pick<OutgoingRequest, "over" | "sending">>,
): OutgoingRequest {
  const { target, credential, headers, body } = attempt;
  const { provider } = target;
  const { form } = exchange;
  const { idempotency } = provider;
  if (idempotency !== undefined && !headers.has(idempotency))
    headers.append(idempotency, `${exchange.id}-${exchange.targets.indexOf(target)}`);
  return {
    origin: provider.url,
    method: attempt.method,
    path: pathOf(exchange, attempt),
    headers: headers.lines,
    body: form ? form.around(body.pieces) : body.pieces,
    length: form?.lengthAround(body.length),
    credentialId: credential?.account ?? provider.name,
    warm: provider.warm,
    repeatable: idempotency !== undefined || isRepeatable(exchange),
    timeouts: exchange.attempts.length > 1 ? left(provider.timeouts, exchange) : provider.timeouts,
    over,
    sending,
  };
}

/** Returns the timeouts of another attempt, with what is left of the request's total time. */
function left(timeouts: Timeouts, exchange: Exchange): Timeouts {
  const { total } = timeouts;
  return total === 0 ? timeouts : { ...timeouts, total: Math.max(1, total - sinceFirst(exchange)) };
}

/** Returns how the body of a response is framed. */
export function framingOf(status: number, type: string | undefined, operation: Operation): Head["framing"] {
  if (type?.startsWith("text/event-stream")) return "sse";
  const array = operation.framing === "array" && operation.streams === true;
  return array && status === 200 && type?.startsWith("application/json") ? "array" : undefined;
}
