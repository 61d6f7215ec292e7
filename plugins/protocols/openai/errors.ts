import {
  asCount,
  asList,
  asObject,
  asText,
  type ErrorNames,
  errorKindOf,
  errorObject,
  eventBytes,
  type Fault,
  type Frame,
  type HeaderList,
  type JsonObject,
  ownProperty,
  type Protocol,
  parseJson,
} from "model-gateway/protocol";

/**
 * Recorded: a wrong key and an unknown model both have the type `invalid_request_error` and differ in their code; SDKs
 * distinguish errors by the status, agents by the code.
 */
const ERROR_NAMES: ErrorNames = {
  type: {
    invalid: "invalid_request_error",
    authentication: "invalid_request_error",
    billing: "insufficient_quota",
    permission: "invalid_request_error",
    not_found: "invalid_request_error",
    conflict: "invalid_request_error",
    too_large: "invalid_request_error",
    rate_limit: "requests",
    token_limit: "tokens",
    internal: "server_error",
    overloaded: "server_error",
    upstream: "server_error",
    timeout: "server_error",
  },
  code: {
    authentication: "invalid_api_key",
    billing: "insufficient_quota",
    rate_limit: "rate_limit_exceeded",
    token_limit: "rate_limit_exceeded",
  },
};

/**
 * Returns the message; of a prompt that is too long in the vendor's words, old and new: LiteLLM and LangChain.js look for them, not for
 * the code.
 */
const messageOf = ({ code, message }: Fault): string =>
  code !== "context_length_exceeded" || /maximum context length|exceeds the context window/i.test(message)
    ? message
    : `This model's maximum context length is exceeded. Your input exceeds the context window of this model: ${message}`;

/** Returns `{message, type, param, code}`, in the family's values. */
export const openaiErrorObject = (fault: Fault) => ({
  ...errorObject(fault, ERROR_NAMES),
  message: messageOf(fault),
});

/** Returns the body of an error response: `{"error": {message, type, param, code}}`. */
export const errorBody = (fault: Fault): string => JSON.stringify({ error: openaiErrorObject(fault) });

/**
 * Returns a chunk with an `error` member, on which both SDK generations throw. No `[DONE]` follows: that would be a clean end.
 */
export const streamError = (fault: Fault): Buffer => eventBytes({ error: openaiErrorObject(fault) });

/** The name of a failure: of a member or an event, or the kind of an object. */
export const ERROR = "error";

/**
 * Returns the failure that a chunk or a complete response reports; undefined if none. It is the member `error`, an object or
 * with some vendors a string; Groq's `x_groq.error`, why a stream stopped early [S]; or the whole object where its `object` is
 * `error`, as Mistral and older versions of vLLM send it [D].
 */
export function errorInChunk(json: JsonObject): JsonObject | string | undefined {
  const { error, x_groq: groq, object } = json;
  return (
    asObject(error) ?? (asText(error) || asText(asObject(groq)?.["error"]) || (object === ERROR ? json : undefined))
  );
}

/** Does the same for a frame of a stream. An event named as an error reports one, with any content. */
export function errorInStreamFrame(frame: Frame): JsonObject | string | undefined {
  const chunk = asObject(frame.json());
  const error = chunk && errorInChunk(chunk);
  return error ?? (frame.event === ERROR ? (chunk ?? frame.text) : undefined);
}

/**
 * Statuses of error objects in a stream; vendors send these values as `type` or as `code`. [S: ResponseError; D: the codes
 * that the vendor's own agent handles]
 */
const STATUS_BY_CODE: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  context_length_exceeded: 400,
  tool_use_failed: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  insufficient_quota: 429,
  permission_error: 403,
  not_found_error: 404,
  model_not_found: 404,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  requests: 429,
  tokens: 429,
  overloaded_error: 503,
  engine_overloaded_error: 503,
  insufficient_system_resource: 503,
  service_unavailable: 503,
  server_error: 500,
  server_is_overloaded: 503,
  slow_down: 503,
  usage_not_included: 402,
  vector_store_timeout: 504,
};
/** Parts of the codes of errors that the request itself caused. */
const INVALID_REQUEST_CODE = /invalid|unsupported|context_length|policy|image|too_(?:large|small|long)/;

const isStatus = (value: number | undefined): value is number => value !== undefined && value >= 400 && value <= 599;

