import type { LifeStep } from "./life-steps.ts";
import { shorten } from "./shorten.ts";

/** What the gateway says where it refuses a request or fails. */
interface RefusalEntry {
  /** The step at which it ends a request, or the first of them. */
  step: LifeStep;
  status: number;
  /** The kind of fault, which each protocol maps to its own error type. */
  kind: ErrorKind;
  message: string;
  /** How to fix it, appended to the message. */
  hint?: string;
  /** False adds `x-should-retry: false`, which stops clients that would otherwise retry for minutes. */
  retry: boolean;
}

/** The kinds of faults, each of which every protocol has an error type for. */
export type ErrorKind =
  | "invalid"
  | "authentication"
  | "billing"
  | "permission"
  | "not_found"
  | "conflict"
  | "too_large"
  | "rate_limit"
  /** A limit of tokens per time. */
  | "token_limit"
  | "internal"
  | "overloaded"
  | "upstream"
  | "timeout";

type MakeRefusal = (step: LifeStep, status: number, kind: ErrorKind, message: string, hint?: string) => RefusalEntry;

/** A refusal that a retry would meet again. */
const refuse: MakeRefusal = (step, status, kind, message, hint) => {
  const refusal = { step, status, kind, message, retry: false };
  return hint === undefined ? refusal : { ...refusal, hint };
};

/** A refusal after which a retry can help. */
const refuseForNow: MakeRefusal = (...refusal) => ({ ...refuse(...refusal), retry: true });

/**
 * Every refusal of the gateway itself, in one table: the HTTP status, what went wrong, how to fix it, and whether a retry can
 * help. A protocol renders an entry in its own dialect; nothing else decides the text of a refusal.
 */
