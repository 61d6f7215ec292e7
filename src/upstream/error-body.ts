import { errorKindOf, GatewayError } from "../core/errors.ts";
import type { Redactor } from "../core/redactor.ts";
import { WholeBody } from "./buffered-response.ts";
import type { UpstreamResponse } from "./response.ts";

/** Limit in bytes of an error body; a vendor's message takes a few hundred. */
export const MAX_ERROR_BYTES = 256 * 1024;
/** Milliseconds from its first byte in which an error must be complete: the client gets nothing until then. */
export const MAX_ERROR_TIME = 10_000;

/** The body of a provider's error, read to its end and redacted before anybody sees it. */
export class ErrorBody extends WholeBody {
  /**
   * Reads the body; also accepts what came before the provider broke off, which is still an error.
   * @throws GatewayError with its status when it is too large or too slow, or what ended it otherwise
   */
  static readFrom(upstream: UpstreamResponse, redactor: Redactor): Promise<ErrorBody> {
    return new Promise((resolve, reject) => {
      const pieces: Buffer[] = [];
      let length = 0;
      const giveUp = (error: GatewayError): void => {
        clearTimeout(timer);
        upstream.destroy();
        reject(error);
      };
      const timer = setTimeout(() => giveUp(errorTooSlow(upstream.status)), MAX_ERROR_TIME);
      const settle = (truncation?: GatewayError): void => {
        clearTimeout(timer);
        resolve(new ErrorBody(redactor.bytes(Buffer.concat(pieces)), truncation));
      };
      upstream.read({
        chunk(bytes) {
          length += bytes.length;
          if (length <= MAX_ERROR_BYTES) return pieces.push(bytes) > 0;
          giveUp(errorTooLarge(upstream.status));
          return false;
        },
        end: settle,
        fail: (error) => (error.code === "upstream_truncated" ? settle(error) : giveUp(error)),
      });
    });
  }
}

/** The error in place of a provider's own that is not passed on. */
const replacementError = (status: number, how: string): GatewayError =>
  new GatewayError("upstream_refused", {
    status,
    kind: errorKindOf(status),
    message: `The provider answered ${status}, ${how}.`,
  });

/** The error for a body over the limit. */
export const errorTooLarge = (status: number): GatewayError =>
  replacementError(status, `in more than ${MAX_ERROR_BYTES} bytes`);

/** The error for a body that is not complete in time. */
export const errorTooSlow = (status: number): GatewayError =>
  replacementError(status, `and its error was not whole ${MAX_ERROR_TIME / 1000} s later`);
