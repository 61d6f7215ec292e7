import {
  asObject,
  type Conversation,
  type EncodeContext,
  type Feature,
  type Format,
  ownProperty,
  pathOfUse,
  RawJson,
  type Setting,
  type SupportTable,
  settingFields,
} from "model-gateway/protocol";
import { normalizeSchema, readSchema } from "./request.decode.tools.ts";
import { thinkingConfig } from "./support.thinking.ts";
import type { ProtoFields } from "./wire.ts";

/** How requests of this protocol express each feature of other protocols. */
export const support: SupportTable = {
  system_in_place: ["mapped", "as a text of the user's in `<system-reminder>`, declared"],
  name: "dropped",
  phase: "ignored",
  prefill: ["mapped", "refused where the model is known not to continue a turn"],
  image_base64: "mapped",
  image_url: [
    "mapped",
    "the vendor fetches it; its type must be given or follow from the URL's ending, otherwise it is refused",
  ],
  file_base64: ["mapped", "without the file's name, and JSON, XML, YAML, TOML and SQL as text, declared"],
  file_url: ["mapped", "as images"],
  file_text: ["mapped", "as bytes of text/plain"],
  file_id: "refused",
  audio: "mapped",
  video: "mapped",
  media_detail: ["mapped", "one for all media; dropped where they differ"],
  audio_out: "refused",
  image_out: "mapped",
  tools: "mapped",
  tools_strict: ["mapped", "as mode VALIDATED, of all functions at once; declared where not all were strict"],
  tools_custom: ["mapped", "as functions of one string, undone in the answer; a grammar is dropped"],
  tools_namespace: ["mapped", "before the name, undone in the answer"],
  web_search: [
    "mapped",
    "Google Search, left out where the choice of tools excludes it, and beside functions or JSON for models before Gemini 3; domains, limits and location are dropped",
  ],
  tools_server: "dropped",
  tools_server_needed: "refused",
  tool_choice: ["mapped", "a tool that the vendor runs cannot be required by name: the model decides, declared"],
  tool_choice_allowed: [
    "mapped",
    "web search alone by leaving out the functions; it cannot be required: the model decides, declared",
  ],
  parallel_off: "dropped",
  assistant_media: ["mapped", "with their signatures, or the vendor's bypass"],
  tool_result_media: [
    "mapped",
    "PNG, JPEG, WebP, PDF and plain text; others, and all for models before Gemini 3, after the results as the user's, declared",
  ],
  tool_result_error: "mapped",
  reasoning_effort: [
    "mapped",
    "xhigh and max become high, and minimal low where the model has no lower level, declared; dropped where the model is known not to think",
  ],
  reasoning_budget: ["mapped", "at most 24576, declared; a level where the model takes levels"],
  reasoning_summary: ["mapped", "whether thoughts are shown, not how long they are"],
  reasoning_text: ["mapped", "as thoughts"],
  citations: "dropped",
  foreign_block: "dropped",
  foreign_media: "refused",
  json_object: ["mapped", "refused beside functions for models before Gemini 3, unless none may be called"],
  json_schema: [
    "mapped",
    "unchanged, in `responseJsonSchema`; its description is left out, declared; refused beside functions for models before Gemini 3, unless none may be called",
  ],
  json_schema_strict: ["mapped", "schemas always hold"],
  stop: ["mapped", "at most 5, more are refused"],
  max_tokens: "mapped",
  temperature: ["mapped", "from 0 to 2, otherwise refused"],
  top_p: "mapped",
  top_k: "mapped",
  penalties: ["mapped", "dropped for models from Gemini 2.5 on, which take none"],
  logit_bias: "refused",
  choices: "mapped",
  logprobs: "mapped",
  seed: ["mapped", "dropped where it does not fit into 32 bits"],
  verbosity: "dropped",
  cache_mark: ["dropped", "the vendor caches by itself"],
  cache_key: "dropped",
  cache_retention: "dropped",
  cache_handle: ["mapped", "a name of the vendor's own, in its endpoint for another protocol"],
  user: "dropped",
  metadata: ["dropped", "labels are accepted only in the Vertex form"],
  tier: ["mapped", "standard, flex, priority; others are dropped"],
  store: ["mapped", "false is left out, true is refused"],
  stored_state: "refused",
  background: "refused",
  safety: "dropped",
  moderation: "dropped",
  prediction: "dropped",
  container: "refused",
  context_edits: "dropped",
  other: "dropped",
  cosmetic: "ignored",
};

