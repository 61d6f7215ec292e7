import {
  type Conversation,
  dropUndefined,
  type EncodeContext,
  type Feature,
  type Fields,
  type Format,
  isObject,
  type JsonObject,
  pathOfUse,
  RawJson,
  type Setting,
  type SupportTable,
  settingFields,
} from "model-gateway/protocol";
import { isOpenaiModel, UNENFORCED_SCHEMA } from "../openai/request.encode.ts";
import {
  CACHE_RETENTION,
  cacheOptionsSetting,
  labelOf,
  MODERATION,
  readJsonSchemaFormat,
  SAMPLING_SETTINGS,
  STORE,
  tierSetting,
  VERBOSITIES,
} from "../openai/support.ts";
import { takesCacheKey, takesPenalties, takesSampling, takesUser } from "./support.models.ts";
import { REASONING_SETTINGS } from "./support.thinking.ts";

/** How a Chat request expresses each feature. */
export const support: SupportTable = {
  system_in_place: [
    "mapped",
    "as user text in `<system-reminder>`, declared, if the model is known to take only the first (Qwen from 3.5 on, MiniMax, Mistral)",
  ],
  name: "mapped",
  phase: "dropped",
  prefill: ["mapped", "the model may start a new message instead; refused where it is known not to continue"],
  image_base64: "mapped",
  image_url: ["mapped", "http and https; others are refused"],
  file_base64: "mapped",
  file_url: ["refused", "Chat takes files only as bytes"],
  file_text: ["mapped", "as text"],
  file_id: ["mapped", "ids of the same vendor's other protocols; others are refused"],
  audio: ["mapped", "wav and mp3; others are refused"],
  video: "refused",
  media_detail: ["mapped", "of images; dropped of files"],
  audio_out: "refused",
  image_out: ["mapped", "as `modalities` and `image_config`; the vendor checks them"],
  tools: [
    "mapped",
    "for OpenAI's models alternatives at the root of a schema (`oneOf`, `anyOf`, `allOf`, `enum`, `const`, `not`) are described to the model, declared, and more than 128 tools are refused",
  ],
  tools_strict: ["mapped", "left out for a schema of another vendor's client that cannot be enforced, declared"],
  tools_custom: [
    "mapped",
    "for OpenAI's models from GPT-5 on; for others as a function with one string, undone in the answer; a grammar is described to the model then, not enforced",
  ],
  tools_namespace: ["mapped", "as `namespace__name`, undone in the answer"],
  web_search: [
    "mapped",
    "as `web_search_options` for OpenAI's search models and Perplexity's, left out where the choice of tools excludes it; lists of domains and a limit of uses are dropped; for other models all of it",
  ],
  tools_server: "dropped",
  tools_server_needed: "refused",
  tool_choice: [
    "mapped",
    "a tool that the vendor runs cannot be required: the model decides, declared; a required tool call turns off thinking at DeepSeek, Moonshot and Alibaba, and is left to the model at Z.ai and Meta, and where it always thinks, declared",
  ],
  tool_choice_allowed: [
    "mapped",
    "for OpenAI's models, without the vendor's own tools, declared; for others only the allowed tools are sent, and at Z.ai and Meta none where the choice is none",
  ],
  parallel_off: "mapped",
  assistant_media: [
    "mapped",
    "with the user's next turn and a note that they are the assistant's, declared; dropped without such a turn",
  ],
  tool_result_media: ["mapped", "as a message of the user after the results, declared"],
  tool_result_error: ["mapped", "as a text that mentions an error"],
  reasoning_effort: [
    "mapped",
    "from other vendors' clients, minimal becomes low, xhigh and max the highest effort that the model is known to take, and none the lowest where it is known to reason always, declared; dropped where the model is known not to think",
  ],
  reasoning_budget: ["mapped", "as the nearest effort, declared"],
  reasoning_summary: "dropped",
  reasoning_text: ["mapped", "sent to the provider that made it; other providers' is dropped, declared"],
  citations: "ignored",
  foreign_block: "dropped",
  foreign_media: "refused",
  json_object: ["mapped", "refused beside functions at Groq, unless none may be called"],
  json_schema: [
    "mapped",
    "without the guarantee of the client's vendor to match it, declared; refused beside functions at Groq, unless none may be called",
  ],
  json_schema_strict: "mapped",
  stop: ["mapped", "at most 4; more are refused"],
  max_tokens: ["mapped", "as `max_completion_tokens` for OpenAI's models, `max_tokens` for others"],
  temperature: ["mapped", "0 to 2; dropped where the model takes no sampling, as Kimi from K2.5 on at Moonshot"],
  top_p: ["mapped", "dropped where the model takes no sampling"],
  top_k: "dropped",
  penalties: ["mapped", "dropped where the model takes no sampling, and for xAI's from Grok 4 on"],
  logit_bias: ["refused", "tokens differ between vendors"],
  choices: "mapped",
  logprobs: "mapped",
  seed: "mapped",
  verbosity: ["mapped", "for OpenAI's models; dropped for others"],
  cache_mark: [
    "mapped",
    "as `prompt_cache_breakpoint`; 5m as 30m, 1h as 12h; dropped on calls and tools, and where the provider is not known to take marks",
  ],
  cache_key: [
    "mapped",
    "for models of OpenAI, Mistral and Moonshot, and where the provider takes cache marks; longer than 64 characters: its hash, declared; dropped for others",
  ],
  cache_retention: ["mapped", "for OpenAI's models; dropped for others"],
  cache_handle: "refused",
  user: ["mapped", "longer than 64 characters: its hash, declared; dropped for Mistral's models"],
  metadata: ["mapped", "only beside `store`; else dropped"],
  tier: ["mapped", "tiers that the vendor does not have are dropped"],
  store: ["refused", "stored answers could not be retrieved"],
  stored_state: "refused",
  background: "refused",
  safety: "dropped",
  moderation: ["mapped", "for OpenAI's models; dropped for others. Its results are dropped"],
  prediction: "mapped",
  container: "refused",
  context_edits: "dropped",
  other: "dropped",
  cosmetic: "ignored",
};

