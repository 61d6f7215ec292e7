import { type ErrorCode, GatewayError, REFUSALS } from "../core/errors.ts";
import type { Fault } from "../core/fault.ts";
import type { HeaderList } from "../wire/headers.ts";
import { parseRetryAfter } from "../wire/retry-after.ts";

/**
 * Providers' codes and messages for a prompt that is too long, each with words that no other error has. Clients that recognise them
 * shorten it and retry.
 */
const TOO_LONG = new RegExp(
  [
    "context_length_exceeded|exceed_context_size|too_many_prompt_tokens|context window",
    "(?:max(?:imum)?|available) context (?:length|size)|exceeds? context limit",
    "maximum (?:prompt|model) length|prompt exceeds max length",
    "prompt (?:is )?too long|input is too long for|(?:greater|longer) than the (?:context|maximum model) length",
    "(?:input|prompt) token count.{0,40}exceeds|exceeds the maximum number of (?:input )?tokens|exceeded model token limit",
    "reduce the length of the (?:messages|prompt)|total length of all messages",
  ].join("|"),
  "i",
);
/** Statuses after which a retry of the same request may succeed. */
const TRANSIENT_STATUSES = new Set([408, 409, 425, 429]);

/**
 * Returns a provider's error as an error for a client of another protocol, with the same status, kind and message. An error
 * about the gateway's own credential stays a 401, as between equal protocols (docs/decisions/0004), with another message.
 * @param headers of the error response, if there is one
 * @param overloadedStatus the client protocol's status for an overloaded service
 */
export function toClientError(fault: Fault, headers?: HeaderList, overloadedStatus = 503): GatewayError {
  const { code, kind, message, param } = fault;
  if (fault.status < 500 && (TOO_LONG.test(code) || TOO_LONG.test(message))) return contextLengthError(message);
  if (fault.status === 401 || kind === "authentication") return credentialError(message);
  const status = kind === "overloaded" ? overloadedStatus : fault.status;
  const hint = headers?.get("x-should-retry");
  const isTransient = kind !== "billing" && (status >= 500 || TRANSIENT_STATUSES.has(status));
  const retry = hint === undefined ? isTransient : hint === "true";
  const retryAfter = headers === undefined ? fault.retryAfter : (parseRetryAfter(headers) ?? fault.retryAfter);
  const isGatewayCode = GATEWAY_CODES.has(code);
  return new GatewayError(isGatewayCode ? (code as ErrorCode) : "upstream_refused", {
    status,
    kind,
    message: message === "" ? `The provider answered ${fault.status}.` : message,
    retry,
    ...(isGatewayCode ? {} : { providerCode: code }),
    ...(param === undefined ? {} : { param }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  });
}

/** Codes of errors that decoders create, that are the gateway's own. */
const GATEWAY_CODES: ReadonlySet<string> = new Set(
  Object.keys(REFUSALS).filter((code) => code.startsWith("upstream_")),
);

/** Returns the error with a message that clients of every protocol recognise. */
function contextLengthError(message: string): GatewayError {
  const recognised = /prompt is too long/i.test(message) ? message : `prompt is too long: ${message}`;
  return new GatewayError("context_length_exceeded", { message: recognised });
}

const credentialError = (message: string): GatewayError =>
  new GatewayError("upstream_refused", {
    status: 401,
    kind: "authentication",
    message: "The provider does not accept the gateway's credential.",
    hint: "This is not about the key of the client; the operator finds the reason in the log.",
    retry: false,
    // It may contain a part of the credential, or its owner.
    cause: message,
  });
