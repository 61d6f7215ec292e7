import { isUtf8 } from "node:buffer";
import {
  argumentsObject,
  asObject,
  asText,
  type Conversation,
  type EncodeContext,
  type EncodedRequest,
  type Feature,
  imageType,
  type JsonObject,
  type Media,
  mergeTurns,
  objectParameters,
  type Part,
  pathOfUse,
  RawJson,
  type Reasoning,
  Steps,
  safeId,
  type Tool,
  type ToolResult,
  type Turn,
  writeSettings,
} from "model-gateway/protocol";
import { choicePath, fitToolName, forcesToolCall, TOOL_CHOICE_SETTINGS } from "./support.choice.ts";
import {
  describeAlternatives,
  EnforcedSchemas,
  enforceableSchema,
  fitMembers,
  whyUnenforceable,
} from "./support.schema.ts";
import { isThinking, NO_THINKING_BLOCK, needsThinking, thinkingCodec } from "./support.thinking.ts";
import { answerSettings, cacheControl, promptSettings } from "./support.ts";
import { ANTHROPIC_MESSAGES, CLAUDE, COUNT_TOKENS, MESSAGES, opaqueData } from "./wire.ts";

/**
 * Default `max_tokens` where neither the client nor gateway.yaml has one: the vendor requires a number, refuses one above the
 * model's own maximum, and this is the largest that every model since Claude 4 accepts.
 */
const DEFAULT_MAX_TOKENS = 32_000;

/** The API version that accepts everything written here; the newer one refuses sampling settings. */
const HEADERS = [["anthropic-version", "2023-06-01"]] as const;

/** Encodes a Messages request. @throws GatewayError as `context.refuse` makes it. */
export function* encodeRequest(asked: Conversation, context: EncodeContext): Steps<EncodedRequest> {
  const countsTokens = asked.task === "count";
  refuseUnsupported(asked, context);
  const conversation = withoutUnknownSearch(asked, context);
  const marks = new CacheMarks(conversation, context);
  const tools = yield* toolsOf(conversation, context, marks);
  const { system, messages } = yield* messagesOf(conversation, context, marks);
  // To this vendor 0 means no response, only filling its cache.
  if ((conversation.maxTokens ?? 1) < 1 && conversation.protocol !== ANTHROPIC_MESSAGES)
    context.refuse(pathOfUse(conversation, "max_tokens"), "an answer needs at least one token");
  const maxTokens = conversation.maxTokens ?? context.facts.output ?? DEFAULT_MAX_TOKENS;
  const { effort, thinks, ...members } = thinkingCodec.write(conversation, context, maxTokens, messages);
  const { output_config: config, ...prompt } = writeSettings(promptSettings, conversation, context);
  const body: JsonObject = {
    model: context.model,
    system,
    messages,
    tools,
    ...(tools && writeSettings(TOOL_CHOICE_SETTINGS, conversation, context)),
    ...members,
    output_config: effort === undefined ? config : { effort, ...asObject(config) },
    ...prompt,
  };
  marks.limit();
  marks.order(asObject(body["cache_control"]));
  if (!countsTokens) {
    Object.assign(body, writeSettings(answerSettings, conversation, context));
    body["max_tokens"] = maxTokens;
    if (conversation.stream) body["stream"] = true;
    if (thinks) dropSampling(body, conversation, context);
    keepOneSampling(body, conversation, context);
  }
  yield;
  return { operation: countsTokens ? COUNT_TOKENS : MESSAGES, headers: HEADERS, body: yield* Steps.writingJson(body) };
}

/** Refuses features whose support depends on their value. */
function refuseUnsupported(conversation: Conversation, context: EncodeContext): void {
  if (forcesToolCall(conversation) && conversation.tools.length === 0)
    context.refuse(choicePath(conversation), "There is no tool to call");
  // The number of responses, and who stores them, do not change the token count.
  if (conversation.task === "count") return;
  if ((conversation.choices ?? 1) > 1)
    context.refuse(pathOfUse(conversation, "choices"), "This model gives one answer at a time; ask once for each");
  if (conversation.store === true)
    context.refuse(pathOfUse(conversation, "store"), "No answer is kept for this model; send false or leave it out");
}

