import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { GatewayError, kindOf } from "../core/errors.ts";
import type { Redactor } from "../core/redactor.ts";
import { codingOf, decoderOf } from "./decoding.ts";
import { LARGEST_ERROR, LONGEST_ERROR, tooLarge, tooSlow } from "./error-body.ts";
import type { HttpProxy } from "./http1/proxies.ts";

/** Where a request went that passes. */
interface Asked {
  readonly target: URL;
  /** In front of the provider: one that is asked for the whole address may answer in the provider's place. */
  readonly proxy?: HttpProxy | undefined;
}

/** The proxy that takes a request itself, where one does: for https it only opens a tunnel. */
export const forwarderOf = ({ target, proxy }: Asked): HttpProxy | undefined =>
  target.protocol === "http:" ? proxy : undefined;

/**
 * The body of an error that passes: all of it, unpacked, without what is secret in it.
 * @throws GatewayError where it is not whole, takes too long, is too large or cannot be unpacked or read, and where a proxy speaks in the provider's
 * place: whatever that says is not the provider's
 */
export async function errorBody(
  answer: IncomingMessage,
  status: number,
  asked: Asked,
  redactor: Redactor,
): Promise<Buffer> {
  const body = redactor.bytes(await whole(answer, LARGEST_ERROR, () => tooLarge(status), tooSlow(status)));
  const forwarder = forwarderOf(asked);
  if (forwarder && !isJson(body)) throw unreadable(status, forwarder);
  // In another encoding than ASCII's (UTF-16) nobody has found a secret.
  if (body.includes(0)) throw unreadable(status);
  return body;
}

/** Bytes of an answer that is changed: a list of a thousand objects has a quarter of it. */
const LARGEST_CHANGED = 4 * 1024 * 1024;

/**
 * The body of an answer that has to be changed: all of it, unpacked.
 * @throws GatewayError where it is not whole, is too large or cannot be unpacked
 */
export const changeable = (answer: IncomingMessage): Promise<Buffer> =>
  whole(answer, LARGEST_CHANGED, () => {
    const message = `The provider's answer is over ${LARGEST_CHANGED} bytes, and addresses in it lead round the gateway.`;
    return new GatewayError("upstream_invalid", { message, hint: "Ask for fewer entries." });
  });

/** @param slow what it is broken off with where it is not over in time; undefined: the provider's own timeouts hold */
async function whole(
  answer: IncomingMessage,
  most: number,
  large: () => GatewayError,
  slow?: GatewayError,
): Promise<Buffer> {
  const coding = codingOf(answer.headers["content-encoding"] ?? "");
  const pieces: Buffer[] = [];
  let length = 0;
  const body = coding === undefined ? answer : unpacked(answer, coding);
  const timer = slow && setTimeout(() => body.destroy(slow), LONGEST_ERROR);
  try {
    for await (const piece of body) {
      length += piece.length;
      if (length > most) throw large();
      pieces.push(piece);
    }
  } catch (thrown) {
    // What unpacks it has ended, not what it was fed with.
    if (!answer.complete) answer.destroy();
    throw GatewayError.from(thrown, answer.complete ? "upstream_invalid" : "upstream_truncated");
  } finally {
    clearTimeout(timer);
  }
  if (!answer.complete) throw new GatewayError("upstream_truncated");
  return Buffer.concat(pieces);
}

function unpacked(answer: IncomingMessage, coding: string): Readable {
  const decoder = decoderOf(coding);
  answer.once("close", () => {
    if (!answer.complete) decoder.destroy(new GatewayError("upstream_truncated"));
  });
  return answer.pipe(decoder);
}

/** What no vendor writes. @param forwarder who may have written it */
const unreadable = (status: number, forwarder?: HttpProxy): GatewayError =>
  new GatewayError("upstream_refused", {
    status,
    kind: kindOf(status),
    message: `The provider${forwarder ? `, or the proxy ${forwarder.origin} in front of it,` : ""} answered ${status} without a readable error.`,
    retry: status >= 500 || status === 429,
  });

function isJson(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}
