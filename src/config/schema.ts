import { z } from "zod";
import { Calendar } from "../core/calendar.ts";
import { VENDORS } from "../prices/vendors.ts";
import {
  budget,
  date,
  milliseconds,
  most,
  network,
  number,
  percent,
  period,
  quantity,
  readOr,
  tokens,
} from "./quantities.ts";
import { age, count, limit, part, size } from "./units.ts";

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
    .describe(`${what} HOST:PORT; :PORT for every address of this machine, PORT alone for 127.0.0.1. May hold $NAME.`);

const protocol = (what: string) => z.string().describe(what).meta({ vocabulary: "protocols" });

const TimeoutFields = {
  connect: milliseconds().describe("Until the connection stands, like 5s."),
  first_byte: milliseconds().describe("From the request to the head of the answer, like 600s."),
  idle: milliseconds().describe("Between two pieces of an answer, like 120s."),
  total: milliseconds().describe("From start to end of an attempt, like 30m or off."),
};

const TimeoutsSchema = z.strictObject({
  connect: TimeoutFields.connect.prefault("5s"),
  first_byte: TimeoutFields.first_byte.prefault("600s"),
  idle: TimeoutFields.idle.prefault("120s"),
  total: TimeoutFields.total.prefault("off"),
});

const HealthFields = {
  failures: number().describe("Failures in a row after which a target is left alone, like 5."),
  errors: percent().describe("The share of failures in the window after which it is, like 50%; off: no share."),
  requests: number().describe("Requests in the window from which on that share counts, like 20."),
  window: period().describe("The time that is looked at, like 30s."),
  slow: milliseconds().describe(
    "A first byte that comes later counts as a failure in that share, and so does a client that leaves after longer without one, like 20s or off.",
  ),
  open: period().describe("How long it is left alone at first, like 30s; twice as long each time its one probe fails."),
  longest: period().describe(
    "How long at most, like 5m; absent: 30s, or `open` where that is longer, so that it does not grow.",
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
    .describe("The share of a request's targets that is never left alone, like 50%; with 100% none ever is.")
    .prefault("50%"),
});

const RetrySchema = z.strictObject({
  attempts: z
    .number()
    .int({ error: "expected a whole number" })
    .min(0, { error: "must not be less than 0" })
    .max(9, { error: "must not be more than 9" })
    .default(1)
    .describe("Tries besides the first that a provider may have worked on."),
  budget: percent().describe("Such tries at most, as a share of the requests of the last ten seconds.").prefault("20%"),
  least: z
    .number()
    .min(0, { error: "must not be less than 0" })
    .default(2)
    .describe("Such tries per second that are granted however few requests there are."),
  wait: milliseconds()
    .describe("How long a request waits for its next try at most, like 2s; off: it does not.")
    .prefault("2s"),
  after_timeout: z
    .boolean()
    .default(true)
    .describe("Try another target behind one that did not begin to answer in time, though it may bill its work."),
  first_frame: milliseconds()
    .describe(
      "How long the head of a stream waits for its first frame, which may be an error, and that of a whole answer for its beginning, which may be no JSON; off: they do not.",
    )
    .prefault("10s"),
});

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const header = () => z.string().regex(HEADER, { error: "not a header name; write it like x-api-key" });

