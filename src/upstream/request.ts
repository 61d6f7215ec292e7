import { Readable } from "node:stream";
import { Deadline } from "../core/deadline.ts";
import { GatewayError } from "../core/errors.ts";
import type { AbortListener } from "../core/exchange.ts";
import type { Timeouts } from "../core/marketplace.ts";
import { HeaderList } from "../wire/headers.ts";
import { ANSWER_OPTIONS, JsonError, Scanner } from "../wire/json.ts";
import { Batch } from "./batch.ts";
import { codingOf, DecodedResponse } from "./decoding.ts";
import type { HttpRequest, RequestController } from "./http1/http-request.ts";
import type { Pool } from "./http1/pool.ts";
import type { Pools } from "./http1/pools.ts";
import type { ResponseHead } from "./http1/response-head.ts";
import type { BodyInspector, BodyReceiver, UpstreamResponse } from "./response.ts";
import { type Progress, timeoutError, transportError, UpstreamFault } from "./transport-error.ts";

/** An attempt's request, complete: only `host`, framing and `accept-encoding` are added to it. */
export interface OutgoingRequest {
  /** Only scheme, host and port are used. */
  origin: URL;
  method: string;
  /** Path and query, written to the socket unchanged. */
  path: string;
  /** Flat name, value list. Framing, hop-by-hop fields, `host` and `accept-encoding` in it are ignored. */
  headers: readonly string[];
  /**
   * Pieces are sent unchanged, and let go once the head of the response has arrived. A stream is read no faster than the provider
   * takes it, and destroyed when the attempt ends first.
   */
  body: readonly Buffer[] | AsyncIterable<Buffer> | Readable | undefined;
  /** Bytes of a streamed body, if known; undefined: chunked. Ignored for pieces, whose bytes are counted. */
  length: number | undefined;
  /** Connections are never shared between credentials. */
  credentialId: string;
  /** Milliseconds after the last request for which an idle TLS connection is kept ready; 0: none is. */
  warm?: number;
  /** Whether the request is idempotent: it may be repeated although a provider may have worked on it. */
  repeatable?: boolean;
  timeouts: Timeouts;
  /**
   * Called when a connection takes the request, before any of it is written.
   * @param isNewConnection whether the connection was opened for it
   */
  onStart?: (isNewConnection: boolean) => void;
  /** Called once when the attempt is over. */
  onEnd?: () => void;
}

/** Notifies when the client leaves. An Exchange is one. */
export interface AbortSource {
  /** Registers a listener, which is called at once if the client has left. */
  addAbortListener(listener: AbortListener): void;
  removeAbortListener(listener: AbortListener): void;
}

type Pieces = readonly Buffer[];

/** Bytes of a response that are buffered while nobody reads; beyond that the connection is paused. */
const BUFFER_LIMIT = 64 * 1024;

const deliveries = new Batch<UpstreamRequest>((request) => request.deliver());

/**
 * One attempt: a request to a provider and its response. Nothing has been sent until a connection takes it, so an attempt that
 * ends before then only declines the connection.
 */
export class UpstreamRequest implements UpstreamResponse, HttpRequest, AbortListener {
  status = 0;
  headers!: HeaderList;

  readonly method: string;
  readonly path: string;
  readonly fields: readonly string[];
  body: Pieces | Readable | undefined;
  readonly length: number | undefined;

  private readonly pool: Pool;
  private controller: RequestController | undefined;
  private progress: Progress = "connecting";
  /** The limit being watched. */
  private activeTimeout: keyof Timeouts = "connect";
  private readonly deadline = Deadline.acquire(this);
  private totalTimer: NodeJS.Timeout | undefined;
  private client: AbortSource | undefined;

  private repeated = false;
  /** A connection is being, or was, opened for this request. */
  private opensConnection = false;

  private receiver: BodyReceiver | undefined;
  /** The receiver is applying backpressure. */
  private blocked = false;
  private buffered: Buffer[] | undefined;
  private bufferedBytes = 0;
  /** The function that inspects the buffered bytes. */
  private inspector: BodyInspector | undefined;
  /** The response to deliver, until `resolve` has been called; and whether this request is in the next batch. */
  private undelivered: UpstreamResponse | undefined;
  private deliveryScheduled = false;
  /** Nothing more will come from upstream. */
  private ended = false;
  private error: GatewayError | undefined;
  /** Finds out whether a JSON body that ends with the connection was cut. */
  private scanner: Scanner | undefined;

  constructor(
    private readonly outgoing: OutgoingRequest,
    pools: Pools,
    private readonly resolve: (response: UpstreamResponse) => void,
    private readonly reject: (error: GatewayError) => void,
  ) {
    this.method = outgoing.method;
    this.path = outgoing.path;
    this.fields = outgoing.headers;
    this.length = outgoing.length;
    this.pool = pools.pool(outgoing.origin, outgoing.credentialId, outgoing.warm);
    this.body = toWritableBody(outgoing.body);
    if (this.body instanceof Readable)
      this.body.on("error", (error) => this.fail(GatewayError.from(error, "client_gone")));
  }

