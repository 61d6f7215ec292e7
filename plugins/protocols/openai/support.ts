import {
  asObject,
  type CacheMark,
  dropUndefined,
  type EncodeContext,
  type Feature,
  type Fields,
  type Format,
  pathOfUse,
  RawJson,
  type Setting,
} from "model-gateway/protocol";
import { fitLabel, isOpenaiModel, promptCacheOptions } from "./request.encode.ts";
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
    writtenIf: (_, __, target) => isOpenaiModel(target),
  },
  // Other vendors refuse the newer name, or ignore it (Mistral, DeepSeek, Ollama, LM Studio). [D]
  {
    path: "max_tokens",
    field: "maxTokens",
    type: "number",
    only: "encode",
    writtenIf: (_, __, target) => !isOpenaiModel(target),
  },
  { path: "stop", field: "stop", feature: "stop", type: "text or texts", maxLength: 4 },
  { path: "temperature", field: "temperature", feature: "temperature", type: "number", range: [0, 2], sampling: true },
  { path: "top_p", field: "topP", feature: "top_p", type: "number", sampling: true },
  { path: "top_k", field: "topK", feature: "top_k", type: "number", only: "decode", read: readTopK },
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
    // One is the default, and some servers refuse the member.
    writtenIf: (choices) => choices !== 1,
  },
];

/** Returns `top_k`, which servers of other vendors have; 0 and -1 are no limit there. [D: vLLM] */
function readTopK(fields: Fields, name: string): number | undefined {
  const value = fields.number(name);
  return value !== undefined && value > 0 ? value : undefined;
}

/** Returns what rows of a user name and of a cache key have in common: a text within the vendor's maximum length. */
export const labelOf = (feature: Feature): Pick<Setting, "feature" | "type" | "write"> => ({
  feature,
  type: "text",
  write: (text: string, conversation, context) => fitLabel(text, pathOfUse(conversation, feature), context),
});

/** The row of how long the vendor's cache keeps the prompt. */
export const CACHE_RETENTION: Setting = {
  path: "prompt_cache_retention",
  field: "cacheRetention",
  feature: "cache_retention",
  type: "text",
  takenIf: isOpenaiModel,
};

/** The row of the moderation of prompt and answer, which has one form in both chat protocols. */
export const MODERATION: Setting = {
  path: "moderation",
  field: "moderation",
  feature: "moderation",
  type: "any",
  takenIf: isOpenaiModel,
};

/** The notice for cache marks that are dropped. */
export const NO_CACHE_MARKS = "The provider is not known to take marks for its cache";

/** Returns the row of how long the whole prompt is cached. @param isTaken whether a model takes cache marks */
export const cacheOptionsSetting = (isTaken: (target: EncodeContext) => boolean): Setting => ({
  path: "prompt_cache_options",
  field: "cache",
  feature: "cache_mark",
  type: "object",
  dropsUnknown: true,
  read: readCacheOptions,
  write(cache: CacheMark, conversation, context) {
    const options = promptCacheOptions(cache);
    if (options === undefined || isTaken(context)) return options;
    context.drop(cache.at ?? pathOfUse(conversation, "cache_mark"), NO_CACHE_MARKS);
    return undefined;
  },
});

/** In the mode `explicit` only marks count, as with other vendors. */
function readCacheOptions(body: Fields, name: string): CacheMark | undefined {
  const options = body.object(name);
  const { mode, ttl } = options?.members ?? {};
  options?.ignore("mode");
  if (mode === "explicit") {
    options?.declareSelf("cosmetic");
    options?.ignore("ttl");
    return undefined;
  }
  if (ttl !== "30m" && ttl !== "12h") return {};
  options?.any("ttl");
  return { ttl };
}

/** The row of whether the vendor stores the answer: none is stored for translated requests. */
export const STORE: Setting = {
  path: "store",
  field: "store",
  feature: "store",
  type: "flag",
  hasNoEffect: (store) => store === false,
  only: "decode",
};

/**
 * Returns the row of the service tier, for which names of other vendors are known. What every server does without one is left out:
 * many refuse the member. Only at OpenAI is the standard tier another than the default, which its projects may set.
 * @param extraTiers tiers of one protocol only
 */
export const tierSetting = (...extraTiers: readonly string[]): Setting => ({
  path: "service_tier",
  field: "tier",
  feature: "tier",
  type: "text",
  hasNoEffect: (tier) => tier === "auto",
  writtenIf: (tier: string, _, target) => {
    const wireTier = serviceTier(tier);
    return wireTier !== "auto" && (wireTier !== "default" || isOpenaiModel(target));
  },
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
    return fields.refuse("schema", "must be a JSON Schema.");
  const properties = {
    name: fields.text("name"),
    description: fields.text("description"),
    strict: fields.flag("strict"),
  };
  if (properties.strict) fields.declare("strict", "json_schema_strict");
  return { kind: "schema", ...dropUndefined({ schema: schema as RawJson | undefined, ...properties }) };
}
