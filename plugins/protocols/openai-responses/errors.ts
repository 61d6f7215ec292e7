import { asCount, asObject, eventBytes, type Fault, Frame, type StreamState } from "model-gateway/protocol";
import { openaiErrorObject } from "../openai/errors.ts";

/**
 * Codes of a failed response: the vendor's, which are the only ones that typed SDKs accept [S], and those that its own agent
 * handles.
 */
const RESPONSE_ERROR_CODES: ReadonlySet<string> = new Set([
  ...["server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch", "bio_policy"],
  ...["misalignment_policy_violation", "vector_store_timeout", "invalid_image", "invalid_image_format"],
  ...["invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small", "image_parse_error"],
  ...["image_content_policy_violation", "invalid_image_mode", "image_file_too_large", "unsupported_image_media_type"],
  ...["empty_image_file", "failed_to_download_image", "image_file_not_found"],
  ...["context_length_exceeded", "insufficient_quota", "usage_not_included", "server_is_overloaded", "slow_down"],
]);
/** The replacement for other codes. The vendor's agent retries after all but `invalid_prompt`. */
const CODE_BY_KIND: Readonly<Record<Fault["kind"], string>> = {
  invalid: "invalid_prompt",
  authentication: "invalid_prompt",
  billing: "insufficient_quota",
  permission: "invalid_prompt",
  not_found: "invalid_prompt",
  conflict: "server_error",
  too_large: "invalid_prompt",
  rate_limit: "rate_limit_exceeded",
  token_limit: "rate_limit_exceeded",
  internal: "server_error",
  overloaded: "server_error",
  upstream: "server_error",
  timeout: "server_error",
};

/**
 * Writes `response.failed`, then `error`: agents handle only the first, SDKs and LangChain throw only on the second. The newer
 * SDK requires the id of `response.created` in every later event, so where that is unknown only `error` is written. The vendor
 * documents that event flat and sends it nested (a comment in SDK 7); SDK 4 reads the code only there.
 */
export function streamError(fault: Fault, _id: string, stream: StreamState): Buffer {
  const error = openaiErrorObject(fault);
  const { code, message, param } = error;
  let sequence = (asCount(asObject(stream.last?.json())?.["sequence_number"]) ?? stream.frames - 1) + 1;
  const events: Buffer[] = [];
  const started = startedResponse(stream.first);
  if (started) {
    const response = {
      ...started,
      status: "failed",
      error: RESPONSE_ERROR_CODES.has(code)
        ? { code, message }
        : { code: CODE_BY_KIND[fault.kind], message: `${message} (${code})` },
      incomplete_details: null,
      output: (stream.finished?.() ?? []).map((item) => JSON.parse(item) as unknown),
      usage: null,
    };
    events.push(eventBytes({ type: "response.failed", sequence_number: sequence++, response }, "response.failed"));
  }
  events.push(eventBytes({ type: "error", sequence_number: sequence, code, message, param, error }, "error"));
  return Buffer.concat(events);
}

/** The members of the first event's response before any nested one; the bytes may end anywhere after them. */
const RESPONSE_HEAD = /"response"\s*:\s*(\{(?:\s*"[a-z_]+"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^\s"{}[\],]+)\s*,)*)/;

/** Maximum bytes of the first event in which these members are looked for. */
const MAX_HEAD_BYTES = 64 * 1024;

/** Returns the response that the first event has begun; undefined if that has no id, or is not JSON. */
function startedResponse(first: Buffer | undefined): object | undefined {
  const members = RESPONSE_HEAD.exec(first?.toString("utf8", 0, MAX_HEAD_BYTES) ?? "")?.[1];
  const { id, object, created_at, model } = parseMembers(members) ?? {};
  return typeof id === "string" ? { id, object, created_at, model, ...echoedResponse(first) } : undefined;
}

function parseMembers(members: string | undefined): Record<string, unknown> | undefined {
  try {
    return members === undefined ? undefined : (JSON.parse(`${members}"":0}`) as Record<string, unknown>);
  } catch {
    return undefined;
  }
}

/** Maximum bytes of a stream's first event that an error repeats; agents' instructions and tools have a tenth of it. */
const MAX_REPEATED_BYTES = 1024 * 1024;

/** Returns the first event's response, which echoes the request: typed SDKs require those members [S: Response]. */
function echoedResponse(first: Buffer | undefined): object | undefined {
  return first && first.length <= MAX_REPEATED_BYTES
    ? asObject(asObject(new Frame("event", first).json())?.["response"])
    : undefined;
}
