import { z } from "zod";
import { Calendar } from "../core/calendar.ts";
import { LOG_FIELDS } from "../core/exchange-log.ts";
import { milliseconds, network, parseOrIssue, period, quantity } from "./quantities.ts";
import { AdminSchema } from "./schema/admin.ts";
import { address, name, nonEmptyRecord, protocol } from "./schema/fields.ts";
import { AllLimitsSchema, KeySchema } from "./schema/key.ts";
import { MODEL_ID, ModelSchema } from "./schema/model.ts";
import { HealthSchema, ProviderSchema, RetrySchema, TimeoutsSchema } from "./schema/provider.ts";
import {
  AnswersSchema,
  BodySchema,
  ConnectionsSchema,
  CorsSchema,
  CrashDrainSchema,
  OverloadSchema,
  SocketsSchema,
} from "./schema/server.ts";
import { parseRetention } from "./units.ts";

// The schema of gateway.yaml. Descriptions are shown by editors; `extensions` marks fields whose values only the running gateway
// knows. Names of providers, models, chains and plugins are checked in names.ts, secrets and addresses in values.ts.

const PluginSchema = z
  .looseObject({
    from: z
      .string()
      .describe(
        "The plugin's file, like ./plugins/region.ts, or the name of an npm package. When absent: the file of this name in a plugins folder.",
      )
      .optional(),
    deadline: milliseconds
      .describe(
        "How long one phase of the plugin may take before the request ends with plugin_timeout; when absent, 10s.",
      )
      .optional(),
  })
  .nullable()
  .describe("Options of a plugin.");

const MountedPathSchema = z
  .strictObject({
    protocol: protocol("The protocol spoken on this path.").optional(),
    serve: z.string().describe("The plugin that answers on this path, instead of a protocol.").optional(),
    pass: z
      .string()
      .describe(
        "Makes this a pass-through path: the provider to which requests are forwarded as they are, with bodies streamed in both directions; instead of a protocol.",
      )
      .optional(),
    use: z
      .union([z.string(), z.array(z.string())], { error: "expected the name of a chain, or a list of plugins" })
      .describe(
        "The name of a chain, or a list of plugins. When absent: `llm` for `protocol`, `read` for `serve`, `pass` for `pass`.",
      )
      .optional(),
    open: z
      .boolean()
      .describe(
        "With `pass`: also accept keys that are limited to models or have a budget, although the gateway cannot know which model is used or what it costs.",
      )
      .default(false),
    mint: z
      .boolean()
      .describe("With `pass`: also accept requests that create the vendor's own keys, which work without this gateway.")
      .default(false),
    strict: z
      .boolean()
      .describe(
        "Refuse a request with a field that the provider's protocol cannot express, instead of dropping the field.",
      )
      .default(false),
  })
  .describe("How requests to a path are served; the path's last segment may be *.");

const StoreSchema = z.strictObject({
  ledger: z
    .string()
    .describe(
      "Database of keys, usage and everything else that is stored: sqlite:FILE, or for several instances postgres://USER:PASSWORD@HOST/DATABASE; may be $NAME.",
    )
    .prefault("sqlite:./data/gateway.db"),
  journal: z
    .string()
    .describe(
      "Folder of this machine's journals when the ledger is in PostgreSQL; each database needs its own folder. When absent: ./data/journal.",
    )
    .optional(),
  limits: z
    .string()
    .describe(
      "Where limits are counted: memory, for one gateway; or redis://HOST:6379 (Redis or Valkey) for all gateways that use it; rediss:// with TLS, whose files are query parameters: ?cacert=FILE&cert=FILE&key=FILE.",
    )
    .prefault("memory"),
  durability: z
    .enum(["process", "power"], { error: 'expected "process" or "power"' })
    .describe(
      "What a ledger row survives once the response's last byte is sent: process, the end of the gateway's process; power, also a power cut, at the price of a disk flush in each event loop turn in which exchanges begin or end.",
    )
    .default("process"),
  keep: quantity(parseRetention, "400d, 52w or off")
    .describe(
      "How long rows of single exchanges are kept, like 400d; off: forever. Sums by hour, day and week are always kept.",
    )
    .prefault("off"),
});

