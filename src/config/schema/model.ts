import { z } from "zod";
import { date, tokens } from "../quantities.ts";
import { protocol } from "./fields.ts";
import { PriceSchema } from "./price.ts";

/** The form of a model id. */
export const MODEL_ID = /^[A-Za-z0-9@][\w.\-/:@+]*$/;
const THINKING = ["budget", "adaptive", "level", "none"] as const;

/** Facts about a model for translation. */
const FactsSchema = z
  .strictObject({
    sampling: z
      .boolean()
      .describe("False: the model refuses temperature, top_p, top_k and penalties, so the gateway removes them.")
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
        "True: over Chat and Responses it accepts `prompt_cache_breakpoint` and `prompt_cache_options`. When absent: true if its vendor is known to accept them for it.",
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

const TargetSchema = z.union(
  [
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
  ],
  { error: "expected provider:vendor-model, or { to: provider:vendor-model, … }" },
);

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

/** A model of the marketplace, with its targets. */
export const ModelSchema = z
  .strictObject({
    name: z.string().describe("Name that people see; when absent, the id.").optional(),
    description: z.string().describe("One line for the marketplace.").optional(),
    aliases: z
      .array(z.string().min(1, { error: "an alias cannot be empty" }))
      .describe("Other names that clients may use; * matches any text.")
      .default([]),
    created: date.describe("Date shown in lists of models, like 2026-01-31.").optional(),
    context: tokens
      .describe(
        "Size of the context window in tokens, like 128k; when absent, from public tables. Only shown in lists and on pages: the provider refuses a prompt that is too long.",
      )
      .optional(),
    output: tokens.describe("Maximum output tokens, like 64k; when absent, from public tables.").optional(),
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