/** Hosts that serve the vendor's models without its web search, and those where the names of its models are the operator's. */
const WITHOUT_SEARCH = /(?:^|\.)bedrock-/;
const AZURE = /\.azure\.com$/;

/** Reports whether a target is a model of the vendor's, as far as its name or its host tells, and not an imitation's. */
const isVendors = ({ model, url }: EncodeContext): boolean => CLAUDE.test(model) || AZURE.test(url?.hostname ?? "");

/**
 * Leaves out web search, declared, where the target is not known to have it: Bedrock and most imitations of the protocol refuse a
 * tool without a schema, and agents offer web search in every request. [D]
 */
function withoutUnknownSearch(conversation: Conversation, context: EncodeContext): Conversation {
  if (isVendors(context) && !WITHOUT_SEARCH.test(context.url?.hostname ?? "")) return conversation;
  const tools = conversation.tools.filter(({ kind }) => kind !== "web_search");
  if (tools.length === conversation.tools.length) return conversation;
  for (const { kind, at } of conversation.tools)
    if (kind === "web_search") context.drop(at, "This provider is not known to search the web");
  const { toolChoice, ...others } = conversation;
  const isSearch = toolChoice?.mode === "named" && toolChoice.server;
  if (!isSearch && (tools.length > 0 || !forcesToolCall(conversation))) return { ...conversation, tools };
  context.change(choicePath(conversation), "web search cannot be required: the provider is not known to search");
  return { ...others, tools };
}

/** Sampling settings that the vendor accepts with thinking. [D: extended thinking] */
const SAMPLING_WITH_THINKING: readonly (readonly [
  member: string,
  feature: Feature,
  fits: (value: number) => boolean,
])[] = [
  ["temperature", "temperature", (value) => value === 1],
  ["top_p", "top_p", (value) => value >= 0.95],
  ["top_k", "top_k", () => false],
];

function dropSampling(body: JsonObject, conversation: Conversation, context: EncodeContext): void {
  for (const [member, feature, fits] of SAMPLING_WITH_THINKING) {
    const value = body[member];
    if (typeof value !== "number" || fits(value)) continue;
    context.drop(pathOfUse(conversation, feature), "This model does not take it while it thinks");
    delete body[member];
  }
}

const ONE_SAMPLING = "This model takes a temperature or top_p, not both";

/** Current models refuse a temperature together with `top_p`. The temperature is kept, unless it is the default. [S] */
function keepOneSampling(body: JsonObject, conversation: Conversation, context: EncodeContext): void {
  const { temperature, top_p: topP } = body;
  if (temperature === undefined || topP === undefined) return;
  const surplus = temperature === 1 ? "temperature" : "top_p";
  const path = pathOfUse(conversation, surplus);
  // 1 is the default of both.
  if (temperature === 1 || topP === 1) context.change(path, ONE_SAMPLING);
  else context.drop(path, ONE_SAMPLING);
  delete body[surplus];
}

/** Maximum number of cache marks per request. [D] */
const MAX_CACHE_MARKS = 4;

/** The cache marks of a request: the vendor accepts four, of which later ones cover more. */
class CacheMarks {
  private readonly marked: { block: JsonObject; at: string }[] = [];

  constructor(
    private readonly conversation: Conversation,
    private readonly context: EncodeContext,
  ) {}

  /** Adds a mark to a block or a tool. */
  mark(block: JsonObject, { at, cache }: Pick<Part | Tool, "at" | "cache">): void {
    if (!cache) return;
    block["cache_control"] = cacheControl(cache, at, this.context);
    this.marked.push({ block, at: cache.at ?? at });
  }

