import type { z } from "zod";
import type { AuditEntry } from "../store/audit.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import type { AdminUser } from "./user.ts";

/** A request to the admin side's API. */
export interface AdminRequest {
  readonly user: AdminUser;
  readonly query: URLSearchParams;
  /** The path's parameters, in order. */
  readonly names: readonly string[];
  /** The parsed JSON body. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** The response; a change includes its entry for the audit trail. */
export interface AdminResponse {
  readonly body?: unknown;
  readonly audit?: Pick<AuditEntry, "action" | "subject" | "detail">;
}

export type AdminHandler = (gateway: AdminGateway, request: AdminRequest) => Promise<AdminResponse>;

/** The description of a path and a method, for `/openapi.json`. */
export interface RouteDescription {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** The whole path, as OpenAPI writes it: `/api/keys/{id}`. */
  readonly path: string;
  readonly summary: string;
  /** Only for admins: it changes something, or shows recorded bodies. */
  readonly admin: boolean;
  /** The query's parameters and their meaning. */
  readonly query: Readonly<Record<string, string>>;
  /** The status of a successful response. */
  readonly status: 200 | 201 | 204 | 302;
  /** Members of a JSON response; those with a question mark may be missing. */
  readonly responseFields: readonly string[];
  /** The schema of the request's body. */
  readonly body?: z.ZodType;
}

/** A route of the API. */
export interface AdminRoute extends RouteDescription {
  readonly pattern: RegExp;
  readonly handler: AdminHandler;
}

/** Validates a body. @throws AdminError that names the field */
export function parseBody<T extends z.ZodType>(expected: T, body: unknown): z.output<T> {
  const found = expected.safeParse(body);
  if (found.success) return found.data;
  const [issue] = found.error.issues;
  throw new AdminError("bad_request", `${issue?.path.join(".") || "the body"}: ${issue?.message}`);
}

/**
 * Adds to a response with the ledger's figures whether they lag, because exchanges wait for the store; evaluated first, as those
 * may be in the store a moment later.
 */
export function fromLedger(handler: AdminHandler): AdminHandler {
  return async (gateway, request) => {
    const behind = gateway.stores.ledger.isBehind();
    const { body, ...rest } = await handler(gateway, request);
    return { ...rest, body: behind ? { ...(body as object), behind } : body };
  };
}

type RouteDraft = Pick<RouteDescription, "method" | "path" | "summary"> & Partial<RouteDescription>;

export const describeRoute = ({ method, ...more }: RouteDraft): RouteDescription => ({
  ...{ method, admin: method !== "GET", query: {}, status: 200, responseFields: [] },
  ...more,
});

/** @param path after `/api/` */
export function route(
  method: RouteDescription["method"],
  path: string,
  summary: string,
  handler: AdminHandler,
  more: Partial<RouteDescription> = {},
): AdminRoute {
  const pattern = new RegExp(`^/api/${path.replaceAll(/\{\w+\}/g, "([^/]+)")}$`);
  return { ...describeRoute({ method, path: `/api/${path}`, summary, ...more }), pattern, handler };
}
