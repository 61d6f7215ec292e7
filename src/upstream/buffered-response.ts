import { GatewayError } from "../core/errors.ts";
import type { Head } from "../core/exchange.ts";
import type { BodyReceiver, UpstreamResponse } from "./response.ts";

/** An answer that can be read to its end before anybody takes it, and is then handed over as if it came only now. */
export class BufferedResponse implements Pick<UpstreamResponse, "read" | "resume" | "destroy"> {
  /** Its head, as stages and plugins see it. */
  readonly head: Head;
  private bytes: Buffer | undefined;
  private all: Promise<Buffer> | undefined;
  /** Who waits for the end behind bytes that were too much for it. */
  private waiting: BodyReceiver | undefined;

  constructor(
    private readonly upstream: Pick<UpstreamResponse, "read" | "resume" | "destroy">,
    head: Pick<Head, "status" | "headers" | "framing">,
  ) {
    this.head = { ...head, whole: (limit) => this.whole(limit) };
  }

  /**
   * All of it, for whoever asks before `read`.
   * @throws GatewayError what broke it off, or `upstream_invalid` when it is larger than `limit` bytes.
   */
  private whole(limit: number): Promise<Buffer> {
    if (this.all) return this.all;
    this.head.reading = true;
    this.all = this.readAll(limit).finally(() => {
      this.head.reading = false;
    });
    return this.all;
  }

  private readAll(limit: number): Promise<Buffer> {
    return new Promise((accept, refuse) => {
      const pieces: Buffer[] = [];
      let length = 0;
      this.upstream.read({
        chunk: (bytes) => {
          length += bytes.length;
          if (length <= limit) return pieces.push(bytes) > 0;
          this.upstream.destroy();
          refuse(new GatewayError("upstream_invalid", { message: `The provider's answer is over ${limit} bytes.` }));
          return false;
        },
        end: () => {
          this.bytes = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
          accept(this.bytes);
        },
        fail: refuse,
      });
    });
  }

  read(receiver: BodyReceiver): void {
    if (!this.bytes) this.upstream.read(receiver);
    else if (this.bytes.length === 0 || receiver.chunk(this.bytes)) receiver.end();
    else this.waiting = receiver;
  }

  resume(): void {
    const { waiting } = this;
    this.waiting = undefined;
    if (waiting) waiting.end();
    else this.upstream.resume();
  }

  destroy(): void {
    this.waiting = undefined;
    this.upstream.destroy();
  }
}
