import {
  asObject,
  type Conversation,
  dropUndefined,
  type EncodeContext,
  type EncodedRequest,
  type JsonObject,
  type Media,
  maySearch,
  mergeTurns,
  type Opaque,
  type Part,
  parseExact,
  pathOfUse,
  type Reasoning,
  Steps,
  type Text,
  type Tool,
  type ToolCall,
  type ToolChoice,
  type ToolResult,
  type Turn,
  writeSettings,
} from "model-gateway/protocol";
import {
  cacheBreakpoint,
  checkPrefill,
  dropDetail,
  errorResultText,
  isNamedOpenaiModel,
  isOfFamily,
  isOpenaiModel,
  joinAssistantTexts,
  parametersOf,
  strictOf,
  takesOnlyAuto,
  textOfFile,
  withOnlyAllowed,
} from "../openai/request.encode.ts";
import { NO_CACHE_MARKS } from "../openai/support.ts";
import { audioFormat, defaultFilename, formatDataUrl, isHttpUrl, isImageDetail, parseDataUrl } from "../openai/wire.ts";
import { CHAT_TOOL_CHOICE, fitChatToolName } from "./support.choice.ts";
import {
  canRequireByName,
  fitCallId,
  mixesReasoning,
  NO_REASONING,
  needsReasoning,
  REASONING_MEMBERS,
  takesFreeText,
  takesLateSystem,
  takesSearchOptions,
  takesToolsWithJson,
} from "./support.models.ts";
import { ANSWER_SETTINGS, CHAT_SETTINGS } from "./support.ts";
import { CHAT_COMPLETIONS, textMember } from "./wire.ts";

/** Encodes a Chat request. @throws GatewayError as `context.refuse` makes it. */
export function* encodeRequest(asked: Conversation, context: EncodeContext): Steps<EncodedRequest> {
  checkPrefill(asked, context);
  const conversation = withPossibleFormat(withAllowedTools(asked, context), context);
  const body: JsonObject = {
    model: context.model,
    messages: yield* messagesOf(conversation, context),
    ...toolMembers(conversation, context),
    ...writeSettings(CHAT_TOOL_CHOICE, conversation, context),
    ...writeSettings(CHAT_SETTINGS, conversation, context),
    ...writeSettings(ANSWER_SETTINGS, conversation, context),
  };
  if (mixesReasoning(context)) body["reasoning_split"] = true;
  // Without usage a stream could not be accounted for.
  if (conversation.stream) Object.assign(body, { stream: true, stream_options: { include_usage: true } });
  yield;
  return { operation: CHAT_COMPLETIONS, body: yield* Steps.writingJson(body) };
}

/** Encodes a conversation's turns as messages. */
function* messagesOf(conversation: Conversation, context: EncodeContext): Steps<unknown[]> {
  const writer = new ChatMessageWriter(context);
  for (const [n, run] of runsOf(conversation.turns).entries()) {
    if (isSystem(run[0])) writer.system(run, n === 0);
    else writer.run(run);
    if (Steps.endsStep(n)) yield;
  }
  return writer.messages;
}

/**
 * Groups consecutive turns of an assistant, of a user, and those of the system and developers. Results come before the system's that
 * precede them, which servers refuse between a call and its result.
 */
function runsOf(turns: readonly Turn[]): Turn[][] {
  const runs: Turn[][] = [];
  for (const turn of turns) {
    const answers =
      isSystem(runs.at(-1)?.[0]) && runs.length > 1 && turn.parts.some(({ kind }) => kind === "tool_result");
    const last = runs.at(answers ? -2 : -1);
    if (last?.[0]?.role === turn.role || (isSystem(turn) && isSystem(last?.[0]))) last?.push(turn);
    else runs.splice(answers ? -1 : runs.length, 0, [turn]);
  }
  return runs;
}

const isSystem = (turn: Turn | undefined): boolean => turn?.role === "system" || turn?.role === "developer";

