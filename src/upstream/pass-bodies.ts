import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { errorKindOf, GatewayError } from "../core/errors.ts";
import type { Redactor } from "../core/redactor.ts";
import { isJson } from "../translation/error-response.ts";
import { codingOf, createResponseDecoder } from "./decoding.ts";
import { errorTooLarge, errorTooSlow, MAX_ERROR_BYTES, MAX_ERROR_TIME } from "./error-body.ts";
import type { HttpProxy } from "./http1/proxies.ts";

/** Where a pass-through request goes. */
export interface PassRoute {
  /** The whole address, with path and query. */
  readonly target: URL;
  /** The proxy in front of the provider. A proxy that takes requests in absolute-form may answer in the provider's place. */
  readonly proxy?: HttpProxy | undefined;
}

/** Returns the proxy that takes the request itself, if one does: for https it only opens a tunnel. */
export const forwarderOf = ({ target, proxy }: PassRoute): HttpProxy | undefined =>
  target.protocol === "http:" ? proxy : undefined;

/**
 * Returns the whole body of a pass-through error, decompressed and redacted.
 * @throws GatewayError where it is truncated, too slow, too large, undecodable or unreadable, and where the response comes from a
 * proxy instead of the provider
 */
export async function readErrorBody(
  answer: IncomingMessage,
  status: number,
  route: PassRoute,
  redactor: Redactor,
): Promise<Buffer> {
  const body = redactor.bytes(
    await readWholeBody(answer, MAX_ERROR_BYTES, () => errorTooLarge(status), errorTooSlow(status)),
  );
  const forwarder = forwarderOf(route);
  if (forwarder && !isJson(body.toString())) throw unreadableError(status, forwarder);
  // In an encoding that is no superset of ASCII (UTF-16) redaction finds no secret.
  if (body.includes(0)) throw unreadableError(status);
  return body;
}

/** Limit in bytes of a response that is rewritten: a list of a thousand objects has a quarter of it. */
const MAX_REWRITTEN_BYTES = 4 * 1024 * 1024;

/**
 * Returns the whole, decompressed body of a response that has to be rewritten.
 * @throws GatewayError where it is truncated, too large or undecodable
 */
export const readRewritableBody = (answer: IncomingMessage): Promise<Buffer> =>
  readWholeBody(answer, MAX_REWRITTEN_BYTES, () => {
    const message = `The provider's answer is over ${MAX_REWRITTEN_BYTES} bytes, and it contains URLs that would bypass the gateway.`;
    return new GatewayError("upstream_invalid", { message, hint: "Ask for fewer entries." });
  });

/** @param tooSlow the error where the body is not complete in time; undefined: the provider's own timeouts apply */
async function readWholeBody(
  answer: IncomingMessage,
  limit: number,
  tooLarge: () => GatewayError,
  tooSlow?: GatewayError,
): Promise<Buffer> {
  const coding = codingOf(answer.headers["content-encoding"] ?? "");
  const pieces: Buffer[] = [];
  let length = 0;
  const body = coding === undefined ? answer : decompress(answer, coding);
  const timer = tooSlow && setTimeout(() => body.destroy(tooSlow), MAX_ERROR_TIME);
  try {
    for await (const piece of body) {
      length += piece.length;
      if (length > limit) throw tooLarge();
      pieces.push(piece);
    }
  } catch (thrown) {
    // Only the decoder has ended, not its source.
    if (!answer.complete) answer.destroy();
    throw GatewayError.from(thrown, answer.complete ? "upstream_invalid" : "upstream_truncated");
  } finally {
    clearTimeout(timer);
  }
  if (!answer.complete) throw new GatewayError("upstream_truncated");
  return Buffer.concat(pieces);
}

function decompress(answer: IncomingMessage, coding: string): Readable {
  const decoder = createResponseDecoder(coding);
  answer.once("close", () => {
    if (!answer.complete) decoder.destroy(new GatewayError("upstream_truncated"));
  });
  return answer.pipe(decoder);
}

/** The error for a body that no vendor writes. @param forwarder the proxy that may have written it */
const unreadableError = (status: number, forwarder?: HttpProxy): GatewayError =>
  new GatewayError("upstream_refused", {
    status,
    kind: errorKindOf(status),
    message: `The provider${forwarder ? `, or the proxy ${forwarder.origin} in front of it,` : ""} answered ${status} without a readable error.`,
    retry: status >= 500 || status === 429,
  });
