import { z } from "zod";
import { Calendar } from "../core/calendar.ts";
import { VENDORS } from "../prices/vendors.ts";
import { PriceSchema } from "./price-schema.ts";
import {
  budget,
  date,
  limitOrOff,
  milliseconds,
  network,
  parseOrIssue,
  percent,
  period,
  positiveInteger,
  quantity,
  tokens,
} from "./quantities.ts";
import { parseCount, parseLimit, parsePercent, parseRetention, parseSize } from "./units.ts";

/**
 * The schema of gateway.yaml. Descriptions are shown by editors; `vocabulary` marks fields whose values only the running gateway
 * knows. Names of providers, models, chains and plugins are checked in names.ts, secrets and addresses in values.ts.
 */

const name = (what: string, pattern: RegExp) =>
  z.string().regex(pattern, {
    error: `not a name for a ${what}; write letters, digits and ${what === "model" ? ". _ - / : @ +" : ". _ -"} only`,
  });

const address = (what: string) =>
  z
    .union([z.string(), z.number()], { error: "expected an address like 127.0.0.1:8080" })
    .transform(String)
    .describe(`${what} HOST:PORT; :PORT listens on all addresses, PORT alone on 127.0.0.1. May contain $NAME.`);

const protocol = (what: string) => z.string().describe(what).meta({ vocabulary: "protocols" });

const TimeoutFields = {
  connect: milliseconds().describe("Time to connect, TLS included, like 5s."),
  first_byte: milliseconds().describe("Time from sending the request to the response's head, like 600s."),
  idle: milliseconds().describe("Time between two chunks of the response, like 120s."),
  total: milliseconds().describe("Time from start to end of an attempt, like 30m or off."),
};

const TimeoutsSchema = z.strictObject({
  connect: TimeoutFields.connect.prefault("5s"),
  first_byte: TimeoutFields.first_byte.prefault("600s"),
  idle: TimeoutFields.idle.prefault("120s"),
  total: TimeoutFields.total.prefault("off"),
});

const HealthFields = {
  failures: positiveInteger().describe("Failures in a row after which a target is suspended, like 5."),
  errors: percent().describe(
    "Share of failed requests in the window at which a target is suspended, like 50%; off: only `failures` counts.",
  ),
  requests: positiveInteger().describe("Requests in the window before the share `errors` applies, like 20."),
  window: period().describe("Length of the window, like 30s."),
  slow: milliseconds().describe(
    "A first byte that takes longer counts as a failure for `errors`, and so does a client that leaves after waiting longer for it; like 20s or off.",
  ),
  open: period().describe(
    "How long a target is suspended at first, like 30s; after that one request probes it, and each failed probe doubles the time.",
  ),
  longest: period().describe(
    "The longest suspension, like 5m. When absent: 30s, or `open` where that is longer; the time then does not grow.",
  ),
};

const HealthSchema = z.strictObject({
  failures: HealthFields.failures.default(5),
  errors: HealthFields.errors.prefault("50%"),
  requests: HealthFields.requests.default(20),
  window: HealthFields.window.prefault("30s"),
  slow: HealthFields.slow.prefault("off"),
  open: HealthFields.open.prefault("30s"),
  longest: HealthFields.longest.optional(),
  keep: percent()
    .describe("Share of a request's targets that is never suspended, like 50%; with 100% no target is.")
    .prefault("50%"),
});