export const REFUSALS = {
  bad_request: refuse("head", 400, "invalid", "The request is not well-formed HTTP."),
  bad_target: refuse(
    "head",
    400,
    "invalid",
    "The request target is not acceptable.",
    "Use a plain path without dot segments, backslashes, control characters or encoded delimiters.",
  ),
  misplaced_key: refuse(
    "head",
    400,
    "invalid",
    "The path or the query contains a key of this gateway.",
    "Send it as Authorization: Bearer gw_…, x-api-key, x-goog-api-key or ?key=, and nowhere else.",
  ),
  headers_too_large: refuse(
    "head",
    431,
    "too_large",
    "The request head is too large.",
    "At most 100 header lines (`connections.headers`) and 16 KiB (`connections.head_size`).",
  ),
  target_too_long: refuse(
    "head",
    414,
    "too_large",
    "The request target is too long.",
    "At most 8 KiB (`connections.target`).",
  ),
  method_not_allowed: refuse("head", 405, "invalid", "This path does not support the method."),
  path_not_found: refuse("path", 404, "not_found", "No such path."),
  upgrade_required: refuse(
    "path",
    426,
    "invalid",
    "WebSocket is not served here.",
    "Use a POST request with stream: true.",
  ),
  websocket_only: refuse("path", 426, "invalid", "This path takes WebSockets only."),
  missing_api_key: refuse(
    "access",
    401,
    "authentication",
    "No gateway key was sent.",
    "Send it as Authorization: Bearer gw_…, x-api-key, x-goog-api-key or ?key=.",
  ),
  invalid_api_key: refuse(
    "access",
    401,
    "authentication",
    "This gateway key is not known.",
    "Keys look like gw_<10 characters>_<43 characters>_<6 characters>; ask the operator, who makes one with: keys create NAME.",
  ),
  revoked_api_key: refuse(
    "access",
    401,
    "authentication",
    "This gateway key was revoked or has expired.",
    "Ask the operator for a new one.",
  ),
  disabled_api_key: refuse(
    "access",
    401,
    "authentication",
    "This gateway key, or its group, is switched off at the moment.",
    "Ask the operator, who can switch it on again.",
  ),
  too_many_wrong_keys: refuse(
    "access",
    429,
    "rate_limit",
    "Too many wrong keys came from this address.",
    "Correct the key; a valid key works at once.",
  ),
  store_unavailable: refuseForNow(
    "access",
    503,
    "overloaded",
    "A store of the gateway is unavailable at the moment.",
    "This is temporary, and not the fault of the request or its key: try again.",
  ),
  rate_limit_exceeded: refuseForNow("route", 429, "rate_limit", "A limit is reached."),
  insufficient_quota: refuse("route", 429, "billing", "A budget is spent."),
  origin_not_allowed: refuse(
    "head",
    403,
    "permission",
    "Scripts of this page's origin may not send requests to this gateway.",
    "The operator lists it in gateway.yaml: cors: { origins: [https://app.example.com] }.",
  ),
  conflicting_api_keys: refuse("access", 400, "invalid", "Two different gateway keys were sent.", "Send one."),
  key_not_allowed: refuse("access", 403, "permission", "This key may not do that."),
  body_too_large: refuse("request", 413, "too_large", "The request body is too large."),
  body_timeout: refuseForNow("request", 408, "timeout", "The request body did not arrive in time."),
  unsupported_encoding: refuse(
    "request",
    415,
    "invalid",
    "This content-encoding is not accepted.",
    "Use identity, or one layer of gzip, deflate, br or zstd.",
  ),
  unsupported_media_type: refuse(
    "request",
    415,
    "invalid",
    "This content-type is not accepted here.",
    "Use application/json in UTF-8.",
  ),
  invalid_json: refuse("request", 400, "invalid", "The request body is not valid JSON."),
  invalid_form: refuse("request", 400, "invalid", "The request body is not well-formed multipart/form-data."),
  invalid_field: refuse("request", 400, "invalid", "A field of the request has a wrong value."),
  foreign_field: refuse(
    "access",
    400,
    "invalid",
    "The request carries a field of another aggregation service.",
    "Remove it.",
  ),
  model_not_found: refuse(
    "route",
    404,
    "not_found",
    "No such model.",
    "GET /v1/models lists the models this key may use.",
  ),
  object_not_found: refuse(
    "route",
    404,
    "not_found",
    "This key has no object with this id.",
    "An id works with the key it was made with, and one of an answer only if that was stored (not with `store: false`); the operator can share objects with `share` in gateway.yaml.",
  ),
  not_served: refuse("route", 400, "invalid", "No provider of this model speaks the protocol of this path."),
  not_translatable: refuse("route", 400, "invalid", "The provider's protocol cannot express this request."),
  context_length_exceeded: refuse("route", 400, "invalid", "The prompt is too long."),
  no_target: refuseForNow("route", 503, "overloaded", "No provider of this model is available at the moment."),
  upstream_unreachable: refuseForNow("send", 502, "upstream", "The provider could not be reached."),
  upstream_failed: refuseForNow("send", 502, "upstream", "The provider broke the connection before it answered."),
  upstream_invalid: refuseForNow("send", 502, "upstream", "The provider's answer is not valid."),
  upstream_model_failed: refuseForNow(
    "response",
    502,
    "upstream",
    "The provider's model ended its answer with a failure.",
  ),
  upstream_redirect: refuse(
    "send",
    502,
    "upstream",
    "The provider answered with a redirect, which the gateway never follows.",
    "Correct the provider's url in gateway.yaml.",
  ),
  upstream_truncated: refuseForNow("response", 502, "upstream", "The provider broke off in the middle of its answer."),
  upstream_timeout: refuseForNow("send", 504, "timeout", "The provider did not answer in time."),
  upstream_refused: refuse("send", 502, "upstream", "The provider refused the request."),
  client_gone: refuse("done", 499, "timeout", "The client closed the connection."),
  plugin_failed: refuseForNow("done", 500, "internal", "A plugin of the gateway failed."),
  plugin_timeout: refuseForNow("done", 504, "timeout", "A plugin of the gateway took too long."),
  internal: refuseForNow("done", 500, "internal", "The gateway failed."),
  interrupted: refuseForNow(
    "done",
    503,
    "overloaded",
    "The gateway is restarting and could not wait for the end of this response.",
    "Send the request again.",
  ),
  cancelled: refuse("done", 503, "overloaded", "An operator of the gateway cancelled this request."),
  overloaded: refuseForNow("head", 503, "overloaded", "The gateway is overloaded."),
  draining: refuseForNow("head", 503, "overloaded", "The gateway is shutting down."),
} satisfies Record<string, RefusalEntry>;

/** The gateway's own codes; a plugin's error may have another one. */
export type ErrorCode = keyof typeof REFUSALS;