  /** Sends the request, unless the client has already left. */
  start(client: AbortSource): void {
    client.addAbortListener(this);
    if (this.ended) return;
    this.client = client;
    const { total } = this.outgoing.timeouts;
    if (total > 0) this.startTotalTimer(performance.now() + total);
    this.startTimeout("connect");
    this.pool.send(this);
  }

  get whole(): readonly Buffer[] | undefined {
    return this.isComplete && !this.receiver ? (this.buffered ?? []) : undefined;
  }

  onAbort(): void {
    this.fail(new GatewayError("client_gone"));
  }

  peek(inspect: BodyInspector): void {
    if (!inspect(this.buffered ?? [], this.ended, this.isComplete)) this.inspector = inspect;
  }

  read(receiver: BodyReceiver): void {
    this.inspector = undefined;
    this.receiver = receiver;
    this.flush();
  }

  resume(): void {
    if (!this.blocked) return;
    this.blocked = false;
    this.flush();
  }

  destroy(): void {
    this.receiver = undefined;
    this.buffered = undefined;
    if (!this.ended) this.finish(new GatewayError("client_gone"));
  }

  // Called by the connection and, before that, by the pool.

  onConnecting(): void {
    this.opensConnection = true;
  }

  onStart(controller: RequestController): boolean {
    if (this.ended) return false;
    this.outgoing.onStart?.(this.opensConnection);
    this.controller = controller;
    this.progress = "waiting";
    this.startTimeout("first_byte");
    return true;
  }

  onBodySent(): void {
    this.restartTimeout();
  }

  onHead({ status, headers, names, encoding, endsWithConnection }: ResponseHead): void {
    if (this.ended) return;
    // What is not written yet, the connection has. The request is not repeated from now on.
    if (!(this.body instanceof Readable)) this.body = this.outgoing.body = undefined;
    const coding = encoding === undefined ? undefined : codingOf(encoding);
    if (status >= 300 && status < 400 && status !== 304)
      throw new GatewayError("upstream_redirect", { cause: this.fault(`STATUS_${status}`) });
    // It answers the condition of a GET or HEAD, and has no body (RFC 9110 §15.4.5).
    if (status === 304 && this.method !== "GET" && this.method !== "HEAD")
      throw new GatewayError("upstream_invalid", { cause: this.fault("STATUS_304") });
    this.status = status;
    this.headers = new HeaderList(headers, names);
    this.progress = "answering";
    this.startTimeout("idle");
    if (endsWithConnection && status === 200 && coding === undefined && isJson(this.headers))
      this.scanner = new Scanner(ANSWER_OPTIONS);
    this.undelivered = coding === undefined ? this : new DecodedResponse(this, coding, this.outgoing.origin.host);
    this.scheduleDelivery();
  }

  /** What arrives while it is read is delivered at once: a chunk is one step, and a batch costs more than that step gains by it. */
  onData(bytes: Buffer): void {
    if (this.ended) return;
    this.restartTimeout();
    if (this.scanner) this.scan(bytes, this.scanner);
    if (this.receiver && !this.blocked) this.blocked = !this.receiver.chunk(bytes);
    else this.buffer(bytes);
    if (this.blocked || this.bufferedBytes > BUFFER_LIMIT) this.controller?.pause();
  }

  private buffer(bytes: Buffer): void {
    // Mostly one, for which `push` would take the room of 17.
    if (this.buffered) this.buffered.push(bytes);
    else this.buffered = [bytes];
    this.bufferedBytes += bytes.length;
    this.scheduleDelivery();
  }

  onEnd(): void {
    if (this.ended) return;
    if (this.scanner && isIncomplete(this.scanner)) {
      this.fail(new GatewayError("upstream_truncated", { cause: this.fault("CONNECTION_CLOSED") }));
      return;
    }
    this.finish(undefined);
    this.scheduleDelivery();
  }

  /** What is invalid is not a matter of its end. */
  private scan(bytes: Buffer, scanner: Scanner): void {
    try {
      scanner.push(bytes);
    } catch {
      this.scanner = undefined;
    }
  }

  private scheduleDelivery(): void {
    if (this.deliveryScheduled) return;
    this.deliveryScheduled = true;
    deliveries.add(this);
  }

  /** Delivers the response, and what of it has been buffered. */
  deliver(): void {
    this.deliveryScheduled = false;
    const { undelivered } = this;
    this.undelivered = undefined;
    if (undelivered) this.resolve(undelivered);
    this.inspect();
    this.flush();
  }

  onError(thrown: Error, stale = false): void {
    if (this.ended) return;
    const repeatable = this.outgoing.repeatable && !(this.body instanceof Readable);
    if (stale && repeatable && !this.repeated) this.repeat();
    else this.fail(transportError(thrown, this.progress, this.outgoing.origin.host));
  }

