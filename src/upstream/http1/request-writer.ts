import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { BodyWriter, type BodyWriterListener } from "./body-writer.ts";
import type { HttpRequest } from "./http-request.ts";
import { type Addressing, requestHead } from "./request-head.ts";
import { deferWriteErrors } from "./write-errors.ts";

/** Bytes up to which a body is copied after its head, so that both are written as one buffer. */
const JOIN_LIMIT = 64 * 1024;
/** Bytes passed to the system at once; the rest follows when these have been sent. */
const WRITE_WINDOW = 2 * 1024 * 1024;

/** Writes requests to a connection, one after another, no faster than the other side takes them. */
export class RequestWriter {
  private stream: BodyWriter | undefined;
  /** Pieces of a body that did not fit in the window. */
  private remaining: readonly Buffer[] | undefined;

  constructor(
    private readonly socket: Socket,
    private readonly addressing: Addressing,
    private readonly listener: Pick<BodyWriterListener, "onBodySent" | "onBodyError">,
  ) {}

  /** Begins to write a request. */
  write(request: HttpRequest): void {
    const { body, length } = request;
    if (body instanceof Readable) this.writeStream(request, body, length);
    else this.writePieces(request, body);
  }

  /** Whether part of the request has not been taken by the system yet. */
  get unfinished(): boolean {
    return this.stream !== undefined || this.remaining !== undefined || this.socket.writableLength > 0;
  }

  /** Called when the socket takes more. */
  onDrain(): void {
    if (this.remaining) {
      this.socket.cork();
      this.fillWindow(this.remaining);
      this.socket.uncork();
    }
    this.stream?.onDrain();
  }

  /** Stops writing. */
  stop(): void {
    this.stream?.stop();
    this.stream = undefined;
    this.remaining = undefined;
  }

  private writeStream(request: HttpRequest, body: Readable, length: number | undefined): void {
    const head = requestHead(request, this.addressing, length ?? "chunked");
    deferWriteErrors(this.socket);
    this.stream = new BodyWriter(this.socket, head, body, length, {
      onBodySent: () => this.listener.onBodySent(),
      onBodyEnd: () => {
        this.stream = undefined;
      },
      onBodyError: (error) => this.listener.onBodyError(error),
    });
  }

  private writePieces(request: HttpRequest, body: readonly Buffer[] | undefined): void {
    let length = 0;
    if (body) for (const piece of body) length += piece.length;
    const head = requestHead(request, this.addressing, body ? length : undefined);
    if (length <= JOIN_LIMIT) {
      this.socket.write(joinHeadAndBody(head, body, length));
      return;
    }
    deferWriteErrors(this.socket);
    this.socket.cork();
    this.socket.write(Buffer.from(head, "latin1"));
    this.fillWindow(body as readonly Buffer[]);
    this.socket.uncork();
  }

  private fillWindow(pieces: readonly Buffer[]): void {
    const { socket } = this;
    let i = 0;
    while (i < pieces.length && socket.writableLength < WRITE_WINDOW) socket.write(pieces[i++] as Buffer);
    this.remaining = i < pieces.length ? pieces.slice(i) : undefined;
  }
}

function joinHeadAndBody(head: string, body: readonly Buffer[] | undefined, length: number): Buffer {
  const joined = Buffer.allocUnsafe(head.length + length);
  joined.write(head, "latin1");
  if (!body) return joined;
  let offset = head.length;
  for (const piece of body) {
    joined.set(piece, offset);
    offset += piece.length;
  }
  return joined;
}