const ProviderSchema = z
  .strictObject({
    url: z
      .string()
      .describe('Address that ends with the version segment, like https://host/v1, or "demo:" for the built-in one.'),
    credential: z
      .union([z.string(), z.array(z.string()).min(1, { error: "at least one credential is needed" })], {
        error: "expected a text like $NAME, or a list of them",
      })
      .describe(
        `What is shown to the provider: $NAME, "$\{NAME:-default}" or $file:/path; a list: in turn, all of one account. Where no variable is set the provider is off.`,
      )
      .optional(),
    header: header().describe("Header for the credential, where it is not the protocol's usual one.").optional(),
    speaks: z
      .array(protocol("A protocol."))
      .min(1, { error: "at least one protocol is needed" })
      .describe("Protocols it speaks, best first.")
      .optional(),
    protocol: protocol("Short for `speaks` with one protocol.").optional(),
    websocket: z
      .boolean()
      .describe("It takes the WebSockets of the protocols that have them, besides what it speaks.")
      .default(false),
    forward: z
      .array(
        header().regex(/[^*]/, { error: "* alone would forward everything; name headers, or a prefix like x-acme-*" }),
      )
      .describe("Request headers of clients that go upstream besides the protocol's own; a prefix may end in *.")
      .default([]),
    threads: z
      .boolean()
      .describe(
        "It keeps message threads, so that clients send only what is new; when absent, where its address is the vendor's own.",
      )
      .optional(),
    shared: z
      .array(z.string())
      .describe(
        "Ids of objects there that every key may name, like prompts and vector stores of the vendor's dashboard, and buckets (`gs://NAME`).",
      )
      .default([]),
    concurrency: quantity(limit, "300, 128k or off")
      .describe("Requests at a time; further ones go to another target of the model, or wait as `overload` says.")
      .prefault("off"),
    timeouts: z.strictObject(TimeoutFields).partial().describe("Where they differ from the common ones.").optional(),
    health: z.strictObject(HealthFields).partial().describe("Where it differs from the common one.").optional(),
    idempotency: header()
      .describe(
        "Header whose value makes the provider do once what it is sent twice, like idempotency-key; the gateway adds it where the client has not. Only for providers that promise that.",
      )
      .optional(),
    vendor: z
      .enum(VENDORS)
      .describe("The vendor whose list prices hold there; when absent, whose address it is.")
      .optional(),
    warm: milliseconds()
      .describe("How long after the last request one TLS connection is kept ready, like 5m or off.")
      .prefault("5m"),
  })
  .describe("An account at a vendor's address.");

const usd = (what: string) => z.number().min(0, { error: "must not be less than 0" }).describe(what).optional();

/** Number of decimals: prices are calculated in millionths of USD per million tokens. */
const DECIMALS = 6;
const rate = (what: string) =>
  usd(what).refine((price) => price === undefined || Number(price.toFixed(DECIMALS)) === price, {
    error: `has more than ${DECIMALS} decimals; prices are in USD per million tokens`,
  });

const RateFields = {
  input: rate("USD per million tokens that go in."),
  cached: rate("USD per million tokens read from the vendor's prompt cache; like `input` when absent."),
  cache_write: rate("USD per million tokens written to it; like `input` when absent."),
  cache_write_1h: rate("USD per million tokens written to it for an hour or longer; like `cache_write` when absent."),
  output: rate("USD per million tokens that come out."),
  reasoning: rate("USD per million tokens of reasoning; like `output` when absent."),
  input_audio: rate("USD per million tokens of audio that go in; like `input` when absent."),
  cached_audio: rate("USD per million of those read from the cache; like `cached` when absent."),
  output_audio: rate("USD per million tokens of audio that come out; like `output` when absent."),
  input_image: rate("USD per million tokens of images that go in; like `input` when absent."),
  cached_image: rate("USD per million of those read from the cache; like `cached` when absent."),
  output_image: rate("USD per million tokens of images that come out; like `output` when absent."),
  input_video: rate("USD per million tokens of video that go in; like `input` when absent."),
};

const TieredFields = {
  ...RateFields,
  above: z
    .array(
      z.strictObject({
        tokens: tokens().describe("More tokens in than these, like 200k."),
        ...RateFields,
      }),
    )
    .describe("What the whole of a request costs that has more tokens in; what is left out costs the same.")
    .optional(),
};

const perImage = (what: string) =>
  z
    .union([z.number().min(0), z.record(z.string(), z.number().min(0))])
    .describe(
      `${what}: a number, or one for each quality and size that can be asked for, like { "": 0.04, "hd 1024x1792": 0.12 }.`,
    )
    .optional();

const serviceTier = (name: string) =>
  z
    .strictObject(TieredFields)
    .describe(`What differs where the provider says that it served in its ${name} tier.`)
    .optional();

