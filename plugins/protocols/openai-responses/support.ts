import {
  type Conversation,
  dropUndefined,
  type Effort,
  type EncodeContext,
  type Feature,
  type Fields,
  type Format,
  type JsonObject,
  pathOfUse,
  type Setting,
  type SupportTable,
  settingFields,
} from "model-gateway/protocol";
import {
  effortForBudget,
  isOpenaiModel,
  mayReason,
  supportedEffort,
  takesMarks,
  UNENFORCED_SCHEMA,
} from "../openai/request.encode.ts";
import { canEnforceSchema } from "../openai/schema.ts";
import {
  CACHE_RETENTION,
  cacheOptionsSetting,
  labelOf,
  MODERATION,
  readJsonSchemaFormat,
  STORE,
  sameNames,
  tierSetting,
  VERBOSITIES,
} from "../openai/support.ts";
import { EFFORTS } from "../openai/wire.ts";
import { INCLUDE_ENCRYPTED, INCLUDE_LOGPROBS } from "./wire.ts";

/** How each feature is handled in a request of this protocol. */
export const support: SupportTable = {
  system_in_place: "mapped",
  name: "dropped",
  phase: "mapped",
  prefill: ["mapped", "the model may start a new message instead; refused where it is known not to continue"],
  image_base64: "mapped",
  image_url: "mapped",
  file_base64: "mapped",
  file_url: ["mapped", "without the file's name, declared"],
  file_text: ["mapped", "as a file of plain text"],
  file_id: ["mapped", "an id of this vendor's; others are refused"],
  audio: ["mapped", "wav and mp3; other formats are refused"],
  video: "refused",
  media_detail: ["mapped", "low, high, auto and original; others are dropped"],
  audio_out: "refused",
  image_out: [
    "mapped",
    "as the tool `image_generation`, which is forced if no text is requested; sizes other than 1:1, 2:3 and 3:2 are dropped",
  ],
  tools: [
    "mapped",
    "for OpenAI's models alternatives at the root of a schema (`oneOf`, `anyOf`, `allOf`, `enum`, `const`, `not`) are described to the model, declared",
  ],
  tools_strict: [
    "mapped",
    "`strict` is always sent: its absence does not mean false here; false for a schema of another vendor's client that cannot be enforced, declared",
  ],
  tools_custom: "mapped",
  tools_namespace: "mapped",
  web_search: ["mapped", "without excluded domains and without a limit of searches"],
  tools_server: "dropped",
  tools_server_needed: "refused",
  tool_choice: [
    "mapped",
    "a required tool call turns off thinking at DeepSeek; at Meta it is left to the model, and no tools are sent where the choice is none; all declared",
  ],
  tool_choice_allowed: ["mapped", "at Meta only the allowed tools are sent, declared"],
  parallel_off: "mapped",
  assistant_media: [
    "mapped",
    "with the user's next turn and a note that they are the assistant's, declared; dropped without such a turn",
  ],
  tool_result_media: ["mapped", "images and files"],
  tool_result_error: ["mapped", 'as `{"error": …}`, unless the text mentions an error'],
  reasoning_effort: [
    "mapped",
    "from other vendors' clients, minimal becomes low, xhigh and max the highest effort that the model is known to take, and none the lowest where it is known to reason always, declared",
  ],
  reasoning_budget: ["mapped", "as the nearest effort"],
  reasoning_summary: ["mapped", "dropped where the provider has refused it, as of organizations that are not verified"],
  reasoning_text: ["mapped", "with their encrypted state; dropped without it"],
  citations: ["mapped", "those with a URL; dropped for models that are not OpenAI's"],
  foreign_block: "dropped",
  foreign_media: "refused",
  json_object: "mapped",
  json_schema: ["mapped", "as `strict` if the client's vendor always matches it; declared where that is impossible"],
  json_schema_strict: "mapped",
  stop: "refused",
  max_tokens: ["mapped", "16 at least"],
  temperature: ["mapped", "0 to 2; dropped for models that take none"],
  top_p: ["mapped", "dropped for models that take none"],
  top_k: "dropped",
  penalties: "dropped",
  logit_bias: "refused",
  choices: ["mapped", "more than one is refused"],
  logprobs: "mapped",
  seed: "dropped",
  verbosity: "mapped",
  cache_mark: [
    "mapped",
    "for OpenAI's models from GPT-5.6 on, or where the provider takes marks, on texts, images and files; 5 and 30 minutes become 30 minutes, longer times 12 hours; dropped for others",
  ],
  cache_key: ["mapped", "a hash of it when it is longer than 64 characters"],
  cache_retention: ["mapped", "for OpenAI's models; dropped for others"],
  cache_handle: "refused",
  user: ["mapped", "a hash of it when it is longer than 64 characters; as `user` for models that are not OpenAI's"],
  metadata: ["mapped", "16 labels at most; dropped for xAI's models"],
  tier: ["mapped", "by name; unknown ones are dropped"],
  store: "refused",
  stored_state: "refused",
  background: "refused",
  safety: "dropped",
  moderation: ["mapped", "for OpenAI's models; dropped for others. Its results are dropped"],
  prediction: "dropped",
  container: "refused",
  context_edits: "dropped",
  other: "dropped",
  cosmetic: "ignored",
};