/** Names of service tiers that all protocols share. */
const DECODED_TIERS: Readonly<Record<string, string>> = { STANDARD: "default", FLEX: "flex", PRIORITY: "priority" };
const ENCODED_TIERS: Readonly<Record<string, string>> = {
  default: "standard",
  standard: "standard",
  standard_only: "standard",
  flex: "flex",
  priority: "priority",
};

/** Seeds are 32 bits wide. [S] */
const SEED_LIMIT = 2 ** 31;

/** Settings, decoded and encoded. */
export const GEMINI_SETTINGS: readonly Setting<ProtoFields>[] = [
  {
    path: "generationConfig.temperature",
    field: "temperature",
    feature: "temperature",
    type: "number",
    range: [0, 2],
    sampling: true,
  },
  { path: "generationConfig.topP", field: "topP", feature: "top_p", type: "number", sampling: true },
  {
    path: "generationConfig.topK",
    field: "topK",
    feature: "top_k",
    type: "number",
    sampling: true,
    // 0 is unset, as everywhere in this protocol.
    read: (fields, name) => fields.number(name) || undefined,
  },
  {
    path: "generationConfig.candidateCount",
    field: "choices",
    feature: "choices",
    type: "number",
    writtenIf: (choices: number) => choices !== 1,
  },
  {
    path: "generationConfig.maxOutputTokens",
    field: "maxTokens",
    feature: "max_tokens",
    type: "number",
    range: [1, Number.POSITIVE_INFINITY],
  },
  {
    path: "generationConfig.presencePenalty",
    field: "presencePenalty",
    feature: "penalties",
    type: "number",
    hasNoEffect: (penalty) => penalty === 0,
    write: writePenalty(/presence/i),
  },
  {
    path: "generationConfig.frequencyPenalty",
    field: "frequencyPenalty",
    feature: "penalties",
    type: "number",
    hasNoEffect: (penalty) => penalty === 0,
    write: writePenalty(/frequency/i),
  },
  { path: "generationConfig.seed", field: "seed", feature: "seed", type: "integer", write: writeSeed },
  {
    path: "generationConfig.stopSequences",
    field: "stop",
    feature: "stop",
    type: "texts",
    // [M]
    maxLength: 5,
  },
  {
    path: "generationConfig.responseLogprobs",
    field: "logprobs",
    feature: "logprobs",
    type: "number",
    // The flag and the number below are one field.
    read: readLogprobs,
    write: () => true,
  },
  {
    path: "generationConfig.logprobs",
    field: "logprobs",
    type: "number",
    only: "encode",
    writtenIf: (alternatives: number) => alternatives > 0,
  },
  {
    path: "generationConfig.responseMimeType",
    field: "format",
    type: "text",
    read: readMimeType,
    write: ({ kind, isPlainText }: Format) =>
      kind === "text" ? undefined : isPlainText ? ENUM_MIME : "application/json",
  },
  {
    path: "generationConfig.responseJsonSchema",
    olderNames: ["generationConfig.responseSchema"],
    field: "format",
    feature: "json_schema",
    type: "any",
    read: readFormatSchema,
    write: writeFormatSchema,
  },
  {
    path: "generationConfig.responseFormat",
    field: "format",
    type: "any",
    only: "decode",
    read: readResponseFormat,
  },
  {
    path: "generationConfig.responseFormat",
    field: "modalities",
    type: "any",
    only: "decode",
    read: readOutputKinds,
  },
  {
    path: "generationConfig.responseModalities",
    field: "modalities",
    type: "texts",
    read: readModalities,
    // Text alone is the default.
    writtenIf: (names: readonly string[]) => !isTextOnly(names),
    write: (names: readonly string[]) => names.map((name) => name.toUpperCase()),
  },
  {
    path: "generationConfig.imageConfig",
    field: "image",
    feature: "image_out",
    type: "object",
    members: { aspect: "aspectRatio", size: "imageSize" },
  },
  {
    path: "generationConfig.thinkingConfig",
    field: "reasoning",
    type: "any",
    ...thinkingConfig,
  },
  {
    path: "serviceTier",
    field: "tier",
    feature: "tier",
    type: "text",
    read: readTier,
    writtenIf: (tier: string) => tier !== "auto",
    encodeMap: ENCODED_TIERS,
  },
  { path: "cachedContent", field: "cacheHandle", feature: "cache_handle", type: "text" },
  {
    path: "store",
    field: "store",
    feature: "store",
    type: "flag",
    hasNoEffect: (store) => store === false,
    write: refuseStore,
  },
  {
    path: "labels",
    field: "metadata",
    feature: "metadata",
    type: "any",
    hasNoEffect: (labels) => Object.keys(labels as object).length === 0,
    // Only the Vertex form of the protocol accepts labels; elsewhere a request with them fails. [S]
    only: "decode",
    read: readLabels,
  },
];

