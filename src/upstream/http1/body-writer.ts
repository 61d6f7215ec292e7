import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { Http1Error } from "./errors.ts";

/** Observes the writing of a body. */
export interface BodyWriterListener {
  /** Called when some bytes were written. */
  onBodySent(): void;
  /** Called when all bytes were written. No call follows. */
  onBodyEnd(): void;
  /** Called on an error. No call follows. */
  onBodyError(error: Http1Error): void;
}

/**
 * Writes a body from a stream to a connection, no faster than the provider reads it. The head is written together with the first
 * bytes of the body. A body whose length differs from the announced one ends the connection: the provider could parse the next
 * request as the rest of it.
 */
export class BodyWriter {
  private written = 0;
  private stopped = false;

  /** @param length bytes of the body; undefined: it is chunked. */
  constructor(
    private readonly socket: Socket,
    private head: string,
    private readonly body: Readable,
    private readonly length: number | undefined,
    private readonly listener: BodyWriterListener,
  ) {
    body.on("data", this.onChunk);
    body.on("end", this.onEnd);
    body.on("close", this.onClose);
    if (body.destroyed) this.onClose();
  }

  /** Called when the connection takes more. */
  onDrain(): void {
    if (!this.stopped) this.body.resume();
  }

  /** Stops reading and writing. The body is left to its owner. */
  stop(): void {
    this.stopped = true;
    this.body.off("data", this.onChunk);
    this.body.off("end", this.onEnd);
    this.body.off("close", this.onClose);
  }

  private readonly onChunk = (bytes: Buffer): void => {
    if (bytes.length === 0) return;
    this.written += bytes.length;
    if (this.length !== undefined && this.written > this.length) {
      this.fail(wrongLength());
      return;
    }
    const { socket } = this;
    socket.cork();
    this.writeHead();
    if (this.length === undefined) socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
    let hasRoom = socket.write(bytes);
    if (this.length === undefined) hasRoom = socket.write("\r\n", "latin1");
    socket.uncork();
    if (!hasRoom) this.body.pause();
    this.listener.onBodySent();
  };

  private readonly onEnd = (): void => {
    if (this.length !== undefined && this.written !== this.length) {
      this.fail(wrongLength());
      return;
    }
    this.writeHead();
    if (this.length === undefined) this.socket.write("0\r\n\r\n", "latin1");
    this.stop();
    this.listener.onBodyEnd();
  };

  private readonly onClose = (): void => this.fail(new Http1Error("BODY_BROKEN_OFF"));

  private writeHead(): void {
    if (this.head !== "") this.socket.write(this.head, "latin1");
    this.head = "";
  }

  private fail(error: Http1Error): void {
    if (this.stopped) return;
    this.stop();
    this.listener.onBodyError(error);
  }
}

const wrongLength = () =>
  new Http1Error("BODY_LENGTH_WRONG", "The request body is not as long as its content-length says.");
