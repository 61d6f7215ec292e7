import { z } from "zod";
import { GATEWAY_VERSION } from "../core/version.ts";
import { ROUTES } from "./api.ts";
import { ADMIN_ERROR_CODES } from "./errors.ts";
import { describeRoute, type RouteDescription } from "./route.ts";
import { SignInSchema } from "./session-routes.ts";

const SESSION = { responseFields: ["role", "who?", "timezone?", "sign_in", "version"] };

/** Responses outside of the API's table. Everybody may open a session. */
const OTHER_ROUTES: readonly RouteDescription[] = [
  describeRoute({ method: "GET", path: "/livez", summary: "Whether the gateway runs.", responseFields: ["live"] }),
  describeRoute({
    method: "GET",
    path: "/readyz",
    summary: "Whether the gateway accepts requests; 503: it does not.",
    responseFields: ["ready", "why?"],
  }),
  describeRoute({ method: "GET", path: "/metrics", summary: "All metrics, in Prometheus' text format." }),
  describeRoute({
    method: "GET",
    path: "/openapi.json",
    summary: "This description.",
    responseFields: ["openapi", "info", "paths"],
  }),
  describeRoute({
    method: "GET",
    path: "/api/live/events",
    summary: "Changes of running requests, as server-sent events.",
  }),
  describeRoute({
    method: "GET",
    path: "/api/session",
    summary: "Who is signed in, and the ways to sign in.",
    ...SESSION,
  }),
  describeRoute({
    method: "POST",
    path: "/api/session",
    summary: "Signs in.",
    admin: false,
    body: SignInSchema,
    ...SESSION,
  }),
  describeRoute({ method: "DELETE", path: "/api/session", summary: "Signs out.", admin: false, status: 204 }),
  describeRoute({
    ...{ method: "GET", path: "/api/session/oidc", summary: "Redirects to the identity provider.", status: 302 },
    query: { to: "The page to return to." },
  }),
];

/** Paths that need no authentication. */
const PUBLIC_PATHS = /^\/(?:livez|readyz|api\/session.*)$/;

const json = (schema: object) => ({ content: { "application/json": { schema } } });

/** Returns an OpenAPI 3.1 description of the admin side, generated from its route table. */
export function adminOpenApi(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const each of [...OTHER_ROUTES, ...ROUTES])
    paths[each.path] = { ...paths[each.path], [each.method.toLowerCase()]: operationOf(each) };
  return {
    openapi: "3.1.0",
    info: {
      title: "model-gateway, admin side",
      version: GATEWAY_VERSION,
      description:
        "For operators of the gateway. Times are Unix milliseconds, durations milliseconds, money integer nano-dollars; unknown values are absent. If no sign-in is configured, no security is needed.",
    },
    security: [{ token: [] }, { session: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "admin: { token } or { viewer } of gateway.yaml" },
        session: { type: "apiKey", in: "cookie", name: "gateway_admin", description: "__Host-gateway_admin by https" },
      },
      schemas: { Error: z.toJSONSchema(ErrorSchema) },
    },
  };
}

const ProblemSchema = z.object({
  ...{ file: z.string(), line: z.int(), column: z.int(), message: z.string(), frame: z.string() },
  severity: z.enum(["error", "warning"]),
});
const ErrorSchema = z.object({
  error: z.object({
    code: z.enum(ADMIN_ERROR_CODES),
    message: z.string(),
    problems: z.array(ProblemSchema).describe("What is wrong with gateway.yaml.").optional(),
  }),
});

function operationOf({ method, path, summary, admin, query, status, responseFields, body }: RouteDescription): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: "path", required: true, ...TEXT }));
  const parameters = Object.entries(query).map(([name, description]) => ({ name, in: "query", description, ...TEXT }));
  return {
    operationId: `${method.toLowerCase()} ${path}`,
    summary,
    "x-role": PUBLIC_PATHS.test(path) ? "anybody" : admin ? "admin" : "viewer",
    ...(PUBLIC_PATHS.test(path) && { security: [] }),
    ...(inPath.length + parameters.length > 0 && { parameters: [...inPath, ...parameters] }),
    ...(body && { requestBody: json(z.toJSONSchema(body, { io: "input" })) }),
    responses: {
      [status]: { description: "Success.", ...(responseFields.length > 0 && json(membersOf(responseFields))) },
      default: { description: "The request was refused, or failed.", ...json({ $ref: "#/components/schemas/Error" }) },
    },
  };
}

const TEXT = { schema: { type: "string" } };

const membersOf = (gives: readonly string[]) => ({
  type: "object",
  properties: Object.fromEntries(gives.map((name) => [name.replace("?", ""), {}])),
  required: gives.filter((name) => !name.endsWith("?")),
});