/** The fields of this protocol's requests, with the feature that each of them uses. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ["contents: the model's at the end", "prefill"],
  ["contents[].parts[].inlineData: image/*", "image_base64"],
  ["contents[].parts[].inlineData: others", "file_base64"],
  ["contents[].parts[].inlineData, fileData: audio/*", "audio"],
  ["contents[].parts[].inlineData, fileData: video/*", "video"],
  ["contents[].parts[].videoMetadata", "video"],
  ["contents[].parts[].fileData: image/* by a URL", "image_url"],
  ["contents[].parts[].fileData: others by a URL", "file_url"],
  ["contents[].parts[].fileData: a file of the vendor's", "file_id"],
  ["contents[].parts[].mediaResolution", "media_detail"],
  ["contents[].parts[].inlineData, fileData of the model's", "assistant_media"],
  ["contents[].parts[].functionResponse.parts", "tool_result_media"],
  ["contents[].parts[].functionResponse.response.error", "tool_result_error"],
  ["contents[].parts[].thought", "reasoning_text"],
  ["contents[].parts[].executableCode, codeExecutionResult, toolCall, toolResponse", "foreign_block"],
  ["contents[].parts[].partMetadata", "cosmetic"],
  ["tools[].functionDeclarations", "tools"],
  ["tools[].functionDeclarations[].response, behavior", "other"],
  ["tools[].googleSearch", "web_search"],
  ["tools[].codeExecution, urlContext, googleMaps, fileSearch, computerUse, mcpServers, …", "tools_server"],
  ["a choice among such tools only; parts of one that is offered", "tools_server_needed"],
  ["toolConfig.functionCallingConfig.mode", "tool_choice"],
  ["toolConfig.functionCallingConfig.mode VALIDATED", "other"],
  ["toolConfig.functionCallingConfig.allowedFunctionNames", "tool_choice_allowed"],
  ["toolConfig.functionCallingConfig.streamFunctionCallArguments", "cosmetic"],
  ["toolConfig.includeServerSideToolInvocations", "cosmetic"],
  ["toolConfig.retrievalConfig", "other"],
  ...settingFields(GEMINI_SETTINGS),
  ["generationConfig.logprobs", "logprobs"],
  ["generationConfig.responseMimeType: application/json", "json_object"],
  ["generationConfig.responseMimeType: others", "other"],
  ["generationConfig.responseFormat[].text with a schema", "json_schema"],
  ["generationConfig.responseFormat[].text: application/json", "json_object"],
  ["generationConfig.responseFormat[].audio", "audio_out"],
  ["generationConfig.responseFormat[].image", "image_out"],
  ["generationConfig.responseModalities: AUDIO", "audio_out"],
  ["generationConfig.responseModalities: IMAGE", "image_out"],
  ["generationConfig.responseModalities: TEXT", "cosmetic"],
  ["generationConfig.speechConfig", "audio_out"],
  ["generationConfig.mediaResolution", "media_detail"],
  ["generationConfig.thinkingConfig.includeThoughts", "reasoning_summary"],
  ["generationConfig.thinkingConfig.thinkingBudget", "reasoning_budget"],
  ["generationConfig.thinkingConfig.thinkingLevel", "reasoning_effort"],
  ["generationConfig: others", "other"],
  ["safetySettings[] that block something", "safety"],
  ["safetySettings[] that block nothing", "cosmetic"],
  ["continuationToken", "stored_state"],
  ["modelArmorConfig", "safety"],
  ["any other member", "other"],
];

/** The vendor's models that refuse penalties: "Penalty is not enabled for this model". [D] */
const WITHOUT_PENALTIES = /(?:^|\/)gemini-(?:2\.5|[3-9]|\d\d)(?!\d)/;

