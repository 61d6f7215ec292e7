import { z } from "zod";
import { budget, date, limitOrOff, network } from "../quantities.ts";
import { name } from "./fields.ts";

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
  rpm: limitOrOff.describe("Requests per minute, like 300 or off.").optional(),
  tpm: limitOrOff.describe("Tokens per minute, input and output together, like 1M or off.").optional(),
  concurrency: limitOrOff.describe("Requests at the same time, like 20 or off.").optional(),
  budget: budget.optional(),
};
const LimitsSchema = z.strictObject(LimitFields);

/** Limits at every level. */
export const AllLimitsSchema = z.strictObject({
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

/** A key of the file. */
export const KeySchema = z
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
      .array(network)
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
    expires: date.describe("When the key expires, like 2026-12-31 (at the start of that day in UTC).").optional(),
  })
  .describe("A gateway key.");