/** Fields without an equivalent in other protocols, by feature; any other is `other`. */
export const UNTRANSLATED_FIELDS: Readonly<Record<string, Feature>> = {
  background: "background",
  previous_response_id: "stored_state",
  conversation: "stored_state",
  prompt: "stored_state",
  context_management: "context_edits",
  client_metadata: "cosmetic",
  stream_options: "cosmetic",
};

/** The settings of a request. */
export const RESPONSES_SETTINGS: readonly Setting[] = [
  { path: "temperature", field: "temperature", feature: "temperature", type: "number", range: [0, 2], sampling: true },
  { path: "top_p", field: "topP", feature: "top_p", type: "number", sampling: true },
  {
    path: "max_output_tokens",
    field: "maxTokens",
    feature: "max_tokens",
    type: "number",
    write: writeMaxTokens,
  },
  {
    path: "parallel_tool_calls",
    field: "parallel",
    feature: "parallel_off",
    type: "flag",
    hasNoEffect: (parallel) => parallel === true,
    // Without tools some providers refuse it.
    writtenIf: (_, { tools }) => tools.length > 0,
  },
  {
    path: "text.verbosity",
    field: "verbosity",
    feature: "verbosity",
    type: "text",
    valueMap: VERBOSITIES,
  },
  // Its type decides what its other members are.
  { path: "text.format", field: "format", type: "any", read: readFormat, write: writeFormat },
  // A thinking budget is encoded as an effort, if the client sent no effort.
  { path: "reasoning.effort", field: "reasoning.budget", type: "any", only: "encode", write: writeBudget },
  {
    path: "reasoning.effort",
    field: "reasoning.effort",
    feature: "reasoning_effort",
    type: "text",
    valueMap: sameNames(EFFORTS),
    write: supportedEffort,
  },
  // A summary of any kind means that reasoning is shown.
  {
    path: "reasoning.summary",
    field: "reasoning.show",
    type: "any",
    read: () => true,
    write: (show: boolean) => (show ? "auto" : undefined),
  },
  {
    path: "reasoning.summary",
    field: "reasoning.summary",
    feature: "reasoning_summary",
    type: "text",
    valueMap: sameNames(["auto", "concise", "detailed"]),
  },
  // Labels beyond the vendor's maximum are dropped one by one.
  {
    path: "metadata",
    field: "metadata",
    feature: "metadata",
    type: "any",
    hasNoEffect: (metadata) => Object.keys(metadata as object).length === 0,
    takenIf: ({ model }) => !REFUSES_LABELS.test(model),
    read: readLabels,
    write: writeLabels,
  },
  { path: "prompt_cache_key", field: "cacheKey", ...labelOf("cache_key") },
  CACHE_RETENTION,
  MODERATION,
  {
    path: "safety_identifier",
    field: "user",
    ...labelOf("user"),
    writtenIf: (_, __, target) => isOpenaiModel(target),
  },
  // The older name, which alone servers of other vendors know, or accept (Groq, xAI) [D]; beside the newer one it means something else,
  // for which conversations have no field.
  {
    path: "user",
    unless: "safety_identifier",
    field: "user",
    ...labelOf("user"),
    writtenIf: (_, __, target) => !isOpenaiModel(target),
  },
  tierSetting("ultrafast"),
  STORE,
  // Logprobs are requested by one member, and counted by another.
  { path: "include", field: "logprobs", type: "any", only: "decode", read: readInclude },
  {
    path: "top_logprobs",
    field: "logprobs",
    feature: "logprobs",
    type: "number",
    read: readTopLogprobs,
    writtenIf: (limit: number) => limit !== 0,
  },
  cacheOptionsSetting(takesMarks),
];

