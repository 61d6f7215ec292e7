import {
  asList,
  asObject,
  asText,
  type Conversation,
  type Effort,
  entryOf,
  type Feature,
  GatewayError,
  type IncomingRequest,
  type JsonObject,
  type Part,
  parseExact,
  RawJson,
  type ReasoningConfig,
  TextKey,
  type ToolChoice,
  type Turn,
} from "model-gateway/protocol";
import { partsOf } from "./request.decode.blocks.ts";
import { toolsOf } from "./request.decode.tools.ts";
import { Reading } from "./request.reading.ts";
import { NAME, without } from "./words.ts";

/** Members whose text is kept as it came: arguments and schemas. */
const RAW = new Set(["input", "input_schema", "schema"]);

/** Top-level members that become members of the conversation; all others are looked up in `ELSEWHERE`. */
const READ = new Set([
  ..."model messages system max_tokens stream temperature top_p top_k stop_sequences service_tier metadata".split(" "),
  ..."tools tool_choice thinking output_config output_format cache_control".split(" "),
]);

/** Top-level members that only this vendor has a use for. What is not listed is `other`. */
const ELSEWHERE: Readonly<Record<string, Feature>> = {
  context_management: "context_edits",
  container: "container",
  mcp_servers: "tools_server",
  diagnostics: "cosmetic",
  betas: "cosmetic",
  anthropic_beta: "cosmetic",
  anthropic_version: "cosmetic",
};

const EFFORTS: ReadonlySet<string> = new Set(["low", "medium", "high", "xhigh", "max"]);

/** What the conversation's `native` holds: members that it has no word for, and which forms the source used. */
export interface Own {
  rest?: JsonObject;
  /** The form of `thinking` and of its companions, as far as the reasoning wish does not tell. */
  thinking?: JsonObject;
  effort?: unknown;
  config?: JsonObject;
  legacyFormat?: boolean;
  choice?: JsonObject;
  metadata?: JsonObject;
  /** Members of the format besides its type and its schema. */
  format?: JsonObject;
  /** Names of members that were read, but not as what the conversation could tell. */
  kept?: string[];
}

/** Reads a Messages request. @throws GatewayError `invalid_field`, `invalid_json` */
export function decode(asked: IncomingRequest): Conversation {
  const body = parsed(asked.text);
  const reading = new Reading(asked);
  const own: Own = {};
  const conversation: Conversation = {
    protocol: NAME,
    task: asked.task,
    stream: asked.streaming,
    turns: [...systemOf(reading, body["system"]), ...turnsOf(reading, body["messages"])],
    tools: toolsOf(reading, body["tools"]),
    uses: reading.uses,
  };
  limits(reading, body, conversation);
  choice(reading, body, conversation, own);
  reasoning(reading, body, conversation, own);
  format(reading, body, conversation, own);
  labels(reading, body, conversation, own);
  for (const [name, value] of Object.entries(body))
    if (!READ.has(name) && value !== null) reading.say(entryOf(ELSEWHERE, name) ?? "other", name);
  if (asked.native) conversation.native = { ...own, ...restOf(reading, body, own) } satisfies Own;
  return conversation;
}

/** Members that the conversation tells whole; by name, when a value of them is one. */
const TOLD: Readonly<Record<string, (value: unknown) => boolean>> = {
  model: (value) => typeof value === "string",
  messages: Array.isArray,
  system: (value) => typeof value === "string" || Array.isArray(value),
  max_tokens: (value) => typeof value === "number",
  // That there is an empty list, or no stream, is not told.
  stream: (value) => value === true,
  tools: (value) => asList(value).length > 0,
  stop_sequences: (value) => asList(value).length > 0 && asList(value).every((each) => typeof each === "string"),
  temperature: (value) => typeof value === "number",
  top_p: (value) => typeof value === "number",
  top_k: (value) => typeof value === "number",
  service_tier: (value) => typeof value === "string",
  metadata: isOpen,
  tool_choice: isOpen,
  thinking: isOpen,
  output_config: isOpen,
  output_format: isOpen,
};

/** True for an object that was read, not one that is kept as text. */
function isOpen(value: unknown): boolean {
  return !(value instanceof RawJson) && asObject(value) !== undefined;
}

/** The members that the conversation does not tell, and nothing else of this protocol's own does. */
function restOf(reading: Reading, body: JsonObject, own: Own): { rest?: JsonObject } {
  const taken = Object.keys(TOLD).filter((name) => TOLD[name]?.(body[name]) && !own.kept?.includes(name));
  const rest = reading.native(body, taken).native?.rest;
  return rest ? { rest } : {};
}