/** What is particular about one error, besides its code. */
export interface ErrorDetails {
  /** Replaces the table's message. */
  message?: string;
  /** Replaces the table's hint. */
  hint?: string;
  /** The client's own field path that is at fault, like `messages.0.content`. */
  param?: string | undefined;
  /** Seconds after which a retry makes sense; left out unless it is a number from 0 on. */
  retryAfter?: number | undefined;
  /** Replaces the table's status; only for codes that cover several. 300 to 599, below 400 where a provider has redirected. */
  status?: number;
  /** Replaces the table's kind; only for codes that cover several. */
  kind?: ErrorKind;
  /** Replaces the table's `retry`. */
  retry?: boolean;
  /** The provider's own code, sent where the client's protocol has no code for the kind. */
  providerCode?: string;
  /** Machine-readable details in the client's protocol; sent where that has a place for them. */
  details?: Readonly<Record<string, unknown>>;
  /** The kind of limit that was reached, for metrics. */
  limit?: "rpm" | "tpm" | "concurrency" | "budget" | "memory";
  /** Allowed methods, sent in `allow` with a 405. */
  allow?: readonly string[];
  /** The store that did not respond, for metrics. */
  store?: "ledger" | "keys" | "objects" | "limits";
  cause?: unknown;
}

/** What a plugin must give for a code of its own. */
interface PluginErrorDetails extends ErrorDetails {
  /** 300 to 599. */
  status: number;
  /** Default: what the status usually stands for. */
  kind?: ErrorKind;
  message: string;
}

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

/** Returns the kind of fault that an HTTP status stands for. */
export const errorKindOf = (status: number): ErrorKind => KINDS[status] ?? (status < 500 ? "invalid" : "internal");

/** Returns the entry for a code that is not in the table; a retry helps when the fault is not the client's. */
const pluginErrorEntry = ({ status = 500, message = "" }: ErrorDetails): Omit<RefusalEntry, "step"> => ({
  status,
  kind: errorKindOf(status),
  message,
  retry: status >= 500 || status === 429,
});

/** Maximum characters of a message, of its hint, and of a path or a code: they may quote a client or a provider. */
const MAX_MESSAGE_LENGTH = 2000;
const MAX_HINT_LENGTH = 500;
const MAX_NAME_LENGTH = 200;

const shortName = (name: string | undefined): string | undefined =>
  typeof name === "string" ? shorten(name, MAX_NAME_LENGTH) : name;

/** The name of a method: what else a token may have (RFC 9110 §5.6.2), no method does. */
const METHOD = /^[A-Za-z-]+$/;

/** Returns why an error cannot be sent as it was thrown; undefined: it can. */
function faultOf(code: string, { status, allow, details }: ErrorDetails): string | undefined {
  if (typeof code !== "string") return "The code of an error is a text.";
  if (status !== undefined && !(Number.isInteger(status) && status >= 300 && status <= 599))
    return `The error "${code}" has the status ${String(status)}: it is one of 300 to 599.`;
  if (allow?.some((method) => !METHOD.test(method)))
    return `The error "${code}" has ${JSON.stringify(allow)} for \`allow\`: these are names of methods.`;
  try {
    if (details !== undefined) JSON.stringify(details);
    return undefined;
  } catch (thrown) {
    return `The error "${code}" has \`details\` that cannot be written as JSON: ${thrownMessage(thrown)}`;
  }
}

const KEY_ERRORS: ReadonlySet<string> = new Set<ErrorCode>([
  "missing_api_key",
  "invalid_api_key",
  "too_many_wrong_keys",
]);