const PriceSchema = z.strictObject({
  ...TieredFields,
  batch: serviceTier("batch"),
  flex: serviceTier("flex"),
  priority: serviceTier("priority"),
  fast: z
    .strictObject(TieredFields)
    .describe("What differs where the provider says that it served in its fast mode (`speed: fast`).")
    .optional(),
  request: usd("USD per request."),
  web_search: usd("USD per search of the web by the vendor's tool."),
  image: perImage("USD per picture made from words"),
  image_edit: perImage("USD per picture made from other pictures"),
  image_generation: z
    .record(z.string(), z.strictObject(RateFields))
    .describe("Rates of models that the vendor's tool draws with, by their names; `*` is any other.")
    .optional(),
});

const THINKING = ["budget", "adaptive", "level", "none"] as const;

/** Facts about a model for translation. */
const FactsSchema = z
  .strictObject({
    sampling: z.boolean().describe("False: it refuses temperature, top_p and top_k, so they are left out.").optional(),
    thinking: z
      .enum(THINKING)
      .describe(
        "How it is asked to think: budget (so many tokens), adaptive (as it likes, with an effort), level (an effort), none; when absent, budget for the models of known vendors that take nothing else.",
      )
      .optional(),
    system_in_place: z.boolean().describe("True: it takes system messages between turns.").optional(),
    prefill: z.boolean().describe("True: it continues an assistant's turn at the end.").optional(),
    cache_marks: z
      .boolean()
      .describe(
        "True: as a Chat provider it takes `prompt_cache_breakpoint` and `prompt_cache_options`; when absent, whether its vendor is known to.",
      )
      .optional(),
  })
  .describe("What a translation must know of the model; what is left out is passed on for the vendor to judge.");

const via = () =>
  protocol(
    "The protocol to speak with providers that speak it, whatever the caller speaks; when absent the caller's own, or else the first of theirs.",
  );

