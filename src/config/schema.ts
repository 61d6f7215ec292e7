import { z } from "zod";
import { count, duration, moment, money, size } from "./units.ts";

/**
 * The shape of gateway.yaml. Descriptions are what an editor shows; `vocabulary` marks fields whose words only the running
 * gateway knows. Names of providers, models, chains and plugins are checked in names.ts, secrets and addresses in values.ts.
 */

/** A quantity with its unit, read by one of units.ts. */
const quantity = <T>(read: (written: string | number) => T, forms: string) =>
  z
    .union([z.string(), z.number()], { error: `expected a text like ${forms}` })
    .transform((written, reading) => readOr(() => read(written), written, reading))
    .describe(`Like ${forms}.`);

function readOr<T>(read: () => T, input: unknown, reading: z.core.ParsePayload): T {
  try {
    return read();
  } catch (thrown) {
    reading.issues.push({ code: "custom", message: (thrown as Error).message, input });
    return z.NEVER;
  }
}

const milliseconds = () => quantity(duration, "90s, 500ms, 5m, 1h or off");
const tokens = () => quantity(count, "300, 400_000, 128k or 1M");
const budget = () => quantity(money, "$50/month, $10/day, $1/hour or $100 (in total)");
const date = () =>
  z
    .string()
    .transform((written, reading) => readOr(() => moment(written), written, reading))
    .describe("A date or a moment: 2026-12-31 or 2026-12-31T18:00:00Z.");

