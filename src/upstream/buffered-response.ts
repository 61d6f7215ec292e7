import { splitReceived } from "../core/answer-frames.ts";
import { awaitedLater } from "../core/awaited-later.ts";
import { type BufferAccount, bufferedAnswerError } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import type { Head } from "../core/head.ts";
import { joinInSteps, LARGE_BODY_BYTES, runInTurns } from "../translation/steps.ts";
import { joinPieces } from "../wire/pieces.ts";
import type { BodyReceiver, UpstreamResponse } from "./response.ts";

/** The delivery of a response to its client. */
export interface Delivery {
  /** Runs `run` when all bytes have been sent, or the connection is closed. */
  afterDelivery(run: () => void): void;
}

/** A body of which all bytes have arrived. The end waits where its receiver applies backpressure. */
export class WholeBody implements Pick<UpstreamResponse, "read" | "resume" | "destroy"> {
  /** The receiver to which the end is still due. */
  private pendingReceiver: BodyReceiver | undefined;

  /** @param truncation why it is truncated */
  constructor(
    readonly bytes: Buffer,
    private readonly truncation?: GatewayError,
  ) {}

  read(receiver: BodyReceiver): void {
    if (this.bytes.length === 0 || receiver.chunk(this.bytes)) this.end(receiver);
    else this.pendingReceiver = receiver;
  }

  resume(): void {
    const { pendingReceiver } = this;
    this.pendingReceiver = undefined;
    if (pendingReceiver) this.end(pendingReceiver);
  }

  destroy(): void {
    this.pendingReceiver = undefined;
  }

  private end(receiver: BodyReceiver): void {
    if (this.truncation) receiver.fail(this.truncation);
    else receiver.end();
  }
}

/** A response that can be buffered before it is read, and is then delivered as if it came only now. */
export class BufferedResponse implements Pick<UpstreamResponse, "read" | "resume" | "destroy"> {
  /** Its head, as stages and plugins see it. */
  readonly head: Head;
  private reading: Promise<Buffer> | undefined;
  /** What is delivered once it is buffered. */
  private body: WholeBody | undefined;
  /** Why it could not be buffered: where a plugin goes on all the same, the response ends with it. */
  private failure: GatewayError | undefined;
  /** Opened where anything is buffered: most responses are not. */
  private memory: BufferAccount | undefined;
  /** Whether nothing is counted any more. */
  private released = false;

  constructor(
    private readonly upstream: Pick<UpstreamResponse, "read" | "resume" | "destroy">,
    head: Pick<Head, "status" | "headers" | "framing" | "maxFrame">,
  ) {
    this.head = { ...head, readBody: (limit) => this.whole(limit), reserve: (bytes) => this.reserve(bytes) };
  }

  /** Opens the account that counts what is buffered; undefined: it is not counted. */
  protected openMemory(): BufferAccount | undefined {
    return undefined;
  }

  /** @throws GatewayError `overloaded` */
  private reserve(bytes: number): void {
    if (!this.released) this.memory ??= this.openMemory();
    const exceeded = this.memory?.add(bytes);
    if (exceeded !== undefined) throw bufferedAnswerError(exceeded);
  }

  /** Ends the count of what is buffered of it, as the response has ended: a client may take long to read what was buffered. */
  release(delivery: Delivery): void {
    const { memory } = this;
    this.released = true;
    if (memory) delivery.afterDelivery(() => memory.close());
  }

  /**
   * Returns the whole body, for callers before `read`.
   * @throws GatewayError what broke it off, `upstream_invalid` when it is larger than `limit` bytes, or `overloaded`.
   */
  private whole(limit: number): Promise<Buffer> {
    if (this.reading) return awaitedLater(this.reading.then((bytes) => checkLength(bytes, limit)));
    this.head.isReading = true;
    const reading = this.readAll(limit).finally(() => {
      this.head.isReading = false;
    });
    this.reading = awaitedLater(reading);
    return reading;
  }

  private readAll(limit: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const pieces: Buffer[] = [];
      let length = 0;
      const fail = (error: GatewayError): void => {
        const { head } = this;
        const received = () => splitReceived(Buffer.concat(pieces), (head.translated ?? head).framing, head.maxFrame);
        head.received = received;
        this.failure = error;
        reject(error);
      };
      this.upstream.read({
        chunk: (bytes) => {
          length += bytes.length;
          try {
            if (length > limit) throw tooLongError(limit);
            this.reserve(bytes.length);
            return pieces.push(bytes) > 0;
          } catch (thrown) {
            this.upstream.destroy();
            fail(GatewayError.from(thrown));
            return false;
          }
        },
        end: () => {
          if (length >= LARGE_BODY_BYTES && pieces.length > 1) resolve(this.joinInTurns(pieces, length));
          else resolve(this.keep(joinPieces(pieces)));
        },
        fail,
      });
    });
  }

  private async joinInTurns(pieces: readonly Buffer[], length: number): Promise<Buffer> {
    return this.keep(await runInTurns(joinInSteps(pieces, length)));
  }

  private keep(bytes: Buffer): Buffer {
    this.body = new WholeBody(bytes);
    return bytes;
  }

  read(receiver: BodyReceiver): void {
    if (this.failure) receiver.fail(this.failure);
    else (this.body ?? this.upstream).read(receiver);
  }

  resume(): void {
    (this.body ?? this.upstream).resume();
  }

  destroy(): void {
    this.body?.destroy();
    this.upstream.destroy();
  }
}

const tooLongError = (limit: number): GatewayError =>
  new GatewayError("upstream_invalid", { message: `The provider's answer is over ${limit} bytes.` });

/** Applies the limit of a reader to what another one has read, whose limit was higher. */
function checkLength(bytes: Buffer, limit: number): Buffer {
  if (bytes.length > limit) throw tooLongError(limit);
  return bytes;
}
