import { type ErrorWords, errorObject, type Fault } from "model-gateway/protocol";

/**
 * Recorded: a wrong key and an unknown model both have the type `invalid_request_error` and differ in their code; SDKs
 * tell errors apart by the status, agents by the code.
 */
const WORDS: ErrorWords = {
  type: {
    invalid: "invalid_request_error",
    authentication: "invalid_request_error",
    billing: "insufficient_quota",
    permission: "invalid_request_error",
    not_found: "invalid_request_error",
    conflict: "invalid_request_error",
    too_large: "invalid_request_error",
    rate_limit: "requests",
    internal: "server_error",
    overloaded: "server_error",
    upstream: "server_error",
    timeout: "server_error",
  },
  code: {
    authentication: "invalid_api_key",
    billing: "insufficient_quota",
    rate_limit: "rate_limit_exceeded",
  },
};

/** `{message, type, param, code}`, in the family's words. */
export const errorOf = (fault: Fault) => errorObject(fault, WORDS);

/** The body of a refusal: `{"error": {message, type, param, code}}`. */
export const error = (fault: Fault): string => JSON.stringify({ error: errorOf(fault) });