/** Returns the fault for an error's status, code and type. */
function faultFromError(status: number, error: JsonObject, message: string): Fault {
  const codes = [error["code"], error["type"]].map(asText);
  const isQuotaError = error["code"] === "insufficient_quota" || error["type"] === "insufficient_quota";
  const kind = isQuotaError
    ? "billing"
    : status === 429 && error["type"] === "tokens"
      ? "token_limit"
      : errorKindOf(status);
  return { status, kind, code: codes.find((code) => code) ?? kind, message, param: asText(error["param"]) };
}

/** Returns a status given as a number, or by some vendors as a string. */
const parseStatus = (value: unknown): number | undefined =>
  asCount(typeof value === "string" && /^[45]\d\d$/.test(value) ? Number(value) : value);

/** Returns an error's message: its `message` or its `detail`, a string or the problems of a request. */
function errorMessage({ message, detail, metadata }: JsonObject): string | undefined {
  const own = asText(message) ?? asText(detail);
  if (own !== undefined) return own.startsWith(OF_ANOTHER) ? (wrappedMessage(metadata) ?? own) : own;
  // Mistral lists the problems in the message. [D]
  return formatProblems(detail ?? asObject(message)?.["detail"]);
}

/** OpenRouter's message for an error of the provider behind it, whose own error is in `metadata.raw`: a text, or JSON. [F] */
const OF_ANOTHER = "Provider returned error";
/** Characters of a text that is no JSON. */
const MAX_RAW_MESSAGE = 500;

function wrappedMessage(metadata: unknown): string | undefined {
  const raw = asText(asObject(metadata)?.["raw"]) ?? "";
  const inner = asObject(parseJson(raw));
  const error = asObject(inner?.["error"]) ?? inner;
  const message = error ? (asText(error["message"]) ?? asText(inner?.["error"])) : raw.slice(0, MAX_RAW_MESSAGE);
  return message ? `${OF_ANOTHER}: ${message}` : undefined;
}

/** Returns problems in FastAPI's list form, each with its path, from vendors that use it (vLLM, Mistral). [D] */
function formatProblems(list: unknown): string | undefined {
  const problems = asList(list).flatMap((value) => {
    const { loc, msg } = asObject(value) ?? {};
    const fieldPath = asList(loc).filter((segment) => typeof segment === "string" || typeof segment === "number");
    return typeof msg === "string" ? [fieldPath.length === 0 ? msg : `${fieldPath.join(".")}: ${msg}`] : [];
  });
  return problems.length === 0 ? undefined : problems.join("; ");
}

/**
 * Decodes an error object in the middle of a stream, where there is no status: some vendors write it as `code` or
 * `status_code` (recorded from OpenRouter and Groq), for others it follows from the code or type.
 */
export function parseError(value: unknown): Fault {
  const error = asObject(value) ?? {};
  const statusNumber = [error["status_code"], error["code"], error["status"]].map(parseStatus).find(isStatus);
  const codes = [error["code"], error["type"]].map(asText);
  const codeStatus = codes.map((code) => ownProperty(STATUS_BY_CODE, code)).find(isStatus);
  const invalidStatus = INVALID_REQUEST_CODE.test(codes[0] ?? codes[1] ?? "") ? 400 : undefined;
  const message = errorMessage(error) ?? asText(value);
  return faultFromError(
    statusNumber ?? codeStatus ?? invalidStatus ?? 502,
    error,
    message || "The provider reported a failure in its stream.",
  );
}

/**
 * Decodes an error response: `{"error": {message, type, param, code}}`, of some vendors `{"error": "…"}`, `{"message": "…"}`,
 * `{"detail": …}` or a list with one of them, or anything else.
 */
export function parseErrorResponse(status: number, _headers: HeaderList | undefined, text: string): Fault {
  const body = parseJson(text);
  const outer = asObject(Array.isArray(body) ? body[0] : body) ?? {};
  const error = asObject(outer["error"]) ?? outer;
  const message = errorMessage(error) ?? asText(outer["error"]) ?? errorMessage(outer);
  const messageOrDefault = message ?? `The provider answered with the status ${status}.`;
  if (isBadKey(status, outer["error"]))
    return { status: 401, kind: "authentication", code: "invalid_api_key", message: messageOrDefault };
  return faultFromError(status, error, messageOrDefault);
}