class ChatMessageWriter {
  readonly messages: unknown[] = [];

  /** Number of media of results so far. */
  private attached = 0;

  constructor(private readonly context: EncodeContext) {}

  /**
   * Encodes consecutive turns: an assistant's as one message; others as one each. Results come first: they must directly
   * follow their call.
   */
  run(turns: readonly Turn[]): void {
    if (turns[0]?.role === "assistant") {
      for (const turn of mergeTurns(turns)) this.assistant(turn);
      return;
    }
    const attached: JsonObject[] = [];
    for (const turn of turns)
      for (const part of turn.parts) if (part.kind === "tool_result") this.result(part, attached);
    if (attached.length > 0) this.messages.push({ role: "user", content: attached });
    for (const turn of turns) this.message("user", turn, this.content(turn.parts, false));
  }

  /**
   * Encodes consecutive messages of the system and of developers. Only OpenAI has the latter role, and takes the former for it: others
   * refuse it, or ignore the message. Templates of other models often take one message of the system, at the beginning. [D]
   * @param isFirst whether they are at the beginning
   */
  system(turns: readonly Turn[], isFirst: boolean): void {
    if (!isFirst && !takesLateSystem(this.context)) {
      for (const turn of turns) {
        this.context.change(
          turn.at,
          "a system message between turns is sent as a text of the user's, in <system-reminder>",
        );
        this.message("user", turn, this.content(turn.parts, true).map(asReminder));
      }
    } else if (isOpenaiModel(this.context))
      for (const turn of turns) this.message("system", turn, this.content(turn.parts, true));
    else {
      const content = turns.flatMap(({ parts }) => this.content(parts, true));
      this.message(
        "system",
        turns.find(({ name }) => name !== undefined),
        joinTexts(content, "\n\n"),
      );
    }
  }

  private message(role: "user" | "system", turn: Turn | undefined, content: readonly JsonObject[]): void {
    if (content.length > 0) this.messages.push({ role, ...(turn && nameMember(turn)), ...contentMember(content) });
  }

  /** Encodes content parts. @param textOnly the role accepts only text. */
  private content(parts: readonly Part[], textOnly: boolean): JsonObject[] {
    return parts.flatMap((part) => {
      switch (part.kind) {
        case "text":
          return [textPart(part, this.context)];
        case "media":
          if (textOnly) this.context.refuse(part.at, "Chat Completions takes only text here");
          return [mediaPart(part, this.context)];
        case "foreign":
          return [part.json as JsonObject];
        case "reasoning":
          return isThinking(part) ? [thinkingPart(part.opaque.data || (part.text ?? ""))] : [];
        default:
          return [];
      }
    });
  }

  private assistant(turn: Turn): void {
    const calls = turn.parts.filter((part) => part.kind === "tool_call");
    // Others than OpenAI do not know refusals, and some ignore a list here, or refuse it. [D]
    const isOwn = isOpenaiModel(this.context);
    const refusals = isOwn ? turn.parts.filter((part) => part.kind === "refusal") : [];
    const content = isOwn ? this.content(turn.parts, true) : this.plainAssistantContent(turn.parts);
    this.declareOrder(turn.parts);
    const message: JsonObject = { role: "assistant", ...nameMember(turn), ...contentMember(content) };
    // Vendors refuse a message without content unless it is null.
    if (content.length === 0) message["content"] = null;
    if (refusals.length > 0) message["refusal"] = refusals.map((part) => part.text).join("");
    const reasoning = this.reasoningMembers(turn.parts);
    Object.assign(message, reasoning);
    if (needsReasoning(this.context) && !REASONING_MEMBERS.some((name) => name in reasoning))
      message["reasoning_content"] = NO_REASONING;
    if (calls.length > 0) message["tool_calls"] = calls.map((call) => this.call(call));
    if (content.length > 0 || calls.length > 0 || refusals.length > 0) this.messages.push(message);
  }

