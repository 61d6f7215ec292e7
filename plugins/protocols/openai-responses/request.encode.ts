import {
  type CacheMark,
  type Conversation,
  dropUndefined,
  type EncodeContext,
  type EncodedRequest,
  type Foreign,
  type JsonObject,
  type Media,
  type Part,
  pathOfUse,
  type Reasoning,
  type ReasoningConfig,
  type Refusal,
  Steps,
  safeId,
  type Text,
  type Tool,
  type ToolCall,
  type ToolResult,
  type Turn,
  writeJson,
  writeSettings,
} from "model-gateway/protocol";
import {
  cacheBreakpoint,
  checkPrefill,
  dropDetail,
  errorResultText,
  fitName,
  isAtDeepseek,
  isOfFamily,
  isOpenaiModel,
  joinAssistantTexts,
  mayReason,
  mayTakeEffort,
  parametersOf,
  reasoningPath,
  strictOf,
  takesMarks,
  takesOnlyAuto,
  textOfFile,
  withOnlyAllowed,
} from "../openai/request.encode.ts";
import { audioFormat, defaultFilename, formatDataUrl, isHttpUrl, isImageDetail, parseDataUrl } from "../openai/wire.ts";
import { imageTool, RESPONSES_TOOL_CHOICE } from "./support.choice.ts";
import { RESPONSES_SETTINGS, writeInclude } from "./support.ts";
import { INPUT_TOKENS, ITEM_REFERENCE, OPENAI_RESPONSES, RESPONSE, type ReasoningExtra } from "./wire.ts";