const AlertsSchema = z.strictObject({
  webhook: z
    .string()
    .describe(
      "URL to which alerts are posted in Slack's webhook format: $NAME or $file:/path, because it is a secret.",
    ),
  repeat: period.describe("Interval at which an alert that has not ended is repeated, like 4h.").prefault("4h"),
});

const EnvelopesSchema = z.strictObject({
  key: z
    .string()
    .describe(
      "Secret that encrypts the reasoning that clients send back in later requests: $NAME or $file:/path, 20 characters or more, the same for all instances. When absent: one is generated and stored with the ledger.",
    )
    .optional(),
});

/** Chains that exist unless the file defines them. */
export const DEFAULT_CHAINS: Readonly<Record<string, readonly string[]>> = {
  llm: ["sse", "auth", "scrub", "models", "limits", "rewrite", "usage"],
  read: ["auth"],
  pass: ["auth", "scrub", "limits", "usage"],
};

/** The kinds of a path; it has exactly one. */
export const PATH_KINDS = ["protocol", "serve", "pass"] as const;

/** The default paths of no single protocol, each with the plugin that serves it. */
export const SERVED_PATHS: Readonly<Record<string, string>> = {
  "/v1/models": "models",
  "/v1beta/models": "models",
  "/v1/key": "limits",
  "/v1/requests": "usage",
};

/** More than any machine has cores for; a larger number is a typing error. */
const MAX_WORKERS = 256;

