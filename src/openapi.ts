import { z } from "zod";
import { REFUSALS } from "./core/errors.ts";
import type { PluginClass } from "./core/plugin.ts";
import type { Operation, QueryView } from "./core/protocol.ts";
import { GATEWAY_VERSION } from "./core/version.ts";
import type { Mount } from "./downstream/paths.ts";

const jsonContent = (schema: object) => ({ content: { "application/json": { schema } } });
const ANY = { type: "object", additionalProperties: true };
/** The schema for a path with several operations, one of which may return a list. */
const ANY_JSON = { type: ["object", "array"] };
const NO_QUERY: QueryView = { get: () => null };
const REFUSED = {
  description: "Refused, in the envelope of the path's protocol; x-should-retry: false where asking again cannot help.",
  ...jsonContent(ANY),
};
const SECURITY = [{ bearer: [] }, { apiKey: [] }, { googApiKey: [] }];

/** The gateway's own paths that take an id: the summary of that operation, and whether there is none without an id. */
const ITEM_PATHS: Readonly<Record<string, { summary: string; alone?: true }>> = {
  models: { summary: "One model, if the key may use it." },
  requests: { summary: "What the ledger has of a request that has ended, for the key that made it.", alone: true },
};

/** Returns `/v1beta/models/*` as an OpenAPI path template. */
const templated = (pattern: string): string => pattern.replace(/\*$/, "{rest}");

/**
 * Returns an OpenAPI 3.1 description of a gateway: its own paths in full, those of vendors' protocols by name only, as their
 * vendors describe them.
 * @param pages whether there are pages for browsers
 */
export function openApiDocument(mounts: readonly Mount[], pages: boolean): object {
  const paths: Record<string, Record<string, object>> = {
    "/": {
      get: {
        summary: "What is served here; to browsers a page.",
        security: [],
        responses: { 200: { description: "A list of paths.", ...jsonContent(ANY) } },
      },
    },
    "/livez": probe("Whether the gateway runs."),
    "/readyz": probe("Whether requests shall come."),
    ...(pages && { "/pages/models.json": CATALOGUE }),
  };
  for (const mount of mounts) {
    const path = templated(mount.pattern);
    const [, kind = ""] = /\/(\w+)$/.exec(path) ?? [];
    const one = mount.serve && Object.hasOwn(ITEM_PATHS, kind) ? ITEM_PATHS[kind] : undefined;
    if (!one?.alone) paths[path] = { ...paths[path], ...operationsOf(mount, mounts) };
    Object.assign(paths, storedAnswerPaths(mount), mount.pass ? stemOperations(mount) : {});
    if (!one) continue;
    // If a protocol has paths below it, both share one OpenAPI path.
    const name = mounts.some(({ pattern }) => pattern === `${path}/*`) ? "rest" : "id";
    const below = `${path}/{${name}}`;
    paths[below] = {
      ...paths[below],
      get: {
        ...pluginOperation(mount, "one"),
        operationId: `get ${below}`,
        summary: one.summary,
        parameters: [pathParameter(name)],
      },
    };
  }
  const codes = Object.entries(REFUSALS).map(([code, { status, message }]) => ({
    const: code,
    description: `${status}: ${message}`,
  }));
  return {
    openapi: "3.1.0",
    info: {
      title: "model-gateway",
      version: GATEWAY_VERSION,
      description:
        "One host and one key in front of every model vendor. Errors of the gateway itself are in the envelope of the protocol of the path.",
    },
    security: SECURITY,
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "A gateway key, gw_…" },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
        googApiKey: { type: "apiKey", in: "header", name: "x-goog-api-key" },
      },
      schemas: { ErrorCode: { description: "What the gateway itself refuses.", oneOf: codes } },
      headers: HEADERS,
    },
  };
}

const pathParameter = (name: string) => ({ name, in: "path", required: true, schema: { type: "string" } });
const queryParameter = (name: string, description: string, required = false) => ({
  ...{ name, in: "query", required, description },
  schema: { type: "string" },
});

/**
 * Returns the schema of a plugin's response. Unknown members are allowed: generated clients must not break when some are added.
 */
function answerSchema({ chain }: Mount, which: "all" | "one"): object {
  const { answers } = (chain.serving?.plugin.constructor ?? {}) as Partial<PluginClass>;
  const schema = answers?.[which];
  if (!schema) return ANY;
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    // What JSON Schema cannot say, like a date, may be anything.
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
      // For a time the format is enough.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return described;
}

const pluginOperation = (mount: Mount, which: "all" | "one" = "all") => ({
  operationId: `get ${mount.pattern}`,
  summary: `Answered by the plugin ${mount.chain.serving?.name ?? "of that path"}.`,
  responses: {
    200: { description: "The answer.", ...jsonContent(answerSchema(mount, which)) },
    401: REFUSED,
    "4XX": REFUSED,
  },
});

function operationsOf(mount: Mount, mounts: readonly Mount[]): Record<string, object> {
  const { pattern, protocol, pass, serve } = mount;
  const parameters = pattern.endsWith("*") ? { parameters: [pathParameter("rest")] } : {};
  if (serve)
    return {
      get: { ...pluginOperation(mount), ...(pattern.endsWith("/models") ? pageParameters(mounts) : parameters) },
    };
  if (pass) return passOperations(pattern, parameters);
  const socket = protocol?.socket;
  if (socket && !operationAt(mount)) return { get: handshake(mount, socket.modelParameter) };
  return { post: { ...protocolOperation(mount), ...parameters } };
}