const RetrySchema = z.strictObject({
  attempts: z
    .number()
    .int({ error: "expected a whole number" })
    .min(0, { error: "must not be less than 0" })
    .max(9, { error: "must not be more than 9" })
    .default(1)
    .describe(
      "Retries of a request, besides the first try, after failures where the provider may already have done work.",
    ),
  budget: percent()
    .describe("Upper bound of such retries, as a share of the requests of the last ten seconds.")
    .prefault("20%"),
  least: z
    .number()
    .min(0, { error: "must not be less than 0" })
    .default(2)
    .describe("Such retries per second that are allowed even when there are few requests."),
  wait: milliseconds().describe("The longest wait before a retry, like 2s; off: no retry waits.").prefault("2s"),
  after_timeout: z
    .boolean()
    .default(true)
    .describe(
      "After a timeout before the first byte, try another target, although the provider of the first may bill its work.",
    ),
  first_frame: milliseconds()
    .describe(
      "How long the gateway holds back a response's head: of a stream until its first frame (which may be an error), of a whole response until its first bytes (which may not be JSON). Until then another target can be tried. Off: the head is sent at once.",
    )
    .prefault("10s"),
});

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const header = () => z.string().regex(HEADER, { error: "not a header name; write it like x-api-key" });

const ProviderSchema = z
  .strictObject({
    url: z
      .string()
      .describe(
        'Base URL, ending with the version segment, like https://host/v1, which a bare host like https://host gets from the protocol; "demo:" is the built-in provider.',
      ),
    credential: z
      .union([z.string(), z.array(z.string()).min(1, { error: "at least one credential is needed" })], {
        error: "expected a text like $NAME, or a list of them",
      })
      .describe(
        `Credential sent to the provider: $NAME, "$\{NAME:-default}" or $file:/path. A list: used in turn, all of one account. When no variable of it is set, the provider is off.`,
      )
      .optional(),
    header: header().describe("Header that carries the credential, if it is not the protocol's usual one.").optional(),
    speaks: z
      .array(protocol("A protocol."))
      .min(1, { error: "at least one protocol is needed" })
      .describe("Protocols it speaks, best first.")
      .optional(),
    protocol: protocol("Short for `speaks` with one protocol.").optional(),
    websocket: z
      .boolean()
      .describe("The provider also accepts WebSockets, of the protocols that have them.")
      .default(false),
    forward: z
      .array(
        header().regex(/[^*]/, { error: "* alone would forward everything; name headers, or a prefix like x-acme-*" }),
      )
      .describe(
        "Client request headers that are forwarded besides the protocol's own; a prefix ends in *, like x-acme-*.",
      )
      .default([]),
    threads: z
      .boolean()
      .describe(
        "The provider keeps message threads, so that clients send only new messages. When absent: true if `url` is the vendor's own address.",
      )
      .optional(),
    shared: z
      .array(z.string())
      .describe(
        "Ids of objects at the provider that every key may name, like prompts and vector stores from the vendor's dashboard, and buckets (`gs://NAME`).",
      )
      .default([]),
    concurrency: quantity(parseLimit, "300, 128k or off")
      .describe(
        "Requests at the same time; further requests go to another target of the model, or wait as `overload` says.",
      )
      .prefault("off"),
    timeouts: z
      .strictObject(TimeoutFields)
      .partial()
      .describe("Timeouts of this provider that differ from the common ones.")
      .optional(),
    health: z
      .strictObject(HealthFields)
      .partial()
      .describe("Health settings of this provider that differ from the common ones.")
      .optional(),
    idempotency: header()
      .describe(
        "Header with which the provider executes a repeated request once, like idempotency-key; the gateway adds it if the client has not. Only for providers that document this.",
      )
      .optional(),
    vendor: z
      .enum(VENDORS)
      .describe("The vendor whose list prices apply. When absent: the vendor to whom the address belongs.")
      .optional(),
    warm: milliseconds()
      .describe("How long one idle TLS connection is kept open after the last request, like 5m or off.")
      .prefault("5m"),
  })
  .describe("An account at a vendor's address.");

const THINKING = ["budget", "adaptive", "level", "none"] as const;

