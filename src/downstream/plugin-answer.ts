import { type Bound, blame, settled } from "../core/chain.ts";
import type { Answer, Exchange } from "../core/exchange.ts";
import { framingOf, type UpstreamAnswer } from "../upstream/attempts.ts";
import { BufferedResponse } from "../upstream/buffered-response.ts";
import type { BodyReceiver, UpstreamResponse } from "../upstream/response.ts";
import { HeaderList } from "../wire/headers.ts";

/** What a plugin answers, as if a provider had. */
export function pluginAnswer(exchange: Exchange, { status = 200, headers: own, body }: Answer): UpstreamAnswer {
  const { operation, answerer } = exchange;
  const bytes = typeof body === "string" ? Buffer.from(body) : Buffer.isBuffer(body) ? body : undefined;
  const type = bytes || operation.framing === "array" ? "application/json" : "text/event-stream";
  const headers = new HeaderList(Object.entries({ "content-type": type, ...own }).flat());
  if (bytes) headers.set("content-length", String(bytes.length));
  const framing = bytes ? undefined : framingOf(status, headers.get("content-type"), operation);
  const bound = { origin: `${answerer?.name}.answer`, deadline: answerer?.deadline ?? 0 };
  const pieces = new AnswerBody(bytes ? [bytes] : (body as AsyncIterable<Buffer>), bound);
  return new BufferedResponse(pieces, { status, headers, framing });
}

/** The body of a plugin's answer, asked for piece by piece as fast as the client reads. */
class AnswerBody implements Pick<UpstreamResponse, "read" | "resume" | "destroy"> {
  private readonly pieces: Iterator<Buffer> | AsyncIterator<Buffer>;
  private receiver: BodyReceiver | undefined;

  constructor(
    body: Iterable<Buffer> | AsyncIterable<Buffer>,
    private readonly bound: Bound,
  ) {
    this.pieces = Symbol.asyncIterator in body ? body[Symbol.asyncIterator]() : body[Symbol.iterator]();
  }

  read(receiver: BodyReceiver): void {
    this.receiver = receiver;
    this.resume();
  }

  resume(): void {
    for (let more = true; more; ) {
      let next: IteratorResult<Buffer> | Promise<IteratorResult<Buffer>>;
      try {
        next = this.pieces.next();
      } catch (thrown) {
        this.fail(thrown);
        return;
      }
      if (next instanceof Promise) {
        settled(next, this.bound).then(
          (result) => this.take(result) && this.resume(),
          (thrown) => this.fail(thrown),
        );
        return;
      }
      more = this.take(next);
    }
  }

  destroy(): void {
    if (!this.receiver) return;
    this.receiver = undefined;
    // A generator that is still at work ends when it is done with that.
    Promise.resolve(this.pieces.return?.()).catch(() => {});
  }

  /** True when the next piece may follow. */
  private take({ done, value }: IteratorResult<Buffer>): boolean {
    const { receiver } = this;
    if (!receiver) return false;
    if (!done) return receiver.chunk(Buffer.from(value));
    this.receiver = undefined;
    receiver.end();
    return false;
  }

  private fail(thrown: unknown): void {
    const { receiver } = this;
    this.receiver = undefined;
    receiver?.fail(blame(thrown, this.bound.origin));
  }
}
