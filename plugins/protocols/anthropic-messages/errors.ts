import { type ErrorKind, eventBytes, type Fault } from "model-gateway/protocol";

/** The vendor's error types; its statuses are those of the gateway's own table. [S, D: errors page] */
const TYPES: Readonly<Record<ErrorKind, string>> = {
  invalid: "invalid_request_error",
  authentication: "authentication_error",
  billing: "billing_error",
  permission: "permission_error",
  not_found: "not_found_error",
  conflict: "conflict_error",
  too_large: "request_too_large",
  rate_limit: "rate_limit_error",
  internal: "api_error",
  upstream: "api_error",
  timeout: "timeout_error",
  overloaded: "overloaded_error",
};

/** `{type: "error", error: {type, message}, request_id}`. There is no member for a field's path: the message begins with it. */
function errorObject({ kind, message, param }: Fault, id: string) {
  const told = param === undefined || [" ", ":"].some((mark) => message.startsWith(param + mark));
  const text = told ? message : `${param}: ${message}`;
  return { type: "error", error: { type: TYPES[kind], message: text }, request_id: id };
}

/** An error as a whole body. */
export const errorBody = (fault: Fault, id: string): string => JSON.stringify(errorObject(fault, id));

/** An error as an event. Clients look at the event's name, so it cannot be left out. [S] */
export const errorEvent = (fault: Fault, id: string): Buffer => eventBytes(errorObject(fault, id), "error");
