import { GatewayError } from "../core/errors.ts";
import { Exchange, type ExchangeStart } from "../core/exchange.ts";
import { Query } from "../wire/query.ts";
import { isForwardingHeader } from "./connections.ts";
import { containsKey } from "./guard.ts";
import type { RouteMatch } from "./paths.ts";
import type { ServerRequest } from "./server-request.ts";
import { wantsStrict } from "./strict-header.ts";

/** What is known about a request before its target and headers are read. */
export type ArrivalFacts = Pick<ExchangeStart, "id" | "time" | "arrivedAt" | "origin" | "uploader"> & {
  address: string;
};

/** @throws GatewayError `misplaced_key`, `invalid_field` */
export function createExchange(
  request: ServerRequest,
  query: Query,
  { path, protocol, operation, strict: strictPath = false, pathModel, deployment, notice }: RouteMatch,
  known: ArrivalFacts,
  keys: readonly string[],
): Exchange {
  // A notice quotes the path as it was sent.
  const isMisplaced =
    containsKey(notice ?? path, keys) ||
    (deployment !== undefined && containsKey(deployment, keys)) ||
    (!query.isEmpty && query.entries().some((pair) => pair.some((text) => containsKey(text, keys))));
  if (isMisplaced) throw new GatewayError("misplaced_key");
  const { method = "", headerList: headers } = request;
  const strict = wantsStrict(headers) || strictPath;
  headers.deleteWhere(isForwardingHeader);
  const { id, time, arrivedAt, address, origin, uploader } = known;
  const exchange = new Exchange({
    id,
    time,
    arrivedAt,
    address,
    origin,
    uploader,
    method,
    path,
    query,
    credentials: keys,
    headers,
    protocol,
    operation,
    strict,
    pathModel,
    deployment,
  });
  // Where no key was sent it may be in the path, and look like any text: the ledger stores notices.
  if (notice) exchange.notices.push(keys.length > 0 ? notice : notice.replace(/^\S+/, "The path is"));
  return exchange;
}

/** @throws GatewayError `bad_target` */
export function parseQuery(text: string): Query {
  try {
    return new Query(text);
  } catch {
    throw new GatewayError("bad_target", { message: "The query has a broken escape." });
  }
}

/**
 * @param names those that the gateway reads; undefined: all
 * @throws GatewayError `bad_target` where one occurs twice
 */
export function refuseRepeated(query: Query, names: readonly string[] | undefined): void {
  const repeated = query.repeated(names);
  if (repeated === undefined) return;
  throw new GatewayError("bad_target", {
    message: `The query parameter "${repeated}" occurs twice.`,
    hint: "Send it once.",
  });
}
