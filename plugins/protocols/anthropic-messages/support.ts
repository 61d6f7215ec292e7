import { hash } from "node:crypto";
import {
  type CacheMark,
  type Conversation,
  type EncodeContext,
  type Feature,
  type Fields,
  type Format,
  type JsonObject,
  pathOfUse,
  RawJson,
  type Setting,
  type SupportTable,
  settingFields,
} from "model-gateway/protocol";
import { enforceableSchema, isTooLong, whyUnenforceable } from "./support.schema.ts";

/** How each feature is handled in a Messages request. */
export const support: SupportTable = {
  system_in_place: ["mapped", "unchanged if the model accepts it, else as user text in `<system-reminder>`"],
  name: "dropped",
  phase: "ignored",
  prefill: [
    "mapped",
    "without white space at its end and without thinking by tokens, declared; refused where the model is known not to continue a turn",
  ],
  image_base64: ["mapped", "JPEG, PNG, GIF and WebP; others are refused"],
  image_url: "mapped",
  file_base64: ["mapped", "PDF and text (JSON, XML, YAML, TOML and SQL too); others are refused"],
  file_url: "mapped",
  file_text: "mapped",
  file_id: ["refused", "an id is only known to the vendor that issued it"],
  audio: "refused",
  video: "refused",
  media_detail: "dropped",
  audio_out: "refused",
  image_out: "refused",
  tools: [
    "mapped",
    "alternatives at the root of a schema (`oneOf`, `anyOf`, `allOf`) are described to the model, and names of arguments beyond `^[a-zA-Z0-9_.-]{1,64}$` are others until the answer, both declared",
  ],
  tools_strict: [
    "mapped",
    "left out for a schema that contains itself, an object with members of any name, or alternatives at its root, and beyond what is enforced in one request (20 tools, 24 optional arguments, 16 of several types), declared",
  ],
  tools_custom: [
    "mapped",
    "as a function with one string, undone in the answer; a grammar is described to the model, not enforced",
  ],
  tools_namespace: ["mapped", "in the name, undone in the answer"],
  web_search: ["mapped", "a context size is dropped; all of it for models that are not Claude's, and at Bedrock"],
  tools_server: "dropped",
  tools_server_needed: "refused",
  tool_choice: ["mapped", "a required tool call turns off thinking with a token budget, declared"],
  tool_choice_allowed: ["mapped", "only the allowed tools are sent"],
  parallel_off: "mapped",
  assistant_media: [
    "mapped",
    "with the user's next turn and a note that they are the assistant's, declared; dropped without such a turn",
  ],
  tool_result_media: ["mapped", "those of a failed result follow it, declared"],
  tool_result_error: "mapped",
  reasoning_effort: [
    "mapped",
    "minimal is low; as tokens where the model takes tokens only; dropped where the model is known not to think",
  ],
  reasoning_budget: ["mapped", "as the nearest effort where the model takes efforts only"],
  reasoning_summary: ["mapped", "shown or not; the vendor decides how it is summarised"],
  reasoning_text: ["mapped", "only what this vendor signed, or an imitation of the protocol sent; the rest is dropped"],
  citations: "dropped",
  foreign_block: "dropped",
  foreign_media: "refused",
  json_object: ["refused", "there is no JSON without a schema; send a schema"],
  json_schema: [
    "mapped",
    "its description is left out, declared; one that contains itself, or an object with members of any name, is refused",
  ],
  json_schema_strict: ["mapped", "it always matches"],
  stop: ["mapped", "sequences of white space only are refused"],
  max_tokens: "mapped",
  temperature: ["mapped", "above 1 it is refused; dropped where the model or its thinking does not take it"],
  top_p: ["mapped", "dropped where the model or its thinking does not take it, and beside a temperature"],
  top_k: ["mapped", "dropped where the model or its thinking does not take it"],
  penalties: "dropped",
  logit_bias: "refused",
  choices: ["mapped", "more than one is refused"],
  logprobs: "refused",
  seed: "dropped",
  verbosity: "dropped",
  cache_mark: [
    "mapped",
    "30 minutes and 12 hours become an hour, as do those in front of an hour; the last four marks count",
  ],
  cache_key: "dropped",
  cache_retention: "dropped",
  cache_handle: "refused",
  user: ["mapped", "an e-mail address, a phone number, or more than 256 characters as its hash, declared"],
  metadata: "dropped",
  tier: ["mapped", "auto and default; others are dropped"],
  store: ["mapped", "true is refused; answers are never stored"],
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

const TTLS: ReadonlySet<unknown> = new Set(["5m", "1h"]);

/** Decodes a cache mark; undefined where there is none. An unknown lifetime means the default, and is declared. */
export function readCacheMark(fields: Fields): CacheMark | undefined {
  const control = fields.object("cache_control");
  if (!control) return undefined;
  control.ignoreDefaults({ type: ["ephemeral"] });
  const ttl = control.text("ttl");
  const { ownPath: at } = control;
  if (TTLS.has(ttl)) return { ttl: ttl as "5m" | "1h", at };
  if (ttl !== undefined) control.declare("ttl", "other");
  return { at };
}

/** Encodes a cache mark. The vendor caches a prompt for five minutes or an hour. */
export function cacheControl({ ttl }: CacheMark, at: string, context: EncodeContext): JsonObject {
  if (ttl === undefined) return { type: "ephemeral" };
  if (ttl === "5m" || ttl === "1h") return { type: "ephemeral", ttl };
  context.change(at, "its cache mark lasts an hour");
  return { type: "ephemeral", ttl: "1h" };
}

function readFormat(fields: Fields, name: string): Format {
  const format = fields.object(name);
  const schema = format?.any("schema");
  if (format?.text("type") !== "json_schema" || !(schema instanceof RawJson && schema.text.startsWith("{")))
    return fields.refuse(name, "must be a json_schema with a schema.");
  return { kind: "schema", schema, alwaysStrict: true };
}

function writeFormat({ kind, schema, description }: Format, conversation: Conversation, context: EncodeContext) {
  if (kind !== "schema" || !schema) return undefined;
  const path = pathOfUse(conversation, "json_schema");
  if (description !== undefined) context.change(path, "without the description of the schema");
  if (isTooLong(schema))
    context.refuse(
      path,
      "the provider cannot enforce a schema of this length",
      "Shorten it, or choose a model of another vendor.",
    );
  const enforceable = enforceableSchema(schema, path, context);
  const why = whyUnenforceable(enforceable.value);
  if (why !== undefined)
    context.refuse(
      path,
      `the provider cannot enforce a schema that ${why}`,
      "Write out the levels or the names that are needed, or choose a model of another vendor.",
    );
  return { type: "json_schema", schema: enforceable };
}

function writeStop(stop: string[], conversation: Conversation, context: EncodeContext): string[] | undefined {
  if (stop.some((sequence) => sequence.trim() === ""))
    context.refuse(pathOfUse(conversation, "stop"), "This model takes no stop sequence of white space only");
  return stop.length > 0 ? stop : undefined;
}

/** Users that the vendor refuses: "user_id appears to contain an email address. Please send a uuid or hash value instead". [D] */
const PERSONAL = /\S@[^\s@.]+\.\S|^\+[\d\s().-]{7,}$/;

/** Maximum length of a user. [D] */
const MAX_USER_LENGTH = 256;

/** Returns a user that the vendor takes: for others its SHA-256 in hex, which is as distinct, with a notice. */
function writeUser(user: string, conversation: Conversation, context: EncodeContext): string {
  const why = PERSONAL.test(user)
    ? "it is an address or a phone number"
    : user.length > MAX_USER_LENGTH && `it is longer than ${MAX_USER_LENGTH} characters`;
  if (!why) return user;
  context.change(pathOfUse(conversation, "user"), `${why}: its SHA-256 is sent`);
  return hash("sha256", user);
}

const TIERS: Readonly<Record<string, string>> = {
  auto: "auto",
  default: "standard_only",
  standard: "standard_only",
  standard_only: "standard_only",
};

/** Returns a limit. Older clients send -1 for none. [F] */
const readLimit = (fields: Fields, name: string): number | undefined => {
  const value = fields.number(name);
  return value === -1 ? undefined : value;
};

/** Returns `top_k`; 0 is no limit, too. */
const readTopK = (fields: Fields, name: string): number | undefined => readLimit(fields, name) || undefined;

/** Settings that are part of the prompt: they count as its tokens. */
export const promptSettings: readonly Setting[] = [
  {
    path: "output_config.format",
    olderNames: ["output_format"],
    field: "format",
    feature: "json_schema",
    type: "any",
    read: readFormat,
    write: writeFormat,
  },
  {
    path: "cache_control",
    field: "cache",
    feature: "cache_mark",
    type: "any",
    read: readCacheMark,
    write: (mark: CacheMark, conversation, context) =>
      cacheControl(mark, pathOfUse(conversation, "cache_mark"), context),
  },
];

/** Settings of the response alone; token counts do not need them. */
export const answerSettings: readonly Setting[] = [
  { path: "max_tokens", field: "maxTokens", feature: "max_tokens", type: "number" },
  {
    path: "temperature",
    field: "temperature",
    feature: "temperature",
    type: "number",
    range: [0, 1],
    sampling: true,
  },
  { path: "top_p", field: "topP", feature: "top_p", type: "number", sampling: true, read: readLimit },
  { path: "top_k", field: "topK", feature: "top_k", type: "number", sampling: true, read: readTopK },
  { path: "stop_sequences", field: "stop", feature: "stop", type: "texts", write: writeStop },
  { path: "metadata.user_id", field: "user", feature: "user", type: "text", write: writeUser },
  { path: "service_tier", field: "tier", feature: "tier", type: "text", encodeMap: TIERS },
];

/** The fields of a Messages request, each with its feature. */
export const fields: readonly (readonly [field: string, feature: Feature])[] = [
  ...settingFields(answerSettings),
  ...settingFields(promptSettings),
  ["cache_control, on blocks and tools", "cache_mark"],
  ["system: the line x-anthropic-billing-header: …", "cosmetic"],
  ["thread", "stored_state"],
  ["context_management", "context_edits"],
  ["container, container_upload", "container"],
  ["mcp_servers", "tools_server"],
  ["betas, anthropic_beta, anthropic_version, diagnostics", "cosmetic"],
  ["inference_geo, speed, and what is newer", "other"],
  ["thinking", "reasoning_effort"],
  ["thinking.budget_tokens", "reasoning_budget"],
  ["thinking.display", "reasoning_summary"],
  ["output_config.effort", "reasoning_effort"],
  ["tools: functions", "tools"],
  ["tools[].strict", "tools_strict"],
  ["tools[].defer_loading, eager_input_streaming", "cosmetic"],
  ["tools: web_search_…", "web_search"],
  ["tools: tool_search_tool_…", "other"],
  ["tools: all others of the vendor", "tools_server"],
  ["a choice of one of them; blocks of one that is offered", "tools_server_needed"],
  ["tool_choice", "tool_choice"],
  ["tool_choice.disable_parallel_tool_use", "parallel_off"],
  ["messages: role system", "system_in_place"],
  ["messages: an assistant's at the end", "prefill"],
  ["text.citations", "citations"],
  ["image: base64", "image_base64"],
  ["image: url", "image_url"],
  ["document: base64", "file_base64"],
  ["document: url", "file_url"],
  ["document: text, content", "file_text"],
  ["image, document: file", "file_id"],
  ["document.context, citations", "other"],
  ["thinking, redacted_thinking", "reasoning_text"],
  ["tool_result: image, document", "tool_result_media"],
  ["tool_result.is_error", "tool_result_error"],
  ["server_tool_use, mcp_tool_use, their results, and what is newer", "foreign_block"],
  ["images, files and recordings of another type, or with another source", "foreign_media"],
];
