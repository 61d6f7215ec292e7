import type { Socket } from "node:net";
import { BodyAccumulator } from "./body-accumulator.ts";
import { Http1Error } from "./errors.ts";
import type { HttpRequest, RequestController } from "./http-request.ts";
import type { Addressing } from "./request-head.ts";
import { RequestWriter } from "./request-writer.ts";
import type { ResponseHead } from "./response-head.ts";
import { type ParserListener, ResponseParser } from "./response-parser.ts";

/** The owner of a connection. A pool is one. */
export interface ConnectionOwner {
  readonly addressing: Addressing;
  /**
   * Called when the connection can take another request.
   * @param keepAliveTimeout milliseconds for which the provider keeps the idle connection; undefined: it does not say
   */
  onReleased(connection: Connection, keepAliveTimeout: number | undefined): void;
  onClosed(connection: Connection): void;
  /** Returns why a response with this status is not the provider's; undefined: it is. */
  statusError(status: number): Error | undefined;
}

/** One connection to a provider; carries one request at a time. */
export class Connection implements ParserListener, RequestController {
  /** Time until which it may be reused, once it is idle. */
  expires = 0;
  paused = false;

  private readonly parser = new ResponseParser(this);
  private readonly writer: RequestWriter;
  private request: HttpRequest | undefined;
  /** Number of requests it has carried. */
  private requests = 0;
  private destroyed = false;
  /** Bytes of the body in the current read, which are delivered together. */
  private readonly pendingBody = new BodyAccumulator();

  constructor(
    private readonly socket: Socket,
    private readonly owner: ConnectionOwner,
  ) {
    this.writer = new RequestWriter(socket, owner.addressing, {
      onBodySent: () => this.request?.onBodySent(),
      onBodyError: (error) => this.fail(error),
    });
    socket.on("end", () => this.onSocketEnd());
    socket.on("error", (error) => this.fail(error));
    socket.on("close", () => this.fail(new Http1Error("CONNECTION_CLOSED")));
    socket.on("drain", () => this.onDrain());
    // An idle connection must not keep the process running; the caller of a running request does that itself.
    socket.unref();
  }

  /** Whether it has never carried a request. */
  get unused(): boolean {
    return this.requests === 0;
  }

  /** Sends a request; returns false when the request has been cancelled. */
  send(request: HttpRequest): boolean {
    if (!request.onStart(this)) return false;
    this.requests++;
    this.request = request;
    this.parser.expect(request.method);
    this.writer.write(request);
    return true;
  }

  pause(): void {
    if (this.paused) return;
    this.paused = true;
    this.socket.pause();
  }

  resume(): void {
    if (!this.paused) return;
    this.paused = false;
    this.socket.resume();
  }

  abort(): void {
    this.request = undefined;
    this.destroy();
  }

  /** Closes the connection, and reports the error to its request. */
  fail(error: Error): void {
    const { request } = this;
    this.request = undefined;
    this.destroy();
    request?.onError(error, this.isStale(error));
  }

  /** Receives bytes from the provider; the buffer is reused after this returns. */
  receive(bytes: Buffer): void {
    // Unsolicited bytes could be parsed as the response to the next request.
    if (!this.request) {
      this.destroy();
      return;
    }
    try {
      const consumed = this.read(bytes);
      this.deliverBody();
      if (consumed < bytes.length) this.destroy();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Returns how many of the bytes belong to the response. @throws Http1Error after delivering the body bytes before the error */
  private read(bytes: Buffer): number {
    try {
      return this.parser.push(bytes);
    } catch (error) {
      this.deliverBody();
      throw error;
    }
  }

  onHead(head: ResponseHead): void {
    const refusal = this.owner.statusError(head.status);
    if (refusal) throw refusal;
    this.request?.onHead(head);
  }

  onBody(bytes: Buffer): void {
    this.pendingBody.add(bytes);
  }

  private deliverBody(): void {
    const bytes = this.pendingBody.take();
    if (bytes) this.request?.onData(bytes);
  }

  onEnd(): void {
    this.deliverBody();
    const { request } = this;
    if (!request) return;
    this.request = undefined;
    if (!this.parser.reusable) this.destroy();
    else if (this.writer.unfinished) setImmediate(() => this.releaseIfSent());
    else this.release();
    request.onEnd();
  }

  /**
   * Releases the connection a moment after a response that came before its request was known to be sent: over TLS, Node reports that
   * after it has read what arrived. Otherwise the response leaves the connection in the middle of the request.
   */
  private releaseIfSent(): void {
    if (this.destroyed) return;
    if (this.writer.unfinished) this.destroy();
    else this.release();
  }

  private release(): void {
    this.resume();
    this.owner.onReleased(this, this.parser.keepAliveTimeout);
  }

  /** Reports whether a kept-alive connection was closed before any byte of a response to the current request. */
  private isStale(error: Error): boolean {
    return this.requests > 1 && !this.parser.hasStarted && isClosedByPeer(error);
  }

  private onSocketEnd(): void {
    let error: Error = new Http1Error("CONNECTION_CLOSED");
    try {
      if (this.request && this.parser.close()) return;
    } catch (thrown) {
      error = thrown as Error;
    }
    this.fail(error);
  }

  private destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.writer.stop();
    this.socket.destroy();
    this.owner.onClosed(this);
  }

  private onDrain(): void {
    if (!this.request) return;
    this.writer.onDrain();
    this.request?.onBodySent();
  }
}

const CLOSED_CODES = new Set(["CONNECTION_CLOSED", "ECONNRESET", "EPIPE"]);

/** Reports whether an error means that the other side closed the connection. */
export const isClosedByPeer = (error: Error): boolean => CLOSED_CODES.has((error as NodeJS.ErrnoException).code ?? "");
