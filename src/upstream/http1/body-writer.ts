import type { Socket } from "node:net";
import type { Readable } from "node:stream";

/** Hears how an upload goes. */
export interface BodyWriterListener {
  /** Some bytes were written. */
  sent(): void;
  /** All were. Nothing follows. */
  end(): void;
  /** Nothing follows. */
  failed(error: Error): void;
}

/** Why a body cannot be sent to its end. */
export class BodyError extends Error {
  override readonly name = "UploadError";
  constructor(readonly code: "BODY_LENGTH_WRONG" | "BODY_BROKEN_OFF") {
    super(code);
  }
}

/**
 * A body on its way from a stream to a connection, read no faster than the provider takes it. The head leaves with its
 * first bytes. A body that is not as long as was announced ends the connection: the provider could read the next request
 * as the rest of it.
 */
export class BodyWriter {
  private written = 0;
  private over = false;

  /** @param length bytes of the body; undefined: it goes in chunks. */
  constructor(
    private readonly socket: Socket,
    private head: string,
    private readonly body: Readable,
    private readonly length: number | undefined,
    private readonly sink: BodyWriterListener,
  ) {
    body.on("data", this.chunk);
    body.on("end", this.end);
    body.on("close", this.close);
    if (body.destroyed) this.close();
  }

  /** The connection takes more. */
  drained(): void {
    if (!this.over) this.body.resume();
  }

  /** Reads and writes no more. The body is left to who brought it. */
  stop(): void {
    this.over = true;
    this.body.off("data", this.chunk);
    this.body.off("end", this.end);
    this.body.off("close", this.close);
  }

  private readonly chunk = (bytes: Buffer): void => {
    if (bytes.length === 0) return;
    this.written += bytes.length;
    if (this.length !== undefined && this.written > this.length) {
      this.fail(new BodyError("BODY_LENGTH_WRONG"));
      return;
    }
    const { socket } = this;
    socket.cork();
    this.writeHead();
    if (this.length === undefined) socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
    let more = socket.write(bytes);
    if (this.length === undefined) more = socket.write("\r\n", "latin1");
    socket.uncork();
    if (!more) this.body.pause();
    this.sink.sent();
  };

  private readonly end = (): void => {
    if (this.length !== undefined && this.written !== this.length) {
      this.fail(new BodyError("BODY_LENGTH_WRONG"));
      return;
    }
    this.writeHead();
    if (this.length === undefined) this.socket.write("0\r\n\r\n", "latin1");
    this.stop();
    this.sink.end();
  };

  private readonly close = (): void => this.fail(new BodyError("BODY_BROKEN_OFF"));

  private writeHead(): void {
    if (this.head !== "") this.socket.write(this.head, "latin1");
    this.head = "";
  }

  private fail(error: BodyError): void {
    if (this.over) return;
    this.stop();
    this.sink.failed(error);
  }
}