  /** Sends the same request once more, on a new connection. */
  private repeat(): void {
    this.repeated = true;
    this.controller = undefined;
    this.progress = "connecting";
    this.startTimeout("connect");
    this.pool.send(this, true);
  }

  private get isComplete(): boolean {
    return this.ended && this.error === undefined;
  }

  private inspect(): void {
    if (this.inspector?.(this.buffered ?? [], this.ended, this.isComplete)) this.inspector = undefined;
  }

  /** Delivers the buffered bytes, then the end; resumes the connection once the buffer is empty. */
  private flush(): void {
    while (this.receiver && !this.blocked) {
      const bytes = this.buffered?.length === 1 ? this.buffered.pop() : this.buffered?.shift();
      if (!bytes) break;
      this.bufferedBytes -= bytes.length;
      this.blocked = !this.receiver.chunk(bytes);
    }
    if (!this.receiver || this.blocked) return;
    if (this.ended) {
      this.deliverEnd();
    } else {
      this.restartTimeout();
      this.controller?.resume();
    }
  }

  private deliverEnd(): void {
    const { receiver } = this;
    this.receiver = undefined;
    if (this.error) receiver?.fail(this.error);
    else receiver?.end();
  }

  /**
   * Ends the attempt with an error. Bytes that arrived before a provider broke off are still delivered; an error of the
   * gateway's own, like a timeout, discards them.
   */
  private fail(thrown: GatewayError): void {
    if (this.ended) return;
    const { progress } = this;
    // The provider may have worked on the request that is repeated.
    const isBroken = this.repeated && thrown.code === "upstream_unreachable";
    const error = isBroken ? new GatewayError("upstream_failed", { cause: thrown.cause }) : thrown;
    this.finish(error);
    if (progress !== "answering") {
      this.reject(error);
      return;
    }
    if (error.code !== "upstream_truncated") {
      this.blocked = false;
      this.buffered = undefined;
    }
    this.flush();
  }

  /** Ends the upstream side, and releases its resources. */
  private finish(error: GatewayError | undefined): void {
    if (this.ended) return;
    this.ended = true;
    this.error = error;
    this.deadline.release();
    if (this.totalTimer) clearTimeout(this.totalTimer);
    this.client?.removeAbortListener(this);
    if (this.progress === "connecting") this.pool.cancel(this);
    else if (error) this.controller?.abort();
    if (this.body instanceof Readable) this.body.destroy();
    this.outgoing.onEnd?.();
    this.inspect();
  }

  /** Called by itself and its timer. @param endsAt when the request's time is over, of `performance.now()` */
  startTotalTimer(endsAt: number): void {
    // The time may have ended since the last look at the clock.
    this.totalTimer = setTimeout(expireTotal, Math.max(1, endsAt - performance.now()), this, endsAt).unref();
  }

  /** Replaces the limit being watched; the total timer runs independently. */
  private startTimeout(limit: keyof Timeouts): void {
    this.activeTimeout = limit;
    this.restartTimeout();
  }

  /** Restarts the timer of the watched limit. */
  private restartTimeout(): void {
    this.deadline.set(this.outgoing.timeouts[this.activeTimeout]);
  }

  onExpired(): void {
    this.expire(this.activeTimeout);
  }

  /** Called only by timers. */
  expire(limit: keyof Timeouts): void {
    // Silence while we do not read is our own; `flush` restarts the timer.
    if (limit === "idle" && (this.blocked || this.controller?.paused)) return;
    this.fail(timeoutError(limit, this.outgoing.timeouts[limit], this.outgoing.origin.host));
  }

  private fault(code: string): UpstreamFault {
    return new UpstreamFault(code, this.outgoing.origin.host);
  }
}

const isJson = (headers: HeaderList): boolean => /^application\/json\b/i.test(headers.get("content-type") ?? "");

/** Reports whether JSON has begun and not ended. */
function isIncomplete(scanner: Scanner): boolean {
  try {
    scanner.end();
    return false;
  } catch (thrown) {
    return thrown instanceof JsonError && thrown.fault !== "empty";
  }
}

/** A timer counts whole milliseconds, and may be up to one early: another target would be tried in the rest of the time. */
function expireTotal(request: UpstreamRequest, endsAt: number): void {
  if (performance.now() < endsAt) request.startTotalTimer(endsAt);
  else request.expire("total");
}

/** Returns a body as pieces or as a stream that may be destroyed when the attempt ends. */
function toWritableBody(body: OutgoingRequest["body"]): Pieces | Readable | undefined {
  if (body === undefined || isPieces(body)) return body;
  return body instanceof Readable ? body : Readable.from(body, { objectMode: false });
}

function isPieces(body: NonNullable<OutgoingRequest["body"]>): body is Pieces {
  return Array.isArray(body);
}