/**
 * Returns what an error refuses where its status is ambiguous: an unknown key with a 400; content with a 403, which xAI states
 * in the message and OpenRouter with its moderation result; a restricted key with a 401; a too large request with a 429; a model
 * that does not exist any more, or not for our key, with a 404 or a 400; another organization's reasoning with a 400, as summaries of
 * reasoning for one that is not verified. [F; D: OpenRouter's errors, issues of Codex]
 */
export const refuses: NonNullable<Protocol["refuses"]> = (status, body) => {
  if (!AMBIGUOUS.has(status)) return undefined;
  const text = body.toString();
  const { kind, code, message, param } = parseErrorResponse(status, undefined, text);
  if (status === 400 || status === 404) {
    if (MISSING_MODEL_CODES.has(code) || MISSING_MODEL.test(message)) return "target";
    if (status === 404 && UNSERVED_MODEL.test(message)) return "target";
    if (code === "invalid_encrypted_content") return "state";
    if (param === "reasoning.summary" && UNVERIFIED.test(message)) return "summary";
    return status === 400 && kind === "authentication" ? "credential" : undefined;
  }
  if (status === 429) return exceedsWholeLimit(message) ? "request" : undefined;
  if (message.startsWith(RESTRICTED_KEY)) return "target";
  if (status === 401) return undefined;
  const flagged = asObject(asObject(asObject(parseJson(text))?.["error"])?.["metadata"])?.["reasons"];
  return message.startsWith(POLICY_VIOLATION) || Array.isArray(flagged) ? "request" : undefined;
};

/**
 * Reports whether a request needs more than the vendor grants in a whole minute, so that it never fits: "Request too large for …
 * on tokens per min (TPM): Limit 30000, Requested 50000". [F]
 */
function exceedsWholeLimit(message: string): boolean {
  const [, limit = "", requested = ""] = LIMIT_MESSAGE.exec(message) ?? [];
  return Number(requested.replaceAll(",", "")) > Number(limit.replaceAll(",", ""));
}
const LIMIT_MESSAGE = /\bLimit:? ([\d,]{1,20})(?:, Used:? [\d,]{1,20})?, Requested:? ([\d,]{1,20})/;

/** Codes, or types, for a model that does not exist (any more): OpenAI's, Azure's [F], Groq's, Together's two, Perplexity's. [D] */
const MISSING_MODEL_CODES: ReadonlySet<string> = new Set([
  ...["model_not_found", "DeploymentNotFound", "model_decommissioned", "model_not_available"],
  ...["dedicated_endpoint_not_running", "invalid_model"],
]);

/**
 * What vendors say of it without such a code: DeepSeek, xAI (twice), Fireworks, Mistral, Z.ai, Moonshot, OpenRouter (twice), Google. [D:
 * issues of their clients]
 */
const MISSING_MODEL =
  /^(?:Model Not Exist$|Model not found[:,] |The model \S+ does not exist or your team |Invalid model: |Unknown Model,|Not found the model |No endpoints found for |models\/\S+ is not found for API version )| is not a valid model ID$/;

/** What vLLM, and Ollama, say as a 404 of a model that they do not serve. [D: issues of their clients] */
const UNSERVED_MODEL =
  /^(?:The model `[^`]*` does not exist\.|model (?:"[^"]*"|'[^']*') not found(?:, try pulling it first)?)$/;
/** "Your organization must be verified to generate reasoning summaries." [D] */
const UNVERIFIED = /\bmust be verified\b/;
const AMBIGUOUS: ReadonlySet<number> = new Set([400, 401, 403, 404, 429]);
const POLICY_VIOLATION = "Content violates usage guidelines";
const RESTRICTED_KEY = "You have insufficient permissions for this operation";

/**
 * Reports whether an error is an unknown key: two vendors respond with a 400. xAI has it only in the message, `{"code",
 * "error": "Incorrect API key …"}`, and Google in the details of an error within a list. [F]
 */
function isBadKey(status: number, error: unknown): boolean {
  if (status !== 400) return false;
  if (typeof error === "string") return error.startsWith(INCORRECT_KEY);
  return asList(asObject(error)?.["details"]).some((detail) => asObject(detail)?.["reason"] === BAD_KEY);
}
const INCORRECT_KEY = "Incorrect API key provided";
const BAD_KEY = "API_KEY_INVALID";