/** Facts about a model for translation. */
const FactsSchema = z
  .strictObject({
    sampling: z
      .boolean()
      .describe("False: the model refuses temperature, top_p and top_k, so the gateway removes them.")
      .optional(),
    thinking: z
      .enum(THINKING)
      .describe(
        "How requests control the model's reasoning: budget (a number of tokens), adaptive (the model decides, within an effort), level (an effort), none. Default: budget for models of known vendors that accept only that.",
      )
      .optional(),
    system_in_place: z.boolean().describe("True: the model accepts system messages between turns.").optional(),
    prefill: z
      .boolean()
      .describe("True: the model continues an assistant message at the end of the request.")
      .optional(),
    cache_marks: z
      .boolean()
      .describe(
        "True: over the Chat protocol it accepts `prompt_cache_breakpoint` and `prompt_cache_options`. When absent: true if its vendor is known to accept them.",
      )
      .optional(),
  })
  .describe(
    "Facts that a translation needs about the model. Where a fact is absent, the request's fields are forwarded and the vendor decides.",
  );

const via = () =>
  protocol(
    "Protocol to use with providers that speak it, whatever the client speaks. When absent: the client's own, or else the provider's first.",
  );

const TargetSchema = z.union([
  z.string().describe("provider:vendor-model, split at the first colon."),
  z.strictObject({
    to: z.string().describe("provider:vendor-model, split at the first colon."),
    weight: z
      .number()
      .positive({ error: "must be more than 0" })
      .default(1)
      .describe("The target's share of requests, relative to the other targets."),
    price: PriceSchema.describe("The price at this target, if it differs from the model's.").optional(),
    via: via().optional(),
    facts: FactsSchema.optional(),
  }),
]);

/** Capabilities of a model, as listed for clients. */
const ABILITIES = [
  "tools",
  "vision",
  "audio",
  "video",
  "files",
  "json_schema",
  "reasoning",
  "caching",
  "web_search",
  "images",
  "embeddings",
] as const;

const ModelSchema = z
  .strictObject({
    name: z.string().describe("Name that people see; when absent, the id.").optional(),
    description: z.string().describe("One line for the marketplace.").optional(),
    aliases: z
      .array(z.string().min(1, { error: "an alias cannot be empty" }))
      .describe("Other names that clients may use; * matches any text.")
      .default([]),
    created: date().describe("Date shown in lists of models, like 2026-01-31.").optional(),
    context: tokens()
      .describe(
        "Size of the context window in tokens, like 128k; when absent, from public tables. Only shown in lists and on pages: the provider refuses a prompt that is too long.",
      )
      .optional(),
    output: tokens().describe("Maximum output tokens, like 64k; when absent, from public tables.").optional(),
    can: z.array(z.enum(ABILITIES)).describe("Capabilities of the model; when absent, from public tables.").optional(),
    price: PriceSchema.describe(
      "Price of the model; when absent, the vendors' list prices (see models --prices).",
    ).optional(),
    balance: z
      .enum(["weighted", "latency", "cheapest"])
      .default("weighted")
      .describe(
        "How requests are distributed over the targets: by weight; by time to first byte and running requests; or the cheapest first.",
      ),
    targets: z
      .array(TargetSchema)
      .min(1, { error: "at least one target is needed" })
      .describe("Targets that serve the model."),
    fallback: z
      .array(z.string())
      .describe(
        "Other models of this file that are tried in order when the targets fail before the first byte of a response.",
      )
      .default([]),
    via: via().optional(),
    facts: FactsSchema.optional(),
    public: z
      .boolean()
      .describe("False: the marketplace's pages do not show the model; keys that may use it still list it.")
      .default(true),
  })
  .describe("A model that clients may request.");

