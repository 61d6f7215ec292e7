import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import type { Timeouts } from "../core/marketplace.ts";
import { formatTimeLimit } from "../core/timeout.ts";
import { Http1Error } from "./http1/errors.ts";
import { TRANSPORT_REASONS } from "./transport-reasons.ts";

/** How far an attempt had come when it failed. */
export type Progress = "connecting" | "waiting" | "answering";

/**
 * The cause of an upstream error, safe to log: a code, the provider's host and the proxy in front of it, never a path, a header
 * or a byte of a response.
 * Codes are Node's (`ECONNREFUSED`, and `HPE_…` of its parser on pass-through paths), those of `http1/errors.ts`
 * (`CONNECTION_CLOSED`, `RESPONSE_…`, `PROXY_…`), and for our own limits `connect_timeout`, `first_byte_timeout`, `idle_timeout`,
 * `total_timeout`.
 */
export class UpstreamFault extends Error {
  override readonly name = "Fault";
  constructor(
    readonly code: string,
    readonly host: string,
    proxy?: string,
  ) {
    const reason = TRANSPORT_REASONS.get(code);
    super(
      `${code} at ${host}${proxy === undefined ? "" : ` through the proxy ${proxy}`}${reason === undefined ? "" : `: ${reason}`}`,
    );
    // It would hide the message in the log, and shows only where in the gateway the transport's error arrived.
    delete this.stack;
  }
}

/** Codes of our HTTP client or the system for faults that are not the provider's. */
const LOCAL_FAULTS: Record<string, ErrorCode> = {
  REQUEST_INVALID: "internal",
  BODY_LENGTH_WRONG: "bad_request",
  BODY_BROKEN_OFF: "client_gone",
  POOL_CLOSED: "draining",
  // No free file descriptor, in the process or on the whole machine.
  EMFILE: "overloaded",
  ENFILE: "overloaded",
};

/** Converts a transport error to a GatewayError; returns a GatewayError unchanged. */
export function transportError(thrown: unknown, progress: Progress, host: string): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  const code = transportErrorCode(thrown);
  const { explanation: message, proxy } = thrown instanceof Http1Error ? thrown : {};
  const cause = new UpstreamFault(code, host, proxy);
  return new GatewayError(gatewayErrorCode(code, progress), message === undefined ? { cause } : { message, cause });
}

function gatewayErrorCode(code: string, progress: Progress): ErrorCode {
  const localCode = LOCAL_FAULTS[code];
  if (localCode) return localCode;
  // A proxy that refuses has forwarded nothing.
  if (progress === "connecting" || code.startsWith("PROXY_")) return "upstream_unreachable";
  if (progress === "answering") return "upstream_truncated";
  return code.startsWith("RESPONSE_") || code.startsWith("HPE_") ? "upstream_invalid" : "upstream_failed";
}

function transportErrorCode(thrown: unknown): string {
  if (!(thrown instanceof Error)) return "UNKNOWN";
  const { code, syscall, name }: NodeJS.ErrnoException = thrown;
  return (syscall === "getaddrinfo" ? noDescriptorCode() : undefined) ?? (typeof code === "string" ? code : name);
}

/** Returns the code if no file descriptor is free: the system's resolver says that a name is unknown then. */
function noDescriptorCode(): string | undefined {
  try {
    closeSync(openSync(devNull, "r"));
    return undefined;
  } catch (thrown) {
    const { code = "" } = thrown as NodeJS.ErrnoException;
    return code in LOCAL_FAULTS ? code : undefined;
  }
}

/**
 * Returns the error for an exceeded timeout, with its name and duration. Where the connect timeout is exceeded, nothing was sent.
 */
export function timeoutError(limit: keyof Timeouts, ms: number, host: string): GatewayError {
  const time = formatTimeLimit(ms);
  const messages: Record<keyof Timeouts, string> = {
    connect: `No connection to the provider could be made within ${time}.`,
    first_byte: `The provider did not begin to answer within ${time}.`,
    idle: `The provider sent nothing for ${time} in the middle of its answer.`,
    total: `The provider's answer was not complete after ${time}.`,
  };
  const code = limit === "connect" ? "upstream_unreachable" : "upstream_timeout";
  return new GatewayError(code, { message: messages[limit], cause: new UpstreamFault(`${limit}_timeout`, host) });
}