const TargetSchema = z.union([
  z.string().describe("provider:vendor-model, split at the first colon."),
  z.strictObject({
    to: z.string().describe("provider:vendor-model, split at the first colon."),
    weight: z
      .number()
      .positive({ error: "must be more than 0" })
      .default(1)
      .describe("Its share, relative to the other targets."),
    price: PriceSchema.describe("What it costs there, where that is not the model's price.").optional(),
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
    name: z.string().describe("Name for people; the id when absent.").optional(),
    description: z.string().describe("One line for the marketplace.").optional(),
    aliases: z
      .array(z.string().min(1, { error: "an alias cannot be empty" }))
      .describe("Other names that clients may use; in one, * stands for any text.")
      .default([]),
    created: date().describe("Date that lists of models show, like 2026-01-31.").optional(),
    context: tokens()
      .describe(
        "Tokens that fit in, like 128k; when absent, what public tables say. Told in lists and on pages: a prompt that is too long is the provider's to refuse.",
      )
      .optional(),
    output: tokens()
      .describe("Tokens that come out at most, like 64k; when absent, what public tables say.")
      .optional(),
    can: z.array(z.enum(ABILITIES)).describe("What it can do; when absent, what public tables say.").optional(),
    price: PriceSchema.describe(
      "What it costs; when absent, the vendors' list prices: see models --prices.",
    ).optional(),
    balance: z
      .enum(["weighted", "latency", "cheapest"])
      .default("weighted")
      .describe(
        "How its targets share the requests: by weight; by the time to the first byte and what runs there; or the cheapest first.",
      ),
    targets: z.array(TargetSchema).min(1, { error: "at least one target is needed" }).describe("Who serves it."),
    fallback: z
      .array(z.string())
      .describe("Other models of this file, tried in order before the first byte of an answer.")
      .default([]),
    via: via().optional(),
    facts: FactsSchema.optional(),
    public: z
      .boolean()
      .describe("False: the marketplace's pages do not show it; keys that may use it still do.")
      .default(true),
  })
  .describe("What clients may name.");

const PluginSchema = z
  .looseObject({
    from: z
      .string()
      .describe(
        "Its file, like ./plugins/region.ts, or the name of an npm package; else a file of this name in a plugins folder.",
      )
      .optional(),
    deadline: milliseconds()
      .describe("How long one of its phases may take before the request ends with plugin_timeout; 10s when absent.")
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
      .describe("The provider to which requests pass unread, bodies streaming both ways, instead of a protocol.")
      .optional(),
    use: z
      .union([z.string(), z.array(z.string())], { error: "expected the name of a chain, or a list of plugins" })
      .describe(
        "The name of a chain, or a list of plugins; `llm` for a protocol, `read` for a plugin, `pass` for a provider when absent.",
      )
      .optional(),
    open: z
      .boolean()
      .describe(
        "With `pass`: takes keys too that are limited to models or have a budget, though nobody knows which model is used and what it costs.",
      )
      .default(false),
    mint: z
      .boolean()
      .describe("With `pass`: takes calls too that make keys of the vendor's own, which work without this gateway.")
      .default(false),
    strict: z
      .boolean()
      .describe("Refuse what the provider's protocol cannot say, instead of dropping it.")
      .default(false),
  })
  .describe("What happens on a path; its last segment may be *.");

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
  rpm: most().describe("Requests per minute, like 300 or off.").optional(),
  tpm: most().describe("Tokens per minute, in and out, like 1M or off.").optional(),
  concurrency: most().describe("Requests at the same time, like 20 or off.").optional(),
  budget: budget().optional(),
};
const LimitsSchema = z.strictObject(LimitFields);

const AllLimitsSchema = z.strictObject({
  default: LimitsSchema.describe("A key's own, where it says nothing.").optional(),
  all: LimitsSchema.describe("Of all requests together.").optional(),
  groups: z
    .record(name("group", GROUP), LimitsSchema)
    .describe("Of all keys of a group and of the groups below it together, like acme or acme/research.")
    .default({}),
  models: z.record(z.string(), LimitsSchema).describe("Of all requests together that a model serves.").default({}),
  providers: z.record(z.string(), LimitsSchema).describe("Of all requests together that go to a provider.").default({}),
});

const KeySchema = z
  .strictObject({
    key: z
      .string()
      .describe("The key, 20 characters or more: best as $NAME. Where the variable is not set the key is off.")
      .optional(),
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, { error: "not a SHA-256 in hex (64 digits); make it with: printf %s KEY | sha256sum" })
      .transform((hash) => hash.toLowerCase())
      .describe("Instead of the key: its SHA-256 in hex.")
      .optional(),
    models: z
      .array(z.string())
      .describe("Models it may use, by id; * stands for any text, like fast-*. All when absent.")
      .optional(),
    paths: z
      .array(
        z.string().regex(KEY_PATH, {
          error: "a path starts with /, or with a method and a space like GET /v1/files/*; * in it stands for any text",
        }),
      )
      .describe(
        "Paths it may use, like /v1/chat/completions or /v1/*, or with one method only: GET /v1/files/*. All when absent.",
      )
      .optional(),
    addresses: z
      .array(network())
      .describe("Addresses and ranges it may be used from, as `trust` tells them. All when absent.")
      .optional(),
    group: name("group", GROUP).describe("The group it belongs to, like acme/research.").optional(),
    owner: z.string().regex(LABEL, { error: LABEL_ERROR }).describe("Whose it is, for people.").optional(),
    tags: z
      .record(
        z.string().regex(TAG, { error: "not a name for a tag; write letters, digits and . _ - only" }),
        z.string().regex(LABEL, { error: LABEL_ERROR }),
      )
      .describe("What usage can be summed up by, like { team: search }; the ledger keeps them as they were.")
      .optional(),
    ...LimitFields,
    expires: date().describe("When it stops opening, like 2026-12-31 (its first moment in UTC).").optional(),
  })
  .describe("A gateway key.");

