import { isDeepStrictEqual } from "node:util";
import {
  asObject,
  type Conversation,
  type FeatureUse,
  type Fields,
  type IncomingRequest,
  invalidField,
  type ReasoningConfig,
  requestFields,
} from "model-gateway/protocol";
import { readSampling } from "../openai/support.ts";
import { effortOf } from "../openai/wire.ts";
import { sameSettings } from "./request.encode.ts";
import { turnsOf } from "./request.messages.ts";
import type { BodyNative } from "./request.native.ts";
import { type Reading, readable } from "./request.parts.ts";
import { choiceOf, formatOf, functionsOf, toolsOf, webSearchOf } from "./request.tools.decode.ts";

/** Members that are always written anew. */
const ESSENTIAL: ReadonlySet<string> = new Set(["model", "messages"]);

/** Reads a Chat request. @throws GatewayError `invalid_field` with the client's own path. */
export function decodeRequest(asked: IncomingRequest): Conversation {
  const uses: FeatureUse[] = [];
  const body = requestFields(asked, uses);
  const reading: Reading = { uses, native: asked.native === true };
  const messages = body.list("messages");
  if (!messages) throw invalidField("messages", "messages must be a list.");
  body.text("model");
  if (body.of["stream"] === true) body.any("stream");
  else body.leave("stream");
  body.leave("stream_options", "cosmetic");

  const conversation: Conversation = {
    protocol: "openai-chat",
    task: asked.task,
    stream: asked.streaming,
    turns: turnsOf(messages, asked, reading),
    tools: [],
    uses: uses,
  };
  const forms: Record<string, unknown> = {};
  readable(reading, () => readSampling(body, conversation, forms));
  readTools(body, conversation, reading, forms);
  readThinking(body, conversation, forms);
  readWishes(body, conversation, reading, forms);
  if (asked.native) conversation.native = nativeOf(body, conversation, forms);
  else body.rest();
  return conversation;
}

/** What the vocabulary does not carry; a member of which it carries only a part is kept as it came. */
function nativeOf(body: Fields, conversation: Conversation, forms: Readonly<Record<string, unknown>>): BodyNative {
  const written = sameSettings(conversation, { rest: {}, forms });
  for (const [name, value] of Object.entries(body.of))
    if (!ESSENTIAL.has(name) && !isDeepStrictEqual(written[name], value)) body.leave(name);
  return { rest: body.rest(), forms };
}

function readTools(body: Fields, into: Conversation, reading: Reading, forms: Record<string, unknown>): void {
  const tools = body.list("tools");
  if (tools) into.tools.push(...(readable(reading, () => toolsOf(tools, reading)) ?? []));
  if (tools) forms["tools"] = true;
  const functions = body.list("functions");
  if (functions) into.tools.push(...(readable(reading, () => functionsOf(functions, reading)) ?? []));
  const search = body.object("web_search_options");
  if (search) into.tools.push(webSearchOf(search, reading));
  for (const name of ["tool_choice", "function_call"]) {
    if (into.toolChoice) break;
    const value = body.any(name);
    const choice = value === undefined ? undefined : readable(reading, () => choiceOf(value, name, body.uses));
    if (choice === undefined) continue;
    into.toolChoice = choice;
    forms["tool_choice"] = name;
  }
  const parallel = body.flag("parallel_tool_calls");
  if (parallel === undefined) return;
  into.parallel = parallel;
  if (!parallel) body.declare("parallel_tool_calls", "parallel_off");
}

/** `reasoning_effort`, or OpenRouter's `reasoning`. */
function readThinking(body: Fields, into: Conversation, forms: Record<string, unknown>): void {
  const context: ReasoningConfig = {};
  const effort = effortOf(body.of["reasoning_effort"]);
  if (effort !== undefined) {
    context.effort = effort;
    body.any("reasoning_effort");
    body.declare("reasoning_effort", "reasoning_effort");
  }
  const nested = asObject(body.of["reasoning"]) ? body.object("reasoning") : undefined;
  if (nested) {
    forms["reasoning"] = true;
    readNested(nested, context);
    nested.rest();
  }
  if (Object.keys(context).length > 0) into.reasoning = context;
}