  /** Removes the first marks when there are too many. */
  limit(): void {
    const maxMarks = MAX_CACHE_MARKS - (this.conversation.cache ? 1 : 0);
    const surplus = this.marked.slice(0, Math.max(0, this.marked.length - maxMarks));
    for (const { block, at } of surplus) {
      delete block["cache_control"];
      this.context.drop(at, `This model takes ${MAX_CACHE_MARKS} cache marks; the later ones are kept`);
    }
  }

  /**
   * Makes no mark shorter than one behind it, which the vendor refuses: "a ttl='1h' cache_control block must not come after a ttl='5m'
   * cache_control block". [D] @param whole the mark on the whole prompt
   */
  order(whole: JsonObject | undefined): void {
    const marks = this.marked.flatMap(({ block, at }) => {
      const control = asObject(block["cache_control"]);
      return control ? [{ control, at }] : [];
    });
    const last = whole?.["ttl"] === "1h" ? marks.length : marks.findLastIndex(({ control }) => control["ttl"] === "1h");
    for (const { control, at } of marks.slice(0, Math.max(0, last))) {
      if (control["ttl"] === "1h") continue;
      control["ttl"] = "1h";
      this.context.change(at, "its cache mark lasts an hour, as one behind it");
    }
  }
}

/** An encoded message. */
type WrittenMessage = JsonObject & { role: string; content: JsonObject[] };

/**
 * Encodes `system` and `messages`. User and assistant turns alternate, tool results come first. A system message between turns
 * keeps its place: unchanged where the model accepts that, else as a user's text.
 */
function* messagesOf(
  conversation: Conversation,
  context: EncodeContext,
  marks: CacheMarks,
): Steps<{ system: JsonObject[] | undefined; messages: WrittenMessage[] }> {
  const writable = conversation.turns
    .map((turn) => writableTurn(turn, context))
    .filter(({ parts }) => parts.length > 0);
  yield;
  const first = writable.findIndex((turn) => !isSystem(turn));
  // If there are only system messages, the last one becomes the user's.
  const leading = writable.slice(0, first < 0 ? Math.max(0, writable.length - 1) : first);
  const turns = mergeTurns(placeSystemTurns(writable.slice(leading.length), context));
  const system = leading.flatMap((turn) => blocksOf(turn, context, marks));
  checkPrefill(turns, context);
  if (turns.length === 0) refuseEmptyMessages(conversation, context);
  const messages: WrittenMessage[] = [];
  for (const [n, turn] of turns.entries()) {
    if (Steps.endsStep(n)) yield;
    messages.push(messageOf(turn, context, marks));
  }
  return { system: system.length > 0 ? system : undefined, messages };
}

function refuseEmptyMessages({ turns: [turn], turnsAt }: Conversation, context: EncodeContext): never {
  const empty = turn?.parts.every(({ kind }) => kind === "text");
  const hint = empty ? "Its text is empty: say what the model shall answer." : "Say what the model shall answer.";
  return context.refuse(turn?.at ?? turnsAt ?? "messages", "There is no message to answer", hint);
}

const isSystem = ({ role }: Turn): boolean => role === "system" || role === "developer";

/**
 * Returns a turn without parts that the vendor refuses or cannot read: empty texts, other vendors' blocks, unsigned reasoning.
 */
function writableTurn(turn: Turn, context: EncodeContext): Turn {
  if (turn.parts.length > 0 && turn.parts.every((part) => part.kind === "text" && part.text.trim() !== "")) return turn;
  const parts = turn.parts.filter((part) => isWritable(part, context));
  // An empty system message has no content, but leaving out another turn would merge its neighbours.
  if (parts.length === 0 && !isSystem(turn) && turn.parts.every(({ kind }) => kind === "text" || kind === "refusal"))
    context.drop(turn.at, "This model accepts no empty turn");
  return { ...turn, parts };
}