/** Returns a function that encodes a penalty. @param name matches the client's name of it */
function writePenalty(name: RegExp) {
  return (penalty: number, { uses }: Conversation, context: EncodeContext): number | undefined => {
    if (!WITHOUT_PENALTIES.test(context.model)) return penalty;
    const use = uses.find(({ feature, path }) => feature === "penalties" && name.test(path));
    if (penalty !== 0) context.drop(use?.path ?? "penalties", "the model takes no penalties");
    return undefined;
  };
}

function writeSeed(seed: number | RawJson, conversation: Conversation, context: EncodeContext): number | undefined {
  if (!(seed instanceof RawJson) && seed >= -SEED_LIMIT && seed < SEED_LIMIT) return seed;
  context.drop(pathOfUse(conversation, "seed"), "seeds of this provider have 32 bits");
  return undefined;
}

/** Decodes `responseLogprobs`, whether logprobs are requested, with `logprobs`, the number of alternatives. */
function readLogprobs(config: ProtoFields, name: string): number | undefined {
  if (config.flag(name) === true) return config.number("logprobs") ?? 0;
  config.ignore(name, "cosmetic");
  return undefined;
}

/** The type of an output that is one value of an enum, without quotes. */
const ENUM_MIME = "text/x.enum";
/** Output types that other protocols can express. */
const MIME_TYPES: ReadonlySet<string> = new Set(["application/json", "text/plain", ENUM_MIME]);

/** Decodes the format if there is no schema. */
function readMimeType(config: ProtoFields, name: string): Format | undefined {
  const mime = config.text(name) ?? "";
  const hasSchema = config.has("responseJsonSchema") || config.has("responseSchema");
  if (!MIME_TYPES.has(mime)) {
    for (const member of [name, "responseSchema", "responseJsonSchema"]) config.ignore(member, "other");
    return undefined;
  }
  if (hasSchema && mime === "text/plain") config.ignore(name, "other");
  if (hasSchema) return undefined;
  if (mime === ENUM_MIME) config.ignore(name, "other");
  if (mime === "application/json") config.declare(name, "json_object");
  return { kind: mime === "application/json" ? "json" : "text" };
}

function readFormatSchema(config: ProtoFields): Format | undefined {
  const mime = config.text("responseMimeType");
  if (mime !== undefined && !MIME_TYPES.has(mime)) return undefined;
  const schema = readSchema(config, "responseSchema", "responseJsonSchema");
  return schema && schemaFormat(schema, mime);
}

/** The vendor enforces every schema. */
const schemaFormat = (schema: RawJson, mime: string | undefined): Format => ({
  kind: "schema",
  schema,
  alwaysStrict: true,
  ...(mime === ENUM_MIME ? { isPlainText: true } : {}),
});

