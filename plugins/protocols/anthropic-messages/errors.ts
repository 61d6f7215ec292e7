import {
  asCount,
  asList,
  asObject,
  asText,
  type ErrorKind,
  errorKindOf,
  eventBytes,
  type Fault,
  type HeaderList,
  type JsonObject,
  ownProperty,
  type Protocol,
  parseJson,
} from "model-gateway/protocol";

/** The vendor's type for each kind of error; its statuses are those of the gateway's own table. [S, D: errors page] */
const ERROR_TYPES: Readonly<Record<ErrorKind, string>> = {
  invalid: "invalid_request_error",
  authentication: "authentication_error",
  billing: "billing_error",
  permission: "permission_error",
  not_found: "not_found_error",
  conflict: "conflict_error",
  too_large: "request_too_large",
  rate_limit: "rate_limit_error",
  token_limit: "rate_limit_error",
  internal: "api_error",
  upstream: "api_error",
  timeout: "timeout_error",
  overloaded: "overloaded_error",
};

/**
 * Returns `{type: "error", error: {type, message, details?}, request_id}`. There is no member for a field's path: the message
 * begins with it. The vendor's types are an enumeration, so that a plugin's own code is in `details`, like the vendor's codes.
 */
function errorJson({ kind, code, isPluginCode, message, param, details: faultDetails }: Fault, id: string): object {
  const namesField = param === undefined || [" ", ":"].some((mark) => message.startsWith(param + mark));
  const text = namesField ? message : `${param}: ${message}`;
  const details = isPluginCode ? { error_code: code, ...faultDetails } : faultDetails;
  const error = { type: ERROR_TYPES[kind], message: text, ...(details && { details }) };
  return { type: "error", error, request_id: id };
}

/** Returns an error as a complete body. */
export const errorBody = (fault: Fault, id: string): string => JSON.stringify(errorJson(fault, id));

/** Returns an error as an event. Clients check the event's name, so it is required. [S] */
export const streamError = (fault: Fault, id: string): Buffer => eventBytes(errorJson(fault, id), "error");

/** The vendor's error types, with their kinds and statuses. [D: errors page] */
const FAULTS: Readonly<Record<string, readonly [kind: ErrorKind, status: number]>> = {
  invalid_request_error: ["invalid", 400],
  authentication_error: ["authentication", 401],
  billing_error: ["billing", 402],
  permission_error: ["permission", 403],
  not_found_error: ["not_found", 404],
  conflict_error: ["conflict", 409],
  request_too_large: ["too_large", 413],
  rate_limit_error: ["rate_limit", 429],
  api_error: ["internal", 500],
  timeout_error: ["timeout", 504],
  overloaded_error: ["overloaded", 529],
};

/**
 * Finds the error in `{type: "error", error: {type, message}}`, as a body or an event, or in the forms of imitations:
 * `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, Z.ai's `{"code", "msg", "success": false}`, or a list with one of them, as of
 * Vertex. Undefined when there is none.
 * @param status of the response; absent in a stream, where the error's type implies one
 */
export function parseErrorEvent(json: unknown, status?: number): Fault | undefined {
  const body = asObject(Array.isArray(json) ? json[0] : json) ?? {};
  const error = asObject(body["error"]);
  const texts = [error?.["message"], body["error"], body["message"], body["detail"], body["msg"], problemsOf(body)];
  const message = texts.map(asText).find(Boolean);
  if (!error && message === undefined) return undefined;
  const type = asText(error?.["type"]);
  const known = ownProperty(FAULTS, type);
  const code = status ?? known?.[1] ?? statusOf(error) ?? 500;
  return {
    status: code,
    // `api_error` only means that something failed; the status may be more specific.
    kind: known && known[0] !== "internal" ? known[0] : errorKindOf(code),
    code: asText(asObject(error?.["details"])?.["error_code"]) ?? type ?? "api_error",
    message: message ?? "The provider reported a failure without a message.",
  };
}

/** Returns an error's number, which is a status with many servers; undefined for other numbers. */
function statusOf(error: JsonObject | undefined): number | undefined {
  const code = asCount(error?.["code"]) ?? 0;
  return code >= 400 && code <= 599 ? code : undefined;
}

/** Returns the problems of a request in FastAPI's form, each with its path. [D: issues of servers that validate with it] */
function problemsOf({ detail }: JsonObject): string | undefined {
  const problems = asList(detail).flatMap((value) => {
    const { loc, msg } = asObject(value) ?? {};
    return typeof msg === "string" ? [[...asList(loc), msg].join(": ")] : [];
  });
  return problems.length === 0 ? undefined : problems.slice(0, MAX_PROBLEMS).join("; ");
}
const MAX_PROBLEMS = 5;

/** Parses an error response: JSON, or any text from a proxy in front of the vendor. */
export function parseErrorResponse(status: number, _headers: HeaderList, text: string): Fault {
  const message = `The provider answered with status ${status} and no message.`;
  return (
    parseErrorEvent(parseJson(text), status) ?? { status, kind: errorKindOf(status), code: "upstream_failed", message }
  );
}

/**
 * The messages about a signature that another vendor, or an imitation of the protocol, has made, about thinking that the client has
 * changed or moved, and about search results of another account: such a conversation would be refused for good. [D: issues of several
 * proxies and agents, Claude Code's errors]
 */
const REFUSED_STATE =
  /: Invalid `?(?:signature|data)`? in `?(?:redacted_)?thinking`? block|thinking`? blocks in the latest assistant message cannot be modified|Invalid `?encrypted_(?:content|index)`? in |Failed to decrypt web search result/;

/** What imitations of the protocol, Bedrock and Vertex say of a model that they do not have (any more), as a 404 or a 400. [D] */
const MISSING_MODEL =
  /^model (?:"[^"]*"|'[^']*') not found|^The model `[^`]*` does not exist|^Model Not Exist$|^Not found the model |^Publisher Model `[^`]*` |^The provided model identifier is invalid|^Unknown Model,| is not a valid model ID$/;

/**
 * Returns what an error refuses: a 404 with this message is about the model, which the vendor has retired, or never had [F]; a 400
 * with that about a signature, about state.
 */
export const refuses: NonNullable<Protocol["refuses"]> = (status, body) => {
  if (status !== 404 && status !== 400) return undefined;
  const { code, message } = parseErrorEvent(parseJson(body.toString()), status) ?? {};
  if (MISSING_MODEL.test(message ?? "")) return "target";
  if (status === 400) return message !== undefined && REFUSED_STATE.test(message) ? "state" : undefined;
  return code === "not_found_error" && message?.startsWith("model: ") ? "target" : undefined;
};
