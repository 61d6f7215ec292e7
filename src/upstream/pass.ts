import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { GatewayError } from "../core/errors.ts";
import type { Timeouts } from "../core/marketplace.ts";
import { Pace, type PaceLimits } from "../core/pace.ts";
import type { Redactor } from "../core/redactor.ts";
import { HeaderList } from "../wire/headers.ts";
import { failure, overdue, type Progress, UpstreamFault } from "./failures.ts";
import { isClosed } from "./http1/connection.ts";
import type { HttpProxy } from "./http1/proxies.ts";
import { forwarderRefusal, tunnelFailure } from "./http1/tunnel.ts";
import { changeable, errorBody, forwarderOf } from "./passed-error.ts";

/** Milliseconds for which the rest of a request is read away that was answered before all of it had come. */
const LINGER = 2000;
/** Milliseconds that a peer which does not read has to take what was written before its connection is closed. */
const FLUSH = 1000;

/** Where a request goes that passes unread. */
export interface PassRequest {
  /** The whole address, path and query included. */
  readonly target: URL;
  /** Complete but for framing and host: nothing of the client's own headers is added. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** Connections are never shared between accounts. */
  readonly account: string;
  readonly timeouts: Timeouts;
  /** How slowly the client's body may come. */
  readonly pace?: PaceLimits;
  /** In front of the provider: one that is asked for the whole address may answer in the provider's place. */
  readonly proxy?: HttpProxy | undefined;
}

/** Sees what passes, and says which headers do. */
export interface PassObserver {
  /** Some of the request's body, before it goes on. @throws GatewayError where it may not */
  up(bytes: Buffer): void;
  /** All of it has come. @throws GatewayError the same, before its end is passed on */
  whole(): void;
  /** The head of the response: answers the headers that go to the client. */
  head(status: number, rawHeaders: readonly string[]): IncomingHttpHeaders;
  /** What changes the response's body, where that has to come whole for it; undefined: it goes on as it comes. */
  readonly change?: ((body: Buffer) => Buffer) | undefined;
  /** Some of the response's body, as it goes to the client. */
  down(bytes: Buffer): void;
  /** The response is an error: all of its body, before its head goes down. Answers headers in the place of those of `head`. */
  failed(body: Buffer): IncomingHttpHeaders;
  /** All of the response has come, and its last byte is about to go to the client. Once at most, and never of one that is not whole. */
  end(): void;
  /** What cleans errors. */
  readonly redactor: Redactor;
}

/**
 * One request that http-proxy-3's own passes carry, and what they leave open: framing of bodies that they do not expect,
 * an answer of ours before the head and a cut behind it, limits on silence, and one end, told once.
 */
export class PassedRequest {
  private readonly end = Promise.withResolvers<void>();
  private upstream: ClientRequest | undefined;
  private progress: Progress = "connecting";
  private error: GatewayError | undefined;
  private repeated = false;
  /** The observer knows that the response is whole. */
  private ended = false;
  private total: NodeJS.Timeout | undefined;
  /** Until there is a connection, then from the end of the request to the head of the response. */
  private deadline: NodeJS.Timeout | undefined;
  /** The response, where only the end of the connection ends it. */
  private unframed: IncomingMessage | undefined;
  /** The options of the running `web()` call. */
  private options: { selfHandleResponse?: boolean } = {};

