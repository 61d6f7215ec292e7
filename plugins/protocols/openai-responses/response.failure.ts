import { asObject, asText, type Fault } from "model-gateway";
import { faultIn } from "../openai/failure.ts";

/**
 * What the codes of a failed response stand for, as no HTTP status tells it. [S: ResponseError; D: the codes that the
 * vendor's own agent looks for]
 */
const STATUSES: ReadonlyMap<string, number> = new Map([
  ["server_error", 500],
  ["rate_limit_exceeded", 429],
  ["insufficient_quota", 429],
  ["usage_not_included", 402],
  ["server_is_overloaded", 503],
  ["slow_down", 503],
  ["vector_store_timeout", 504],
]);
/** Codes that say the request itself is at fault. */
const INVALID = /invalid|unsupported|context_length|policy|image|too_(?:large|small|long)/;

/** The fault that the `error` of a response with the status `failed` reports, or that of an `error` event. */
export function failedBy(error: unknown): Fault {
  const told = asObject(error) ?? {};
  const code = asText(told["code"]) ?? asText(told["type"]) ?? "";
  const status = STATUSES.get(code) ?? (INVALID.test(code) ? 400 : undefined);
  return faultIn(status === undefined ? told : { ...told, status });
}
