import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import type { Attempt } from "../core/attempt.ts";
import { type BodyRateLimits, BodyRateMonitor } from "../core/body-rate.ts";
import { GatewayError, stalledClientError } from "../core/errors.ts";
import type { ActiveResponse, Exchange } from "../core/exchange.ts";
import type { Timeouts } from "../core/marketplace.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Redactor } from "../core/redactor.ts";
import { formatTimeLimit } from "../core/timeout.ts";
import { HeaderList, headerObject } from "../wire/headers.ts";
import { upstreamPath, urlWithPath } from "./address.ts";
import { isClosedByPeer } from "./http1/connection.ts";
import { METHODS_WITH_BODY } from "./http1/request-head.ts";
import { forwarderRefusal, tunnelFailure } from "./http1/tunnel.ts";
import { deferWriteErrors } from "./http1/write-errors.ts";
import { InspectedBody } from "./inspected-body.ts";
import { forwarderOf, type PassRoute, readErrorBody, readRewritableBody } from "./pass-bodies.ts";
import { type Progress, timeoutError, transportError, UpstreamFault } from "./transport-error.ts";

/** Milliseconds that a peer which does not read gets to take the bytes written so far before its connection is closed. */
const FLUSH_TIMEOUT = 1000;
/** Milliseconds of a check of a piece of the body after which the next one waits for the next turn. */
const LONG_CHECK = 2;

/** A pass-through request as it leaves. */
export interface OutgoingPass extends PassRoute {
  /** Complete but for framing and host: no other header of the client is added. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** Connections are never shared between accounts. */
  readonly account: string;
  readonly timeouts: Timeouts;
  /** The slowest rate at which the client may send its body. */
  readonly pace?: BodyRateLimits;
  /** Milliseconds for which the client may read nothing of the response; undefined: no limit. */
  readonly stalled?: number;
}

/** Returns an attempt as the library's own passes send it. */
export function outgoingPass(exchange: Exchange, attempt: Attempt): OutgoingPass {
  const { name, url, timeouts } = attempt.target.provider;
  return {
    target: urlWithPath(url, upstreamPath(exchange, attempt)),
    headers: headerObject(attempt.headers),
    account: attempt.credential?.account ?? name,
    timeouts,
  };
}

/** Observes a pass-through request and its response, and decides which headers pass. */
export interface PassObserver {
  /**
   * Called before anything else.
   * @param fail ends the request with an error, whatever it waits for
   * @param response the response while it is delivered
   */
  onStart?(fail: (error: GatewayError) => void, response: ActiveResponse): void;
  /**
   * Called with each piece of the request's body, which is forwarded when it has returned or its promise has settled.
   * @throws GatewayError where the piece must not be forwarded
   */
  onRequestBody(bytes: Buffer): MaybePromise<void>;
  /** Called when the whole request has arrived, before its end is forwarded. @throws GatewayError as for `onRequestBody` */
  onRequestEnd(): MaybePromise<void>;
  /** Called with the head of the response; returns the headers that go to the client. */
  onResponseHead(status: number, rawHeaders: readonly string[]): IncomingHttpHeaders;
  /** Changes the response's body, which is buffered for it; undefined: the body is streamed unchanged. */
  readonly changeBody?: ((body: Buffer) => Buffer) | undefined;
  /**
   * Called with each piece of the response's body as it goes to the client. Returns whether it is a stream that has come to its
   * terminal event.
   */
  onResponseBody(bytes: Buffer): boolean;
  /** Called with the whole body of an error response before its head is sent. Returns headers that replace those of the head. */
  onErrorBody(body: Buffer): IncomingHttpHeaders;
  /**
   * Called when the whole response has arrived, before its last byte goes to the client: at most once, and never for a truncated
   * response.
   */
  onResponseEnd(): void;
  /** Redacts error bodies. */
  readonly redactor: Redactor;
}

/**
 * One request that http-proxy-3's own passes carry. Adds what they lack: framing of bodies that they do not expect, error
 * responses before the head, a cut connection after it, timeouts, and exactly one end.
 */