  /** @param send gives it to the library; called a second time for what may be sent again, where a kept connection was closed. */
  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly outgoing: PassRequest,
    private readonly observer: PassObserver,
    private readonly send: (pass: PassedRequest) => void,
  ) {}

  /**
   * Settles when the response is over.
   * @throws GatewayError when it is not whole. Before the head nothing has been written to the client; behind it the
   * connection is already cut.
   */
  run(): Promise<void> {
    const { request, response, outgoing } = this;
    const { total } = outgoing.timeouts;
    if (total > 0) this.total = setTimeout(() => this.fail(this.overdue("total")), total).unref();
    response.once("close", () => this.closed());
    if (hasBody(request)) {
      request.on("data", (bytes: Buffer) => this.judge(() => this.observer.up(bytes)));
      request.once("end", () => this.judge(() => this.observer.whole()));
      if (outgoing.pace) Pace.watch(request, outgoing.pace, (error) => this.fail(error));
    }
    if (response.destroyed) this.closed();
    else this.start();
    return this.end.promise;
  }

  /** In front of the library's own listeners: what is refused here does not reach the provider. */
  private judge(look: () => void): void {
    try {
      look();
    } catch (thrown) {
      this.fail(GatewayError.from(thrown));
    }
  }

  /** The client has left, or the gateway stops and can wait no longer. */
  abort(): void {
    this.fail(new GatewayError("client_gone"));
  }

  private start(): void {
    this.within("connect");
    try {
      this.send(this);
    } catch (thrown) {
      // Node refuses a header or an address that cannot be written.
      this.fail(GatewayError.from(thrown));
    }
  }

  private within(limit: "connect" | "first_byte"): void {
    const ms = this.outgoing.timeouts[limit];
    clearTimeout(this.deadline);
    if (ms > 0) this.deadline = setTimeout(() => this.fail(this.overdue(limit)), ms).unref();
  }

  /** The library has run its own passes but the last: what it will send of the request's headers is only its framing. */
  framed(options: { selfHandleResponse?: boolean }): void {
    this.options = options;
    this.request.headers = framing(this.request);
  }

  /** The library's request has a socket, which may not be connected yet. */
  sending(upstream: ClientRequest): void {
    const { idle } = this.outgoing.timeouts;
    this.upstream = upstream;
    if (this.error) {
      upstream.destroy();
      return;
    }
    whenConnected(upstream, () => {
      if (this.progress !== "connecting") return;
      this.progress = "waiting";
      clearTimeout(this.deadline);
    });
    // Node keeps a head back until the first byte of the body; one that comes in the same turn leaves together with it.
    if (hasBody(this.request))
      setImmediate(() => {
        if (!upstream.headersSent && !upstream.destroyed) upstream.flushHeaders();
      });
    // In front of the library's own, which writes what it finds in the head.
    upstream.prependOnceListener("response", (answer) => this.answered(answer));
    upstream.once("upgrade", (_answer, socket) => {
      socket.destroy();
      this.fail(new GatewayError("upstream_invalid", { cause: this.fault("UPGRADED") }));
    });
    upstream.on("timeout", () => this.silent());
    upstream.setTimeout(idle);
    upstream.once("finish", () => {
      if (this.progress === "answering" || this.error) return;
      // Not a limit on silence: interim responses and single header lines would put it off for ever.
      upstream.setTimeout(0);
      this.within("first_byte");
    });
  }

  /** What the library reports, of which there may be several for one request. */
  failed(reported: Error): void {
    if (this.error) return;
    const { request, response, upstream, unframed, outgoing } = this;
    const { host } = outgoing.target;
    const thrown = tunnelFailure(outgoing.proxy, reported);
    if (this.progress === "answering") {
      // For Node such a response is whole even where its connection was reset. The end of any other tells by itself
      // whether it is, also where only the upload was cut off.
      if (unframed && !unframed.complete) this.fail(failure(thrown, this.progress, host));
      return;
    }
    const stale = upstream?.reusedSocket === true && isClosed(thrown);
    if (stale && mayRepeat(request) && !this.repeated && !response.destroyed) {
      this.repeated = true;
      this.progress = "connecting";
      this.start();
    } else this.fail(failure(thrown, this.progress, host));
  }

  private answered(answer: IncomingMessage): void {
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
    const refusal = this.refusal(status, headers);
    if (refusal) {
      this.withhold(answer);
      this.fail(refusal);
      return;
    }
    const isError = status >= 400 && request.method !== "HEAD";
    if (!headers.has("content-length") && !headers.has("transfer-encoding")) this.unframed = answer;
    answer.statusMessage = "";
    answer.headers = observer.head(status, answer.rawHeaders);
    // The library would say keep-alive to a client that asked for close.
    answer.headers.connection = response.shouldKeepAlive ? "keep-alive" : "close";
    const { change } = observer;
    // The words of an error are only known to hold no secret once all of them have come.
    if (isError)
      this.tell(answer, status, errorBody(answer, status, this.outgoing, observer.redactor), (body) => ({
        body,
        headers: observer.failed(body),
      }));
    else if (change) this.tell(answer, status, changeable(answer), (body) => ({ body: change(body) }));
    else {
      // In front of the library's listeners, which write to the client. With its announced length a response is whole before its end is told.
      let left = Number(headers.get("content-length") ?? Number.POSITIVE_INFINITY);
      answer.on("data", (bytes: Buffer) => {
        observer.down(bytes);
        left -= bytes.length;
        if (left <= 0) this.whole();
      });
      answer.once("end", () => this.whole());
      answer.once("close", () => {
        if (!answer.complete)
          this.fail(new GatewayError("upstream_truncated", { cause: this.fault("CONNECTION_CLOSED") }));
      });
    }
    // Node keeps a head until the first byte of the body; one that comes in the same turn still leaves together with it.
    setImmediate(() => {
      const over = response.headersSent || response.destroyed || this.error !== undefined;
      if (!over && !isError && !change && request.method !== "HEAD") response.flushHeaders();
    });
  }

  /**
   * Writes an answer in place of the library, once all of it has come.
   * @param told what goes down, and headers in the place of the answer's own
   */
  private tell(
    answer: IncomingMessage,
    status: number,
    whole: Promise<Buffer>,
    told: (body: Buffer) => { body: Buffer; headers?: IncomingHttpHeaders },
  ): void {
    const { response, observer } = this;
    this.options.selfHandleResponse = true;
    whole
      .then((come) => {
        if (this.error || response.destroyed) return;
        const { body, headers } = told(come);
        const { "content-encoding": _, ...own } = answer.headers;
        response.writeHead(status, { ...own, ...headers, "content-length": body.length });
        observer.down(body);
        this.whole();
        response.end(body);
      })
      .catch((thrown: unknown) => this.fail(GatewayError.from(thrown, "upstream_invalid")));
  }

  /** Why a response is not one that can be passed on, if it is none. */
  private refusal(status: number, headers: HeaderList): GatewayError | undefined {
    const { target } = this.outgoing;
    const refused = forwarderRefusal(forwarderOf(this.outgoing), status);
    if (refused) return failure(refused, this.progress, target.host);
    if (status >= 300 && status < 400 && status !== 304)
      return new GatewayError("upstream_redirect", { cause: this.fault(`STATUS_${status}`) });
    const wrong = status < 200 || status > 599 ? `STATUS_${status}` : ambiguity(headers);
    return wrong === undefined ? undefined : new GatewayError("upstream_invalid", { cause: this.fault(wrong) });
  }

  /** Keeps the library from writing an answer to the client. */
  private withhold(answer: IncomingMessage): void {
    this.options.selfHandleResponse = true;
    answer.destroy();
  }

  /** Nothing moved on the connection to the provider: because nobody wrote, or because nobody read. */
  private silent(): void {
    const { request, response, upstream, outgoing } = this;
    const { idle } = outgoing.timeouts;
    if (this.progress === "answering")
      this.fail(response.writableNeedDrain ? new GatewayError("client_gone") : this.overdue("idle"));
    else if (!request.complete && !upstream?.writableNeedDrain) this.fail(new GatewayError("body_timeout"));
    else {
      const message = `The provider took nothing of the request for ${idle} ms.`;
      this.fail(new GatewayError("upstream_timeout", { message, cause: this.fault("idle_timeout") }));
    }
  }

  /** All of the response has come. */
  private whole(): void {
    if (this.ended || this.error || this.response.destroyed) return;
    this.ended = true;
    this.observer.end();
  }

  private fail(error: GatewayError): void {
    if (this.error) return;
    this.error = error;
    const { request, response } = this;
    // The library ends its request only when the client has left.
    this.upstream?.destroy();
    request.unpipe();
    if (response.headersSent) cut(response);
    // The library had begun to set the provider's.
    else for (const name of response.getHeaderNames()) response.removeHeader(name);
    this.stopTimers();
    this.end.reject(error);
  }

  /** The client's side is over: all that was told in several ways, or not at all, ends here. */
  private closed(): void {
    const { request, response } = this;
    this.stopTimers();
    if (!request.complete && !request.destroyed) {
      this.upstream?.destroy();
      // Answered early: the library would leave the request paused, and its connection with it.
      request.unpipe().resume();
      setTimeout(() => {
        if (!request.complete) request.destroy();
      }, LINGER).unref();
    }
    if (response.writableFinished) this.end.resolve();
    else this.end.reject(new GatewayError("client_gone"));
  }

  private stopTimers(): void {
    clearTimeout(this.total);
    clearTimeout(this.deadline);
  }

  private overdue(limit: keyof Timeouts): GatewayError {
    return overdue(limit, this.outgoing.timeouts[limit], this.outgoing.target.host);
  }

  private fault(code: string): UpstreamFault {
    return new UpstreamFault(code, this.outgoing.target.host);
  }
}

