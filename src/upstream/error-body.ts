import { GatewayError, kindOf } from "../core/errors.ts";
import type { Redactor } from "../core/redactor.ts";
import type { BodyReceiver, UpstreamResponse } from "./response.ts";

/** Limit in bytes of an error body; a vendor's message takes a few hundred. */
export const LARGEST_ERROR = 256 * 1024;
/** Milliseconds from its first byte in which an error must be complete: the client gets nothing until then. */
export const LONGEST_ERROR = 10_000;

/** The body of a provider's error, read to its end and redacted before anybody sees it. */
export class ErrorBody implements Pick<UpstreamResponse, "read" | "resume" | "destroy"> {
  private waiting: BodyReceiver | undefined;

  /** @param broken why it is truncated */
  private constructor(
    readonly bytes: Buffer,
    private readonly broken: GatewayError | undefined,
  ) {}

  /**
   * Reads the body; also accepts what came before the provider broke off, which is still an error.
   * @throws GatewayError with its status when it is too large or too slow, or what ended it otherwise
   */
  static of(upstream: UpstreamResponse, redactor: Redactor): Promise<ErrorBody> {
    return new Promise((accept, refuse) => {
      const pieces: Buffer[] = [];
      let length = 0;
      const giveUp = (error: GatewayError): void => {
        clearTimeout(timer);
        upstream.destroy();
        refuse(error);
      };
      const timer = setTimeout(() => giveUp(tooSlow(upstream.status)), LONGEST_ERROR);
      const settle = (broken?: GatewayError): void => {
        clearTimeout(timer);
        accept(new ErrorBody(redactor.bytes(Buffer.concat(pieces)), broken));
      };
      upstream.read({
        chunk(bytes) {
          length += bytes.length;
          if (length <= LARGEST_ERROR) return pieces.push(bytes) > 0;
          giveUp(tooLarge(upstream.status));
          return false;
        },
        end: settle,
        fail: (error) => (error.code === "upstream_truncated" ? settle(error) : giveUp(error)),
      });
    });
  }

  read(receiver: BodyReceiver): void {
    if (this.bytes.length === 0 || receiver.chunk(this.bytes)) this.end(receiver);
    else this.waiting = receiver;
  }

  resume(): void {
    const { waiting } = this;
    this.waiting = undefined;
    if (waiting) this.end(waiting);
  }

  destroy(): void {
    this.waiting = undefined;
  }

  private end(receiver: BodyReceiver): void {
    if (this.broken) receiver.fail(this.broken);
    else receiver.end();
  }
}

/** The error in place of a provider's own that is not passed on. */
const unpassed = (status: number, how: string): GatewayError =>
  new GatewayError("upstream_refused", {
    status,
    kind: kindOf(status),
    message: `The provider answered ${status}, ${how}.`,
  });

/** The error for a body over the limit. */
export const tooLarge = (status: number): GatewayError => unpassed(status, `in more than ${LARGEST_ERROR} bytes`);

/** The error for a body that is not complete in time. */
export const tooSlow = (status: number): GatewayError =>
  unpassed(status, `and its error was not whole ${LONGEST_ERROR / 1000} s later`);