function isWritable(part: Part, context: EncodeContext): boolean {
  if (part.kind === "text" || part.kind === "refusal") return part.text.trim() !== "";
  if (part.kind === "foreign") return part.protocol === ANTHROPIC_MESSAGES;
  if (part.kind !== "reasoning" || isTakenBack(part, context)) return true;
  context.drop(part.at, "This model takes back only the thoughts that it signed itself");
  return false;
}

/** Reports whether its maker takes reasoning back: the vendor what it signed, an imitation of the protocol also what it did not sign. */
function isTakenBack(part: Reasoning, { model }: EncodeContext): boolean {
  const block = thinkingBlock(part);
  return block !== undefined && !(block["signature"] === "" && CLAUDE.test(model));
}

/**
 * Places system messages between turns. They must follow a user turn, and precede one of the assistant or the end ("role 'system' must
 * precede an 'assistant' message or end the array"). [D]
 */
function placeSystemTurns(turns: readonly Turn[], context: EncodeContext): Turn[] {
  const out: Turn[] = [];
  const precedesUser = turnsBeforeUser(turns);
  for (const [n, turn] of turns.entries()) {
    const previous = out.at(-1);
    const followsUser = previous?.role === "user" || previous?.role === "system";
    if (!isSystem(turn)) out.push(turn);
    else if (context.facts.system_in_place === true && followsUser && !precedesUser[n])
      out.push({ ...turn, role: "system" });
    else {
      context.change(turn.at, "sent as text of the user");
      out.push({ ...turn, role: "user", parts: turn.parts.map(asSystemReminder) });
    }
  }
  return mergeSystemTurns(out);
}

/** Reports of each turn whether the next one that is not the system's is a user's. */
function turnsBeforeUser(turns: readonly Turn[]): boolean[] {
  let isUser = false;
  const reports = turns.toReversed().map((turn) => {
    const report = isUser;
    if (!isSystem(turn)) isUser = turn.role === "user";
    return report;
  });
  return reports.reverse();
}

/** Merges consecutive system messages, like those of other roles. */
function mergeSystemTurns(turns: readonly Turn[]): Turn[] {
  const out: Turn[] = [];
  for (const turn of turns) {
    const previous = out.at(-1);
    if (turn.role === "system" && previous?.role === "system") for (const part of turn.parts) previous.parts.push(part);
    else out.push(turn.role === "system" ? { ...turn, parts: [...turn.parts] } : turn);
  }
  return out;
}

function asSystemReminder(part: Part): Part {
  if (part.kind !== "text") return part;
  return { ...part, text: `<system-reminder>\n${part.text}\n</system-reminder>` };
}

/** Refuses a turn of the assistant's at the end, or trims it: "final assistant content cannot end with trailing whitespace". [D] */
function checkPrefill(turns: readonly Turn[], context: EncodeContext): void {
  const last = turns.at(-1);
  if (last?.role !== "assistant") return;
  if (context.facts.prefill === false)
    context.refuse(last.at, "This model does not continue a turn of the assistant; end with one of the user");
  const text = last.parts.at(-1);
  if (text?.kind !== "text" || !isVendors(context) || text.text === text.text.trimEnd()) return;
  context.change(text.at, "without white space at its end, which this model does not continue");
  last.parts[last.parts.length - 1] = { ...text, text: text.text.trimEnd() };
}

function messageOf(turn: Turn, context: EncodeContext, marks: CacheMarks): WrittenMessage {
  const content = blocksOf(turn, context, marks);
  if (turn.role === "assistant" && needsThinking(context) && !content.some(isThinking))
    content.unshift(NO_THINKING_BLOCK);
  if (!content.some(({ type }) => type === "tool_result")) return { role: turn.role, content };
  const results = content.filter(({ type }) => type === "tool_result");
  const others = content.filter(({ type }) => type !== "tool_result");
  return { role: turn.role, content: [...results, ...others] };
}

