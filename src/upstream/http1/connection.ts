import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { closedUnseen } from "../failures.ts";
import { BodyWriter } from "./body-writer.ts";
import type { HttpRequest, RequestController } from "./http-request.ts";
import { requestHead } from "./request-head.ts";
import { type ParserListener, type ResponseHead, ResponseParser } from "./response-parser.ts";

/** Where lines belong. */
export interface ConnectionOwner {
  readonly host: string;
  /** A line can carry another call; the provider keeps it for so many milliseconds, if it says. */
  released(line: Connection, keptFor: number | undefined): void;
  /** A line is closed. */
  closed(line: Connection): void;
}

/** Something went wrong with a connection. */
export class ConnectionError extends Error {
  override readonly name = "LineError";
  constructor(readonly code: string) {
    super(code);
  }
}

/** Bodies up to this are copied behind their head, so that both leave as one buffer. */
const JOIN_LIMIT = 64 * 1024;
/** Bytes given to the system at once; the rest follows when these have left. */
const WINDOW = 2 * 1024 * 1024;

/** One connection to a provider; carries one call at a time. */
export class Connection implements ParserListener, RequestController {
  /** Until when it may be used again, once it is free. */
  expires = 0;
  paused = false;

  private readonly reader = new ResponseParser(this);
  private call: HttpRequest | undefined;
  private upload: BodyWriter | undefined;
  /** Pieces of a body that do not fit in the window. */
  private rest: readonly Buffer[] | undefined;
  /** Calls that it took, and when the last one was written. */
  private carried = 0;
  private writtenAt = 0;
  /** The provider took bytes of this call after others had left: the connection was alive. */
  private taken = false;
  private closed = false;

  /** @param trip milliseconds of a round trip to the provider. */
  constructor(
    private readonly socket: Socket,
    private readonly trip: number,
    private readonly board: ConnectionOwner,
  ) {
    socket.on("end", () => this.ended());
    socket.on("error", (error) => this.fail(error));
    socket.on("close", () => this.fail(new ConnectionError("CONNECTION_CLOSED")));
    socket.on("drain", () => this.drained());
    // An idle connection is no reason to keep the process running; who waits for an answer has one of his own.
    socket.unref();
  }

  /** Sends a call; false when nobody wants it any more. @throws Error when it cannot be written; nothing was sent then. */
  send(call: HttpRequest): boolean {
    if (!call.onStart(this)) return false;
    this.carried++;
    this.writtenAt = performance.now();
    this.taken = false;
    this.call = call;
    this.reader.expect(call.method);
    this.write(call);
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
    this.call = undefined;
    this.close();
  }

  /** Ends it, whatever it does. */
  fail(error: Error): void {
    const { call } = this;
    this.call = undefined;
    this.close();
    call?.onError(error, this.unseen(error));
  }

  /** True when the provider closed a kept connection just as a call was written to it. */
  private unseen(error: Error): boolean {
    return this.carried > 1 && !this.reader.begun && !this.taken && closedUnseen(error, this.writtenAt, this.trip);
  }

  /** Bytes from the provider, which change once this has returned. */
  receive(bytes: Buffer): void {
    // What nobody asked for could be read as the answer to the next call.
    if (!this.call) this.close();
    else {
      try {
        if (this.reader.push(bytes) < bytes.length) this.close();
      } catch (error) {
        this.fail(error as Error);
      }
    }
  }

  onHead(head: ResponseHead): void {
    this.call?.onHead(head);
  }

  onBody(bytes: Buffer): void {
    this.call?.onData(Buffer.from(bytes));
  }

  onEnd(): void {
    const { call } = this;
    if (!call) return;
    this.call = undefined;
    // An answer that came before the whole request leaves the connection in the middle of that request, which may also
    // still wait in the socket.
    const unsent = this.upload !== undefined || this.rest !== undefined || this.socket.writableLength > 0;
    if (!this.reader.reusable || unsent) this.close();
    else {
      this.resume();
      this.board.released(this, this.reader.keptFor);
    }
    call.onEnd();
  }

  private ended(): void {
    let error: Error = new ConnectionError("CONNECTION_CLOSED");
    try {
      if (this.call && this.reader.close()) return;
    } catch (thrown) {
      error = thrown as Error;
    }
    this.fail(error);
  }

  private close(): void {
    if (this.closed) return;
    this.closed = true;
    this.upload?.stop();
    this.upload = undefined;
    this.rest = undefined;
    this.socket.destroy();
    this.board.closed(this);
  }

  private write(call: HttpRequest): void {
    const { body } = call;
    if (body instanceof Readable) {
      const head = requestHead(call, this.board.host, call.length ?? "chunked");
      this.upload = new BodyWriter(this.socket, head, body, call.length, {
        sent: () => this.call?.onBodySent(),
        end: () => {
          this.upload = undefined;
        },
        failed: (error) => this.fail(error),
      });
      return;
    }
    let length = 0;
    if (body) for (const piece of body) length += piece.length;
    const head = requestHead(call, this.board.host, body ? length : undefined);
    if (length <= JOIN_LIMIT) this.socket.write(joined(head, body, length));
    else {
      this.socket.cork();
      this.socket.write(Buffer.from(head, "latin1"));
      this.pieces(body as readonly Buffer[]);
      this.socket.uncork();
    }
  }

  /** Writes pieces up to the window; the others when those have left. */
  private pieces(body: readonly Buffer[]): void {
    const { socket } = this;
    let i = 0;
    while (i < body.length && socket.writableLength < WINDOW) socket.write(body[i++] as Buffer);
    this.rest = i < body.length ? body.slice(i) : undefined;
  }

  private drained(): void {
    const { call, rest } = this;
    if (!call) return;
    if (rest) {
      this.taken = true;
      this.socket.cork();
      this.pieces(rest);
      this.socket.uncork();
    }
    this.upload?.drained();
    call.onBodySent();
  }
}

/** Head and body in one buffer. */
function joined(head: string, body: readonly Buffer[] | undefined, length: number): Buffer {
  const all = Buffer.allocUnsafe(head.length + length);
  all.write(head, "latin1");
  if (!body) return all;
  let at = head.length;
  for (const piece of body) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