export class PassThroughRequest implements ActiveResponse {
  private readonly end = Promise.withResolvers<void>();
  private upstream: ClientRequest | undefined;
  private progress: Progress = "connecting";
  private error: GatewayError | undefined;
  private repeated = false;
  /** The observer was notified that the response is complete. */
  private endNotified = false;
  /** Whether the system has all bytes up to a stream's terminal event. */
  private isDelivered = false;
  private total: NodeJS.Timeout | undefined;
  /** Runs until there is a connection, then from the end of the request to the head of the response. */
  private deadline: NodeJS.Timeout | undefined;
  /** The response, where only the end of the connection delimits it. */
  private unframed: IncomingMessage | undefined;
  /** The request's body, each piece of which has been inspected; undefined: the request has none. */
  readonly body: InspectedBody | undefined;
  /** Names of headers that the gateway has set for every response: those of CORS. */
  private readonly ownHeaders: readonly string[];
  /** The options of the running `web()` call. */
  private options: { selfHandleResponse?: boolean } = {};

  /** @param send gives the request to the library; called again to repeat a request whose kept-alive connection was closed. */
  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly outgoing: OutgoingPass,
    private readonly observer: PassObserver,
    private readonly send: (pass: PassThroughRequest) => void,
  ) {
    this.ownHeaders = response.getHeaderNames();
    if (hasBody(request))
      this.body = new InspectedBody({
        onPiece: (bytes, onAccepted) => this.inspect(() => observer.onRequestBody(bytes), onAccepted),
        onEnd: (onAccepted) => this.inspect(() => observer.onRequestEnd(), onAccepted),
      });
  }

  /**
   * Sends the request, and settles when the response has ended.
   * @throws GatewayError when the response is not complete. Before its head nothing has been written to the client; after it the
   * client's connection has been cut.
   */
  run(): Promise<void> {
    const { request, response, outgoing } = this;
    const { total } = outgoing.timeouts;
    if (total > 0) this.total = setTimeout(() => this.fail(this.timeoutErrorOf("total")), total).unref();
    response.once("close", () => this.onClose());
    this.observer.onStart?.((error) => this.fail(error), this);
    if (this.body) {
      request.pipe(this.body);
      if (outgoing.pace) BodyRateMonitor.watch(request, outgoing.pace, (error) => this.fail(error));
    }
    if (response.destroyed) this.onClose();
    else this.start();
    return this.end.promise;
  }

  /**
   * Runs `onAccepted` if the check succeeds; a refused piece does not reach the provider. After a long check other requests have their
   * turn first: a socket with a full buffer is read many times in one turn.
   */
  private inspect(check: () => MaybePromise<void>, onAccepted: () => void): void {
    const refuse = (thrown: unknown) => this.fail(GatewayError.from(thrown));
    const began = performance.now();
    try {
      const result = check();
      if (result instanceof Promise) result.then(onAccepted, refuse);
      else if (performance.now() - began > LONG_CHECK) setImmediate(onAccepted);
      else onAccepted();
    } catch (thrown) {
      refuse(thrown);
    }
  }

  /** Called when the client has left, or when the gateway stops and can wait no longer. */
  abort(): void {
    this.fail(new GatewayError("client_gone"));
  }

  private start(): void {
    this.startDeadline("connect");
    try {
      this.send(this);
    } catch (thrown) {
      // Node refuses a header or an address that cannot be written.
      this.fail(GatewayError.from(thrown));
    }
  }

  private startDeadline(limit: "connect" | "first_byte"): void {
    const ms = this.outgoing.timeouts[limit];
    clearTimeout(this.deadline);
    if (ms > 0) this.deadline = setTimeout(() => this.fail(this.timeoutErrorOf(limit)), ms).unref();
  }

  /**
   * Called after all of the library's passes but the last: leaves only framing headers for the library to copy from the request.
   */
  restoreFraming(options: { selfHandleResponse?: boolean }): void {
    this.options = options;
    const headers = framing(this.request);
    this.request.headers = mayStayUnread(this.request) ? { ...headers, connection: "close" } : headers;
  }

  /** Called when the library's request has a socket, which may not be connected yet. */
  onUpstreamRequest(upstream: ClientRequest): void {
    const { idle } = this.outgoing.timeouts;
    this.upstream = upstream;
    if (this.error) {
      upstream.destroy();
      return;
    }
    whenConnected(upstream, () => {
      if (this.body && upstream.socket) deferWriteErrors(upstream.socket);
      if (this.progress !== "connecting") return;
      this.progress = "waiting";
      clearTimeout(this.deadline);
    });
    // Node holds a head until the first byte of the body. Flushing in `setImmediate` still sends both together if that byte comes
    // in this turn.
    if (hasBody(this.request)) {
      if (mayStayUnread(this.request)) upstream.shouldKeepAlive = false;
      setImmediate(() => {
        if (!upstream.headersSent && !upstream.destroyed) upstream.flushHeaders();
      });
    }
    // In front of the library's own listener, which writes what it finds in the head.
    upstream.prependOnceListener("response", (answer) => this.onResponse(answer));
    upstream.once("upgrade", (_answer, socket) => {
      socket.destroy();
      this.fail(new GatewayError("upstream_invalid", { cause: this.fault("UPGRADED") }));
    });
    upstream.on("timeout", () => this.onIdle());
    upstream.setTimeout(idle);
    upstream.once("finish", () => {
      if (this.progress === "answering" || this.error) return;
      // The socket's idle timeout does not fit: interim responses and single header lines would restart it forever.
      upstream.setTimeout(0);
      this.startDeadline("first_byte");
    });
  }

  /** Called with an error that the library reports; it may report several for one request. */
  onError(reported: Error): void {
    if (this.error) return;
    const { request, response, upstream, unframed, outgoing } = this;
    const { host } = outgoing.target;
    const thrown = tunnelFailure(outgoing.proxy, reported);
    if (this.progress === "answering") {
      // Node treats such a response as complete even if its connection was reset. Other responses have framing, which shows
      // whether they are complete, even if only the upload was cut off.
      if (unframed && !unframed.complete) this.fail(transportError(thrown, this.progress, host));
      return;
    }
    const stale = upstream?.reusedSocket === true && isClosedByPeer(thrown);
    if (stale && mayRepeat(request) && !this.repeated && !response.destroyed) {
      this.repeated = true;
      this.progress = "connecting";
      this.start();
    } else this.fail(transportError(thrown, this.progress, host));
  }

  private onResponse(answer: IncomingMessage): void {
    const { request, response, observer, upstream } = this;
    const { statusCode: status = 0 } = answer;
    this.progress = "answering";
    clearTimeout(this.deadline);
    upstream?.setTimeout(this.outgoing.timeouts.idle);
    if (this.error || response.destroyed) {
      this.withhold(answer);
      return;
    }
    const headers = new HeaderList(answer.rawHeaders);
    const refusal = this.responseError(status, headers);
    if (refusal) {
      this.withhold(answer);
      this.fail(refusal);
      return;
    }
    const isError = status >= 400 && request.method !== "HEAD";
    if (!headers.has("content-length") && !headers.has("transfer-encoding")) this.unframed = answer;
    answer.statusMessage = "";
    answer.headers = observer.onResponseHead(status, answer.rawHeaders);
    this.watchClient();
    // The library would send keep-alive to a client that asked for close.
    answer.headers.connection = response.shouldKeepAlive ? "keep-alive" : "close";
    const { changeBody } = observer;
    // An error is buffered: only a complete body can be redacted reliably.
    if (isError)
      this.writeBuffered(answer, status, readErrorBody(answer, status, this.outgoing, observer.redactor), (body) => ({
        body,
        headers: observer.onErrorBody(body),
      }));
    else if (changeBody)
      this.writeBuffered(answer, status, readRewritableBody(answer), (body) => ({ body: changeBody(body) }));
    else {
      // In front of the library's listeners, which write to the client. With a content-length the response is complete before
      // its `end` event.
      let remaining = Number(headers.get("content-length") ?? Number.POSITIVE_INFINITY);
      answer.on("data", (bytes: Buffer) => {
        if (observer.onResponseBody(bytes)) this.noteDelivery();
        remaining -= bytes.length;
        if (remaining <= 0) this.notifyEnd();
      });
      answer.once("end", () => this.notifyEnd());
      answer.once("close", () => {
        if (!answer.complete)
          this.fail(new GatewayError("upstream_truncated", { cause: this.fault("CONNECTION_CLOSED") }));
      });
    }
    // Node holds a head until the first byte of the body; one that comes in the same turn still leaves together with it.
    setImmediate(() => {
      const isDone = response.headersSent || response.destroyed || this.error !== undefined;
      if (!isDone && !isError && !changeBody && request.method !== "HEAD") response.flushHeaders();
    });
  }

  /**
   * Buffers the response's body and writes the response in place of the library.
   * @param transform returns the body to write, and headers that replace those of the response
   */
  private writeBuffered(
    answer: IncomingMessage,
    status: number,
    reading: Promise<Buffer>,
    transform: (body: Buffer) => { body: Buffer; headers?: IncomingHttpHeaders },
  ): void {
    const { response, observer } = this;
    this.options.selfHandleResponse = true;
    reading
      .then((received) => {
        if (this.error || response.destroyed) return;
        const { body, headers } = transform(received);
        const { "content-encoding": _, ...otherHeaders } = answer.headers;
        response.writeHead(status, { ...otherHeaders, ...headers, "content-length": body.length });
        observer.onResponseBody(body);
        this.notifyEnd();
        response.end(body);
      })
      .catch((thrown: unknown) => this.fail(GatewayError.from(thrown, "upstream_invalid")));
  }

  /** Returns why a response cannot be passed on; undefined: it can. */
  private responseError(status: number, headers: HeaderList): GatewayError | undefined {
    const { target } = this.outgoing;
    const proxyError = forwarderRefusal(forwarderOf(this.outgoing), status);
    if (proxyError) return transportError(proxyError, this.progress, target.host);
    if (status >= 300 && status < 400 && status !== 304)
      return new GatewayError("upstream_redirect", { cause: this.fault(`STATUS_${status}`) });
    const faultCode = status < 200 || status > 599 ? `STATUS_${status}` : ambiguity(headers);
    return faultCode === undefined ? undefined : new GatewayError("upstream_invalid", { cause: this.fault(faultCode) });
  }

  /** Keeps the library from writing a response to the client. */
  private withhold(answer: IncomingMessage): void {
    this.options.selfHandleResponse = true;
    answer.destroy();
  }

  /** Called when nothing has moved on the connection to the provider, because nobody wrote or because nobody read. */
  private onIdle(): void {
    const { request, response, upstream, outgoing } = this;
    const { idle } = outgoing.timeouts;
    if (this.progress === "answering")
      this.fail(response.writableNeedDrain ? stalledClientError(idle) : this.timeoutErrorOf("idle"));
    else if (!request.complete && !upstream?.writableNeedDrain) this.fail(new GatewayError("body_timeout"));
    else {
      const message = `The provider took nothing of the request for ${formatTimeLimit(idle)}.`;
      this.fail(new GatewayError("upstream_timeout", { message, cause: this.fault("idle_timeout") }));
    }
  }

  /** Reports once that the whole response has arrived. */
  private notifyEnd(): void {
    const { response, outgoing } = this;
    if (this.endNotified || this.error || response.destroyed) return;
    this.endNotified = true;
    this.observer.onResponseEnd();
    // From here on nothing is heard of the provider that could end the wait for the client.
    if (outgoing.stalled !== undefined) response.setTimeout(outgoing.stalled);
  }

  /** Gives up a client that reads nothing while more is to be written, or while the rest of a response that has ended waits for it. */
  private watchClient(): void {
    const { response } = this;
    const { stalled } = this.outgoing;
    if (stalled === undefined) return;
    response.setTimeout(stalled, () => {
      if (response.writableNeedDrain || this.endNotified) this.fail(stalledClientError(stalled));
    });
    // Runs before node's own listener, which sets the keep-alive timeout.
    response.prependOnceListener("finish", () => response.setTimeout(0));
  }

  /** Called before a stream's terminal event is written. */
  private noteDelivery(): void {
    const note = (error: unknown) => {
      this.isDelivered = !error;
    };
    setImmediate(() => this.response.socket?.write("", note));
  }

  /** Nothing is read of the response once its client has left. */
  drain(): boolean {
    return false;
  }

  /** Nothing is put into a response that passes unchanged. */
  push(): boolean {
    return false;
  }

  /** Called when the client has left, which some do at the terminal event. */
  endIfDelivered(): boolean {
    if (!this.isDelivered || this.error) return false;
    if (!this.endNotified) this.observer.onResponseEnd();
    this.endNotified = true;
    this.upstream?.destroy();
    this.end.resolve();
    return true;
  }

  private fail(error: GatewayError): void {
    if (this.error) return;
    this.error = error;
    const { request, response } = this;
    // The library ends its request only when the client has left.
    this.upstream?.destroy();
    request.unpipe();
    this.body?.destroy();
    if (response.headersSent) abortResponse(response);
    // The library had already begun to set the provider's headers.
    else for (const name of response.getHeaderNames()) if (!this.ownHeaders.includes(name)) response.removeHeader(name);
    this.stopTimers();
    this.end.reject(error);
  }

  /** Called when the client's connection or response is closed; settles `run` in every case. */
  private onClose(): void {
    const { request, response } = this;
    this.stopTimers();
    if (!request.complete && !request.destroyed) {
      this.upstream?.destroy();
      // The response came before the end of the request: the library would leave the request, and so its connection, paused.
      request.unpipe().resume();
    }
    if (response.writableFinished) this.end.resolve();
    else this.end.reject(new GatewayError("client_gone"));
  }

  private stopTimers(): void {
    clearTimeout(this.total);
    clearTimeout(this.deadline);
  }

  private timeoutErrorOf(limit: keyof Timeouts): GatewayError {
    return timeoutError(limit, this.outgoing.timeouts[limit], this.outgoing.target.host);
  }

  private fault(code: string): UpstreamFault {
    return new UpstreamFault(code, this.outgoing.target.host);
  }
}

