import {
  asObject,
  dropUndefined,
  type EncodeContext,
  type Feature,
  type Fields,
  type Format,
  invalidField,
  pathOfUse,
  RawJson,
  type Setting,
} from "model-gateway/protocol";
import { fitLabel, isOpenaiModel } from "./request.encode.ts";
import { serviceTier } from "./wire.ts";

/** Sampling settings common to chat and text completions. */
export const SAMPLING_SETTINGS: readonly Setting[] = [
  {
    path: "max_completion_tokens",
    olderNames: ["max_tokens"],
    field: "maxTokens",
    feature: "max_tokens",
    type: "number",
    // The vendor always responds with at least one token.
    range: [1, Number.POSITIVE_INFINITY],
    write: (tokens: number, _, context) => (isOpenaiModel(context) ? tokens : undefined),
  },
  // Other vendors refuse the newer name, or ignore it (Mistral, DeepSeek, Ollama, LM Studio). [D]
  {
    path: "max_tokens",
    field: "maxTokens",
    type: "number",
    only: "encode",
    write: (tokens: number, _, context) => (isOpenaiModel(context) ? undefined : tokens),
  },
  { path: "stop", field: "stop", feature: "stop", type: "text or texts", maxLength: 4 },
  { path: "temperature", field: "temperature", feature: "temperature", type: "number", range: [0, 2], sampling: true },
  { path: "top_p", field: "topP", feature: "top_p", type: "number", sampling: true },
  { path: "top_k", field: "topK", feature: "top_k", type: "number", only: "decode" },
  {
    path: "frequency_penalty",
    field: "frequencyPenalty",
    feature: "penalties",
    type: "number",
    hasNoEffect: (penalty) => penalty === 0,
  },
  {
    path: "presence_penalty",
    field: "presencePenalty",
    feature: "penalties",
    type: "number",
    hasNoEffect: (penalty) => penalty === 0,
  },
  { path: "seed", field: "seed", feature: "seed", type: "integer" },
  {
    path: "logit_bias",
    field: "logitBias",
    feature: "logit_bias",
    type: "any",
    hasNoEffect: (bias) => Object.keys(asObject(bias) ?? { bias }).length === 0,
    only: "decode",
  },
  {
    path: "n",
    field: "choices",
    feature: "choices",
    type: "number",
    hasNoEffect: (choices) => (choices as number) <= 1,
  },
];

/** Returns what rows of a user name and of a cache key have in common: a text within the vendor's maximum length. */
export const labelOf = (feature: Feature) =>
  ({
    feature,
    type: "text",
    write: (text: string, conversation, context) => fitLabel(text, pathOfUse(conversation, feature), context),
  }) satisfies Partial<Setting>;

type Write = NonNullable<Setting<never>["write"]>;

/** Returns a row's `write` for a member that is dropped for models that do not take it: many servers refuse unknown members. */
export function writeIfTaken(
  feature: Feature,
  isTaken: (context: EncodeContext) => boolean,
  write: Write = (value) => value,
): Write {
  return (value, conversation, context) => {
    if (isTaken(context)) return write(value, conversation, context);
    context.drop(pathOfUse(conversation, feature), "The model's vendor is not known to take it");
    return undefined;
  };
}

/** Returns the row of the service tier, for which names of other vendors are known. @param extraTiers of one protocol only */
export const tierSetting = (...extraTiers: readonly string[]): Setting => ({
  path: "service_tier",
  field: "tier",
  feature: "tier",
  type: "text",
  hasNoEffect: (tier) => tier === "auto",
  write(tier: string, conversation, context) {
    const wireTier = serviceTier(tier, ...extraTiers);
    if (wireTier === undefined)
      context.drop(pathOfUse(conversation, "tier"), `This provider has no equivalent of "${tier}"`);
    return wireTier;
  },
});

/** Returns a `valueMap` for values whose names are the same in conversations. */
export const sameNames = (names: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, name]));

/** How long answers are. */
export const VERBOSITIES = sameNames(["low", "medium", "high"]);

/**
 * Decodes a response schema, with its sibling members.
 * @param isRequired whether it is required
 * @throws GatewayError `invalid_field`
 */
export function readJsonSchemaFormat(fields: Fields, isRequired: boolean): Format {
  const schema = fields.any("schema");
  if (schema === undefined ? isRequired : !(schema instanceof RawJson))
    throw invalidField(fields.path("schema"), `${fields.path("schema")} must be a JSON Schema.`);
  const properties = {
    name: fields.text("name"),
    description: fields.text("description"),
    strict: fields.flag("strict"),
  };
  if (properties.strict) fields.declare("strict", "json_schema_strict");
  return { kind: "schema", ...dropUndefined({ schema: schema as RawJson | undefined, ...properties }) };
}
