import {
  type Asked,
  asList,
  asObject,
  asText,
  type Conversation,
  type Effort,
  entryOf,
  type Feature,
  GatewayError,
  type JsonObject,
  type Part,
  parseExact,
  RawJson,
  type ReasoningWish,
  TextKey,
  type ToolChoice,
  type Turn,
} from "model-gateway";
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
}

/** Reads a Messages request. @throws GatewayError `invalid_field`, `invalid_json` */
export function decode(asked: Asked): Conversation {
  const body = parsed(asked.text);
  const reading = new Reading(asked);
  const own: Own = {};
  const conversation: Conversation = {
    protocol: NAME,
    task: asked.task,
    stream: asked.streaming,
    turns: [...systemOf(reading, body["system"]), ...turnsOf(reading, body["messages"])],
    tools: toolsOf(reading, body["tools"]),
    said: reading.said,
  };
  limits(reading, body, conversation);
  choice(reading, body["tool_choice"], conversation, own);
  reasoning(reading, body, conversation, own);
  format(reading, body, conversation, own);
  labels(reading, body, conversation, own);
  for (const [name, value] of Object.entries(body))
    if (!READ.has(name) && value !== null) reading.say(entryOf(ELSEWHERE, name) ?? "other", name);
  if (asked.native) conversation.native = { ...own, ...restOf(reading, body) } satisfies Own;
  return conversation;
}

/** Members that nobody read, and those whose presence alone the conversation does not tell: empty lists, null, false. */
function restOf(reading: Reading, body: JsonObject): { rest?: JsonObject } {
  const empty = (value: unknown): boolean => value === null || value === false || asList(value).length === 0;
  const lists = ["tools", "stop_sequences", "stream"];
  const taken = [...READ].filter(
    (name) =>
      name !== "cache_control" &&
      body[name] !== null &&
      !(lists.includes(name) && body[name] !== true && empty(body[name])),
  );
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
  const parts = partsOf(reading, system, at, at);
  return [{ role: "system", at, parts, ...reading.native({}, [], typeof system === "string" ? { string: true } : {}) }];
}

function turnsOf(reading: Reading, messages: unknown): Turn[] {
  if (!Array.isArray(messages)) return reading.wrong("messages", "must be a list.");
  const turns = messages.map((message, i) => turnOf(reading, message, `messages.${i}`));
  const last = turns.at(-1);
  if (last?.role === "assistant") reading.say("prefill", last.at);
  return turns;
}

const ROLES: ReadonlySet<unknown> = new Set(["user", "assistant", "system"]);