  private plainAssistantContent(parts: readonly Part[]): readonly JsonObject[] {
    const content = this.content(parts.map(refusalAsText), true);
    const texts = parts.filter((part) => part.kind === "text" || part.kind === "refusal");
    return content.every(isPlainText) && texts.length > 1
      ? [{ type: "text", text: joinAssistantTexts(texts) }]
      : content;
  }

  /** Declares content after calls: Chat has calls only after the text, and cache marks only on content. */
  private declareOrder(parts: readonly Part[]): void {
    const firstCall = parts.findIndex((part) => part.kind === "tool_call");
    const textAfterCall = firstCall < 0 ? undefined : parts.slice(firstCall).find((part) => part.kind === "text");
    if (textAfterCall) this.context.change(textAfterCall.at, "Text after a tool call is moved before it");
    for (const part of parts)
      if (part.cache && part.kind !== "text")
        this.context.drop(part.cache.at ?? part.at, "Chat Completions marks only content for its cache");
  }

  /** Encodes reasoning, which is sent back only to its own vendor, in its original field. */
  private reasoningMembers(parts: readonly Part[]): JsonObject {
    const members: JsonObject = {};
    const details: JsonObject[] = [];
    // Joined once: each of thousands of thoughts would otherwise copy all before it.
    const paragraphs: { [member in "reasoning" | "reasoning_content"]: string[] } = {
      reasoning: [],
      reasoning_content: [],
    };
    for (const part of parts) {
      if (part.kind !== "reasoning") continue;
      const { opaque } = part;
      if (!opaque) this.context.drop(part.at, "Thoughts can be sent only to the vendor that made them");
      if (opaque?.protocol !== "openai-chat") continue;
      const text = part.text ?? part.summary?.join("\n\n");
      if (opaque.kind === "message") Object.assign(members, asObject(parseExact(opaque.data)));
      else if (opaque.kind === "reasoning_details") {
        const entry = asObject(parseExact(opaque.data)) ?? {};
        const member = textMember(entry);
        details.push({ ...(text && member ? { [member]: text } : {}), ...entry });
      } else if (opaque.kind === "reasoning" || opaque.kind === "reasoning_content")
        paragraphs[opaque.kind].push(opaque.data || text || "");
    }
    for (const [name, texts] of Object.entries(paragraphs))
      if (texts.length > 0) members[name] = texts.filter((text) => text !== "").join("\n\n");
    if (details.length > 0) members["reasoning_details"] = details;
    return members;
  }

  private call(call: ToolCall): JsonObject {
    const name = fitChatToolName(call, this.context);
    const kind = call.custom && takesFreeText(this.context) ? "custom" : "function";
    const input = kind === "custom" ? { input: call.arguments } : { arguments: argumentsOf(call) };
    return { id: fitCallId(call.id, this.context), type: kind, [kind]: { name, ...input }, ...stateOn(call) };
  }

  /** Encodes a result as text; its media follow in a user message, because Chat has no other place for them. */
  private result(part: ToolResult, attached: JsonObject[]): void {
    const texts: string[] = part.json === undefined ? [] : [part.json];
    for (const item of part.parts) {
      if (item.kind === "text") texts.push(item.text);
      else if (item.kind === "media") {
        const text = textOfFile(item);
        if (text === undefined) attached.push(this.attach(item, texts));
        else {
          dropDetail(item, this.context);
          texts.push(text);
        }
      }
    }
    const errorText = part.isError ? errorResultText(texts) : undefined;
    const content: JsonObject[] = (errorText === undefined ? texts : [errorText]).map((text) => ({
      type: "text",
      text,
    }));
    const last = content.at(-1);
    const marked = part.cache ? part : part.parts.findLast(({ cache }) => cache);
    if (last && marked) Object.assign(last, cacheMember(marked, this.context));
    const written = isOpenaiModel(this.context) ? content : joinTexts(content, "\n");
    const body = content.length > 0 ? contentMember(written) : { content: "" };
    this.messages.push({ role: "tool", tool_call_id: fitCallId(part.callId, this.context), ...body });
  }