function parsed(text: string): JsonObject {
  try {
    const body = asObject(parseExact(text, RAW));
    if (body) return body;
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
  throw new GatewayError("invalid_json");
}

function systemOf(reading: Reading, system: unknown): Turn[] {
  if (system === undefined || system === null) return [];
  const at = "system";
  if (typeof system !== "string" && !Array.isArray(system)) return reading.wrong(at, "must be a string or blocks.");
  const parts = partsOf(reading, system, at, "system").filter(
    (part) => reading.asked.native || !isBilling(reading, part),
  );
  if (parts.length === 0 && !reading.asked.native) return [];
  return [{ role: "system", at, parts, ...reading.native({}, [], typeof system === "string" ? { string: true } : {}) }];
}

/** The line with which Claude Code 2.1 begins its system prompt, a text of its own; it differs between runs. */
const BILLING = /^x-anthropic-billing-header:.*$/;

/** True for what means nothing to other vendors, and would keep their caches from knowing the prompt again. */
function isBilling(reading: Reading, part: Part): boolean {
  if (part.kind !== "text" || !BILLING.test(part.text.trimEnd())) return false;
  reading.say("cosmetic", part.at);
  if (part.cache) reading.say("other", `${part.at}.cache_control`);
  return true;
}

function turnsOf(reading: Reading, messages: unknown): Turn[] {
  if (!Array.isArray(messages)) return reading.wrong("messages", "must be a list.");
  const turns = messages.map((message, i) => turnOf(reading, message, `messages.${i}`));
  const last = turns.at(-1);
  if (last?.role === "assistant") reading.say("prefill", last.at);
  return turns;
}

const ROLES = ["user", "assistant", "system"] as const;

function turnOf(reading: Reading, value: unknown, at: string): Turn {
  const message = asObject(value) ?? reading.wrong(at, "must be an object.");
  const { content } = message;
  const role = ROLES.find((each) => each === message["role"]);
  if (!role) return reading.wrong(`${at}.role`, "must be user, assistant or system.");
  if (role === "system") reading.say("system_in_place", at);
  reading.others(message, ["role", "content"], at);
  const parts = partsOf(reading, content, `${at}.content`, role);
  return {
    role,
    at,
    parts: role === "assistant" && !reading.asked.native ? [...parts, ...stateBehind(reading, parts.at(-1))] : parts,
    ...reading.native(message, ["role", "content"], typeof content === "string" ? { string: true } : {}),
  };
}

/** State that stood behind the last text of an answer, where this protocol has no place for it. */
function stateBehind(reading: Reading, last: Part | undefined): Part[] {
  const opaque = last?.kind === "text" ? reading.asked.recall(`${new TextKey().add(last.text)}`) : undefined;
  if (!last || !opaque) return [];
  const { on: _, ...state } = opaque;
  return [{ kind: "text", at: last.at, text: "", opaque: state }];
}

/** How long, and how the answer is sampled. */
function limits(reading: Reading, body: JsonObject, conversation: Conversation): void {
  const most = measure(reading, body, "max_tokens");
  const generates = reading.asked.task === "generate";
  if ((body["max_tokens"] ?? undefined) === undefined && generates) reading.wrong("max_tokens", "is required.");
  if (most === 0 && generates && !reading.asked.native)
    reading.wrong("max_tokens", "is 0, which fills a prompt cache of this protocol's vendor and no other.");
  const temperature = measure(reading, body, "temperature");
  const topP = measure(reading, body, "top_p");
  const topK = measure(reading, body, "top_k");
  reading.flag(body, "stream", "");
  if (most !== undefined) conversation.maxTokens = most;
  if (temperature !== undefined) conversation.temperature = temperature;
  // Older clients say -1 for none. [F]
  const none = (value: number) => value === -1 && !reading.asked.native;
  if (topP !== undefined && !none(topP)) conversation.topP = topP;
  if (topK !== undefined && !none(topK)) conversation.topK = topK;
  const stop = reading.texts(body, "stop_sequences", "");
  if (!stop) return;
  conversation.stop = stop;
  if (stop.length > 0) reading.say("stop", "stop_sequences");
}

/** A number at top level, said as the feature of its name. */
function measure(
  reading: Reading,
  body: JsonObject,
  name: "max_tokens" | "temperature" | "top_p" | "top_k",
): number | undefined {
  const value = reading.number(body, name, "");
  if (value !== undefined) reading.say(name, name);
  return value;
}

const MODES: Readonly<Record<string, "auto" | "none" | "required">> = { auto: "auto", none: "none", any: "required" };

function choice(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const at = "tool_choice";
  const context = reading.object(body, at, "");
  if (!context) return;
  const alone = reading.flag(context, "disable_parallel_tool_use", at);
  const made = chosen(reading, context, conversation);
  if (!made) {
    own.kept = [...(own.kept ?? []), at];
    return;
  }
  if (alone !== undefined) conversation.parallel = !alone;
  if (alone === true) reading.say("parallel_off", `${at}.disable_parallel_tool_use`);
  reading.say("tool_choice", at);
  conversation.toolChoice = made;
  const read = [
    "type",
    ...(made.mode === "named" ? ["name"] : []),
    ...(alone === undefined ? [] : ["disable_parallel_tool_use"]),
  ];
  reading.others(context, read, at);
  const rest = without(context, read);
  if (rest) own.choice = rest;
}

/** Which tools may be called; undefined for what only the vendor knows, between equals. */
function chosen(reading: Reading, context: JsonObject, { tools }: Conversation): ToolChoice | undefined {
  const mode = entryOf(MODES, asText(context["type"]));
  if (mode) return { mode };
  if (context["type"] !== "tool")
    return reading.asked.native ? undefined : reading.wrong("tool_choice.type", "must be auto, any, tool or none.");
  const name = asText(context["name"]) ?? reading.wrong("tool_choice.name", "must be the name of a tool.");
  const byVendor = tools.some((tool) => tool.kind === "web_search" && name === "web_search");
  const server = byVendor || tools.some((tool) => tool.kind === "server" && tool.name === name);
  return { mode: "named", name, ...(server ? { server: true } : {}) };
}

function reasoning(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const context: ReasoningConfig = {};
  const config = reading.object(body, "output_config", "");
  const effort = config && reading.maybeText(config, "effort", "output_config");
  if (effort !== undefined) {
    reading.say("reasoning_effort", "output_config.effort");
    if (EFFORTS.has(effort)) context.effort = effort as Effort;
    else if (!reading.asked.native) reading.wrong("output_config.effort", "must be low, medium, high, xhigh or max.");
  }
  const thinking = reading.object(body, "thinking", "");
  if (thinking) think(reading, thinking, context);
  if (thinking)
    own.thinking = without(thinking, context.budget === thinking["budget_tokens"] ? ["budget_tokens"] : []) ?? {};
  // An effort beside disabled thinking is about the answer's own length; only this vendor has that.
  if (effort !== undefined && context.effort !== effort) own.effort = effort;
  if (own.effort !== undefined) reading.say("other", "output_config.effort");
  if (Object.keys(context).length > 0) conversation.reasoning = context;
}

const DISPLAYS: ReadonlySet<string> = new Set(["summarized", "omitted"]);

/** Reads `thinking`. Of a kind that is not known only this is understood: that the model shall think. */
function think(reading: Reading, thinking: JsonObject, context: ReasoningConfig): void {
  const at = "thinking";
  const type = reading.maybeText(thinking, "type", at) ?? kindless(reading);
  const budget = type === "enabled" ? reading.number(thinking, "budget_tokens", at) : undefined;
  if (type === "disabled") context.effort = "none";
  else context.budget = budget ?? -1;
  if (budget !== undefined) reading.say("reasoning_budget", `${at}.budget_tokens`);
  else if (type !== "enabled") reading.say("reasoning_effort", at);
  if (type !== "enabled" && type !== "adaptive" && type !== "disabled") reading.say("other", `${at}.type`);
  reading.others(thinking, ["type", "display", ...(type === "enabled" ? ["budget_tokens"] : [])], at);
  const display = reading.maybeText(thinking, "display", at);
  if (display === undefined) return;
  reading.say("reasoning_summary", `${at}.display`);
  if (!DISPLAYS.has(display)) reading.say("other", `${at}.display`);
  context.show = display !== "omitted";
}

function kindless(reading: Reading): undefined {
  if (!reading.asked.native) reading.wrong("thinking.type", "must be enabled, adaptive or disabled.");
}

function format(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const config = reading.object(body, "output_config", "");
  const context = config && reading.object(config, "format", "output_config");
  const old = reading.object(body, "output_format", "");
  const read = context ? schemaOf(reading, context, "output_config.format", conversation, own) : false;
  if (old && context) reading.say("other", "output_format");
  own.legacyFormat = old !== undefined && !context && schemaOf(reading, old, "output_format", conversation, own);
  if (!own.legacyFormat) own.kept = [...(own.kept ?? []), "output_format"];
  if (!config) return;
  reading.others(config, ["effort", "format"], "output_config");
  own.config = without(config, [...(asText(config["effort"]) ? ["effort"] : []), ...(read ? ["format"] : [])]) ?? {};
}

/** Reads a format. False between equals for one that only the vendor knows. */
function schemaOf(reading: Reading, context: JsonObject, at: string, conversation: Conversation, own: Own): boolean {
  const { type, schema } = context;
  if (type !== "json_schema" || !(schema instanceof RawJson && schema.text.startsWith("{")))
    return reading.asked.native ? false : reading.wrong(at, "must be a json_schema with a schema.");
  conversation.format = { kind: "schema", schema };
  reading.say("json_schema", at);
  reading.others(context, ["type", "schema"], at);
  const rest = without(context, ["type", "schema"]);
  if (rest) own.format = rest;
  return true;
}

/** Who asks, on which tier, and what the vendor shall cache. */
function labels(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const metadata = reading.object(body, "metadata", "");
  const user = metadata && reading.maybeText(metadata, "user_id", "metadata");
  if (user !== undefined) {
    conversation.user = user;
    reading.say("user", "metadata.user_id");
  }
  if (metadata) reading.others(metadata, ["user_id"], "metadata");
  if (metadata) own.metadata = without(metadata, user === undefined ? [] : ["user_id"]) ?? {};
  const tier = reading.maybeText(body, "service_tier", "");
  if (tier !== undefined) {
    conversation.tier = tier;
    reading.say("tier", "service_tier");
  }
  const cache = reading.mark(body, "");
  if (cache) conversation.cache = cache;
}
