import {
  asCount,
  asList,
  asObject,
  asText,
  type ErrorKind,
  entryOf,
  type Fault,
  type HeaderList,
  type JsonObject,
} from "model-gateway/protocol";

const KINDS: Readonly<Record<number, ErrorKind>> = {
  401: "authentication",
  402: "billing",
  403: "permission",
  404: "not_found",
  408: "timeout",
  409: "conflict",
  413: "too_large",
  429: "rate_limit",
  502: "upstream",
  503: "overloaded",
  504: "timeout",
  529: "overloaded",
};

/**
 * Statuses that error objects in a stream stand for; vendors write them as `type` or as `code`. [S: ResponseError; D: the
 * codes that the vendor's own agent looks for]
 */
const STATUSES: Readonly<Record<string, number>> = {
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
  service_unavailable: 503,
  server_error: 500,
  server_is_overloaded: 503,
  slow_down: 503,
  usage_not_included: 402,
  vector_store_timeout: 504,
};
/** Words of errors that say the request itself is at fault. */
const INVALID = /invalid|unsupported|context_length|policy|image|too_(?:large|small|long)/;

const isStatus = (value: number | undefined): value is number => value !== undefined && value >= 400 && value <= 599;

/** What went wrong by an error's status and words. */
function faultWith(status: number, error: JsonObject, message: string): Fault {
  const words = [error["code"], error["type"]].map(asText);
  const quota = error["code"] === "insufficient_quota" || error["type"] === "insufficient_quota";
  const kind = quota ? "billing" : (KINDS[status] ?? (status < 500 ? "invalid" : "internal"));
  return { status, kind, code: words.find((word) => word) ?? kind, message, param: asText(error["param"]) };
}

/** A status as a number, or of some vendors as text. */
const statusOf = (value: unknown): number | undefined =>
  asCount(typeof value === "string" && /^[45]\d\d$/.test(value) ? Number(value) : value);

/** What an error says: its `message` or its `detail`, a text or the problems of a request. */
function wordsOf({ message, detail }: JsonObject): string | undefined {
  // Mistral has the problems in the message. [D]
  return asText(message) ?? asText(detail) ?? problemsOf(detail ?? asObject(message)?.["detail"]);
}

/** Problems as FastAPI lists them, each with its place: vendors that serve models with it (vLLM, Mistral). [D] */
function problemsOf(list: unknown): string | undefined {
  const problems = asList(list).flatMap((value) => {
    const { loc, msg } = asObject(value) ?? {};
    const place = asList(loc).filter((step) => typeof step === "string" || typeof step === "number");
    return typeof msg === "string" ? [place.length === 0 ? msg : `${place.join(".")}: ${msg}`] : [];
  });
  return problems.length === 0 ? undefined : problems.join("; ");
}

/**
 * An error object in the middle of a stream. There is no status then: some vendors write it as `code` or `status_code`
 * (recorded from OpenRouter and Groq), of others the words tell.
 */
export function faultIn(value: unknown): Fault {
  const error = asObject(value) ?? {};
  const told = [error["status_code"], error["code"], error["status"]].map(statusOf).find(isStatus);
  const words = [error["code"], error["type"]].map(asText);
  const meant = words.map((word) => entryOf(STATUSES, word)).find(isStatus);
  const invalid = INVALID.test(words[0] ?? words[1] ?? "") ? 400 : undefined;
  const message = wordsOf(error) ?? asText(value);
  return faultWith(told ?? meant ?? invalid ?? 502, error, message || "The provider reported a failure in its stream.");
}

/**
 * An answer that is an error: `{"error": {message, type, param, code}}`, of some vendors `{"error": "…"}`,
 * `{"message": "…"}`, `{"detail": …}` or a list with one of them, or anything else.
 */
export function failure(status: number, _headers: HeaderList, text: string): Fault {
  const body = jsonOf(text);
  const outer = asObject(Array.isArray(body) ? body[0] : body) ?? {};
  const error = asObject(outer["error"]) ?? outer;
  const uses = wordsOf(error) ?? asText(outer["error"]) ?? wordsOf(outer);
  return faultWith(status, error, uses ?? `The provider answered with the status ${status}.`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