function turnOf(reading: Reading, value: unknown, at: string): Turn {
  const message = asObject(value) ?? reading.wrong(at, "must be an object.");
  const { role, content } = message;
  if (!ROLES.has(role)) return reading.wrong(`${at}.role`, "must be user, assistant or system.");
  if (role === "system") reading.say("system_in_place", at);
  reading.others(message, ["role", "content"], at);
  const parts = partsOf(reading, content, `${at}.content`, `${at}.content`);
  return {
    role: role as Turn["role"],
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
  const most = reading.number(body, "max_tokens", "max_tokens");
  if (most === undefined && reading.asked.task === "generate") reading.wrong("max_tokens", "is required.");
  if (most === 0 && !reading.asked.native)
    reading.wrong("max_tokens", "is 0, which fills a prompt cache of this protocol's vendor and no other.");
  const temperature = reading.number(body, "temperature", "temperature");
  const topP = reading.number(body, "top_p", "top_p");
  const topK = reading.number(body, "top_k", "top_k");
  if (most !== undefined) conversation.maxTokens = most;
  if (temperature !== undefined) conversation.temperature = temperature;
  // Older clients say -1 for none. [F]
  const none = (value: number) => value === -1 && !reading.asked.native;
  if (topP !== undefined && !none(topP)) conversation.topP = topP;
  if (topK !== undefined && !none(topK)) conversation.topK = topK;
  const stop = body["stop_sequences"];
  if (stop === undefined || stop === null) return;
  const all = asList(stop).filter((each) => typeof each === "string");
  if (!Array.isArray(stop) || all.length < stop.length) reading.wrong("stop_sequences", "must be a list of strings.");
  conversation.stop = all;
  if (all.length > 0) reading.say("stop", "stop_sequences");
}

const MODES: Readonly<Record<string, "auto" | "none" | "required">> = { auto: "auto", none: "none", any: "required" };

function choice(reading: Reading, value: unknown, conversation: Conversation, own: Own): void {
  if (value === undefined || value === null) return;
  const at = "tool_choice";
  const wish = asObject(value) ?? reading.wrong(at, "must be an object.");
  const alone = wish["disable_parallel_tool_use"];
  if (typeof alone === "boolean") conversation.parallel = !alone;
  if (alone === true) reading.say("parallel_off", `${at}.disable_parallel_tool_use`);
  reading.say("tool_choice", at);
  conversation.toolChoice = chosen(reading, wish, conversation);
  const rest = without(wish, ["type", "name", ...(typeof alone === "boolean" ? ["disable_parallel_tool_use"] : [])]);
  if (rest) own.choice = rest;
}

function chosen(reading: Reading, wish: JsonObject, { tools }: Conversation): ToolChoice {
  const mode = entryOf(MODES, asText(wish["type"]));
  if (mode) return { mode };
  if (wish["type"] !== "tool") return reading.wrong("tool_choice.type", "must be auto, any, tool or none.");
  const name = asText(wish["name"]) ?? reading.wrong("tool_choice.name", "must be the name of a tool.");
  const byVendor = tools.some((tool) => tool.kind === "web_search" && name === "web_search");
  const server = byVendor || tools.some((tool) => tool.kind === "server" && tool.name === name);
  return { mode: "named", name, ...(server ? { server: true } : {}) };
}

function reasoning(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const wish: ReasoningWish = {};
  const config = asObject(body["output_config"]);
  const effort = asText(config?.["effort"]);
  if (effort !== undefined) {
    reading.say("reasoning_effort", "output_config.effort");
    if (EFFORTS.has(effort)) wish.effort = effort as Effort;
    else if (!reading.asked.native) reading.wrong("output_config.effort", "must be low, medium, high, xhigh or max.");
  }
  const thinking = asObject(body["thinking"]);
  if (thinking) think(reading, thinking, wish);
  if (thinking) own.thinking = without(thinking, ["budget_tokens"]) ?? {};
  // An effort beside disabled thinking is about the answer's own length; only this vendor has that.
  if (effort !== undefined && wish.effort !== effort) own.effort = effort;
  if (own.effort !== undefined) reading.say("other", "output_config.effort");
  if (Object.keys(wish).length > 0) conversation.reasoning = wish;
}

function think(reading: Reading, thinking: JsonObject, wish: ReasoningWish): void {
  const { type, display } = thinking;
  if (type === "disabled") {
    wish.effort = "none";
    reading.say("reasoning_effort", "thinking");
  } else if (type === "enabled") {
    wish.budget = reading.number(thinking, "budget_tokens", "thinking.budget_tokens") ?? -1;
  } else {
    wish.budget = -1;
    reading.say("reasoning_effort", "thinking");
  }
  if (typeof display !== "string") return;
  reading.say("reasoning_summary", "thinking.display");
  wish.show = display !== "omitted";
}

function format(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const config = asObject(body["output_config"]);
  const legacy = config?.["format"] === undefined || config["format"] === null;
  const at = legacy ? "output_format" : "output_config.format";
  const wish = asObject(legacy ? body["output_format"] : config?.["format"]);
  if (wish) {
    const schema = wish["schema"];
    const fits = wish["type"] === "json_schema" && schema instanceof RawJson;
    conversation.format = fits ? { kind: "schema", schema } : reading.wrong(at, "must be a json_schema with a schema.");
    reading.say("json_schema", at);
    if (legacy) own.legacyFormat = true;
  }
  if (!config) return;
  reading.others(config, ["effort", "format"], "output_config");
  const rest = without(config, ["effort", ...(wish && !legacy ? ["format"] : [])]);
  own.config = rest ?? {};
}

/** Who asks, on which tier, and what the vendor shall cache. */
function labels(reading: Reading, body: JsonObject, conversation: Conversation, own: Own): void {
  const metadata = asObject(body["metadata"]);
  const user = asText(metadata?.["user_id"]);
  if (user !== undefined) {
    conversation.user = user;
    reading.say("user", "metadata.user_id");
  }
  if (metadata) reading.others(metadata, ["user_id"], "metadata");
  if (metadata) own.metadata = without(metadata, user === undefined ? [] : ["user_id"]) ?? {};
  const tier = asText(body["service_tier"]);
  if (tier !== undefined) {
    conversation.tier = tier;
    reading.say("tier", "service_tier");
  }
  const cache = reading.mark(body, "");
  if (cache) conversation.cache = cache;
}