/** Members allowed in a request to count tokens. [S: InputTokenCountParams] */
const COUNT_MEMBERS = new Set(["model", "input", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls"]);

/** Encodes a request for a vendor. @throws GatewayError as `context.refuse` makes it */
export function* encodeRequest(asked: Conversation, context: EncodeContext): Steps<EncodedRequest> {
  checkPrefill(asked, context);
  const conversation = withoutRefusedThinking(withPossibleChoice(asked, context), context);
  if ((conversation.choices ?? 1) > 1)
    context.refuse(pathOfUse(conversation, "choices"), "there is one answer to a request");
  const withImageTool = { ...conversation, ...imageTool.write(conversation, context) };
  const body = dropUndefined({
    model: context.model,
    input: yield* writeItems(conversation.turns, context),
    ...(withImageTool.tools.length > 0 && { tools: writeTools(withImageTool, context) }),
    ...writeSettings(RESPONSES_TOOL_CHOICE, withImageTool, context),
    ...writeSettings(RESPONSES_SETTINGS, dropUnsupportedThinking(conversation, context), context),
    // Nothing is stored, so reasoning must be returned encrypted.
    store: false,
    include: writeInclude(conversation, context),
    ...(conversation.stream && { stream: true }),
  });
  yield;
  if (conversation.task === "generate") return { operation: RESPONSE, body: yield* Steps.writingJson(body) };
  const counted = Object.entries(body).filter(([name]) => COUNT_MEMBERS.has(name));
  return { operation: INPUT_TOKENS, body: writeJson(Object.fromEntries(counted)) };
}

/** Returns a conversation with a choice that the vendor has: some have none but the model's. */
function withPossibleChoice(conversation: Conversation, context: EncodeContext): Conversation {
  const { toolChoice: choice } = conversation;
  if (!takesOnlyAuto(context) || (choice?.mode !== "none" && choice?.mode !== "allowed")) return conversation;
  return withOnlyAllowed(conversation, { required: false, names: [], ...choice }, context);
}

/** Returns a conversation that asks not to think where a call is required, which DeepSeek's models refuse while they think. [D] */
function withoutRefusedThinking(conversation: Conversation, context: EncodeContext): Conversation {
  const { reasoning = {}, toolChoice: choice } = conversation;
  const isForced =
    choice?.mode === "required" || choice?.mode === "named" || (choice?.mode === "allowed" && choice.required);
  if (!isForced || !isAtDeepseek(context) || isReasoningOff(reasoning) || !mayReason(context)) return conversation;
  context.change(
    pathOfUse(conversation, "tool_choice", pathOfUse(conversation, "tool_choice_allowed")),
    "the model does not think, so that a call can be required",
  );
  return { ...conversation, reasoning: { effort: "none" } };
}

/** Returns the conversation without thinking settings, where the model does not think, or without those that it does not take. */
function dropUnsupportedThinking(asked: Conversation, context: EncodeContext): Conversation {
  const conversation = dropRefusedSummary(asked, context);
  const { reasoning, ...others } = conversation;
  if (!reasoning) return conversation;
  if (mayReason(context)) return mayTakeEffort(context) ? conversation : dropEffort(reasoning, conversation, context);
  // What only the tables say is left to the vendor by its own clients, unless they disable reasoning: it refuses even that. Agents of
  // other vendors ask every model to think.
  const isOwn = isOfFamily(conversation.protocol);
  if (isOwn && context.facts.thinking === undefined && !isReasoningOff(reasoning)) return conversation;
  for (const path of reasoningPaths(reasoning, conversation)) context.drop(path, "the model does not think");
  return others;
}

/** Returns the conversation without a request for summaries, where the account may not ask for them. */
function dropRefusedSummary(conversation: Conversation, context: EncodeContext): Conversation {
  const { show, summary, ...reasoning } = conversation.reasoning ?? {};
  if (!context.withoutSummary || (!show && summary === undefined)) return conversation;
  context.drop(pathOfUse(conversation, "reasoning_summary"), "the provider's account gets no summaries of reasoning");
  return { ...conversation, reasoning };
}

function dropEffort(
  { effort, budget, ...reasoning }: ReasoningConfig,
  conversation: Conversation,
  context: EncodeContext,
): Conversation {
  if (effort !== undefined) context.drop(reasoningPath(conversation, "reasoning_effort"), "the model takes no effort");
  // Below 0 the model decides, as it does without an effort.
  else if (budget !== undefined && budget >= 0)
    context.drop(reasoningPath(conversation, "reasoning_budget"), "the model takes no effort");
  return { ...conversation, reasoning };
}

const isReasoningOff = ({ effort, budget }: ReasoningConfig): boolean => effort === "none" || budget === 0;

/** Returns the client's paths of requested reasoning; none where the settings disable it. */
function reasoningPaths(reasoning: ReasoningConfig, conversation: Conversation): string[] {
  if (isReasoningOff(reasoning)) return [];
  const { effort, budget, show, summary } = reasoning;
  const hasBudget = budget !== undefined && (budget >= 0 || effort === undefined);
  return [
    ...(effort === undefined ? [] : [reasoningPath(conversation, "reasoning_effort")]),
    ...(hasBudget ? [reasoningPath(conversation, "reasoning_budget")] : []),
    ...(show || summary ? [pathOfUse(conversation, "reasoning_summary")] : []),
  ];
}

/** A part that can be in a message. */
type MessagePart = Text | Media | Refusal | Foreign;

/** Reports whether a part belongs in a message, or in a tool's output; all others are items of their own. */
const isMessagePart = (part: Part, parent: { at: string }): part is MessagePart =>
  part.kind === "text" ||
  part.kind === "media" ||
  part.kind === "refusal" ||
  (part.kind === "foreign" && part.protocol === OPENAI_RESPONSES && part.at !== parent.at);

interface InputItem {
  item: JsonObject;
  at: string;
}

function* writeItems(turns: readonly Turn[], context: EncodeContext): Steps<JsonObject[]> {
  const items: InputItem[] = [];
  for (const [n, turn] of turns.entries()) {
    for (const item of writeTurn(turn, context)) items.push(item);
    if (Steps.endsStep(n)) yield;
  }
  return withoutLoneReasoning(items, context);
}

function writeTurn(turn: Turn, context: EncodeContext): InputItem[] {
  const items: InputItem[] = [];
  let content: MessagePart[] = [];
  const flush = () => {
    if (content.length > 0) items.push({ item: writeMessage(turn, content, context), at: turn.at });
    content = [];
  };
  for (const part of turn.parts) {
    if (isMessagePart(part, turn)) {
      if (!(turn.role === "assistant" && part.kind === "text" && part.text === "")) content.push(part);
      continue;
    }
    const item = writeItem(part, context);
    if (!item) continue;
    flush();
    items.push({ item, at: part.at });
  }
  flush();
  return items;
}

/**
 * Removes and declares reasoning that no assistant item follows, because the history lost that item: the vendor refuses it
 * ("without its required following item").
 */
function withoutLoneReasoning(items: readonly InputItem[], context: EncodeContext): JsonObject[] {
  const kept: JsonObject[] = [];
  let followed = false;
  for (const { item, at } of items.toReversed()) {
    const type = String(item["type"]);
    if (type === "reasoning" && !followed) {
      context.drop(at, "reasoning without a following item of the assistant");
      continue;
    }
    followed = type === "message" ? item["role"] === "assistant" : !type.endsWith("_output");
    kept.push(item);
  }
  return kept.reverse();
}

function writeMessage({ role, phase }: Turn, parts: readonly MessagePart[], context: EncodeContext): JsonObject {
  // Only OpenAI's models know developers; servers of others refuse them, or their templates do.
  const wireRole = role === "developer" && !isOpenaiModel(context) ? "system" : role;
  const content = writeContent(parts, role === "assistant", context);
  return { type: "message", role: wireRole, content, ...(phase !== undefined && { phase }) };
}

/**
 * Encodes a message's content. Texts of the assistant are one string for models that are not OpenAI's: in parts, their servers require
 * all members of the vendor's answers (vLLM; others at Azure). [D: issues of their clients]
 */
function writeContent(parts: readonly MessagePart[], isAssistant: boolean, context: EncodeContext): unknown {
  const texts = parts.flatMap((part) => (part.kind === "text" || part.kind === "refusal" ? [part] : []));
  if (!isAssistant || texts.length < parts.length || isOpenaiModel(context))
    return plainText(writeParts(parts, isAssistant, context));
  for (const part of texts) {
    dropCacheMark(part, context);
    if (part.kind === "text" && part.citations)
      context.drop(`${part.at}.citations`, "the model may not take citations");
  }
  return joinAssistantTexts(texts);
}

/** Returns a text without further members as a string. */
function plainText(parts: readonly JsonObject[]): unknown {
  const [first] = parts;
  return parts.length === 1 && first?.["text"] !== undefined && Object.keys(first).length === 2 ? first["text"] : parts;
}

function writeItem(part: Reasoning | ToolCall | ToolResult | Foreign, context: EncodeContext): JsonObject | undefined {
  switch (part.kind) {
    case "reasoning":
      return writeReasoning(part, context);
    case "tool_call":
      return writeCall(part, context);
    case "tool_result":
      return {
        type: part.custom ? "custom_tool_call_output" : "function_call_output",
        call_id: safeId(part.callId),
        output: writeOutput(part, context),
      };
    case "foreign":
      // A reference to an item that was not stored cannot be resolved.
      return part.protocol === OPENAI_RESPONSES && part.name !== ITEM_REFERENCE ? (part.json as JsonObject) : undefined;
  }
}

/** Encodes reasoning; undefined without encrypted state, because the vendor accepts only its own reasoning. */
function writeReasoning(part: Reasoning, context: EncodeContext): JsonObject | undefined {
  const state = part.opaque?.protocol === OPENAI_RESPONSES ? part.opaque : undefined;
  if (!state) {
    context.drop(part.at, "reasoning without the vendor's own encrypted state");
    return undefined;
  }
  const extra = state.extra as ReasoningExtra | undefined;
  const summary = extra?.summary ?? part.summary ?? (part.text ? [part.text] : []);
  return {
    type: "reasoning",
    summary: summary.map((text) => ({ type: "summary_text", text })),
    ...(extra?.content && { content: extra.content.map((text) => ({ type: "reasoning_text", text })) }),
    encrypted_content: state.data,
  };
}

function writeCall(part: ToolCall, context: EncodeContext): JsonObject {
  const { id, name, namespace, custom } = part;
  dropCacheMark(part, context);
  return {
    type: custom ? "custom_tool_call" : "function_call",
    call_id: safeId(id),
    ...(namespace !== undefined && { namespace }),
    name: fitName({ name }, context),
    ...(custom ? { input: part.arguments } : { arguments: part.arguments || "{}" }),
  };
}

/** Encodes a tool's output: text alone as a string; parts where there is more, or a cache mark. */
function writeOutput(result: ToolResult, context: EncodeContext): unknown {
  const content = outputParts(result).filter((part) => isMessagePart(part, result));
  if (content.length === 0) return "";
  const parts = writeParts(content, false, context);
  const last = parts.at(-1);
  if (last && result.cache && content.at(-1)?.kind !== "refusal") {
    const mark = breakpointMember(result, context);
    if (mark) last["prompt_cache_breakpoint"] ??= mark;
  }
  return plainText(parts);
}

/** Returns the parts of a result; where it is an error, its text states that. */
function outputParts({ parts, json, isError, at }: ToolResult): Part[] {
  const content: Part[] = json === undefined ? parts : [{ kind: "text", text: json, at }];
  const texts = content.flatMap((part) => (part.kind === "text" ? [part.text] : []));
  const error = isError ? errorResultText(texts) : undefined;
  if (error === undefined) return content;
  return [{ kind: "text", text: error, at }, ...content.filter(({ kind }) => kind !== "text")];
}

/** Encodes parts. @param assistant whether they are the assistant's, which can only be text and refusals */
function writeParts(parts: readonly MessagePart[], assistant: boolean, context: EncodeContext): JsonObject[] {
  return parts.map((part) => writePart(part, assistant, context)).filter((part) => part !== undefined);
}

/** Encodes a part; undefined where it has no form here, which is declared. */
function writePart(part: MessagePart, assistant: boolean, context: EncodeContext): JsonObject | undefined {
  switch (part.kind) {
    case "text":
      return writeText(part, assistant, context);
    case "refusal":
      return { type: "refusal", refusal: part.text };
    case "media":
      if (!assistant) return writeMedia(part, context);
      context.drop(part.at, "assistant messages contain only text");
      return undefined;
    case "foreign":
      return part.json as JsonObject;
  }
}

function writeText(part: Text, assistant: boolean, context: EncodeContext): JsonObject {
  if (assistant) dropCacheMark(part, context);
  return dropUndefined({
    type: assistant ? "output_text" : "input_text",
    text: part.text,
    annotations: writeAnnotations(part, context),
    prompt_cache_breakpoint: assistant ? undefined : breakpointMember(part, context),
  });
}

/** Encodes citations. One without a position supports the whole text. */
function writeAnnotations({ citations = [], text, at }: Text, context: EncodeContext): JsonObject[] | undefined {
  const annotations = citations.flatMap(({ url, title, start = 0, end = text.length }) =>
    url === undefined ? [] : [{ type: "url_citation", url, title: title ?? url, start_index: start, end_index: end }],
  );
  if (annotations.length < citations.length) context.drop(`${at}.citations`, "a citation without a URL");
  return annotations.length > 0 ? annotations : undefined;
}

/** Returns a cache mark as a member of a part; undefined where the model takes none. */
function breakpointMember(part: { at: string; cache?: CacheMark }, context: EncodeContext): JsonObject | undefined {
  if (part.cache && takesMarks(context)) return cacheBreakpoint(part.cache);
  dropCacheMark(part, context);
  return undefined;
}

/** Declares that a mark has no place on a part. */
function dropCacheMark({ at, cache }: { at: string; cache?: CacheMark }, context: EncodeContext): void {
  if (cache) context.drop(cache.at ?? at, "a mark for the prompt cache has no place here");
}

function writeMedia(part: Media, context: EncodeContext): JsonObject {
  const detail = imageDetail(part, context);
  const mark = { prompt_cache_breakpoint: breakpointMember(part, context) };
  switch (part.media) {
    case "image":
      return dropUndefined({ ...mark, type: "input_image", detail, ...imageSource(part, context) });
    case "file": {
      // Most imitations of the protocol refuse files. [D]
      const text = isOpenaiModel(context) ? undefined : textOfFile(part);
      if (text !== undefined) {
        dropDetail(part, context);
        return dropUndefined({ ...mark, type: "input_text", text });
      }
      return dropUndefined({ ...mark, type: "input_file", detail, ...fileSource(part, context) });
    }
    case "audio":
      return dropUndefined({ ...mark, type: "input_audio", input_audio: audioSource(part, context) });
    case "video":
      return context.refuse(part.at, "there is no video in this protocol");
  }
}

function imageDetail({ media, detail, detailAt, at }: Media, context: EncodeContext): string | undefined {
  if (detail === undefined || isImageDetail(detail)) return detail;
  if (media === "image" || media === "file") context.drop(detailAt ?? at, `there is no detail ${detail}`);
  return undefined;
}

function imageSource(part: Media, context: EncodeContext): JsonObject {
  const { source, mime } = part;
  if ("id" in source) return { file_id: fileId(part, source, context) };
  if ("url" in source) return { image_url: fetchableUrl(part, source.url, context) };
  if ("text" in source) return context.refuse(part.at, "an image cannot be a text");
  if (mime === undefined) return context.refuse(part.at, "its media type is missing");
  return { image_url: formatDataUrl(mime, source.base64) };
}

function fetchableUrl(part: Media, url: string, context: EncodeContext): string {
  if (isHttpUrl(url) || (part.media === "image" && parseDataUrl(url))) return url;
  return context.refuse(part.at, "the vendor fetches http and https only: send the bytes");
}

function fileSource(part: Media, context: EncodeContext): JsonObject {
  const { source, filename, at } = part;
  // "Mutually exclusive parameters […] Ensure you are only providing one of: 'file_id' or 'filename'", also beside a URL. [D]
  if (filename !== undefined && ("id" in source || "url" in source))
    context.change(at, "a file by its id or URL is sent without its name");
  if ("id" in source) return { file_id: fileId(part, source, context) };
  if ("url" in source) return { file_url: fetchableUrl(part, source.url, context) };
  const isText = "text" in source;
  const base64 = isText ? Buffer.from(source.text).toString("base64") : source.base64;
  const mime = part.mime ?? (isText ? "text/plain" : undefined);
  return {
    filename: filename ?? defaultFilename(mime),
    file_data: formatDataUrl(mime ?? "application/octet-stream", base64),
  };
}

/** Returns a file's id, which is the same in all protocols of this vendor. */
function fileId(part: Media, source: { id: string; protocol: string }, context: EncodeContext): string {
  if (isOfFamily(source.protocol)) return source.id;
  return context.refuse(part.at, "the file is stored at another vendor: send its bytes or its URL");
}

function audioSource({ source, mime, at }: Media, context: EncodeContext): JsonObject {
  const format = audioFormat(mime);
  if (!("base64" in source)) return context.refuse(at, "audio must be sent in base64");
  if (format === undefined) return context.refuse(at, "audio must be audio/wav or audio/mpeg");
  return { data: source.base64, format };
}

/** Encodes tools in their order; consecutive ones of a namespace are grouped. */
function writeTools(conversation: Conversation, context: EncodeContext): JsonObject[] {
  const written: JsonObject[] = [];
  let group: { namespace: string; tools: JsonObject[] } | undefined;
  for (const tool of conversation.tools) {
    const json = writeTool(tool, conversation, context);
    if (!json) continue;
    const namespace = "namespace" in tool ? tool.namespace : undefined;
    if (namespace === undefined) {
      group = undefined;
      written.push(json);
    } else if (group?.namespace === namespace) group.tools.push(json);
    else {
      group = { namespace, tools: [json] };
      written.push({ type: "namespace", name: namespace, description: namespace, tools: group.tools });
    }
  }
  return written;
}

/** The schema of a function without arguments: the vendor requires one. */
const NO_PARAMETERS = { type: "object", properties: {} };

function writeTool(tool: Tool, conversation: Conversation, context: EncodeContext): JsonObject | undefined {
  dropCacheMark(tool, context);
  switch (tool.kind) {
    case "function": {
      const { name, description } = tool;
      const parameters = parametersOf(tool, context) ?? NO_PARAMETERS;
      const strict = strictOf(tool, conversation, context) ?? false;
      return dropUndefined({ type: "function", name: fitName({ name }, context), description, parameters, strict });
    }
    case "custom": {
      const { name, description, grammar } = tool;
      const format = grammar && { type: "grammar", ...grammar };
      return dropUndefined({ type: "custom", name: fitName({ name }, context), description, format });
    }
    case "web_search":
      return writeWebSearch(tool, context);
    case "server":
      // One of another protocol has been refused by the support table, or is dispensable.
      return tool.protocol === OPENAI_RESPONSES ? (tool.json as JsonObject) : undefined;
  }
}

function writeWebSearch(tool: Extract<Tool, { kind: "web_search" }>, context: EncodeContext): JsonObject {
  const { allowed, blocked, location, size, maxUses, paths } = tool;
  if (blocked) context.drop(paths?.blocked ?? tool.at, "domains cannot be excluded from web search");
  if (maxUses !== undefined) context.drop(paths?.maxUses ?? tool.at, "the number of searches cannot be limited");
  return dropUndefined({
    type: "web_search",
    filters: allowed && { allowed_domains: allowed },
    search_context_size: size,
    user_location: location && { type: "approximate", ...dropUndefined(location) },
  });
}
