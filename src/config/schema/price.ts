import { z } from "zod";
import { tokens } from "../quantities.ts";

const usd = (what: string) => z.number().min(0, { error: "must not be less than 0" }).describe(what).optional();

/** Number of decimals: prices are calculated in millionths of USD per million tokens. */
const DECIMALS = 6;
const rate = (what: string) =>
  usd(what).refine((price) => price === undefined || Number(price.toFixed(DECIMALS)) === price, {
    error: `has more than ${DECIMALS} decimals; prices are in USD per million tokens`,
  });

const RateFields = {
  input: rate("USD per million input tokens."),
  cached: rate("USD per million input tokens read from the vendor's prompt cache; when absent, as `input`."),
  cache_write: rate("USD per million input tokens written to the prompt cache; when absent, as `input`."),
  cache_write_1h: rate(
    "USD per million input tokens written to the prompt cache for an hour or longer; when absent, as `cache_write`.",
  ),
  output: rate("USD per million output tokens."),
  reasoning: rate("USD per million reasoning tokens; when absent, as `output`."),
  input_audio: rate("USD per million input tokens of audio; when absent, as `input`."),
  cached_audio: rate("USD per million input tokens of audio read from the prompt cache; when absent, as `cached`."),
  output_audio: rate("USD per million output tokens of audio; when absent, as `output`."),
  input_image: rate("USD per million input tokens of images; when absent, as `input`."),
  cached_image: rate("USD per million input tokens of images read from the prompt cache; when absent, as `cached`."),
  output_image: rate("USD per million output tokens of images; when absent, as `output`."),
  input_video: rate("USD per million input tokens of video; when absent, as `input`."),
};

const TieredFields = {
  ...RateFields,
  above: z
    .array(
      z.strictObject({
        tokens: tokens.describe("The number of input tokens above which these rates apply, like 200k."),
        ...RateFields,
      }),
    )
    .describe("Rates of a whole request with more input tokens than `tokens`; a rate that is absent does not change.")
    .optional(),
};

const perImage = (what: string) =>
  z
    .union([z.number().min(0), z.record(z.string(), z.number().min(0))], {
      error: "expected a number, or a map of numbers by quality and size",
    })
    .describe(
      `${what}: one number, or one for each quality and size that a request can name, like { "": 0.04, "hd 1024x1792": 0.12 }.`,
    )
    .optional();

// Ids give schemas that are accepted in several places one definition in gateway.schema.json.
const TieredSchema = z.strictObject(TieredFields).meta({ id: "rates" });

const serviceTier = (name: string) =>
  TieredSchema.describe(
    `Rates that differ when the provider reports that it served the request in its ${name} tier.`,
  ).optional();

/** The price of a model, or of a model at one target. */
export const PriceSchema = z
  .strictObject({
    ...TieredFields,
    batch: serviceTier("batch"),
    flex: serviceTier("flex"),
    priority: serviceTier("priority"),
    fast: TieredSchema.describe(
      "Rates that differ when the provider reports that it served the request in its fast mode (`speed: fast`).",
    ).optional(),
    request: usd("USD per request."),
    web_search: usd("USD per web search by the vendor's tool."),
    image: perImage("USD per image generated from text"),
    image_edit: perImage("USD per image generated from other images"),
    image_generation: z
      .record(z.string(), z.strictObject(RateFields))
      .describe(
        "Rates of the models with which the vendor's image generation tool works, by model; `*` is any other model.",
      )
      .optional(),
  })
  .meta({ id: "price" });