const StoreSchema = z.strictObject({
  ledger: z
    .string()
    .describe(
      "Where keys, usage and all else is kept: sqlite:FILE, or for several instances postgres://USER:PASSWORD@HOST/DATABASE, also as $NAME.",
    )
    .prefault("sqlite:./data/gateway.db"),
  journal: z
    .string()
    .describe(
      "The folder of this machine's journals, where the ledger is in PostgreSQL: each database needs one of its own. When absent: ./data/journal.",
    )
    .optional(),
  limits: z
    .string()
    .describe(
      "Where running counts are kept: memory, which counts for one gateway, or redis://HOST:6379, or rediss:// with TLS (behind ?: cacert, cert, key: files), Redis or Valkey, for all that use it.",
    )
    .prefault("memory"),
  durability: z
    .enum(["process", "power"], { error: 'expected "process" or "power"' })
    .describe(
      "What an exchange's row survives from the moment on at which its answer's last byte has left: process, the death of the gateway; power, a power cut too, for a disk's flush in each turn in which exchanges begin or end.",
    )
    .default("process"),
  keep: quantity(age, "400d, 52w or off")
    .describe(
      "How long rows of single exchanges are kept, like 400d; sums by the hour, day and week stay for good. Off: for good too.",
    )
    .prefault("off"),
});

const AlertsSchema = z.strictObject({
  webhook: z
    .string()
    .describe("Where they are posted, as Slack and what imitates it take them: $URL or $file:/path; it is a secret."),
  repeat: period().describe("After how long what has not ended is told again, like 4h.").prefault("4h"),
});

const EnvelopesSchema = z.strictObject({
  key: z
    .string()
    .describe(
      "Seals reasoning that clients carry from one request to the next: $NAME or $file:/path, 20 characters or more; the same for all instances. When absent one is made and kept beside the ledger.",
    )
    .optional(),
});

const BodySchema = z.strictObject({
  limit: quantity(size, "64MiB, 1MB or 512KiB")
    .describe("Size of a request's body at most, like 32MiB.")
    .prefault("32MiB"),
  idle: milliseconds().describe("Between two pieces of a request's body, like 30s.").prefault("30s"),
  slowest: quantity(size, "64MiB, 1MB or 512KiB")
    .describe("Bytes a second, on average, below which a body is given up, like 1KiB; 0B: never.")
    .prefault("1KiB"),
  patience: milliseconds()
    .refine((time) => time > 0, { error: "must be more than 0; slowest: 0B lets bodies come as slowly as they like" })
    .describe("Before `slowest` counts, like 10s.")
    .prefault("10s"),
});

const ConnectionsSchema = z.strictObject({
  per_address: tokens()
    .refine((most) => most > 0, { error: "must be more than 0" })
    .describe(
      "How many one address may hold, of IPv6 one /64. Not counted: proxies that `trust` names, and where it names none, this machine.",
    )
    .prefault(256),
  head: milliseconds().describe("For the head of a request, like 10s.").prefault("10s"),
  idle: milliseconds()
    .describe("Without a request, like 75s; longer than the proxy in front keeps an unused connection.")
    .prefault("75s"),
});

const OverloadSchema = z.strictObject({
  concurrency: quantity(limit, "300, 128k or off")
    .describe("Requests at a time, of all keys, like 4000 or off.")
    .prefault(4000),
  per_key: quantity(limit, "300, 128k or off")
    .describe("Requests at a time of one key, like 2000 or off.")
    .prefault(2000),
  queue: quantity(count, "300, 400_000, 128k or 1M")
    .describe("Requests that may wait for others to end; beyond, a 503 says when to come again.")
    .prefault(1000),
  wait: milliseconds().describe("How long one may wait, like 2s; off: none waits.").prefault("2s"),
  delay: milliseconds()
    .describe(
      "How long new requests may wait for the gateway itself, turn after turn, before some are refused, like 200ms or off.",
    )
    .prefault("200ms"),
  heap: quantity(part, "85% or off")
    .describe("The part of the memory that V8 may use at which new requests are refused, like 85% or off.")
    .prefault("85%"),
});

