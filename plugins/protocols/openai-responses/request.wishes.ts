/** Reads the fields of a request that say how to answer. */
import {
  type Conversation,
  type Fields,
  type Format,
  invalidField,
  RawJson,
  type ReasoningConfig,
} from "model-gateway/protocol";
import { EFFORTS } from "../openai/wire.ts";
import { ENCRYPTED, LOGPROBS, type RequestNative } from "./request.native.ts";
import { leave, leaveUsual, need, oneOf, peek, type Reading, type Usual } from "./request.read.ts";

/** What some fields say, and the rest of them. */
interface Read {
  conversation: Partial<Conversation>;
  native: Partial<RequestNative>;
}

/**
 * The form of the answer.
 * @param plain whether it is text, whatever the request says
 */
export function readText(reading: Reading, text: Fields | undefined, plain: boolean): Read {
  if (!text) return { conversation: {}, native: {} };
  const format = plain ? undefined : text.object("format");
  const verbosity = oneOf(reading, text, "verbosity", ["low", "medium", "high"]);
  if (verbosity !== undefined) text.declare("verbosity", "verbosity");
  const read = format && readFormat(reading, format);
  if (!read) text.leave("format");
  const conversation = {
    ...(read && { format: read }),
    ...(verbosity !== undefined && { verbosity }),
  };
  return { conversation, native: { text: text.rest(), ...(format && { format: format.rest() }) } };
}

/** Undefined: one that only the vendor knows. */
function readFormat(reading: Reading, fields: Fields): Format | undefined {
  const type = oneOf(reading, fields, "type", ["text", "json_object", "json_schema"]);
  if (type === undefined && reading.same) return undefined;
  if (type === undefined) throw invalidField(fields.path("type"), `${fields.path("type")} must be said.`);
  if (type === "text") return { kind: "text" };
  if (type === "json_object") {
    reading.say("json_object", fields.at);
    return { kind: "json" };
  }
  const schema = fields.any("schema");
  if (!(schema instanceof RawJson))
    throw invalidField(fields.path("schema"), `${fields.path("schema")} must be a JSON Schema.`);
  const name = fields.text("name");
  const description = fields.text("description");
  const strict = fields.flag("strict");
  reading.say("json_schema", fields.at);
  if (strict) fields.declare("strict", "json_schema_strict");
  return {
    kind: "schema",
    schema,
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(strict !== undefined && { strict }),
  };
}

/** Thoughts of all turns are what is translated anyway. */
const USUAL: Usual = { context: ["auto", "all_turns"], mode: ["standard"] };

/** How hard to think, and whether to show it. */
export function readReasoning(reading: Reading, fields: Fields | undefined): Read {
  if (!fields) return { conversation: {}, native: {} };
  const effort = oneOf(reading, fields, "effort", EFFORTS);
  const summary = oneOf(reading, fields, "summary", ["auto", "concise", "detailed"]);
  if (effort !== undefined) fields.declare("effort", "reasoning_effort");
  if (summary !== undefined) fields.declare("summary", "reasoning_summary");
  const context: ReasoningConfig = {
    ...(effort !== undefined && { effort }),
    ...(summary !== undefined && { summary, show: true }),
  };
  leaveUsual(fields, USUAL);
  return { conversation: { reasoning: context }, native: { reasoning: fields.rest() } };
}

/** Labels, caches, tiers and what to include. */
export function readMore(reading: Reading, fields: Fields): Read {
  const cacheKey = fields.text("prompt_cache_key");
  const userField = peek(fields, "safety_identifier") === undefined ? "user" : "safety_identifier";
  const user = fields.text(userField);
  const labels = fields.object("metadata");
  const metadata = labels && readMetadata(reading, labels);
  const tier = fields.text("service_tier");
  const store = fields.flag("store");
  if (cacheKey !== undefined) fields.declare("prompt_cache_key", "cache_key");
  if (user !== undefined) fields.declare(userField, "user");
  if (tier !== undefined && tier !== "auto") fields.declare("service_tier", "tier");
  if (store) fields.declare("store", "store");
  const include = readInclude(reading, fields);
  const cache = readCacheOptions(reading, fields.object("prompt_cache_options"));
  return {
    conversation: {
      ...(cacheKey !== undefined && { cacheKey }),
      ...(user !== undefined && { user }),
      ...metadata?.conversation,
      ...(tier !== undefined && { tier }),
      ...(store !== undefined && { store }),
      ...include.conversation,
      ...cache.conversation,
    },
    native: { userField, ...metadata?.native, ...include.native, ...cache.native },
  };
}

function readMetadata(reading: Reading, labels: Fields): Read {
  reading.say("metadata", "metadata");
  const texts = Object.keys(labels.of).flatMap((name) => {
    const text = reading.same ? labels.text(name) : need(labels, name);
    return text === undefined ? [] : [[name, text] as const];
  });
  return { conversation: { metadata: Object.fromEntries(texts) }, native: { metadata: labels.rest() } };
}

/** Logprobs are asked for in two places: that there are any, and how many tokens beside each. */
function readInclude(reading: Reading, fields: Fields): Read {
  const include = fields.list("include");
  const told = peek(fields, "top_logprobs") ?? 0;
  const top = typeof told === "number" && told <= 0 ? 0 : (fields.number("top_logprobs") ?? 0);
  const wanted = include?.includes(LOGPROBS) || top > 0;
  if (wanted) reading.say("logprobs", top > 0 ? "top_logprobs" : "include");
  include?.forEach((each, i) => {
    if (each !== LOGPROBS && each !== ENCRYPTED) reading.say("other", `include.${i}`);
  });
  return { conversation: wanted ? { logprobs: top } : {}, native: include ? { include } : {} };
}

/** How long the whole prompt is kept. In the mode `explicit` only marks count, which is what other vendors do. */
function readCacheOptions(reading: Reading, fields: Fields | undefined): Read {
  if (!fields) return { conversation: {}, native: {} };
  const implicit = peek(fields, "mode") !== "explicit";
  const told = peek(fields, "ttl");
  const ttl = implicit && (told === "30m" || told === "12h") ? told : undefined;
  reading.say(implicit ? "cache_mark" : "cosmetic", fields.at);
  if (ttl) fields.any("ttl");
  leave(fields, "mode", ...(implicit ? [] : ["ttl"]));
  return {
    conversation: implicit ? { cache: ttl ? { ttl } : {} } : {},
    native: { cacheOptions: fields.rest() },
  };
}