  private attach(media: Media, texts: string[]): JsonObject {
    this.attached++;
    texts.push(`[${media.media} ${this.attached} attached]`);
    this.context.change(
      media.at,
      "A tool's result is only text in Chat Completions; its media follow in a message of the user",
    );
    return mediaPart(media, this.context);
  }
}

/** Returns a function's arguments; of a tool of free text that is sent as a function, the object that holds the text. */
const argumentsOf = (call: ToolCall): string =>
  call.custom ? JSON.stringify({ input: call.arguments }) : call.arguments || "{}";

/** Returns the vendor's opaque state on a call. */
function stateOn({ opaque }: ToolCall): JsonObject {
  if (opaque?.protocol !== "openai-chat" || opaque.kind !== "extra_content") return {};
  const extra = asObject(parseExact(opaque.data));
  return extra && Object.keys(extra).length > 0 ? { extra_content: extra } : {};
}

/** Reports whether reasoning was a content part, as in Mistral's responses. */
const isThinking = (part: Reasoning): part is Reasoning & { opaque: Opaque } =>
  part.opaque?.protocol === "openai-chat" && part.opaque.kind === "thinking";

const thinkingPart = (text: string): JsonObject => ({ type: "thinking", thinking: [{ type: "text", text }] });

const nameMember = ({ name }: Turn): JsonObject => (name === undefined ? {} : { name });

const isPlainText = (part: JsonObject | undefined): boolean =>
  part?.["type"] === "text" && Object.keys(part).length === 2;

const refusalAsText = (part: Part): Part =>
  part.kind === "refusal" ? { kind: "text", text: part.text, at: part.at } : part;

/** Joins texts: many servers of other models take only a string of all but the user, or ignore a list. [D] */
const joinTexts = (content: readonly JsonObject[], separator: string): readonly JsonObject[] =>
  content.length > 1 && content.every(isPlainText)
    ? [{ type: "text", text: content.map(({ text }) => text).join(separator) }]
    : content;

const asReminder = (part: JsonObject): JsonObject =>
  part["type"] === "text" ? { ...part, text: `<system-reminder>\n${part["text"]}\n</system-reminder>` } : part;

/** Returns content as a string where it is one text without further members, else as a list. */
function contentMember(parts: readonly JsonObject[]): JsonObject {
  if (parts.length === 0) return {};
  return { content: parts.length === 1 && isPlainText(parts[0]) ? parts[0]?.["text"] : parts };
}

const textPart = (part: Text, context: EncodeContext): JsonObject => ({
  type: "text",
  text: part.text,
  ...cacheMember(part, context),
});

/** Encodes a cache mark on a part. */
function cacheMember({ cache, at }: Pick<Part, "at" | "cache">, context: EncodeContext): JsonObject {
  if (!cache) return {};
  if (context.facts.cache_marks) return { prompt_cache_breakpoint: cacheBreakpoint(cache) };
  context.drop(cache.at ?? at, NO_CACHE_MARKS);
  return {};
}

/** Encodes media as a content part. @throws GatewayError where Chat cannot take it. */
function mediaPart(part: Media, context: EncodeContext): JsonObject {
  // The vendor accepts only PDF as a file here.
  const text = textOfFile(part);
  if (part.media === "file") dropDetail(part, context);
  return {
    ...(text === undefined ? attachmentOf(part, context) : { type: "text", text }),
    ...cacheMember(part, context),
  };
}

function attachmentOf(part: Media, context: EncodeContext): JsonObject {
  switch (part.media) {
    case "image":
      return imageOf(part, context);
    case "audio":
      return audioOf(part, context);
    case "file":
      return fileOf(part, context);
    case "video":
      return context.refuse(part.at, "Chat Completions takes no video");
  }
}

