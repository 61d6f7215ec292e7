import {
  asCount,
  asObject,
  type ErrorWords,
  errorObject,
  eventBytes,
  type Fault,
  type StreamState,
} from "model-gateway";

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

/** `{"error": {message, type, param, code}}`. */
export const error = (fault: Fault): string => JSON.stringify({ error: errorObject(fault, WORDS) });

/**
 * First `response.failed`, then `error`: agents only act on the one, SDKs and LangChain only throw on the other. The
 * newer SDK demands the id of `response.created` in every later event, so where that is unknown only `error` is said.
 * The vendor documents that event flat and sends it nested (a comment in SDK 7); SDK 4 reads the code only there.
 */
export function streamError(fault: Fault, _id: string, stream: StreamState): Buffer {
  const told = errorObject(fault, WORDS);
  const { code, message, param } = told;
  let sequence = (asCount(asObject(stream.last?.json())?.["sequence_number"]) ?? stream.frames - 1) + 1;
  const events: Buffer[] = [];
  const begun = begunAs(stream.first);
  if (begun) {
    const response = {
      ...begun,
      status: "failed",
      error: { code, message },
      incomplete_details: null,
      output: [],
      usage: null,
    };
    events.push(eventBytes({ type: "response.failed", sequence_number: sequence++, response }, "response.failed"));
  }
  events.push(eventBytes({ type: "error", sequence_number: sequence, code, message, param, error: told }, "error"));
  return Buffer.concat(events);
}

/** The members of the first event's response that stand before any nested one; the bytes may end anywhere after them. */
const HEAD = /"response"\s*:\s*(\{(?:\s*"[a-z_]+"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^\s"{}[\],]+)\s*,)*)/;

function begunAs(first: Buffer | undefined): object | undefined {
  const members = HEAD.exec(first?.toString("utf8") ?? "")?.[1];
  if (members === undefined) return undefined;
  const { id, object, created_at, model } = JSON.parse(`${members}"":0}`) as Record<string, unknown>;
  return typeof id === "string" ? { id, object, created_at, model } : undefined;
}
