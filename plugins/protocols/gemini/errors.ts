import {
  asCount,
  asList,
  asObject,
  asText,
  dropUndefined,
  type ErrorKind,
  type Fault,
  type GatewayError,
  type HeaderList,
  type JsonObject,
  type Operation,
  ownProperty,
  type Protocol,
  parseJson,
  type StreamState,
} from "model-gateway/protocol";

/** Names of google.rpc.Code by kind, for faults without a code of their own, as the vendor uses them for the HTTP status. */
const STATUS_BY_KIND: Readonly<Record<ErrorKind, string>> = {
  invalid: "INVALID_ARGUMENT",
  authentication: "UNAUTHENTICATED",
  billing: "FAILED_PRECONDITION",
  permission: "PERMISSION_DENIED",
  not_found: "NOT_FOUND",
  conflict: "ABORTED",
  too_large: "INVALID_ARGUMENT",
  rate_limit: "RESOURCE_EXHAUSTED",
  token_limit: "RESOURCE_EXHAUSTED",
  internal: "INTERNAL",
  upstream: "UNAVAILABLE",
  timeout: "DEADLINE_EXCEEDED",
  overloaded: "UNAVAILABLE",
};

/** Statuses with a name of their own, for any kind of fault. */
const STATUS_BY_CODE: Readonly<Record<number, string>> = { 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED" };

/** The vendor's reason for an unknown key; clients check it. [F] */
const BAD_KEY = "API_KEY_INVALID";
const REASONS: Readonly<Record<string, string>> = { invalid_api_key: BAD_KEY };

/** Returns the message; of a prompt that is too long in the vendor's words, which LangChain and Pydantic AI look for. */
const messageOf = ({ code, message }: Fault): string =>
  code !== "context_length_exceeded" || /exceeds the maximum number of tokens allowed/i.test(message)
    ? message
    : `The input token count exceeds the maximum number of tokens allowed: ${message}`;

/** Returns the reason in the format of the vendor's. */
const errorReason = ({ code, providerCode }: Fault): string =>
  ownProperty(REASONS, code) ?? (providerCode ?? code).toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_");

const errorDetail = (type: string, members: object) => ({
  "@type": `type.googleapis.com/google.rpc.${type}`,
  ...members,
});

/** Returns `{error: {code, message, status, details}}`: `code` is the HTTP status, `details` are google.rpc messages. */
function errorJson(fault: Fault, id: string) {
  const { status, kind, param, retryAfter } = fault;
  const message = messageOf(fault);
  const details = [
    errorDetail("ErrorInfo", { reason: errorReason(fault), domain: "model-gateway" }),
    errorDetail("RequestInfo", { requestId: id }),
  ];
  if (param !== undefined)
    details.push(errorDetail("BadRequest", { fieldViolations: [{ field: param, description: message }] }));
  if (retryAfter !== undefined) details.push(errorDetail("RetryInfo", { retryDelay: `${retryAfter}s` }));
  return { error: { code: status, message, status: STATUS_BY_CODE[status] ?? STATUS_BY_KIND[kind], details } };
}

/** Returns an error as a complete body. */
export const errorBody = (error: Fault, id: string): string => JSON.stringify(errorJson(error, id));

/**
 * Returns an error to write after a complete frame; a stream of events is then disconnected.
 *
 * Among events it is one of them, as the vendor's own: the clients in Java 2.2, Go 1.77, Python 3.6 and JavaScript 2.32 and 3.1
 * raise it as an API error, also in one chunk with the frame before. (Bare JSON is lost by Java, and by JavaScript in one
 * chunk.) Its lines end with CRLF: Go looks for that first, and would not split it from a frame with CRLF before it. In an
 * array it is the last element, and the array is closed.
 */
export function streamError(error: GatewayError, id: string, { operation, last }: StreamState): Buffer {
  return streamErrorBytes(errorBody(error, id), operation, last?.bytes);
}

/** @param last the frame written before, if any */
function streamErrorBytes(body: string, operation: Operation, last: Buffer | undefined): Buffer {
  if (operation.framing === "sse") return Buffer.from(`data: ${body}\r\n\r\n`);
  const text = last?.subarray(-64).toString("latin1").trimEnd();
  // Nothing can follow in a closed array.
  if (text?.endsWith("]")) return Buffer.alloc(0);
  const prefix = text === undefined || text === "" ? "[" : /[[,]$/.test(text) ? "" : "\n,\r\n";
  return Buffer.from(`${prefix}${body}\n]`);
}

const KINDS_BY_STATUS: Readonly<Record<number, ErrorKind>> = {
  400: "invalid",
  401: "authentication",
  402: "billing",
  403: "permission",
  404: "not_found",
  408: "timeout",
  409: "conflict",
  413: "too_large",
  429: "rate_limit",
  499: "timeout",
  500: "internal",
  503: "overloaded",
  504: "timeout",
  529: "overloaded",
};

/** Decodes an error response with any body, like a proxy's page or nothing. */
export const parseErrorResponse = (status: number, _headers: HeaderList, text: string): Fault =>
  parseRpcError(status, findError(text));

/**
 * The message about a file or a cache of another account, or a missing one; the account may still be able to use the model.
 * [F]
 */
const UNAVAILABLE_OBJECT =
  /^(?:You do not have permission to access the (?:File|CachedContent) |CachedContent not found \(or permission denied\))/;

/** The messages about a model that the vendor has retired, or that does not know the method. The path has its name. [F, D] */
const UNKNOWN_MODEL = /^(?:models\/\S+ is not found for API version |Publisher Model `[^`]+` (?:was )?not found)/;

/** The messages about a signature that the vendor did not make, or not for this account. [D: issues of its agent and of proxies] */
const FOREIGN_SIGNATURE = /\b(?:corrupted|invalid) thought signature|thought signature is not valid/i;

/** Returns what an error refuses: an unknown or expired key is a 400 with a reason of its own [F], as is a foreign signature. */
export const refuses: NonNullable<Protocol["refuses"]> = (status, body) => {
  if (status === 400 && !body.includes(BAD_KEY)) return FOREIGN_SIGNATURE.test(body.toString()) ? "state" : undefined;
  if (status !== 403 && status !== 404 && status !== 400) return undefined;
  const { kind, message } = parseRpcError(status, findError(body.toString()));
  if (status === 404) return UNKNOWN_MODEL.test(message) ? "target" : undefined;
  if (status === 400) return kind === "authentication" ? "credential" : undefined;
  return UNAVAILABLE_OBJECT.test(message) ? "object" : undefined;
};

/** Returns the seconds in the details of an error; the vendor sends no `retry-after` header. [F] */
export const retryAfter = (body: Buffer): number | undefined => retryDelay(errorDetails(findError(body.toString())));

/** Returns the error object of a body; a stream as an array has its error in the array. */
function findError(text: string): unknown {
  const body = parseJson(text);
  return [body, ...asList(body)].map((element) => asObject(element)?.["error"]).find((error) => error !== undefined);
}

/**
 * Returns a fault from `{code, message, status, details}` (google.rpc.Status), with its own code as the status where it is
 * one. An unknown key is a 400 there, with a reason in the details. [F]
 */
export function parseRpcError(status: number, error: unknown): Fault {
  const rpc = asObject(error);
  const code = asCount(rpc?.["code"]);
  const statusCode = code !== undefined && code >= 400 && code < 600 ? code : status;
  const details = errorDetails(rpc);
  const badKey = details.some((detail) => detail?.["reason"] === BAD_KEY);
  const message = asText(rpc?.["message"]) ?? asText(error) ?? `The provider answered with status ${status}.`;
  if (badKey) return { status: 401, kind: "authentication", code: "invalid_api_key", message };
  const kind = KINDS_BY_STATUS[statusCode] ?? (statusCode < 500 ? "invalid" : "upstream");
  const errorCode = asText(rpc?.["status"])?.toLowerCase() ?? kind;
  return { status: statusCode, kind, code: errorCode, message, ...dropUndefined({ retryAfter: retryDelay(details) }) };
}

const errorDetails = (error: unknown): (JsonObject | undefined)[] => asList(asObject(error)?.["details"]).map(asObject);

/** Returns the seconds in `RetryInfo.retryDelay`, like `48s` or `0.5s`, rounded up. */
function retryDelay(details: readonly (JsonObject | undefined)[]): number | undefined {
  const texts = details.map((detail) => asText(detail?.["retryDelay"]));
  const text = texts.find((text) => text !== undefined && /^\d{1,12}(?:\.\d{1,9})?s$/.test(text));
  return text === undefined ? undefined : Math.ceil(Number(text.slice(0, -1)));
}