function blocksOf(turn: Turn, context: EncodeContext, marks: CacheMarks): JsonObject[] {
  const parts = turn.parts.map(hoistCacheMark).flatMap((part) => detachMedia(part, context));
  return parts.flatMap((part) => {
    if (part.kind === "media" && turn.role !== "user")
      context.refuse(part.at, "This model takes images and files from the user only");
    const block = blockOf(part, context);
    if (!block) return [];
    if (part.kind !== "foreign") marks.mark(block, part);
    return [block];
  });
}

/** Moves a mark within a result to the result itself, where it has an effect. */
function hoistCacheMark(part: Part): Part {
  const cache = part.kind === "tool_result" ? part.parts.findLast((inner) => inner.cache)?.cache : undefined;
  if (part.kind !== "tool_result" || !cache) return part;
  return { ...part, cache: part.cache ?? cache, parts: part.parts.map(({ cache: _, ...each }): Part => each) };
}

/** Moves the media of a failed result behind it, and mentions them in its text: the vendor takes only text there. [D] */
function detachMedia(part: Part, context: EncodeContext): Part[] {
  if (part.kind !== "tool_result" || part.isError !== true) return [part];
  const media = part.parts.filter(({ kind }) => kind === "media");
  if (media.length === 0) return [part];
  context.change(part.at, "media of a failed result follow it, as the user's");
  const parts = part.parts.map(
    (inner): Part =>
      inner.kind === "media" ? { kind: "text", at: inner.at, text: `[${inner.media} attached]` } : inner,
  );
  return [{ ...part, parts }, ...media];
}

/** Encodes a part as a block; undefined if this protocol has none for it. */
function blockOf(part: Part, context: EncodeContext): JsonObject | undefined {
  switch (part.kind) {
    // Citations carry a key of the vendor's; without it they are refused.
    case "text":
    case "refusal":
      return { type: "text", text: part.text };
    case "media":
      return mediaBlock(part, context);
    case "reasoning":
      return thinkingBlock(part);
    case "tool_call": {
      const name = fitToolName(part, context);
      return { type: "tool_use", id: safeId(part.id), name, input: argumentsObject(part, context, name) };
    }
    case "tool_result":
      return toolResult(part, context);
    case "foreign":
      return part.protocol === ANTHROPIC_MESSAGES ? (part.json as JsonObject) : undefined;
  }
}

/** Encodes reasoning signed by the vendor, unchanged, also an empty text with a signature; undefined for other reasoning. */
function thinkingBlock({ text, summary, opaque }: Reasoning): JsonObject | undefined {
  const redacted = opaqueData(opaque, "redacted");
  if (redacted !== undefined) return { type: "redacted_thinking", data: redacted };
  const signature = opaqueData(opaque, "signature");
  return signature === undefined
    ? undefined
    : { type: "thinking", thinking: asText(opaque?.extra) ?? text ?? summary?.join("\n\n") ?? "", signature };
}

function toolResult(result: ToolResult, context: EncodeContext): JsonObject {
  const content = result.json ?? resultContent(result, context);
  return {
    type: "tool_result",
    tool_use_id: safeId(result.callId),
    ...(content === undefined ? {} : { content }),
    // The default is no error.
    ...(result.isError ? { is_error: true } : {}),
  };
}

function resultContent({ parts }: ToolResult, context: EncodeContext): string | JsonObject[] | undefined {
  const [first] = parts;
  if (parts.length === 1 && first?.kind === "text" && !first.cache) return first.text;
  const nonEmpty = parts.filter((part) => part.kind !== "text" || part.text.trim() !== "");
  const blocks = nonEmpty.map((part) => blockOf(part, context)).filter((block) => block !== undefined);
  return blocks.length > 0 ? blocks : undefined;
}

const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