/** Decodes the response format. @throws GatewayError `invalid_field` */
function readFormat(text: Fields, name: string): Format | undefined {
  const format = text.object(name);
  const type = format?.oneOf("type", ["text", "json_object", "json_schema"]);
  if (!format) return undefined;
  if (type === undefined) return format.refuse("type", "is missing.");
  if (type === "text") return { kind: "text" };
  if (type === "json_object") {
    format.declareSelf("json_object");
    return { kind: "json" };
  }
  format.declareSelf("json_schema");
  return readJsonSchemaFormat(format, true);
}

function writeFormat(format: Format, conversation: Conversation, context: EncodeContext): JsonObject {
  switch (format.kind) {
    case "text":
      return { type: "text" };
    case "json":
      return { type: "json_object" };
    case "schema": {
      const { schema, description, alwaysStrict = false } = format;
      // Chat is used by other vendors, of which some refuse schemas that they cannot enforce.
      const strict = format.strict ?? (alwaysStrict && canEnforceSchema(schema?.value));
      if (alwaysStrict && !strict) context.change(pathOfUse(conversation, "json_schema"), UNENFORCED_SCHEMA);
      const name = (format.name ?? "answer").replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64);
      return dropUndefined({ type: "json_schema", name, description, schema, strict });
    }
  }
}

/** The vendor refuses a smaller limit of output tokens. */
const MIN_OUTPUT_TOKENS = 16;

function writeMaxTokens(tokens: number, conversation: Conversation, context: EncodeContext): number {
  const path = pathOfUse(conversation, "max_tokens");
  if (tokens < 1) context.refuse(path, "an answer needs at least one token");
  if (tokens >= MIN_OUTPUT_TOKENS) return tokens;
  context.change(path, `${MIN_OUTPUT_TOKENS} is sent, the minimum of the provider`);
  return MIN_OUTPUT_TOKENS;
}

function writeBudget(budget: number, conversation: Conversation, context: EncodeContext): Effort | undefined {
  const effort = conversation.reasoning?.effort === undefined ? effortForBudget(budget, context.model) : undefined;
  const path = pathOfUse(conversation, "reasoning_budget");
  if (effort !== undefined) context.change(path, `an effort is sent instead of tokens: ${effort}`);
  return effort;
}

function readLabels(body: Fields, name: string): Record<string, string> | undefined {
  const labels = body.object(name);
  return labels && Object.fromEntries(Object.keys(labels.members).map((label) => [label, labels.required(label)]));
}

/** Maximum number of the vendor's labels. [S] */
const MAX_LABELS = 16;

/** xAI's models, whoever serves them: "Argument not supported: metadata". [D] */
const REFUSES_LABELS = /(?:^|\/)grok-/;

function writeLabels(metadata: Record<string, string>, conversation: Conversation, context: EncodeContext): JsonObject {
  const labels = Object.entries(metadata);
  const path = pathOfUse(conversation, "metadata");
  for (const [name] of labels.slice(MAX_LABELS))
    context.drop(`${path}.${name}`, `the provider accepts at most ${MAX_LABELS} labels`);
  return Object.fromEntries(labels.slice(0, MAX_LABELS));
}

