import {
  asList,
  asObject,
  type CacheMark,
  type Conversation,
  type EncodeContext,
  type Feature,
  type Fields,
  type Format,
  invalidField,
  type JsonObject,
  parseExact,
  pathOfUse,
  RawJson,
  type Setting,
  type SupportTable,
  settingFields,
  writeJson,
} from "model-gateway/protocol";
import { isOpenMap, whyUnenforceable } from "./support.schema.ts";

/** How each feature is handled in a Messages request. */
export const support: SupportTable = {
  system_in_place: ["mapped", "unchanged if the model accepts it, else as user text in `<system-reminder>`"],
  name: "dropped",
  phase: "ignored",
  prefill: ["mapped", "refused where the model is known not to continue a turn"],
  image_base64: ["mapped", "JPEG, PNG, GIF and WebP; others are refused"],
  image_url: "mapped",
  file_base64: ["mapped", "PDF and text; others are refused"],
  file_url: "mapped",
  file_text: "mapped",
  file_id: ["refused", "an id is only known to the vendor that issued it"],
  audio: "refused",
  video: "refused",
  media_detail: "dropped",
  audio_out: "refused",
  image_out: "refused",
  tools: "mapped",
  tools_strict: [
    "mapped",
    "left out for a schema that contains itself, or an object with members of any name, declared",
  ],
  tools_custom: [
    "mapped",
    "as a function with one string, undone in the answer; a grammar is described to the model, not enforced",
  ],
  tools_namespace: ["mapped", "in the name, undone in the answer"],
  web_search: ["mapped", "a context size is dropped"],
  tools_server: "dropped",
  tools_server_needed: "refused",
  tool_choice: ["mapped", "a required tool call turns off thinking with a token budget, declared"],
  tool_choice_allowed: ["mapped", "only the allowed tools are sent"],
  parallel_off: "mapped",
  assistant_media: [
    "mapped",
    "with the user's next turn and a note that they are the assistant's, declared; dropped without such a turn",
  ],
  tool_result_media: "mapped",
  tool_result_error: "mapped",
  reasoning_effort: ["mapped", "minimal is low; as tokens where the model takes tokens only"],
  reasoning_budget: ["mapped", "as the nearest effort where the model takes efforts only"],
  reasoning_summary: ["mapped", "shown or not; the vendor decides how it is summarised"],
  reasoning_text: ["mapped", "only what this vendor signed; the rest is dropped"],
  citations: "dropped",
  foreign_block: "dropped",
  json_object: ["refused", "there is no JSON without a schema; send a schema"],
  json_schema: [
    "mapped",
    "its description is left out, declared; one that contains itself, or an object with members of any name, is refused",
  ],
  json_schema_strict: ["mapped", "it always matches"],
  stop: ["mapped", "sequences of white space only are refused"],
  max_tokens: "mapped",
  temperature: ["mapped", "above 1 it is refused; dropped where the model or its thinking does not take it"],
  top_p: ["mapped", "dropped where the model or its thinking does not take it"],
  top_k: ["mapped", "dropped where the model or its thinking does not take it"],
  penalties: "dropped",
  logit_bias: "refused",
  choices: ["mapped", "more than one is refused"],
  logprobs: "refused",
  seed: "dropped",
  verbosity: "dropped",
  cache_mark: ["mapped", "30 minutes and 12 hours become an hour; the last four marks count"],
  cache_key: "dropped",
  cache_handle: "refused",
  user: "mapped",
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
export function readCacheMark(fields: Fields, name = "cache_control"): CacheMark | undefined {
  const control = fields.object(name);
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
    throw invalidField(fields.path(name), `${fields.path(name)} must be a json_schema with a schema.`);
  return { kind: "schema", schema, alwaysStrict: true };
}

function writeFormat({ kind, schema, description }: Format, conversation: Conversation, context: EncodeContext) {
  if (kind !== "schema" || !schema) return undefined;
  const path = pathOfUse(conversation, "json_schema");
  if (description !== undefined) context.change(path, "without the description of the schema");
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
  { path: "top_k", field: "topK", feature: "top_k", type: "number", sampling: true, read: readLimit },
  { path: "stop_sequences", field: "stop", feature: "stop", type: "texts", write: writeStop },
  { path: "metadata.user_id", field: "user", feature: "user", type: "text" },
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
  ["server_tool_use, mcp_tool_use, their results, compaction, and what is newer", "foreign_block"],
];

/** String formats that the vendor enforces. [S: the SDK's schema transform] */
const FORMATS: ReadonlySet<unknown> = new Set(
  "date-time time date duration email hostname uri ipv4 ipv6 uuid".split(" "),
);

/** Keywords that the vendor enforces, besides those handled below. [S, D: structured outputs] */
const ENFORCED_KEYWORDS: ReadonlySet<string> = new Set(
  "type title description enum const default anyOf allOf $ref $defs definitions items properties required pattern".split(
    " ",
  ),
);

/**
 * Returns a schema that the vendor can enforce. It refuses keywords that it cannot enforce: those are moved into the
 * description, where the model reads them, and a notice is given. A schema without them keeps its original text.
 */
export function enforceableSchema(schema: RawJson, path: string, context: EncodeContext): RawJson {
  const fitter = new SchemaFitter();
  const fitted = fitter.schema(parseExact(schema.text), "");
  if (fitter.closed) context.change(path, "only the named members are allowed");
  if (fitter.union) context.change(path, "oneOf as anyOf");
  if (fitter.unenforced.length > 0)
    context.change(path, `not enforced, only described to the model: ${listPlaces(fitter.unenforced)}`);
  return fitter.changed ? new RawJson(writeJson(fitted)) : schema;
}

/** Maximum number of places named in one notice. */
const MAX_LISTED = 5;

function listPlaces(places: readonly string[]): string {
  const unlisted = places.length - MAX_LISTED;
  return places.slice(0, MAX_LISTED).join(", ") + (unlisted > 0 ? ` and ${unlisted} more` : "");
}

/** Returns a value as an object; undefined for RawJson numbers. */
const objectOf = (value: unknown): JsonObject | undefined => (value instanceof RawJson ? undefined : asObject(value));

class SchemaFitter {
  changed = false;
  /** Whether an object was open, which the vendor does not allow. */
  closed = false;
  /** Whether a `oneOf` was weakened. */
  union = false;
  /** Places of keywords that the vendor does not enforce. */
  readonly unenforced: string[] = [];

  schema(value: unknown, at: string): unknown {
    const schema = objectOf(value);
    if (!schema) return value;
    const out: JsonObject = {};
    const described: [name: string, member: unknown][] = [];
    for (const name in schema)
      if (!this.keyword(name, schema, at, out)) described.push([name, this.describe(schema[name], `${at}.${name}`)]);
    const { type, properties, additionalProperties } = schema;
    if ([type].flat().includes("object") || (properties ?? additionalProperties) !== undefined) this.close(schema, out);
    if (described.length > 0) {
      const ownDescription = typeof out["description"] === "string" ? `${out["description"]}\n\n` : "";
      out["description"] = ownDescription + writeJson(Object.fromEntries(described));
    }
    return out;
  }

  /** Handles a keyword; returns false for one that the vendor does not enforce. */
  private keyword(name: string, schema: JsonObject, at: string, out: JsonObject): boolean {
    const path = `${at}.${name}`;
    const member = schema[name];
    if (name === "properties" || name === "$defs" || name === "definitions") out[name] = this.schemaMap(member, path);
    else if (name === "items") out[name] = this.schema(member, path);
    else if (name === "anyOf" || name === "allOf")
      out[name] = asList(member).map((alternative, i) => this.schema(alternative, `${path}.${i}`));
    else if (name === "oneOf" && !Object.hasOwn(schema, "anyOf")) this.oneOf(member, path, out);
    else if (
      name === "format"
        ? FORMATS.has(member)
        : name === "minItems"
          ? member === 0 || member === 1
          : ENFORCED_KEYWORDS.has(name)
    )
      out[name] = member;
    else if (name === "$schema") this.changed = true;
    else return name === "additionalProperties";
    return true;
  }

  private schemaMap(member: unknown, at: string): JsonObject {
    const schemas = Object.entries(objectOf(member) ?? {});
    return Object.fromEntries(schemas.map(([name, schema]) => [name, this.schema(schema, `${at}.${name}`)]));
  }

  private oneOf(member: unknown, at: string, out: JsonObject): void {
    this.changed = true;
    this.union = true;
    out["anyOf"] = asList(member).map((alternative, i) => this.schema(alternative, `${at}.${i}`));
  }

  private describe(member: unknown, at: string): unknown {
    this.changed = true;
    this.unenforced.push(at.slice(1));
    return member;
  }

  /** Closes an object, as required. One without named members is left for `whyUnenforceable`. */
  private close(schema: JsonObject, out: JsonObject): void {
    const additional = schema["additionalProperties"];
    out["additionalProperties"] = isOpenMap(schema) ? additional : false;
    if (additional === false || isOpenMap(schema)) return;
    this.changed = true;
    this.closed = true;
  }
}
