import { z } from "zod";
import { ROUTES } from "./api.ts";
import { CODES } from "./errors.ts";
import { versionOf } from "./now.ts";
import { type RouteText, told } from "./route.ts";
import { SignIn } from "./session-routes.ts";

const SESSION = { gives: ["role", "who?", "timezone?", "sign_in", "version"] };

/** Responses outside of the API's table. Everybody may open a session. */
const OTHERS: readonly RouteText[] = [
  told({ method: "GET", path: "/livez", summary: "Whether the gateway runs.", gives: ["live"] }),
  told({
    method: "GET",
    path: "/readyz",
    summary: "Whether the gateway accepts requests; 503: it does not.",
    gives: ["ready", "why?"],
  }),
  told({ method: "GET", path: "/metrics", summary: "All metrics, in Prometheus' text format." }),
  told({ method: "GET", path: "/openapi.json", summary: "This description.", gives: ["openapi", "info", "paths"] }),
  told({ method: "GET", path: "/api/live/events", summary: "Changes of running requests, as server-sent events." }),
  told({ method: "GET", path: "/api/session", summary: "Who is signed in, and the ways to sign in.", ...SESSION }),
  told({ method: "POST", path: "/api/session", summary: "Signs in.", admin: false, body: SignIn, ...SESSION }),
  told({ method: "DELETE", path: "/api/session", summary: "Signs out.", admin: false, status: 204 }),
  told({
    ...{ method: "GET", path: "/api/session/oidc", summary: "Redirects to the identity provider.", status: 302 },
    query: { to: "The page to return to." },
  }),
];

/** Paths that need no authentication. */
const OPEN = /^\/(?:livez|readyz|api\/session.*)$/;

const json = (schema: object) => ({ content: { "application/json": { schema } } });

/** Returns an OpenAPI 3.1 description of the admin side, generated from its route table. */
export function adminOpenApi(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const each of [...OTHERS, ...ROUTES])
    paths[each.path] = { ...paths[each.path], [each.method.toLowerCase()]: operationOf(each) };
  return {
    openapi: "3.1.0",
    info: {
      title: "model-gateway, admin side",
      version: versionOf(),
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
      schemas: { Error: z.toJSONSchema(AnsweredError) },
    },
  };
}

const AnsweredProblem = z.object({
  ...{ file: z.string(), line: z.int(), column: z.int(), message: z.string(), frame: z.string() },
  severity: z.enum(["error", "warning"]),
});
const AnsweredError = z.object({
  error: z.object({
    code: z.enum(CODES),
    message: z.string(),
    problems: z.array(AnsweredProblem).describe("What is wrong with gateway.yaml.").optional(),
  }),
});

function operationOf({ method, path, summary, admin, query, status, gives, body }: RouteText): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: "path", required: true, ...TEXT }));
  const asked = Object.entries(query).map(([name, description]) => ({ name, in: "query", description, ...TEXT }));
  return {
    operationId: `${method.toLowerCase()} ${path}`,
    summary,
    "x-role": OPEN.test(path) ? "anybody" : admin ? "admin" : "viewer",
    ...(OPEN.test(path) && { security: [] }),
    ...(inPath.length + asked.length > 0 && { parameters: [...inPath, ...asked] }),
    ...(body && { requestBody: json(z.toJSONSchema(body, { io: "input" })) }),
    responses: {
      [status]: { description: "Success.", ...(gives.length > 0 && json(membersOf(gives))) },
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
