import {
  asCount,
  asList,
  asObject,
  asText,
  defined,
  type ErrorKind,
  type Fault,
  type HeaderList,
  type JsonObject,
} from "model-gateway/protocol";

const KINDS: Readonly<Record<number, ErrorKind>> = {
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

/** Reads an answer that is an error; it may be anything, like a page of a proxy or nothing. */
export const failure = (status: number, _headers: HeaderList, text: string): Fault => faultOf(status, errorIn(text));

/** The error object of a body; a stream as an array has its error in the array. */
function errorIn(text: string): unknown {
  try {
    const body: unknown = JSON.parse(text);
    return [body, ...asList(body)].map((each) => asObject(each)?.["error"]).find((error) => error !== undefined);
  } catch {
    return undefined;
  }
}

/**
 * A fault from `{code, message, status, details}` (google.rpc.Status), with its own code as the status where it is one.
 * A key that the vendor does not know is a 400 there, with a reason among the details. [F]
 */
export function faultOf(status: number, error: unknown): Fault {
  const told = asObject(error);
  const code = asCount(told?.["code"]);
  const shown = code !== undefined && code >= 400 && code < 600 ? code : status;
  const details = asList(told?.["details"]).map(asObject);
  const badKey = details.some((detail) => detail?.["reason"] === "API_KEY_INVALID");
  const message = asText(told?.["message"]) ?? asText(error) ?? `The provider answered with status ${status}.`;
  if (badKey) return { status: 401, kind: "authentication", code: "invalid_api_key", message };
  const kind = KINDS[shown] ?? (shown < 500 ? "invalid" : "upstream");
  const word = asText(told?.["status"])?.toLowerCase() ?? kind;
  return { status: shown, kind, code: word, message, ...defined({ retryAfter: delay(details) }) };
}

/** Seconds in `RetryInfo.retryDelay`, like `48s` or `0.5s`, rounded up. */
function delay(details: readonly (JsonObject | undefined)[]): number | undefined {
  const texts = details.map((detail) => asText(detail?.["retryDelay"]));
  const text = texts.find((each) => each !== undefined && /^\d+(?:\.\d+)?s$/.test(each));
  return text === undefined ? undefined : Math.ceil(Number(text.slice(0, -1)));
}