function writeFormatSchema(
  { kind, schema, description }: Format,
  conversation: Conversation,
  context: EncodeContext,
): RawJson | undefined {
  if (description !== undefined)
    context.change(pathOfUse(conversation, "json_schema"), "without the description of the schema");
  return kind === "schema" ? schema : undefined;
}

const MODALITIES: readonly string[] = ["text", "image", "audio"];

const usesResponseFormat = (config: ProtoFields): boolean =>
  !["responseMimeType", "responseSchema", "responseJsonSchema"].some((member) => config.has(member));

/** Decodes the kinds of output in `responseFormat`. The properties of images in it are not translated. */
function readOutputKinds(config: ProtoFields, name: string): string[] | undefined {
  if (!usesResponseFormat(config)) return undefined;
  const outputs = config.objects(name) ?? [];
  for (const output of outputs) output.object("image")?.declareUnread();
  const kinds = MODALITIES.filter((kind) => outputs.some((output) => output.has(kind)));
  return isTextOnly(kinds) ? undefined : kinds;
}

/**
 * Decodes `responseFormat` of newer clients, with an entry for each kind of output. Ignored if an older member is present.
 * [S]
 */
function readResponseFormat(config: ProtoFields, name: string): Format | undefined {
  if (!usesResponseFormat(config)) return undefined;
  let format: Format | undefined;
  for (const entry of config.objects(name) ?? []) {
    format = readTextFormat(entry) ?? format;
    entry.declareUnread("other", OUTPUT_FEATURES);
  }
  return format;
}

const OUTPUT_FEATURES: Readonly<Record<string, Feature>> = { audio: "audio_out", image: "image_out" };

function readTextFormat(entry: ProtoFields): Format | undefined {
  const text = entry.object("text");
  if (!text) return undefined;
  const schema = text.raw("schema");
  const mime = text.text("mimeType")?.toLowerCase().replace("_", "/") ?? "text/plain";
  if (!MIME_TYPES.has(mime) || (mime === ENUM_MIME && !schema)) text.ignore("mimeType", "other");
  const isJson = mime === "application/json";
  if (schema) text.declare("schema", "json_schema");
  else if (isJson) text.declare("mimeType", "json_object");
  text.declareUnread();
  return schema ? schemaFormat(normalizeSchema(schema), mime) : { kind: isJson ? "json" : "text" };
}

const isTextOnly = (names: readonly string[]): boolean => names.every((name) => name.toLowerCase() === "text");

/** Decodes the output modalities. Every model supports text alone, so that it is left out. */
function readModalities(config: ProtoFields, name: string): string[] | undefined {
  const modalities = config.texts(name)?.map((modality) => modality.toLowerCase()) ?? [];
  if (isTextOnly(modalities)) {
    config.ignore(name, "cosmetic");
    return undefined;
  }
  if (modalities.includes("audio")) config.declare(name, "audio_out");
  if (modalities.includes("image")) config.declare(name, "image_out");
  if (modalities.some((each) => !MODALITIES.includes(each))) config.declare(name, "other");
  return modalities;
}

/** Decodes the service tier; other vendors' names are in lower case. */
function readTier(request: ProtoFields, name: string): string | undefined {
  const tier = request.enumValue(name, "other");
  return ownProperty(DECODED_TIERS, tier) ?? tier?.toLowerCase();
}

/** Refuses to store the response: clients of other protocols could not fetch it. */
function refuseStore(store: boolean, conversation: Conversation, context: EncodeContext): undefined {
  if (store)
    context.refuse(pathOfUse(conversation, "store"), "the provider cannot store answers. Send false or leave it out");
}

function readLabels(request: ProtoFields, name: string): Record<string, string> {
  const object = asObject(request.any(name)) ?? request.refuse(name, "must be an object.");
  const labels = Object.entries(object).filter(([, label]) => label !== null);
  if (labels.some(([, label]) => typeof label !== "string")) request.refuse(name, "must be an object of strings.");
  return Object.fromEntries(labels as [string, string][]);
}