const name = (what: string, pattern: RegExp) =>
  z.string().regex(pattern, {
    error: `not a name for a ${what}: letters, digits and ${what === "model" ? ". _ - / : @ +" : ". _ -"} only`,
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

const Timeouts = z.strictObject({
  connect: TimeoutFields.connect.prefault("5s"),
  first_byte: TimeoutFields.first_byte.prefault("600s"),
  idle: TimeoutFields.idle.prefault("120s"),
  total: TimeoutFields.total.prefault("off"),
});

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const header = () => z.string().regex(HEADER, { error: "not a header name" });

const Provider = z
  .strictObject({
    url: z
      .string()
      .describe('Address that ends with the version segment, like https://host/v1, or "demo:" for the built-in one.'),
    credential: z
      .string()
      .describe(
        `What is shown to the provider: $NAME, "$\{NAME:-default}" or $file:/path. Where the variable is not set the provider is off.`,
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
    timeouts: z.strictObject(TimeoutFields).partial().describe("Where they differ from the common ones.").optional(),
  })
  .describe("An account at a vendor's address.");

const usd = (what: string) => z.number().min(0, { error: "must not be less than 0" }).describe(what).optional();

const Price = z.strictObject({
  input: usd("USD per million tokens that go in."),
  cached: usd("USD per million tokens read from the vendor's prompt cache; like `input` when absent."),
  cache_write: usd("USD per million tokens written to it; like `input` when absent."),
  output: usd("USD per million tokens that come out, reasoning included."),
  request: usd("USD per request."),
  image: usd("USD per image."),
});

const THINKING = ["budget", "adaptive", "level", "none"] as const;

/** What a translation must know of a model. */
const Facts = z
  .strictObject({
    sampling: z.boolean().describe("False: it refuses temperature, top_p and top_k, so they are left out.").optional(),
    thinking: z
      .enum(THINKING)
      .describe(
        "How it is asked to think: budget (so many tokens), adaptive (as it likes, with an effort), level (an effort), none.",
      )
      .optional(),
    system_in_place: z.boolean().describe("True: it takes system messages between turns.").optional(),
    prefill: z.boolean().describe("True: it continues an assistant's turn at the end.").optional(),
  })
  .describe("What a translation must know of the model; what is left out is passed on for the vendor to judge.");

const via = () =>
  protocol(
    "The protocol to speak with providers that speak it, whatever the caller speaks; when absent the caller's own, or else the first of theirs.",
  );

const Target = z.union([
  z.string().describe("provider:vendor-model, split at the first colon."),
  z.strictObject({
    to: z.string().describe("provider:vendor-model, split at the first colon."),
    weight: z
      .number()
      .positive({ error: "must be more than 0" })
      .default(1)
      .describe("Its share, relative to the other targets."),
    via: via().optional(),
    facts: Facts.optional(),
  }),
]);

/** What a model can do, as clients are told. */
export const ABILITIES = [
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

const Model = z
  .strictObject({
    name: z.string().describe("Name for people; the id when absent.").optional(),
    description: z.string().describe("One line for the marketplace.").optional(),
    aliases: z
      .array(z.string().min(1, { error: "an alias cannot be empty" }))
      .describe("Other names that clients may use; in one, * stands for any text.")
      .default([]),
    created: date().describe("Date that lists of models show, like 2026-01-31.").optional(),
    context: tokens().describe("Tokens that fit in, like 128k.").optional(),
    output: tokens().describe("Tokens that come out at most, like 64k.").optional(),
    can: z.array(z.enum(ABILITIES)).describe("What it can do.").default([]),
    price: Price.default({}).describe("What it costs, in plain numbers."),
    targets: z.array(Target).min(1, { error: "at least one target is needed" }).describe("Who serves it."),
    fallback: z
      .array(z.string())
      .describe("Other models of this file, tried in order before the first byte of an answer.")
      .default([]),
    via: via().optional(),
    facts: Facts.optional(),
  })
  .describe("What clients may name.");

const Plugin = z
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

const MountedPath = z
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

const Allowance = z.strictObject({
  rpm: tokens().describe("Requests per minute.").optional(),
  tpm: tokens().describe("Tokens per minute, like 1M.").optional(),
  concurrency: tokens().describe("Requests at the same time.").optional(),
  budget: budget().describe("What may be spent, like $50/month.").optional(),
});

const Key = z
  .strictObject({
    key: z
      .string()
      .describe("The key, 20 characters or more: best as $NAME. Where the variable is not set the key is off.")
      .optional(),
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, { error: "not a SHA-256 in hex (64 digits)" })
      .transform((hash) => hash.toLowerCase())
      .describe("Instead of the key: its SHA-256 in hex.")
      .optional(),
    models: z.array(z.string()).describe("Models it may use; all when absent.").optional(),
    budget: budget().describe("What may be spent, like $50/month.").optional(),
    expires: date().describe("When it stops opening, like 2026-12-31 (its first moment in UTC).").optional(),
  })
  .describe("A gateway key.");

const Store = z.strictObject({
  ledger: z.string().describe("Where usage is kept: sqlite:FILE.").prefault("sqlite:./data/gateway.db"),
  limits: z.string().describe("Where running counts are kept: memory.").prefault("memory"),
});

const Envelopes = z.strictObject({
  key: z
    .string()
    .describe(
      "Seals reasoning that clients carry from one request to the next: $NAME or $file:/path, 20 characters or more; the same for all instances. When absent one is made and kept beside the ledger.",
    )
    .optional(),
});

const Body = z.strictObject({
  limit: quantity(size, "64MiB, 1MB or 512KiB")
    .describe("Size of a request's body at most, like 32MiB.")
    .prefault("32MiB"),
  idle: milliseconds().describe("Between two pieces of a request's body, like 30s.").prefault("30s"),
});

const Sockets = z.strictObject({
  idle: milliseconds().describe("Without a byte in either direction, like 10m.").prefault("10m"),
  message: quantity(size, "64MiB, 1MB or 512KiB").describe("Size of a message at most, like 16MiB.").prefault("16MiB"),
});

/** Chains that are there unless the file says otherwise. */
export const DEFAULT_CHAINS: Readonly<Record<string, readonly string[]>> = {
  llm: ["sse", "auth", "scrub", "models", "rewrite", "usage"],
  read: ["auth"],
  pass: ["auth", "scrub", "usage"],
};

/** What a path may be of; one of them. */
export const PATH_KINDS = ["protocol", "serve", "pass"] as const;

/** The paths of lists of models, which belong to no single protocol. */
export const SERVED_PATHS = ["/v1/models", "/v1beta/models"] as const;

const some = <Value extends z.ZodType>(names: z.ZodString, value: Value, what: string) =>
  z
    .record(names, value)
    .refine((entries) => Object.keys(entries).length > 0, { error: `at least one ${what} is needed` });

/** The whole file, without its `x-…` sections. */
export const File = z.strictObject({
  listen: address("The public side.").prefault("127.0.0.1:8080"),
  admin: address("Console, metrics, health and admin API; never public.").prefault("127.0.0.1:9090"),
  providers: some(name("provider", /^[A-Za-z0-9][\w.-]*$/), Provider, "provider").describe("Who we call."),
  timeouts: Timeouts.prefault({}).describe("How long to wait for providers."),
  models: some(name("model", /^[A-Za-z0-9@][\w.\-/:@+]*$/), Model, "model").describe(
    "The marketplace: what clients may name.",
  ),
  plugins: z.record(z.string(), Plugin).describe("Options of plugins; a name is a file in plugins/.").default({}),
  chains: z
    .record(name("chain", /^[A-Za-z0-9][\w.-]*$/), z.array(z.string()))
    .describe("Plugins that a request passes, in order; llm, read and pass are there unless given.")
    .default({}),
  paths: z
    .record(
      z.string().regex(/^\/(?!\/)[^\s?#%\\]*$/, { error: "a path starts with one / and has no ?, #, %, \\ or space" }),
      z.union([MountedPath, z.literal("off")]),
    )
    .describe("Added to the usual paths, or said of one of them; `off` takes one away.")
    .default({}),
  limits: z
    .strictObject({ default: Allowance.describe("For every key.").optional() })
    .default({})
    .describe("What callers may use."),
  keys: z
    .record(name("key", /^[A-Za-z0-9][\w.-]*$/), Key)
    .describe("Keys that are always there; others are made at run time.")
    .default({}),
  store: Store.prefault({}).describe("Where state is kept."),
  envelopes: Envelopes.prefault({}).describe(
    "How what only a provider can read is carried by clients of other protocols.",
  ),
  body: Body.prefault({}).describe("What is accepted of a request's body."),
  sockets: Sockets.prefault({}).describe("What is accepted of WebSockets."),
  drain: milliseconds().describe("What running exchanges get when the gateway stops, like 600s.").prefault("600s"),
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

/** The file with units read and defaults filled in; names, secrets and addresses still as written. */
export type File = z.output<typeof File>;