function mediaBlock(part: Media, context: EncodeContext): JsonObject {
  const image = part.media === "image" || (part.media === "file" && (part.mime ?? "").startsWith("image/"));
  if (!image && part.media !== "file") return context.refuse(part.at, `This model takes no ${part.media}`);
  const source = sourceOf(part, context, image);
  if (image) return { type: "image", source };
  // Most imitations of the protocol refuse documents, but the models of all read text. [D: DeepSeek, vLLM]
  const text = isVendors(context) ? undefined : asText(source["data"]);
  if (text !== undefined && source["type"] === "text")
    return { type: "text", text: part.filename === undefined ? text : `${part.filename}\n\n${text}` };
  return { type: "document", source, ...(part.filename === undefined ? {} : { title: part.filename }) };
}

function sourceOf(part: Media, context: EncodeContext, image: boolean): JsonObject {
  const { source, mime } = part;
  if ("id" in source) {
    if (source.protocol !== ANTHROPIC_MESSAGES)
      context.refuse(part.at, "The id of this file is only known to the vendor that issued it");
    return { type: "file", file_id: source.id };
  }
  if ("text" in source) return textSource(source.text);
  if ("url" in source) {
    const inline = /^data:([^;,]*);base64,(.*)$/s.exec(source.url);
    if (inline) return sourceOf({ ...part, ...dataUrlContent(inline, mime) }, context, image);
    if (!/^https?:/i.test(source.url)) context.refuse(part.at, "This model fetches http and https only");
    return { type: "url", url: source.url };
  }
  if (!image) return fileSource(part, source.base64, context);
  const named = mime === "image/jpg" ? "image/jpeg" : mime;
  // The vendor refuses an image of another type than is named. [D]
  const known = imageType(source.base64) ?? named;
  if (known === undefined || !IMAGES.has(known))
    context.refuse(part.at, `This model takes images as JPEG, PNG, GIF and WebP, not as ${mime ?? "an unknown type"}`);
  if (known !== named) context.change(part.at, `sent as ${known}, which it is`);
  return { type: "base64", media_type: known, data: source.base64 };
}

function dataUrlContent([, type = "", base64 = ""]: RegExpExecArray, mime: string | undefined) {
  const mimeType = type === "" ? mime : type;
  return { source: { base64 }, ...(mimeType === undefined ? {} : { mime: mimeType }) };
}

const textSource = (text: string): JsonObject => ({ type: "text", media_type: "text/plain", data: text });

/** Types of texts. Of those that are no `text/…`, clients name these for data. */
const TEXT_TYPE = /^(?:text\/|application\/(?:(?:[\w.-]+\+)?(?:json|xml)|(?:x-)?(?:yaml|ndjson|toml|sql))(?:;|$))/i;

function fileSource({ at, mime }: Media, base64: string, context: EncodeContext): JsonObject {
  if (mime === "application/pdf") return { type: "base64", media_type: mime, data: base64 };
  if (mime !== undefined && TEXT_TYPE.test(mime)) {
    const bytes = Buffer.from(base64, "base64");
    if (!isUtf8(bytes)) context.refuse(at, "This text is not in UTF-8, nor in the character set that its type names");
    return textSource(bytes.toString());
  }
  return context.refuse(at, `This model takes files as PDF and text, not as ${mime ?? "an unknown type"}`);
}

/** Characters of tools' schemas that are encoded in one step. */
const STEP_LENGTH = 64 * 1024;

/** Encodes `tools`; undefined when there are none. */
function* toolsOf(
  conversation: Conversation,
  context: EncodeContext,
  marks: CacheMarks,
): Steps<JsonObject[] | undefined> {
  const { schema, kind } = conversation.format ?? {};
  const enforced = new EnforcedSchemas(kind === "schema" ? schema : undefined);
  const tools: JsonObject[] = [];
  let length = 0;
  for (const tool of allowedTools(conversation, context)) {
    const json = toolOf(tool, context, enforced);
    if (!json) continue;
    marks.mark(json, tool);
    tools.push(json);
    length += tool.kind === "function" ? (tool.parameters?.text.length ?? 0) : 0;
    if (length < STEP_LENGTH) continue;
    length = 0;
    yield;
  }
  return tools.length > 0 ? tools : undefined;
}