const SocketsSchema = z.strictObject({
  idle: milliseconds().describe("Without a byte in either direction, like 10m.").prefault("10m"),
  message: quantity(size, "64MiB, 1MB or 512KiB").describe("Size of a message at most, like 16MiB.").prefault("16MiB"),
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

const some = <Value extends z.ZodType>(names: z.ZodString, value: Value, what: string) =>
  z
    .record(names, value)
    .refine((entries) => Object.keys(entries).length > 0, { error: `at least one ${what} is needed` });

const OidcRolesSchema = z.strictObject({
  claim: z
    .string()
    .min(1)
    .describe("Where somebody's groups or roles stand; dots lead into objects: realm_access.roles.")
    .default("groups"),
  admin: z.array(z.string()).describe("Values of the claim that may change things.").default([]),
  viewer: z.array(z.string()).describe('Values that may look; "*": everybody who can sign in there.').default([]),
});

const OidcSchema = z.strictObject({
  issuer: z.string().describe("The identity provider, as its discovery document names it. May hold $NAME."),
  client_id: z.string().min(1).describe("Of this gateway, as it was registered there. May hold $NAME."),
  client_secret: z.string().describe("$NAME or $file:/path; left out for a public client.").optional(),
  url: z
    .string()
    .describe(
      "Where browsers reach the console: https://console.example.com. Register its /api/session/callback there.",
    ),
  scope: z.string().describe("What is asked for.").default("openid profile email"),
  name: z
    .string()
    .min(1)
    .describe("The claim that names somebody in the audit trail; left out: email, preferred_username or sub.")
    .optional(),
  roles: OidcRolesSchema.prefault({}).describe("Who may do what."),
});

const AdminSchema = z.strictObject({
  listen: address("Where it listens: an address, or unix:FILE.").prefault("127.0.0.1:9090"),
  token: z.string().describe("Who shows it may change things: $NAME or $file:/path, 20 characters or more.").optional(),
  viewer: z.string().describe("Who shows it may look, and change nothing.").optional(),
  hosts: z
    .array(z.string())
    .describe("Names in the Host header besides the usual ones, like console.example.com.")
    .default([]),
  session: period().prefault("12h").describe("How long somebody stays signed in."),
  oidc: OidcSchema.describe(
    "People sign in at an identity provider (OpenID Connect); needs the package openid-client.",
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
      'Pages whose scripts may ask: https://app.example.com, https://*.example.com, http://localhost:*, or "*" for all.',
    ),
  max_age: period().describe("How long a browser remembers that, like 10m.").prefault("10m"),
});

/** More than any machine has cores for; a larger number is a typing error. */
const MOST_WORKERS = 256;

/** The whole file, without its `x-…` sections. */
export const FileSchema = z.strictObject({
  listen: address("The public side.").prefault("127.0.0.1:8080"),
  pages: z
    .enum(["on", "off"])
    .describe(
      "The marketplace for browsers on the public side: at / and /models, with a playground; off: as for other clients.",
    )
    .default("on"),
  cors: z
    .union([z.literal("off"), CorsSchema], { error: "expected off, or { origins: [https://app.example.com] }" })
    .describe("Which pages of other sites may ask the public side from a browser, with a key that their scripts show.")
    .default("off"),
  admin: z
    .union([address("Where it listens: an address, unix:FILE, or off."), AdminSchema], {
      error:
        "expected an address like 127.0.0.1:9090, unix:FILE, off, or { listen, token, viewer, hosts, session, oidc }",
    })
    .describe("The side of those who run the gateway, never public: console, metrics, /livez and /readyz.")
    .prefault("127.0.0.1:9090"),
  workers: z
    .union(
      [
        z.literal("auto"),
        z
          .int()
          .min(1, { error: "at least one" })
          .max(MOST_WORKERS, { error: `at most ${MOST_WORKERS}` }),
      ],
      {
        error: "expected a number of processes like 2, or auto",
      },
    )
    .describe(
      "Processes that serve requests; auto: one for each core. From 2 on another process hands them connections.",
    )
    .default(1),
  providers: some(name("provider", /^[A-Za-z0-9][\w.-]*$/), ProviderSchema, "provider").describe("Who we call."),
  timeouts: TimeoutsSchema.prefault({}).describe("How long to wait for providers."),
  retry: RetrySchema.prefault({}).describe("When a request is tried again, before its first byte."),
  health: HealthSchema.prefault({}).describe("When a target is left alone, and for how long."),
  models: some(name("model", MODEL_ID), ModelSchema, "model").describe("The marketplace: what clients may name."),
  plugins: z.record(z.string(), PluginSchema).describe("Options of plugins; a name is a file in plugins/.").default({}),
  chains: z
    .record(name("chain", /^[A-Za-z0-9][\w.-]*$/), z.array(z.string()))
    .describe("Plugins that a request passes, in order; llm, read and pass are there unless given.")
    .default({}),
  paths: z
    .record(
      z.string().regex(/^\/(?!\/)[^\s?#%\\]*$/, { error: "a path starts with one / and has no ?, #, %, \\ or space" }),
      z.union([MountedPathSchema, z.literal("off")]),
    )
    .describe("Added to the usual paths, or said of one of them; `off` takes one away.")
    .default({}),
  limits: AllLimitsSchema.prefault({}).describe("What may be used; every level that applies must agree."),
  timezone: z
    .string()
    .transform((zone, reading) => readOr(() => new Calendar(zone).zone, zone, reading))
    .describe("Where days, weeks and months of budgets begin at midnight, like Europe/Berlin.")
    .prefault("UTC"),
  keys: z
    .record(name("key", /^[A-Za-z0-9][\w.-]*$/), KeySchema)
    .describe("Keys that are always there; others are made at run time.")
    .default({}),
  share: z
    .enum(["key", "group", "all"])
    .describe(
      "Who may name an object that a key made at a provider (a file, a store, a container, an answer): that key, the keys of its group, or all.",
    )
    .default("key"),
  store: StoreSchema.prefault({}).describe("Where state is kept."),
  instances: z
    .int()
    .min(1)
    .max(1000)
    .describe(
      "Gateways that serve together, behind one balancer. With redis:// for limits each keeps to its part of them while Redis is away.",
    )
    .optional(),
  envelopes: EnvelopesSchema.prefault({}).describe(
    "How what only a provider can read is carried by clients of other protocols.",
  ),
  trace: z
    .enum(["on", "off"])
    .describe(
      "Whether a caller's traceparent (W3C Trace Context: random ids) goes on to providers; tracestate goes where a provider's `forward` names it.",
    )
    .default("on"),
  alerts: AlertsSchema.describe(
    "Who is told of budgets, credentials that are not accepted, targets that fail, a ledger that lags, reloads that fail.",
  ).optional(),
  trust: z
    .array(network())
    .describe(
      "Proxies whose X-Forwarded-For says who the client is: addresses and ranges, like 127.0.0.1 or 10.0.0.0/8. Nobody else's is believed.",
    )
    .default([]),
  connections: ConnectionsSchema.prefault({}).describe("What is accepted of clients' connections."),
  body: BodySchema.prefault({}).describe("What is accepted of a request's body."),
  sockets: SocketsSchema.prefault({}).describe("What is accepted of WebSockets."),
  overload: OverloadSchema.prefault({}).describe("What the gateway takes on at a time; what runs is never touched."),
  drain: milliseconds()
    .describe("What running exchanges get when the gateway stops, like 600s; off: as long as they take.")
    .prefault("600s"),
  linger: milliseconds()
    .describe(
      "How long a gateway that stops still takes connections, and serves idle ones after the last request: until balancers have noticed. Like 5s or off.",
    )
    .prefault("5s"),
  warm_up: milliseconds()
    .describe(
      "How long the gateway rehearses with requests of its own before it takes the first one, which is slow otherwise: 1s or off.",
    )
    .prefault("1s"),
  log: z
    .strictObject({
      level: z
        .enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"])
        .default("info")
        .describe("The least severe lines that are written."),
    })
    .prefault({})
    .describe("The log."),
});

/** The file with units converted and defaults filled in; names, secrets and addresses are still as written. */
export type File = z.output<typeof FileSchema>;
