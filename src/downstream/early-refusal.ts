import type { GatewayError } from "../core/errors.ts";
import type { ServerResponse } from "../core/node-http.ts";
import type { Redactor } from "../core/redactor.ts";
import { takeRefusalLine } from "../core/refusal-lines.ts";
import type { Generation } from "../generation.ts";
import { Query } from "../wire/query.ts";
import { containsKey } from "./guard.ts";
import { takeKeys } from "./presented-keys.ts";
import { sendErrorResponse } from "./reply.ts";
import type { ServerRequest } from "./server-request.ts";

/** What is known of a request before it becomes an exchange. */
export interface EarlyRequest {
  /** The path as it was received. */
  readonly rawPath: string;
  readonly id: string;
  /** The client's. */
  readonly address: string;
}

/** Sends and logs an error for a request that never became an exchange. */
export function refuseEarly(
  request: ServerRequest,
  response: ServerResponse,
  { paths, log, redactor }: Generation,
  error: GatewayError,
  known: EarlyRequest,
): void {
  const { rawPath, id } = known;
  const extra = error.code === "websocket_only" ? ["upgrade", "websocket"] : [];
  sendErrorResponse(request, response, paths.dialect(rawPath, request.headerList), error, id, extra);
  const { status, code } = error;
  // Load shedding logs a summary: a line for each refusal would add load.
  if (code !== "overloaded" && takeRefusalLine(log))
    log.info(earlyFields(request, known, { status, error: { code } }, redactor), "refused");
}

/** Returns the log fields for a request that never became an exchange; the path is left out if it contains a key. */
export function earlyFields(
  { method, headerList }: ServerRequest,
  { rawPath, id, address }: EarlyRequest,
  response: { status: number; error?: { code: string } },
  redactor: Redactor,
): object {
  const fields = { id, address, method, ...response };
  const secret = response.error?.code === "misplaced_key" || containsKey(rawPath, takeKeys(headerList, new Query()));
  return secret ? fields : { ...fields, path: redactor.path(withoutUserInfo(rawPath)) };
}

/** Returns a request target without user name and password. */
const withoutUserInfo = (path: string): string => path.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1");