const PluginSchema = z
  .looseObject({
    from: z
      .string()
      .describe(
        "The plugin's file, like ./plugins/region.ts, or the name of an npm package. When absent: the file of this name in a plugins folder.",
      )
      .optional(),
    deadline: milliseconds()
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

/** A path in a key's scope, in which `*` matches any text; optionally preceded by the only method it may be used with. */
export const KEY_PATH = /^(?:(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )?[/*][^\s?#%\\]*$/;
/** The name of a tag. */
export const TAG = /^[A-Za-z0-9][\w.-]{0,62}$/;
/** An owner's name, and the value of a tag. */
export const LABEL = /^[^\p{C}]{1,100}$/u;
const LABEL_ERROR = "1 to 100 characters, no control characters";

/** The name of a group: a path, from the outermost group inwards. */
export const GROUP = /^[A-Za-z0-9][\w.-]*(?:\/[A-Za-z0-9][\w.-]*)*$/;

const LimitFields = {
  rpm: limitOrOff().describe("Requests per minute, like 300 or off.").optional(),
  tpm: limitOrOff().describe("Tokens per minute, input and output together, like 1M or off.").optional(),
  concurrency: limitOrOff().describe("Requests at the same time, like 20 or off.").optional(),
  budget: budget().optional(),
};
const LimitsSchema = z.strictObject(LimitFields);

const AllLimitsSchema = z.strictObject({
  default: LimitsSchema.describe("Limits of each key, where the key sets none of its own.").optional(),
  all: LimitsSchema.describe("Limits of all requests together.").optional(),
  groups: z
    .record(name("group", GROUP), LimitsSchema)
    .describe("Limits of a group: all its keys and those of the groups below it together, like acme or acme/research.")
    .default({}),
  models: z
    .record(z.string(), LimitsSchema)
    .describe("Limits of a model: all requests that it serves together.")
    .default({}),
  providers: z
    .record(z.string(), LimitsSchema)
    .describe("Limits of a provider: all requests that go to it together.")
    .default({}),
});

const KeySchema = z
  .strictObject({
    key: z
      .string()
      .describe("The key, 20 characters or more, preferably as $NAME; when the variable is not set, the key is off.")
      .optional(),
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, {
        error: "not a SHA-256 in hex (64 digits); compute it with: printf %s KEY | sha256sum",
      })
      .transform((hash) => hash.toLowerCase())
      .describe("The key's SHA-256 in hex, instead of `key`.")
      .optional(),
    models: z
      .array(z.string())
      .describe("Models that the key may use, by id; * matches any text, like fast-*. When absent: all.")
      .optional(),
    paths: z
      .array(
        z.string().regex(KEY_PATH, {
          error: "a path starts with /, or with a method and a space like GET /v1/files/*; * matches any text",
        }),
      )
      .describe(
        "Paths that the key may use, like /v1/chat/completions or /v1/*, or with one method only: GET /v1/files/*. When absent: all.",
      )
      .optional(),
    addresses: z
      .array(network())
      .describe(
        "Client addresses and ranges from which the key may be used, as determined with `trust`. When absent: all.",
      )
      .optional(),
    group: name("group", GROUP).describe("The group it belongs to, like acme/research.").optional(),
    owner: z.string().regex(LABEL, { error: LABEL_ERROR }).describe("The owner's name, for people.").optional(),
    tags: z
      .record(
        z.string().regex(TAG, { error: "not a name for a tag; write letters, digits and . _ - only" }),
        z.string().regex(LABEL, { error: LABEL_ERROR }),
      )
      .describe("Tags by which usage can be summed, like { team: search }; ledger rows keep the tags of their time.")
      .optional(),
    ...LimitFields,
    expires: date().describe("When the key expires, like 2026-12-31 (at the start of that day in UTC).").optional(),
  })
  .describe("A gateway key.");

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
  repeat: period().describe("Interval at which an alert that has not ended is repeated, like 4h.").prefault("4h"),
});

const EnvelopesSchema = z.strictObject({
  key: z
    .string()
    .describe(
      "Secret that encrypts the reasoning that clients send back in later requests: $NAME or $file:/path, 20 characters or more, the same for all instances. When absent: one is generated and stored with the ledger.",
    )
    .optional(),
});

const BodySchema = z.strictObject({
  limit: quantity(parseSize, "64MiB, 1MB or 512KiB")
    .describe("Maximum size of a request's body, like 32MiB.")
    .prefault("32MiB"),
  idle: milliseconds().describe("Maximum time between two chunks of a request's body, like 30s.").prefault("30s"),
  slowest: quantity(parseSize, "64MiB, 1MB or 512KiB")
    .describe(
      "Minimum average rate of a request's body in bytes per second as they are sent, like 1KiB; a slower request is refused. What came faster counts for as long as silence may last, the longer of `idle` and `patience`. 0B: no minimum.",
    )
    .prefault("1KiB"),
  patience: milliseconds()
    .refine((time) => time > 0, { error: "must be more than 0; slowest: 0B removes the minimum rate" })
    .describe("Time before `slowest` applies, like 10s.")
    .prefault("10s"),
  memory: quantity(parseSize, "64MiB, 1MB or 512KiB")
    .describe(
      "Maximum memory, in a process, for bodies that have not arrived completely or whose requests wait for limits, plugins or the beginning of a provider's answer, like 384MiB: what exceeds 64 KiB of each, decompressed.",
    )
    .prefault("384MiB"),
  memory_per_key: quantity(parseSize, "64MiB, 1MB or 512KiB")
    .describe(
      "The same for the bodies of one key, or of one client network without a key, until its limits have admitted the request, like 128MiB; at least one of `limit` fits.",
    )
    .prefault("128MiB"),
});

const ConnectionsSchema = z.strictObject({
  per_address: tokens()
    .refine((most) => most > 0, { error: "must be more than 0" })
    .describe(
      "Maximum connections of one client address (of IPv6, of one /64). Not counted: the proxies in `trust`, and this machine if `trust` is empty.",
    )
    .prefault(256),
  head: milliseconds().describe("Maximum time to receive a request's head, like 10s.").prefault("10s"),
  idle: milliseconds()
    .describe(
      "How long an idle connection is kept open, like 75s; must be longer than the proxy in front keeps idle connections.",
    )
    .prefault("75s"),
});

const OverloadSchema = z.strictObject({
  concurrency: quantity(parseLimit, "300, 128k or off")
    .describe("Requests at the same time, of all keys, like 4000 or off.")
    .prefault(4000),
  per_key: quantity(parseLimit, "300, 128k or off")
    .describe("Requests at the same time, of one key, like 2000 or off.")
    .prefault(2000),
  queue: quantity(parseCount, "300, 400_000, 128k or 1M")
    .describe("Requests that may wait for others to end; further ones get a 503 with retry-after.")
    .prefault(1000),
  wait: milliseconds().describe("How long a request may wait in that queue, like 2s; off: none waits.").prefault("2s"),
  delay: milliseconds()
    .describe(
      "How long new requests may wait for the event loop, in successive turns, before some are refused, like 200ms or off.",
    )
    .prefault("200ms"),
  heap: quantity(parsePercent, "85% or off")
    .describe("Share of V8's heap limit in use from which new requests are refused, like 85% or off.")
    .prefault("85%"),
});

const SocketsSchema = z.strictObject({
  idle: milliseconds().describe("How long a WebSocket may be idle in both directions, like 10m.").prefault("10m"),
  message: quantity(parseSize, "64MiB, 1MB or 512KiB")
    .describe("Maximum size of a message, like 16MiB.")
    .prefault("16MiB"),
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

const nonEmptyRecord = <Value extends z.ZodType>(names: z.ZodString, value: Value, what: string) =>
  z
    .record(names, value)
    .refine((entries) => Object.keys(entries).length > 0, { error: `at least one ${what} is needed` });

const OidcRolesSchema = z.strictObject({
  claim: z
    .string()
    .min(1)
    .describe("Claim with the user's groups or roles; dots name members of objects: realm_access.roles.")
    .default("groups"),
  admin: z.array(z.string()).describe("Values of the claim that give the role admin: read and change.").default([]),
  viewer: z
    .array(z.string())
    .describe('Values of the claim that give the role viewer: read only; "*": everybody who can sign in.')
    .default([]),
});

const OidcSchema = z.strictObject({
  issuer: z.string().describe("Issuer URL of the identity provider, as in its discovery document. May contain $NAME."),
  client_id: z.string().min(1).describe("Client id of this gateway at the identity provider. May contain $NAME."),
  client_secret: z.string().describe("Client secret: $NAME or $file:/path; absent for a public client.").optional(),
  url: z
    .string()
    .describe(
      "URL at which browsers reach the console, like https://console.example.com. Register its /api/session/callback at the identity provider.",
    ),
  scope: z.string().describe("Scopes that are requested.").default("openid profile email"),
  name: z
    .string()
    .min(1)
    .describe("Claim that names the user in the audit trail; when absent: email, preferred_username or sub.")
    .optional(),
  roles: OidcRolesSchema.prefault({}).describe("Which users get which role."),
});

const AdminSchema = z.strictObject({
  listen: address("Where the admin listener listens: an address, or unix:FILE.").prefault("127.0.0.1:9090"),
  token: z
    .string()
    .describe("Token that may read and change everything: $NAME or $file:/path, 20 characters or more.")
    .optional(),
  viewer: z.string().describe("Token that may only read: $NAME or $file:/path, 20 characters or more.").optional(),
  hosts: z
    .array(z.string())
    .describe("Further names that are accepted in the Host header, like console.example.com.")
    .default([]),
  session: period().prefault("12h").describe("How long a user stays signed in."),
  oidc: OidcSchema.describe(
    "Sign-in at an identity provider (OpenID Connect); needs the package openid-client.",
  ).optional(),
});

/** The form of a model id. */
export const MODEL_ID = /^[A-Za-z0-9@][\w.\-/:@+]*$/;

/** The form that browsers send: no path, no trailing slash. */
const ORIGIN = /^(?:\*|[a-z][a-z0-9+.-]*:\/\/(?:\*\.)?[a-z0-9.-]+(?::(?:\d{1,5}|\*))?)$/;

const CorsSchema = z.strictObject({
  origins: z
    .array(
      z.string().regex(ORIGIN, {
        error:
          'an origin is written like https://app.example.com, https://*.example.com or http://localhost:*, in small letters and without a path; "*" is any',
      }),
    )
    .min(1, { error: "at least one origin" })
    .describe(
      'Origins whose scripts may send requests: https://app.example.com, https://*.example.com, http://localhost:*, or "*" for all.',
    ),
  max_age: period().describe("How long a browser may cache the answer to a preflight, like 10m.").prefault("10m"),
});

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
      z.union([MountedPathSchema, z.literal("off")]),
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
    .array(network())
    .describe(
      "Proxies whose X-Forwarded-For header names the client: addresses and ranges, like 127.0.0.1 or 10.0.0.0/8. The header of anybody else is ignored.",
    )
    .default([]),
  connections: ConnectionsSchema.prefault({}).describe("Limits of clients' connections."),
  body: BodySchema.prefault({}).describe("Limits of a request's body."),
  sockets: SocketsSchema.prefault({}).describe("Limits of WebSockets."),
  overload: OverloadSchema.prefault({}).describe(
    "Overload protection: how many requests are accepted at the same time; running requests are never ended.",
  ),
  drain: milliseconds()
    .describe(
      "How long running exchanges may go on when the gateway stops, `linger` included, like 600s; off: until they end.",
    )
    .prefault("600s"),
  linger: milliseconds()
    .describe(
      "How long a stopping gateway still accepts connections and serves idle ones, so that load balancers can notice; like 5s or off.",
    )
    .prefault("5s"),
  warm_up: milliseconds()
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
    })
    .prefault({})
    .describe("The log."),
});

/** The file with units converted and defaults filled in; names, secrets and addresses are still as written. */
export type GatewayFile = z.output<typeof FileSchema>;