/** Returns a row of the family's with what only some servers of Chat do with it. */
function chatRow(row: Setting): Setting {
  if (row.sampling) return { ...row, takenIf: takesSampling };
  return row.feature === "penalties" ? { ...row, write: penaltyWriter(row.path) } : row;
}

/** Returns a function that encodes a penalty. @param path its member, whose first word the client's name of it has too */
function penaltyWriter(path: string): NonNullable<Setting["write"]> {
  const [word = ""] = path.split("_");
  return (penalty: number, { uses }: Conversation, context: EncodeContext): number | undefined => {
    if (takesPenalties(context)) return penalty;
    const use = uses.find((each) => each.feature === "penalties" && each.path.includes(word));
    if (penalty !== 0) context.drop(use?.path ?? "penalties", "The model takes no penalties");
    return undefined;
  };
}

/** The settings of a Chat request. */
export const CHAT_SETTINGS: readonly Setting[] = [
  ...SAMPLING_SETTINGS.map(chatRow),
  {
    path: "logprobs",
    field: "logprobs",
    feature: "logprobs",
    type: "flag",
    // The flag and the number below are one field.
    read: (body, name) => (body.flag(name) ? (body.number("top_logprobs") ?? 0) : undefined),
    write: () => true,
  },
  {
    path: "top_logprobs",
    field: "logprobs",
    feature: "logprobs",
    type: "number",
    // Valid only with `logprobs`, which decodes it.
    read: (body, name) => void body.number(name),
    writtenIf: (count: number) => count > 0,
  },
  {
    path: "verbosity",
    field: "verbosity",
    feature: "verbosity",
    type: "text",
    valueMap: VERBOSITIES,
    dropsUnknown: true,
    takenIf: isOpenaiModel,
  },
  {
    path: "parallel_tool_calls",
    field: "parallel",
    feature: "parallel_off",
    type: "flag",
    hasNoEffect: (parallel) => parallel === true,
    // OpenAI refuses it without tools; true is the default, and not every server knows the member.
    writtenIf: (parallel: boolean, { tools }) => !parallel && tools.some(({ kind }) => kind !== "web_search"),
  },
  { path: "prompt_cache_key", field: "cacheKey", ...labelOf("cache_key"), takenIf: takesCacheKey },
  CACHE_RETENTION,
  MODERATION,
  cacheOptionsSetting(({ facts }) => facts.cache_marks === true),
  { path: "safety_identifier", field: "user", feature: "user", type: "text", only: "decode" },
  { path: "user", unless: "safety_identifier", field: "user", ...labelOf("user"), takenIf: takesUser },
  {
    path: "metadata",
    field: "metadata",
    feature: "metadata",
    type: "object",
    hasNoEffect: (metadata) => Object.keys(metadata as object).length === 0,
    // Only texts have an equivalent, and the vendor takes them only beside `store`.
    read: readMetadata,
    write: writeMetadata,
  },
  tierSetting(),
  STORE,
  // Each modality is a feature of its own.
  { path: "modalities", field: "modalities", type: "texts", read: readModalities, write: writeModalities },
  // OpenRouter's; other vendors adopted it.
  {
    path: "image_config",
    field: "image",
    feature: "image_out",
    type: "object",
    dropsUnknown: true,
    members: { aspect: "aspect_ratio", size: "image_size" },
  },
];

/** Settings that are decoded after the tools. */
export const ANSWER_SETTINGS: readonly Setting[] = [
  ...REASONING_SETTINGS,
  // Its type decides what its other members are.
  { path: "response_format", field: "format", type: "any", read: readFormat, write: writeFormat },
];

/** Decodes the response format. @throws GatewayError for an unknown type */
function readFormat(body: Fields, name: string): Format | undefined {
  const format = body.object(name);
  const type = format?.text("type");
  if (!format) return undefined;
  const hasSchema = hasSchemaBeside(format);
  if (type === "json_schema" || (type === "json_object" && hasSchema)) {
    const inner = hasSchema ? format : format.object(type);
    if (!inner) return format.refuse(type, "must be an object.");
    format.declareSelf("json_schema");
    return readJsonSchemaFormat(inner, false);
  }
  if (type !== "text" && type !== "json_object")
    return format.refuse("type", "must be text, json_object or json_schema.");
  if (type === "json_object") format.declareSelf("json_object");
  return { kind: type === "text" ? "text" : "json" };
}