function readNested(nested: Fields, context: ReasoningConfig): void {
  const effort = effortOf(nested.of["effort"]);
  if (effort !== undefined) {
    context.effort = effort;
    nested.any("effort");
    nested.declare("effort", "reasoning_effort");
  }
  const budget = nested.number("max_tokens");
  if (budget !== undefined) {
    context.budget = budget;
    nested.declare("max_tokens", "reasoning_budget");
  }
  if (nested.of["exclude"] === true) {
    context.show = false;
    nested.leave("exclude", "reasoning_summary");
  }
  const enabled = nested.of["enabled"];
  if (typeof enabled === "boolean" && context.effort === undefined && budget === undefined) {
    // OpenRouter's documents: enabled alone means medium.
    context.effort = enabled ? "medium" : "none";
    nested.leave("enabled", "reasoning_effort");
  } else nested.leave("enabled");
}

function readWishes(body: Fields, into: Conversation, reading: Reading, forms: Record<string, unknown>): void {
  const format = body.object("response_format");
  const wanted = format && readable(reading, () => formatOf(format));
  if (wanted) into.format = wanted;
  const logprobs = body.flag("logprobs");
  const top = body.number("top_logprobs");
  if (logprobs) {
    into.logprobs = top ?? 0;
    body.declare("logprobs", "logprobs");
    if (top !== undefined) forms["top_logprobs"] = true;
  } else {
    body.leave("logprobs");
    body.leave("top_logprobs");
  }
  const verbosity = body.of["verbosity"];
  if (verbosity === "low" || verbosity === "medium" || verbosity === "high") {
    into.verbosity = verbosity;
    body.any("verbosity");
    body.declare("verbosity", "verbosity");
  }
  const key = body.text("prompt_cache_key");
  if (key !== undefined) {
    into.cacheKey = key;
    body.declare("prompt_cache_key", "cache_key");
  }
  readUser(body, into, forms);
  const metadata = asObject(body.of["metadata"]);
  if (metadata && Object.values(metadata).every((value) => typeof value === "string")) {
    into.metadata = metadata as Record<string, string>;
    body.any("metadata");
    if (Object.keys(metadata).length > 0) body.declare("metadata", "metadata");
  } else body.leave("metadata", "metadata");
  const tier = body.text("service_tier");
  if (tier !== undefined) {
    into.tier = tier;
    if (tier !== "auto") body.declare("service_tier", "tier");
  }
  const store = body.flag("store");
  if (store !== undefined) into.store = store;
  if (store) body.declare("store", "store");
  const modalities = readable(reading, () => textsOf(body, "modalities"));
  if (modalities) {
    into.modalities = modalities;
    if (modalities.includes("audio")) body.declare("modalities", "audio_out");
    if (modalities.includes("image")) body.declare("modalities", "image_out");
  }
  body.leave("audio", "audio_out");
  body.leave("prediction", "prediction");
  body.leave("moderation", "moderation");
  readCacheOptions(body, into);
}

/** @throws GatewayError when it is no list of texts */
function textsOf(body: Fields, name: string): string[] | undefined {
  const list = body.list(name);
  if (list?.some((each) => typeof each !== "string")) throw invalidField(name, `${name} must be a list of strings.`);
  return list as string[] | undefined;
}

/** How long the whole prompt is kept. In the mode `explicit` only marks count, which is what other vendors do. */
function readCacheOptions(body: Fields, into: Conversation): void {
  const options = asObject(body.of["prompt_cache_options"]);
  const implicit = options !== undefined && options["mode"] !== "explicit";
  body.leave("prompt_cache_options", implicit ? "cache_mark" : "cosmetic");
  const ttl = options?.["ttl"];
  if (implicit) into.cache = ttl === "30m" || ttl === "12h" ? { ttl } : {};
}

function readUser(body: Fields, into: Conversation, forms: Record<string, unknown>): void {
  for (const name of ["safety_identifier", "user"]) {
    if (into.user !== undefined) break;
    const user = body.text(name);
    if (user === undefined) continue;
    into.user = user;
    forms["user"] = name;
    body.declare(name, "user");
  }
}
