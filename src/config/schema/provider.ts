import { z } from "zod";
import { VENDORS } from "../../prices/vendors.ts";
import { limitOrOff, milliseconds, percent, period, positiveInteger } from "../quantities.ts";
import { protocol } from "./fields.ts";

const TimeoutFields = {
  connect: milliseconds.describe("Time to connect, TLS included, like 5s."),
  first_byte: milliseconds.describe("Time from sending the request to the response's head, like 600s."),
  idle: milliseconds.describe("Time between two chunks of the response, like 120s."),
  total: milliseconds.describe("Time from start to end of an attempt, like 30m or off."),
};

/** Times to wait for providers. */
export const TimeoutsSchema = z.strictObject({
  connect: TimeoutFields.connect.prefault("5s"),
  first_byte: TimeoutFields.first_byte.prefault("600s"),
  idle: TimeoutFields.idle.prefault("120s"),
  total: TimeoutFields.total.prefault("off"),
});

const HealthFields = {
  failures: positiveInteger.describe("Failures in a row after which a target is suspended, like 5."),
  errors: percent.describe(
    "Share of failed requests in the window at which a target is suspended, like 50%; off: only `failures` counts.",
  ),
  requests: positiveInteger.describe("Requests in the window before the share `errors` applies, like 20."),
  window: period.describe("Length of the window, like 30s."),
  slow: milliseconds.describe(
    "A first byte that takes longer counts as a failure for `errors`, and so does a client that leaves after waiting longer for it; like 20s or off.",
  ),
  open: period.describe(
    "How long a target is suspended at first, like 30s; after that one request probes it, and each failed probe doubles the time.",
  ),
  longest: period.describe(
    "The longest suspension, like 5m. When absent: 30s, or `open` where that is longer; the time then does not grow.",
  ),
};

/** When targets are suspended. */
export const HealthSchema = z.strictObject({
  failures: HealthFields.failures.default(5),
  errors: HealthFields.errors.prefault("50%"),
  requests: HealthFields.requests.default(20),
  window: HealthFields.window.prefault("30s"),
  slow: HealthFields.slow.prefault("off"),
  open: HealthFields.open.prefault("30s"),
  longest: HealthFields.longest.optional(),
  keep: percent
    .describe(
      "Share of a request's targets that stay in use while none of them is healthy, like 50%; with 100% no target is ever suspended.",
    )
    .prefault("50%"),
});

/** When failed requests are retried. */
export const RetrySchema = z.strictObject({
  attempts: z
    .number()
    .int({ error: "expected a whole number" })
    .min(0, { error: "must not be less than 0" })
    .max(9, { error: "must not be more than 9" })
    .default(1)
    .describe(
      "Retries of a request, besides the first try, after failures where the provider may already have done work.",
    ),
  budget: percent
    .describe("Upper bound of such retries, as a share of the requests of the last ten seconds.")
    .prefault("20%"),
  least: z
    .number()
    .min(0, { error: "must not be less than 0" })
    .default(2)
    .describe("Such retries per second that are allowed even when there are few requests."),
  wait: milliseconds.describe("The longest wait before a retry, like 2s; off: no retry waits.").prefault("2s"),
  after_timeout: z
    .boolean()
    .default(true)
    .describe(
      "After a timeout before the first byte, try another target, although the provider of the first may bill its work.",
    ),
  first_frame: milliseconds
    .describe(
      "How long the gateway holds back a response's head: of a stream until its first frame (which may be an error), of a whole response until its first bytes (which may not be JSON). Until then another target can be tried. Off: the head is sent at once.",
    )
    .prefault("10s"),
});

const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const header = () => z.string().regex(HEADER, { error: "not a header name; write it like x-api-key" });

/** A provider account. */
export const ProviderSchema = z
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
    concurrency: limitOrOff
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
      .describe(
        "The vendor whose list prices and facts about models apply. When absent: the vendor to whom the address belongs.",
      )
      .optional(),
    warm: milliseconds
      .describe("How long one idle TLS connection is kept open after the last request, like 5m or off.")
      .prefault("5m"),
  })
  .describe("An account at a vendor's address.");