/**
 * Reports whether the schema is beside the type, also of `json_object`: Fireworks, Together and llama.cpp have it there [D], and
 * Instructor sends it so in JavaScript [S]. An empty one says nothing.
 */
function hasSchemaBeside({ members }: Fields): boolean {
  const schema = members["schema"] instanceof RawJson ? members["schema"].value : members["schema"];
  return members["json_schema"] === undefined && isObject(schema) && Object.keys(schema).length > 0;
}

/** Encodes the response format; text is the default. */
function writeFormat(format: Format, conversation: Conversation, context: EncodeContext): JsonObject | undefined {
  const { kind, schema, name = "answer", description, strict, alwaysStrict } = format;
  if (alwaysStrict && strict === undefined) context.change(pathOfUse(conversation, "json_schema"), UNENFORCED_SCHEMA);
  if (kind === "schema")
    return { type: "json_schema", json_schema: { name, ...dropUndefined({ description, schema, strict }) } };
  return kind === "json" ? { type: "json_object" } : undefined;
}

function readMetadata(body: Fields, name: string): unknown {
  const metadata = body.members[name];
  if (isObject(metadata) && Object.values(metadata).every((value) => typeof value === "string")) return body.any(name);
  body.ignore(name, "metadata");
  return undefined;
}

function writeMetadata(metadata: Record<string, string>, conversation: Conversation, context: EncodeContext): unknown {
  if (conversation.store) return metadata;
  if (Object.keys(metadata).length > 0)
    context.drop(pathOfUse(conversation, "metadata"), "Chat Completions accepts labels only for stored answers");
  return undefined;
}

function readModalities(body: Fields, name: string): unknown {
  const modalities = body.texts(name);
  if (modalities?.includes("audio")) body.declare(name, "audio_out");
  if (modalities?.includes("image")) body.declare(name, "image_out");
  return modalities;
}

/** Encodes the modalities. Text alone is the default; audio is refused elsewhere, and no others are known. */
function writeModalities(modalities: readonly string[]): string[] | undefined {
  return modalities.includes("image")
    ? modalities.filter((modality) => modality === "image" || modality === "text")
    : undefined;
}

/** The fields of a Chat request with their features; `*` is an index. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ["messages.*.role: system, developer between turns", "system_in_place"],
  ["messages.*.role: assistant at the end", "prefill"],
  ["messages.*.name", "name"],
  ["messages.*.content.*.image_url", "image_url"],
  ["messages.*.content.*.image_url with a data: URL", "image_base64"],
  ["messages.*.content.*.image_url.detail", "media_detail"],
  ["messages.*.content.*.input_audio", "audio"],
  ["messages.*.images of the assistant's", "assistant_media"],
  ["messages.*.content.*, media in a tool's result", "tool_result_media"],
  ["messages.*.content.*.file.file_data", "file_base64"],
  ["messages.*.content.*.file.file_id", "file_id"],
  ["messages.*.content.*.file_url, document_url", "file_url"],
  ["messages.*.content.*.video_url", "video"],
  ["messages.*.content.* of another type", "foreign_block"],
  ["messages.*.content.*, images, files and recordings of another type", "foreign_media"],
  ["messages.*.content.*.prompt_cache_breakpoint, cache_control", "cache_mark"],
  ["messages.*.reasoning_content, reasoning, reasoning_details", "reasoning_text"],
  ["messages.*.annotations", "citations"],
  ["messages.*.audio", "foreign_block"],
  ["tools, functions", "tools"],
  ["tools.*.function.strict", "tools_strict"],
  ["tools.*.custom", "tools_custom"],
  ["tools.* of another type", "tools_server"],
  ["a choice of such a tool", "tools_server_needed"],
  ["tool_choice, function_call", "tool_choice"],
  ["tool_choice.allowed_tools", "tool_choice_allowed"],
  ["web_search_options", "web_search"],
  ["reasoning_effort, reasoning.effort", "reasoning_effort"],
  ["reasoning.max_tokens", "reasoning_budget"],
  ["reasoning.exclude", "reasoning_summary"],
  ["extra_body.google.thinking_config.thinking_level", "reasoning_effort"],
  ["extra_body.google.thinking_config.thinking_budget", "reasoning_budget"],
  ["extra_body.google.thinking_config.include_thoughts", "reasoning_summary"],
  ["extra_body.google.cached_content", "cache_handle"],
  ["extra_body.google.safety_settings", "safety"],
  ["response_format: json_object", "json_object"],
  ["response_format.json_schema, response_format.schema", "json_schema"],
  ["response_format.json_schema.strict", "json_schema_strict"],
  ...settingFields(CHAT_SETTINGS),
  ["modalities with audio, audio", "audio_out"],
  ["modalities with image", "image_out"],
  ["prediction", "prediction"],
  ["stream_options, usage", "cosmetic"],
  ["anything else", "other"],
];