function imageOf({ source, mime, detail, detailAt, at }: Media, context: EncodeContext): JsonObject {
  let url: string;
  if ("url" in source) {
    if (!isHttpUrl(source.url) && !parseDataUrl(source.url))
      context.refuse(at, "The vendor fetches http and https only: send the bytes");
    url = source.url;
  } else if ("base64" in source) {
    if (mime === undefined) return context.refuse(at, "An image as bytes needs its media type");
    url = formatDataUrl(mime, source.base64);
  } else return context.refuse(at, "Chat Completions takes an image by its URL or as bytes, not by an id");
  const isKnownDetail = detail !== undefined && isImageDetail(detail);
  if (detail !== undefined && !isKnownDetail) context.drop(detailAt ?? at, `Chat Completions has no detail ${detail}`);
  return { type: "image_url", image_url: { url, ...(isKnownDetail ? { detail } : {}) } };
}

function audioOf({ source, mime, at }: Media, context: EncodeContext): JsonObject {
  if (!("base64" in source)) return context.refuse(at, "Chat Completions takes audio as bytes only");
  const format = audioFormat(mime);
  if (format === undefined) return context.refuse(at, `Chat Completions takes audio as wav or mp3, not as ${mime}`);
  return { type: "input_audio", input_audio: { data: source.base64, format } };
}

function fileOf({ source, mime, filename, at }: Media, context: EncodeContext): JsonObject {
  if ("id" in source) {
    if (!isOfFamily(source.protocol)) context.refuse(at, "A file's id is only known to the vendor that issued it");
    return { type: "file", file: { file_id: source.id, ...dropUndefined({ filename }) } };
  }
  if ("url" in source) return context.refuse(at, "Chat Completions takes a file as bytes, not by its URL");
  if (mime === undefined || !("base64" in source)) return context.refuse(at, "A file as bytes needs its media type");
  return {
    type: "file",
    file: { filename: filename ?? defaultFilename(mime), file_data: formatDataUrl(mime, source.base64) },
  };
}

/**
 * Returns a conversation with only the allowed tools, where the vendor is not known to have a choice of some: only OpenAI has. So is a
 * tool that is required by name, where the vendor refuses that, and none where it has no such choice.
 */
function withAllowedTools(conversation: Conversation, context: EncodeContext): Conversation {
  const choice = allowedChoice(conversation, context);
  return choice ? withOnlyAllowed(conversation, choice, context) : conversation;
}

/** Returns the choice by which tools are left out. */
function allowedChoice(
  { toolChoice: choice }: Conversation,
  context: EncodeContext,
): (ToolChoice & { mode: "allowed" }) | undefined {
  if (choice?.mode === "allowed") return isOpenaiModel(context) ? undefined : choice;
  if (choice?.mode === "none" && takesOnlyAuto(context)) return { mode: "allowed", names: [], required: false };
  if (choice?.mode !== "named" || choice.server || canRequireByName(context)) return undefined;
  return { mode: "allowed", names: [choice.name], required: true };
}

/**
 * Returns a conversation whose format the server takes: tools are left out beside JSON where none may be called.
 * @throws GatewayError where one may be called
 */
function withPossibleFormat(conversation: Conversation, context: EncodeContext): Conversation {
  const { format, tools, toolChoice } = conversation;
  if (takesToolsWithJson(context) || format === undefined || format.kind === "text") return conversation;
  const searches = tools.filter(({ kind }) => kind === "web_search");
  if (searches.length === tools.length) return conversation;
  if (toolChoice?.mode !== "none")
    context.refuse(
      pathOfUse(conversation, "json_schema", pathOfUse(conversation, "json_object")),
      "the model answers in JSON only where it has no functions to call",
      "Leave out the functions, make the answer a function of its own, or choose a model of another vendor.",
    );
  context.change(pathOfUse(conversation, "tool_choice"), "no functions are sent: the vendor refuses them beside JSON");
  return { ...conversation, tools: searches };
}