/** Response headers of which a second line is read differently by different clients. */
const ONCE = new Set(["content-type", "content-length", "content-encoding", "transfer-encoding"]);

/** What in the head of a response two readers could read in two ways, as our own client refuses it. */
function ambiguity(headers: HeaderList): string | undefined {
  const coding = headers.get("transfer-encoding");
  if (headers.repeated(ONCE) !== undefined) return "RESPONSE_HEADER_INVALID";
  if (coding === undefined) return undefined;
  if (coding.toLowerCase() !== "chunked") return "RESPONSE_CODING_UNKNOWN";
  return headers.has("content-length") ? "RESPONSE_FRAMED_TWICE" : undefined;
}

/** Methods whose requests are expected to have a body, and so say that there is none. */
const WITH_BODY = /^P(?:OST|UT|ATCH)$/;

/**
 * How the body was framed when it came; `headers` does not tell it, because the library writes into them. What could be
 * read in two ways was refused before.
 */
function framing({ rawHeaders, method = "" }: IncomingMessage): IncomingHttpHeaders {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase();
    if (name === "transfer-encoding") return { "transfer-encoding": "chunked" };
    if (name === "content-length") return { "content-length": rawHeaders[i + 1] };
  }
  return WITH_BODY.test(method) ? { "content-length": "0" } : {};
}