/** Returns the tools that an `allowed` choice includes: the vendor has no such choice. */
function allowedTools(conversation: Conversation, context: EncodeContext): readonly Tool[] {
  const { tools, toolChoice } = conversation;
  if (toolChoice?.mode !== "allowed") return tools;
  context.change(choicePath(conversation), "only the allowed tools are sent");
  const names = new Set(toolChoice.names);
  return tools.filter((tool) => {
    const stays = names.has(tool.kind === "web_search" ? "web_search" : tool.name);
    if (!stays) context.change(tool.at, "not among the allowed tools");
    return stays;
  });
}

function toolOf(tool: Tool, context: EncodeContext, enforced: EnforcedSchemas): JsonObject | undefined {
  switch (tool.kind) {
    case "function":
      return functionTool(tool, context, enforced);
    case "custom":
      return customTool(tool, context);
    case "web_search":
      return webSearch(tool, context);
    case "server":
      return tool.protocol === ANTHROPIC_MESSAGES ? (tool.json as JsonObject) : undefined;
  }
}

function functionTool(
  tool: Extract<Tool, { kind: "function" }>,
  context: EncodeContext,
  enforced: EnforcedSchemas,
): JsonObject {
  const { description, parameters } = tool;
  const name = fitToolName(tool, context);
  const own = fitMembers(parameters ? objectParameters(parameters) : NO_ARGUMENTS, name, tool.at, context);
  const schema = describeAlternatives(own, tool.at, context);
  const why = tool.strict ? whyNotStrict(schema, schema === own, enforced) : undefined;
  if (why !== undefined) context.change(tool.at, `the provider ${why}: it is sent without strict`);
  const strict = tool.strict === true && why === undefined;
  const input = strict ? enforceableSchema(schema, tool.at, context) : schema;
  return { name, description, input_schema: input, ...(strict ? { strict } : {}) };
}

/** Returns why the vendor cannot enforce a tool's schema; undefined: it can. @param isWhole whether no part of it was moved */
function whyNotStrict(schema: RawJson, isWhole: boolean, enforced: EnforcedSchemas): string | undefined {
  if (!enforced.hasRoom(schema)) return ENFORCES_NO_MORE;
  const why = whyUnenforceable(schema.value) ?? (isWhole ? undefined : "has alternatives at its root");
  if (why !== undefined) return `cannot enforce a schema that ${why}`;
  return enforced.add(schema) ? undefined : ENFORCES_NO_MORE;
}

const ENFORCES_NO_MORE = "enforces no more schemas in one request";

const NO_ARGUMENTS = new RawJson('{"type":"object","properties":{}}');

/** Encodes a tool that takes free text as a function of one string. The engine unwraps the string in the response. */
function customTool(tool: Extract<Tool, { kind: "custom" }>, context: EncodeContext): JsonObject {
  const grammar = tool.grammar?.definition;
  if (grammar !== undefined) context.change(tool.at, "the grammar is described to the model, not enforced");
  return {
    name: fitToolName(tool, context),
    description: tool.description,
    input_schema: {
      type: "object",
      properties: { input: { type: "string", description: grammar } },
      required: ["input"],
      additionalProperties: false,
    },
  };
}

/** The version of the search tool that every model with web search supports. [D] */
const WEB_SEARCH = "web_search_20250305";

function webSearch(tool: Extract<Tool, { kind: "web_search" }>, context: EncodeContext): JsonObject {
  const { allowed, blocked, maxUses, size, location } = tool;
  if (size !== undefined) context.drop(tool.paths?.size ?? tool.at, "This model's search has no amount of results");
  return {
    type: WEB_SEARCH,
    name: "web_search",
    allowed_domains: allowed,
    blocked_domains: blocked,
    max_uses: maxUses,
    user_location: location && { type: "approximate", ...location },
  };
}