/** Response headers that different clients read differently where they occur twice. */
const SINGLE_HEADERS = ["content-type", "content-length", "content-encoding", "transfer-encoding"];

/**
 * Returns the fault code of a response head that two parsers could read in two ways. Our own HTTP/1.1 client refuses the same
 * heads.
 */
function ambiguity(headers: HeaderList): string | undefined {
  const coding = headers.get("transfer-encoding");
  if (headers.repeated(SINGLE_HEADERS) !== undefined) return "RESPONSE_HEADER_INVALID";
  if (coding === undefined) return undefined;
  if (coding.toLowerCase() !== "chunked") return "RESPONSE_CODING_UNKNOWN";
  return headers.has("content-length") ? "RESPONSE_FRAMED_TWICE" : undefined;
}

/**
 * Returns the original framing of a request's body. It is read from `rawHeaders`, because the library changes `headers`;
 * ambiguous framing was refused earlier.
 */
function framing({ rawHeaders, method = "" }: IncomingMessage): IncomingHttpHeaders {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase();
    if (name === "transfer-encoding") return { "transfer-encoding": "chunked" };
    if (name === "content-length") return { "content-length": rawHeaders[i + 1] };
  }
  return METHODS_WITH_BODY.has(method) ? { "content-length": "0" } : {};
}

function hasBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": coding } = framing(request);
  return coding !== undefined || (length !== undefined && length !== "0");
}

/**
 * Reports whether a request has a body that some servers do not read, but take for the next request of the connection: the answer
 * to that would be another caller's.
 */
const mayStayUnread = (request: IncomingMessage): boolean =>
  hasBody(request) && !METHODS_WITH_BODY.has(request.method ?? "");

/** Safe methods (RFC 9110 §9.2.1). DELETE is not one: a repeated DELETE would find nothing. */
const SAFE_METHODS = /^(?:GET|HEAD|OPTIONS)$/;

/** Reports whether a request may be sent again: a piped body is gone, and an unsafe method may already have had its effect. */
const mayRepeat = (request: IncomingMessage): boolean => !hasBody(request) && SAFE_METHODS.test(request.method ?? "");

/** Calls back once a request's connection is established, TLS included; at once if it already is. */
export function whenConnected(request: ClientRequest, callback: () => void): void {
  const { socket } = request;
  if (!socket) request.once("socket", () => whenConnected(request, callback));
  else if (socket instanceof TLSSocket) {
    // Null until the handshake is complete.
    if (socket.alpnProtocol === null) socket.once("secureConnect", callback);
    else callback();
  } else if (socket.connecting) socket.once("connect", callback);
  else callback();
}

/** Ends a response so that the client sees it is truncated: fewer bytes than announced, or no last chunk. */
function abortResponse(response: ServerResponse): void {
  const { socket } = response;
  if (!socket) return;
  // Where only the end of the connection delimits the response (HTTP/1.0), a clean close would look like its end.
  if (response.chunkedEncoding || response.hasHeader("content-length")) flushAndClose(socket);
  else resetConnection(socket);
}

/** Closes a connection so that the other side cannot take what it got for all that was sent; a Unix socket knows no such end. */
export function resetConnection(socket: Socket): void {
  if (socket.remoteFamily === undefined) socket.destroy();
  else socket.resetAndDestroy();
}

/** Flushes what was written, then closes the socket. */
export function flushAndClose(socket: Duplex): void {
  if (socket.destroyed) return;
  if (socket instanceof Socket) socket.destroySoon();
  else socket.end();
  const timer = setTimeout(() => socket.destroy(), FLUSH_TIMEOUT);
  socket.once("close", () => clearTimeout(timer));
}