/** The whole file, without its `x-…` sections. */
export const FileSchema = z.strictObject({
  listen: address("Where clients connect.").prefault("127.0.0.1:8080"),
  pages: z
    .enum(["on", "off"])
    .describe(
      "Serves the marketplace's web pages at / and /models of `listen`, with a playground; off: browsers get the same JSON as other clients.",
    )
    .default("on"),
  cors: z
    .union([z.literal("off"), CorsSchema], { error: "expected off, or { origins: [https://app.example.com] }" })
    .describe(
      "Cross-origin requests (CORS): web pages of other origins whose scripts may send requests, with a gateway key, from a browser.",
    )
    .default("off"),
  admin: z
    .union([address("Where the admin listener listens: an address, unix:FILE, or off."), AdminSchema], {
      error:
        "expected an address like 127.0.0.1:9090, unix:FILE, off, or { listen, token, viewer, hosts, session, oidc }",
    })
    .describe("The admin listener, for operators and never public: console, admin API, metrics, /livez and /readyz.")
    .prefault("127.0.0.1:9090"),
  workers: z
    .union(
      [
        z.literal("auto"),
        z
          .int()
          .min(1, { error: "at least one" })
          .max(MAX_WORKERS, { error: `at most ${MAX_WORKERS}` }),
      ],
      {
        error: "expected a number of processes like 2, or auto",
      },
    )
    .describe(
      "Processes that serve requests; auto: one per core. With 2 or more, one more process accepts the connections and passes them on.",
    )
    .default(1),
  providers: nonEmptyRecord(name("provider", /^[A-Za-z0-9][\w.-]*$/), ProviderSchema, "provider").describe(
    "Provider accounts that the gateway calls.",
  ),
  timeouts: TimeoutsSchema.prefault({}).describe("How long the gateway waits for providers."),
  retry: RetrySchema.prefault({}).describe(
    "When a failed request is retried, before the first byte has reached the client.",
  ),
  health: HealthSchema.prefault({}).describe("When a target is suspended, and for how long."),
  models: nonEmptyRecord(name("model", MODEL_ID), ModelSchema, "model").describe(
    "The marketplace: the models that clients may request.",
  ),
  plugins: z
    .record(z.string(), PluginSchema)
    .describe("Options of plugins, by name; a name is a file in plugins/ unless `from` says otherwise.")
    .default({}),
  chains: z
    .record(name("chain", /^[A-Za-z0-9][\w.-]*$/), z.array(z.string()))
    .describe(
      "Lists of plugins, in the order in which a request passes them. The chains llm, read and pass exist by default.",
    )
    .default({}),
  paths: z
    .record(
      z.string().regex(/^\/(?!\/)[^\s?#%\\]*$/, { error: "a path starts with one / and has no ?, #, %, \\ or space" }),
      z.union([MountedPathSchema, z.literal("off")], {
        error: "expected off, or a map like { protocol: …, use: llm }, { serve: models } or { pass: PROVIDER }",
      }),
    )
    .describe("Paths besides the default ones, or settings of a default one; `off` removes it.")
    .default({}),
  limits: AllLimitsSchema.prefault({}).describe(
    "Limits of requests, tokens and money; a request must satisfy every level that applies to it.",
  ),
  timezone: z
    .string()
    .transform((zone, reading) => parseOrIssue(() => new Calendar(zone).zone, zone, reading))
    .describe("Time zone in which the days, weeks and months of budgets begin, like Europe/Berlin.")
    .prefault("UTC"),
  keys: z
    .record(name("key", /^[A-Za-z0-9][\w.-]*$/), KeySchema)
    .describe("Keys defined in this file; others are created at run time.")
    .default({}),
  share: z
    .enum(["key", "group", "all"])
    .describe(
      "Which keys may name an object that a key created at a provider (a file, store, container or response): that key, the keys of its group, or all.",
    )
    .default("key"),
  store: StoreSchema.prefault({}).describe("Where state is kept."),
  instances: z
    .int()
    .min(1)
    .max(1000)
    .describe(
      "Number of gateways behind one load balancer. With redis:// for limits, each gateway enforces its part of them while Redis is unavailable.",
    )
    .optional(),
  envelopes: EnvelopesSchema.prefault({}).describe(
    "How clients of other protocols carry content that only the provider can read, like encrypted reasoning.",
  ),
  trace: z
    .enum(["on", "off"])
    .describe(
      "Forward the client's traceparent (W3C Trace Context: random ids) to providers; tracestate is forwarded if the provider's `forward` names it.",
    )
    .default("on"),
  alerts: AlertsSchema.describe(
    "Alerts about budgets, rejected credentials, failing targets, a lagging ledger and failed reloads.",
  ).optional(),
  trust: z
    .array(network)
    .describe(
      "Proxies whose X-Forwarded-For header names the client: addresses and ranges, like 127.0.0.1 or 10.0.0.0/8. The header of anybody else is ignored.",
    )
    .default([]),
  connections: ConnectionsSchema.prefault({}).describe("Limits of clients' connections."),
  body: BodySchema.prefault({}).describe("Limits of a request's body."),
  answers: AnswersSchema.prefault({}).describe("Limits of providers' answers."),
  sockets: SocketsSchema.prefault({}).describe("Limits of WebSockets."),
  overload: OverloadSchema.prefault({}).describe(
    "Overload protection: how many requests are accepted at the same time; running requests are never ended.",
  ),
  drain: milliseconds
    .describe(
      "How long running exchanges may go on when the gateway stops, `linger` included, like 600s; off: until they end.",
    )
    .prefault("600s"),
  linger: milliseconds
    .describe(
      "How long a stopping gateway still accepts connections and serves idle ones, so that load balancers can notice; like 5s or off.",
    )
    .prefault("5s"),
  crash_drain: CrashDrainSchema,
  warm_up: milliseconds
    .describe(
      "How long the gateway warms up with requests of its own before it accepts clients, so that the first requests are not slow; like 1s or off.",
    )
    .prefault("1s"),
  log: z
    .strictObject({
      level: z
        .enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"])
        .default("info")
        .describe("The lowest level that is logged."),
      fields: z
        .array(z.enum(LOG_FIELDS))
        .default([])
        .describe(
          "Fields added to the line of each request: the key's owner, group and tags, the operation, the cost in USD, the client's User-Agent.",
        ),
    })
    .prefault({})
    .describe("The log."),
});

/** The file with units converted and defaults filled in; names, secrets and addresses are still as written. */
export type GatewayFile = z.output<typeof FileSchema>;