/** Returns the page parameters of model lists. */
function pageParameters(mounts: readonly Mount[]): object {
  const protocols = new Set(mounts.flatMap(({ protocol }) => protocol ?? []));
  const parameters = [...protocols].flatMap(({ name, listing }) =>
    (listing?.parameters ?? []).map((each) => queryParameter(each, `A page, for clients of ${name}.`)),
  );
  return { parameters };
}

/** Returns the operation of a path; undefined: it depends on the rest of the path, or there is none. */
function operationAt({ pattern, protocol, as = pattern }: Mount): Operation | undefined {
  return pattern.endsWith("*") ? undefined : protocol?.locate(as, "", NO_QUERY)?.operation;
}

function protocolOperation(mount: Mount): object {
  const { pattern, protocol, strict } = mount;
  const form = operationAt(mount)?.body === "multipart";
  return {
    operationId: `post ${pattern}`,
    summary: `${protocol?.name ?? ""}, as its vendor describes it${strict ? "; nothing is dropped" : ""}.`,
    tags: [protocol?.name ?? ""],
    requestBody: {
      required: true,
      ...(form ? { content: { "multipart/form-data": { schema: ANY } } } : jsonContent(ANY)),
    },
    responses: answerResponses(pattern.endsWith("*") ? ANY_JSON : ANY),
  };
}

const answerResponses = (schema: object) => ({
  200: {
    description: "The answer, whole or as a stream.",
    headers: Object.fromEntries(Object.keys(HEADERS).map((name) => [name, { $ref: `#/components/headers/${name}` }])),
    content: { "application/json": { schema }, "text/event-stream": { schema: { type: "string" } } },
  },
  "4XX": REFUSED,
  "5XX": REFUSED,
});

/** A WebSocket begins as a GET, which is all that OpenAPI can describe. */
const handshake = ({ pattern, protocol }: Mount, model: string) => ({
  operationId: `get ${pattern}`,
  summary: `A WebSocket of ${protocol?.name ?? ""}, as its vendor describes it.`,
  tags: [protocol?.name ?? ""],
  parameters: [queryParameter(model, "The model.", true)],
  responses: {
    101: { description: "The WebSocket is open." },
    426: { description: "It was no handshake of a WebSocket.", ...jsonContent(ANY) },
    "4XX": REFUSED,
  },
});

/** Methods of vendors' APIs; any other is passed through too. */
const METHODS = ["get", "post", "put", "patch", "delete"] as const;
const WITH_BODY: readonly string[] = ["post", "put", "patch"];

function passOperations(pattern: string, parameters: object): Record<string, object> {
  const requestBody = { content: { "application/json": { schema: {} }, "multipart/form-data": { schema: ANY } } };
  return Object.fromEntries(
    METHODS.map((method) => [
      method,
      {
        operationId: `${method} ${pattern}`,
        summary: "Passes unread to a provider.",
        ...parameters,
        ...(WITH_BODY.includes(method) && { requestBody }),
        responses: { default: { description: "What the provider answers." } },
      },
    ]),
  );
}

/** Describes a passthrough path without its `/*`, which it matches too. */
function stemOperations({ pattern }: Mount): Record<string, object> {
  const stem = pattern.replace(/\/\*$/, "");
  return stem === pattern ? {} : { [stem]: passOperations(stem, {}) };
}

/** Describes the responses that a vendor stores, and the paths below them. */
function storedAnswerPaths({ pattern, protocol, as = pattern }: Mount): Record<string, object> {
  const { storedResponses, name } = protocol ?? {};
  if (!storedResponses || protocol?.paths[0] !== as) return {};
  const paths: Record<string, object> = {};
  for (const below of ["", ...storedResponses.subpaths.map((each) => `/${each}`)]) {
    const path = `${pattern}/{id}${below}`;
    const methods = METHODS.flatMap((method) => {
      const operation = storedResponses.locate(method.toUpperCase(), `id${below}`);
      if (!operation) return [];
      const summary = `${name}: ${operation.name} of an answer that the vendor keeps, for the key that made it.`;
      const about = { operationId: `${method} ${path}`, summary, tags: [name], parameters: [pathParameter("id")] };
      return [[method, { ...about, responses: answerResponses(ANY) }] as const];
    });
    paths[path] = Object.fromEntries(methods);
  }
  return paths;
}

const LIST = { type: "array", items: ANY };
/** The data of the marketplace's pages. */
const CATALOGUE = {
  get: {
    operationId: "get /pages/models.json",
    summary: "Models that are on and public, with what they can do, prices and health, as the marketplace shows them.",
    security: [],
    responses: {
      200: {
        description: "Without a key. Of what a key may use /v1/models tells.",
        ...jsonContent({
          type: "object",
          properties: {
            models: { ...LIST, description: "Each with id, limits, price, protocols and targets." },
            protocols: { ...LIST, description: "Those that have a path, and what a translation into each leaves out." },
            serves: { type: "array", items: { type: "string" }, description: "Paths that a plugin answers." },
            clients: { ...LIST, description: "Configuration of each client." },
          },
          required: ["models", "protocols", "serves", "clients"],
        }),
      },
    },
  },
};

const probe = (summary: string) => ({
  get: {
    summary,
    security: [],
    responses: { 200: { description: "Yes." }, 503: { description: "No: it stops." } },
  },
});

const header = (description: string) => ({ description, schema: { type: "string" } });

const HEADERS = {
  "x-request-id": header("Names the exchange, in log and ledger too."),
  "gateway-model": header("The model that served."),
  "gateway-target": header("Who served it, as PROVIDER:MODEL."),
  "gateway-attempts": header("How many times a provider was asked."),
  "gateway-notice": header("What the client should know: what was changed within its meaning, or read differently."),
  "gateway-dropped": header("Paths in the request that the provider's protocol cannot say."),
  "gateway-estimate": header("Names counts that are estimates."),
};