/** Decodes whether logprobs are requested; another member has the number of alternatives. */
function readInclude(body: Fields, name: string): number | undefined {
  const include = body.list(name) ?? [];
  for (const [i, value] of include.entries())
    if (value !== INCLUDE_LOGPROBS && value !== INCLUDE_ENCRYPTED)
      body.uses.push({ feature: "other", path: `include.${i}` });
  if (!include.includes(INCLUDE_LOGPROBS) || requestsTopLogprobs(body)) return undefined;
  body.declare(name, "logprobs");
  return 0;
}

/**
 * Returns `include`. Its row is only decoded, because reasoning must be returned encrypted in any case. Models that do not
 * reason refuse that. [F: "Encrypted content is not supported with this model."]
 */
export function writeInclude({ logprobs }: Conversation, context: EncodeContext): string[] | undefined {
  const include = [
    ...(mayReason(context) ? [INCLUDE_ENCRYPTED] : []),
    ...(logprobs === undefined ? [] : [INCLUDE_LOGPROBS]),
  ];
  return include.length > 0 ? include : undefined;
}

function readTopLogprobs(body: Fields, name: string): number | undefined {
  return requestsTopLogprobs(body) ? body.number(name) : undefined;
}

function requestsTopLogprobs({ members }: Fields): boolean {
  const alternatives = members["top_logprobs"] ?? 0;
  return typeof alternatives !== "number" || alternatives > 0;
}

/** The fields of requests of this protocol, each with its feature. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ["a system or developer message between turns", "system_in_place"],
  ["message.name", "name"],
  ["message.phase", "phase"],
  ["an assistant's message at the end", "prefill"],
  ["input_image.image_url (data:)", "image_base64"],
  ["input_image.image_url", "image_url"],
  ["input_image.detail, input_file.detail", "media_detail"],
  ["input_file.file_data", "file_base64"],
  ["input_file.file_url", "file_url"],
  ["input_image.file_id, input_file.file_id", "file_id"],
  ["input_audio", "audio"],
  ["output_text.annotations", "citations"],
  ["prompt_cache_breakpoint", "cache_mark"],
  ["reasoning items", "reasoning_text"],
  ["image_generation_call.result", "assistant_media"],
  ["function_call_output.output with images or files", "tool_result_media"],
  ["items of the vendor's tools, like web_search_call; unknown items and parts", "foreign_block"],
  ["images, files and recordings of another type", "foreign_media"],
  ["compaction that this vendor made", "stored_state"],
  ["item_reference to reasoning (rs_), also without its type", "other"],
  ["item_reference to a message or a call, also without its type", "stored_state"],
  ["tools: function, also in additional_tools", "tools"],
  ["tools.strict", "tools_strict"],
  ["tools: custom; custom_tool_call", "tools_custom"],
  ["tools: namespace; function_call.namespace", "tools_namespace"],
  ["tools: web_search", "web_search"],
  ["tools: tool_search; tools.defer_loading", "other"],
  ["tools: image_generation alone that has to be called, or has been", "image_out"],
  ["tools: any other", "tools_server"],
  ["a choice of such a tool; items of one that is offered", "tools_server_needed"],
  ["tool_choice", "tool_choice"],
  ["tool_choice: allowed_tools", "tool_choice_allowed"],
  ...settingFields(RESPONSES_SETTINGS),
  ["include: message.output_text.logprobs", "logprobs"],
  ["include: any other", "other"],
  ["reasoning.context: current_turn, reasoning.mode", "other"],
  ["text.format: json_object", "json_object"],
  ["text.format: json_schema", "json_schema"],
  ["text.format.strict", "json_schema_strict"],
  ["previous_response_id, conversation, prompt", "stored_state"],
  ["background: true", "background"],
  ["context_management", "context_edits"],
  ["truncation: auto, max_tool_calls, any unknown field", "other"],
  ["client_metadata, stream_options", "cosmetic"],
];
