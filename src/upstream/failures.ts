import { type ErrorCode, GatewayError } from "../core/errors.ts";
import { type Timeouts } from "../core/marketplace.ts";

/** How far an attempt had come when it broke. */
export type Progress = "connecting" | "waiting" | "answering";

/**
 * What lies behind an upstream error, fit for a log: a code and the provider's host, never a path, a header or a byte of
 * an answer. Codes are Node's (`ECONNREFUSED`), those of line.ts and answer.ts (`CONNECTION_CLOSED`, `ANSWER_…`), undici's
 * where a proxy stands in between (`UND_ERR_SOCKET`, `HPE_…`), and for our own limits `connect_timeout`,
 * `first_byte_timeout`, `idle_timeout`, `total_timeout`.
 */
export class UpstreamFault extends Error {
  override readonly name = "Fault";
  constructor(
    readonly code: string,
    readonly host: string,
  ) {
    super(`${code} at ${host}`);
  }
}

/** What the transport reports of a fault of ours rather than the provider's. */
const OURS: Record<string, { code: ErrorCode; message?: string }> = {
  UND_ERR_INVALID_ARG: { code: "internal", message: "The gateway composed a request that cannot be sent upstream." },
  UND_ERR_NOT_SUPPORTED: { code: "internal", message: "The gateway composed a request that cannot be sent upstream." },
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: {
    code: "bad_request",
    message: "The request body is not as long as its content-length says.",
  },
  BODY_LENGTH_WRONG: {
    code: "bad_request",
    message: "The request body is not as long as its content-length says.",
  },
  BODY_BROKEN_OFF: { code: "client_gone" },
  LANE_CLOSED: { code: "draining" },
  UND_ERR_CLOSED: { code: "draining" },
  UND_ERR_DESTROYED: { code: "draining" },
};

/** A transport error as a GatewayError; one that is already passes as it is. */
export function failure(thrown: unknown, progress: Progress, host: string): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  const code = codeOf(thrown);
  const cause = new UpstreamFault(code, host);
  const ours = OURS[code];
  if (ours)
    return new GatewayError(ours.code, ours.message === undefined ? { cause } : { message: ours.message, cause });
  if (progress === "connecting") return new GatewayError("upstream_unreachable", { cause });
  if (progress === "answering") return new GatewayError("upstream_truncated", { cause });
  return new GatewayError(isInvalid(thrown, code) ? "upstream_invalid" : "upstream_failed", { cause });
}

/** A limit of ours was reached: says which, and how long it was. Nothing was sent to a provider that did not connect in time. */
export function overdue(limit: keyof Timeouts, ms: number, host: string): GatewayError {
  const time = ms < 1000 ? `${ms} ms` : `${ms / 1000} s`;
  const messages: Record<keyof Timeouts, string> = {
    connect: `No connection to the provider could be made within ${time}.`,
    first_byte: `The provider did not begin to answer within ${time}.`,
    idle: `The provider sent nothing for ${time} in the middle of its answer.`,
    total: `The provider's answer was not complete after ${time}.`,
  };
  const code = limit === "connect" ? "upstream_unreachable" : "upstream_timeout";
  return new GatewayError(code, { message: messages[limit], cause: new UpstreamFault(`${limit}_timeout`, host) });
}

/**
 * A close that a provider decided on before a request reached it is heard of within a round trip after the request was
 * written. Milliseconds allowed beyond that, because this side may be late to look, and in all, because a measured round
 * trip may be too long.
 */
const SLACK = 50;
const UNSEEN_WITHIN = 300;

/**
 * True when a kept connection broke so soon after a request was written to it that the provider cannot have worked on it.
 * @param writtenAt on the clock of `performance`
 * @param trip milliseconds of a round trip to who closed
 */
export function closedUnseen(thrown: unknown, writtenAt: number, trip: number): boolean {
  return performance.now() - writtenAt < Math.min(trip + SLACK, UNSEEN_WITHIN) && isClosedConnection(thrown);
}

/** True for the errors of a kept-alive connection that the provider closed while we were about to use it. */
function isClosedConnection(thrown: unknown): boolean {
  const code = codeOf(thrown);
  return (
    code === "CONNECTION_CLOSED" ||
    code === "ECONNRESET" ||
    code === "EPIPE" ||
    (code === "UND_ERR_SOCKET" && !isInvalid(thrown, code))
  );
}

/** Not HTTP, too much of it, or an answer to something never asked (of 100 and 101 undici says "bad response", "bad upgrade"). */
function isInvalid(thrown: unknown, code: string): boolean {
  if (code === "UND_ERR_SOCKET") return thrown instanceof Error && thrown.message.startsWith("bad ");
  return (
    code.startsWith("ANSWER_") ||
    code.startsWith("HPE_") ||
    code === "UND_ERR_HEADERS_OVERFLOW" ||
    code === "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"
  );
}

function codeOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "UNKNOWN";
  if ("code" in thrown && typeof thrown.code === "string") return thrown.code;
  return thrown.name === "HTTPParserError" ? "HPE_INVALID" : thrown.name;
}