/**
 * A refusal or failure that is sent to the client in the dialect of its protocol. One with a value that cannot be sent becomes a
 * `plugin_failed` with the reason as its cause: throwing here would end the process where a plugin creates it in a timer.
 */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  readonly code: string;
  readonly status: number;
  readonly kind: ErrorKind;
  /** Whether a retry can help; the engine clears it where it has retried itself. */
  retry: boolean;
  readonly param: string | undefined;
  readonly retryAfter: number | undefined;
  readonly providerCode: string | undefined;
  readonly details: ErrorDetails["details"];
  readonly limit: ErrorDetails["limit"];
  readonly store: ErrorDetails["store"];
  readonly allow: ErrorDetails["allow"];
  /** The plugin and phase at fault, like `models.route`; the chain sets it if it is not set yet. */
  origin: string | undefined;

  /** An error with a code of the plugin's own, like `budget_of_team_spent`. */
  constructor(code: string, details: PluginErrorDetails);
  /** An error with one of the gateway's own codes. */
  constructor(code: ErrorCode, details?: ErrorDetails);
  constructor(thrownCode: string, thrownDetails: ErrorDetails = {}) {
    const fault = faultOf(thrownCode, thrownDetails);
    const code = fault === undefined ? thrownCode : "plugin_failed";
    const details: ErrorDetails = fault === undefined ? thrownDetails : { cause: fault };
    const refusal: Omit<RefusalEntry, "step"> = Object.hasOwn(REFUSALS, code)
      ? REFUSALS[code as ErrorCode]
      : pluginErrorEntry(details);
    const hint = details.hint ?? (details.message === undefined ? refusal.hint : undefined);
    const message = shorten(String(details.message ?? refusal.message), MAX_MESSAGE_LENGTH);
    super(
      hint === undefined ? message : `${message} ${shorten(String(hint), MAX_HINT_LENGTH)}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.code = code;
    this.status = details.status ?? refusal.status;
    this.kind = details.kind ?? refusal.kind;
    this.retry = details.retry ?? refusal.retry;
    this.param = shortName(details.param);
    const { retryAfter } = details;
    this.retryAfter = Number.isFinite(retryAfter) && (retryAfter as number) >= 0 ? retryAfter : undefined;
    this.providerCode = shortName(details.providerCode);
    this.details = details.details;
    this.limit = details.limit;
    this.store = details.store;
    this.allow = details.allow;
  }

  /** Whether the code is a plugin's own, which is sent to clients unchanged. */
  get isPluginCode(): boolean {
    return !Object.hasOwn(REFUSALS, this.code);
  }

  /** Whether it refuses a request without a right key, which anybody may send as often as they like. */
  get isUnkeyed(): boolean {
    return KEY_ERRORS.has(this.code);
  }

  /** Returns any thrown value as a GatewayError; a foreign one gets the code `code` and becomes its cause. */
  static from(thrown: unknown, code: ErrorCode = "internal"): GatewayError {
    return thrown instanceof GatewayError ? thrown : new GatewayError(code, { cause: thrown });
  }
}

/** Seconds after which a retry makes sense while a store is unavailable. */
const STORE_RETRY_AFTER = 5;

/** Returns the error for a client that reads nothing. @param stalled for so many milliseconds */
export const stalledClientError = (stalled: number): GatewayError =>
  new GatewayError("client_gone", { message: `The client took no byte for ${stalled / 1000} s.` });

/**
 * Returns the error for a request that cannot be served while a store does not respond. The store's address is in `cause` only,
 * for the log.
 * @param unknown a sentence that says what is unknown meanwhile
 */
export const storeUnavailable = (store: NonNullable<ErrorDetails["store"]>, unknown: string, cause?: unknown) =>
  new GatewayError("store_unavailable", {
    message: unknown,
    hint: REFUSALS.store_unavailable.hint as string,
    retryAfter: STORE_RETRY_AFTER,
    store,
    cause,
  });

/** A file of the gateway, or a setting outside of gateway.yaml, cannot be used: the message names it and says why. */
export class FileError extends Error {
  override readonly name = "FileError";
}

/**
 * A store that is unreachable, does not respond or refuses the connection. The message names it by its setting and contains no
 * password.
 */
export class StoreUnavailableError extends Error {
  /** The error code of the system or the store. */
  readonly code: string | undefined;

  constructor(message: string, { cause, code }: { cause?: unknown; code?: string | undefined } = {}) {
    super(message, { cause });
    this.code = code;
  }
}

/** Returns the text of what was thrown, of whatever kind. */
export const thrownText = (thrown: unknown): string => textOf(thrown, () => String(thrown));

/** Returns the message of what was thrown, which may be no error. */
export const thrownMessage = (thrown: unknown): string =>
  textOf(thrown, () => (thrown instanceof Error ? thrown.message : String(thrown)));

/** Returns the stack of what was thrown, for the log; the text of what is no error. */
export const thrownStack = (thrown: unknown): string =>
  textOf(thrown, () => (thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)));

/** An object may have no text, an error's members may be getters that throw, and its stack be a list of calls. */
function textOf(thrown: unknown, read: () => unknown): string {
  try {
    const text = read();
    if (typeof text === "string") return text;
  } catch {}
  return `a value of type ${typeof thrown} without a text`;
}