/** Encodes the tools of a request. */
function toolMembers(conversation: Conversation, context: EncodeContext): JsonObject {
  const members: JsonObject = {};
  const tools: JsonObject[] = [];
  for (const tool of conversation.tools) {
    if (tool.cache) context.drop(tool.cache.at ?? tool.at, "Chat Completions has no cache marks on tools");
    if (tool.kind !== "web_search") tools.push(toolOf(tool, conversation, context));
    else if (keepsSearch(tool, conversation, context)) members["web_search_options"] = webSearchOf(tool, context);
  }
  const surplus = conversation.tools.filter(({ kind }) => kind !== "web_search")[MAX_TOOLS];
  if (surplus && isNamedOpenaiModel(context))
    context.refuse(
      surplus.at,
      `the model takes at most ${MAX_TOOLS} tools, and there are ${tools.length}`,
      "Offer fewer tools, or choose a model of another vendor.",
    );
  if (tools.length > 0) members["tools"] = tools;
  return members;
}

/** Maximum number of tools of OpenAI's models: "Invalid 'tools': array too long. Expected an array with maximum length 128". [S, D] */
const MAX_TOOLS = 128;

/**
 * Reports whether web search is sent: only to models that take it, and where it is allowed, because `tool_choice` does not apply to
 * it here.
 */
function keepsSearch(tool: Tool & { kind: "web_search" }, conversation: Conversation, context: EncodeContext): boolean {
  const isAllowed = maySearch(conversation, tool);
  if (!isAllowed && conversation.toolChoice?.mode !== "none") context.change(tool.at, "not among the allowed tools");
  if (!isAllowed || takesSearchOptions(context)) return isAllowed;
  context.drop(tool.at, "The model is not known to search the web in Chat Completions");
  return false;
}

function toolOf(
  tool: Exclude<Tool, { kind: "web_search" }>,
  conversation: Conversation,
  context: EncodeContext,
): JsonObject {
  if (tool.kind === "server") return tool.json as JsonObject;
  const name = fitChatToolName(tool, context);
  const { description } = tool;
  if (tool.kind === "custom") {
    if (!takesFreeText(context)) return functionOfCustom(tool, name, context);
    const format = tool.grammar && { type: "grammar", grammar: tool.grammar };
    return { type: "custom", custom: { name, ...dropUndefined({ description, format }) } };
  }
  const parameters = parametersOf(tool, context);
  // False is the default, and not every server knows the member.
  const strict = strictOf(tool, conversation, context) || undefined;
  return { type: "function", function: { name, ...dropUndefined({ description, parameters, strict }) } };
}

/** Encodes a tool that takes free text as a function of one string. The engine unwraps the string in the response. */
function functionOfCustom(tool: Tool & { kind: "custom" }, name: string, context: EncodeContext): JsonObject {
  const definition = tool.grammar?.definition;
  if (definition !== undefined) context.change(tool.at, "the grammar is described to the model, not enforced");
  const parameters = {
    type: "object",
    properties: { input: dropUndefined({ type: "string", description: definition }) },
    required: ["input"],
    additionalProperties: false,
  };
  return { type: "function", function: { name, ...dropUndefined({ description: tool.description }), parameters } };
}

function webSearchOf(tool: Tool & { kind: "web_search" }, context: EncodeContext): JsonObject {
  const { at, paths } = tool;
  if (tool.allowed?.length)
    context.drop(paths?.allowed ?? at, "Chat Completions cannot limit a search to some domains");
  if (tool.blocked?.length)
    context.drop(paths?.blocked ?? at, "Chat Completions cannot keep a search from some domains");
  if (tool.maxUses !== undefined)
    context.drop(paths?.maxUses ?? at, "Chat Completions cannot limit the number of searches");
  return {
    ...(tool.size === undefined ? {} : { search_context_size: tool.size }),
    ...(tool.location ? { user_location: { type: "approximate", approximate: tool.location } } : {}),
  };
}