function hasBody(request: IncomingMessage): boolean {
  const { "content-length": length, "transfer-encoding": coding } = framing(request);
  return coding !== undefined || (length !== undefined && length !== "0");
}

/** Methods that change nothing (RFC 9110 §9.2.1). What was deleted once is not found a second time. */
const SAFE = /^(?:GET|HEAD|OPTIONS)$/;

/** A body has been piped away, and anything but a safe method may have had its effect. */
const mayRepeat = (request: IncomingMessage): boolean => !hasBody(request) && SAFE.test(request.method ?? "");

/** Runs `then` once a request has a connection that stands, TLS included; at once if it has. */
export function whenConnected(request: ClientRequest, then: () => void): void {
  const { socket } = request;
  if (!socket) request.once("socket", () => whenConnected(request, then));
  else if (socket instanceof TLSSocket) {
    // Null before the handshake is over.
    if (socket.alpnProtocol === null) socket.once("secureConnect", then);
    else then();
  } else if (socket.connecting) socket.once("connect", then);
  else then();
}

/** The client must see that the response is not whole: fewer bytes than announced, or no last chunk. */
function cut(response: ServerResponse): void {
  const { socket } = response;
  if (!socket) return;
  // Where only the end of the connection ends a response (HTTP/1.0), a clean one would look like its end.
  if (response.chunkedEncoding || response.hasHeader("content-length")) closeSoon(socket);
  else socket.resetAndDestroy();
}

/** Flushes what was written, then closes. */
export function closeSoon(socket: Duplex): void {
  if (socket.destroyed) return;
  if (socket instanceof Socket) socket.destroySoon();
  else socket.end();
  const timer = setTimeout(() => socket.destroy(), FLUSH);
  socket.once("close", () => clearTimeout(timer));
}
