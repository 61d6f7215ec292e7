import type { z } from "zod";
import type { AuditEntry } from "../store/audit.ts";
import { AdminError } from "./errors.ts";
import type { AdminSubject } from "./served.ts";
import type { Visitor } from "./visitor.ts";

/** A request to the admin side's API. */
export interface AdminRequest {
  readonly visitor: Visitor;
  readonly query: URLSearchParams;
  /** What the path names, in order. */
  readonly names: readonly string[];
  /** What was sent, as JSON. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** What is answered; a change says what it has changed, for the audit trail. */
export interface AdminAnswer {
  readonly body?: unknown;
  readonly audit?: Pick<AuditEntry, "action" | "subject" | "detail">;
}

export type AdminAct = (subject: AdminSubject, request: AdminRequest) => Promise<AdminAnswer>;

/** What is said of a path and a method, for `/openapi.json`. */
export interface RouteText {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Whole, as OpenAPI writes it: `/api/keys/{id}`. */
  readonly path: string;
  readonly summary: string;
  /** Only admins may: it changes something, or shows what requests hold. */
  readonly admin: boolean;
  /** What may stand behind the question mark, and what it means. */
  readonly query: Readonly<Record<string, string>>;
  /** Of an answer as asked for. */
  readonly status: 200 | 201 | 204 | 302;
  /** Members of the answer, if it is JSON; those with a question mark may be missing. */
  readonly gives: readonly string[];
  /** What is to be sent. */
  readonly body?: z.ZodType;
}

/** Something that the API answers. */
export interface AdminRoute extends RouteText {
  readonly pattern: RegExp;
  readonly act: AdminAct;
}

/** What was sent, as it should be. @throws AdminError that names the field */
export function read<T extends z.ZodType>(expected: T, body: unknown): z.output<T> {
  const found = expected.safeParse(body);
  if (found.success) return found.data;
  const [issue] = found.error.issues;
  throw new AdminError("bad_request", `${issue?.path.join(".") || "the body"}: ${issue?.message}`);
}

type RouteDraft = Pick<RouteText, "method" | "path" | "summary"> & Partial<RouteText>;

export const told = ({ method, ...more }: RouteDraft): RouteText => ({
  ...{ method, admin: method !== "GET", query: {}, status: 200, gives: [] },
  ...more,
});

/** @param path behind `/api/` */
export function route(
  method: RouteText["method"],
  path: string,
  summary: string,
  act: AdminAct,
  more: Partial<RouteText> = {},
): AdminRoute {
  const pattern = new RegExp(`^/api/${path.replaceAll(/\{\w+\}/g, "([^/]+)")}$`);
  return { ...told({ method, path: `/api/${path}`, summary, ...more }), pattern, act };
}
