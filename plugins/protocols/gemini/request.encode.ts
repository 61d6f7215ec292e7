import {
  argumentsObject,
  asObject,
  type Conversation,
  dropUndefined,
  type EncodeContext,
  type EncodedRequest,
  imageType,
  type JsonObject,
  type Media,
  maySearch,
  mergeTurns,
  type Opaque,
  objectParameters,
  ownProperty,
  type Part,
  pathOfUse,
  RawJson,
  type Reasoning,
  Steps,
  safeId,
  type Tool,
  type ToolCall,
  type ToolResult,
  type Turn,
  writeJson,
  writeSettings,
} from "model-gateway/protocol";
import {
  type ClientTool,
  fitGeminiToolName,
  isClientTool,
  isToolSent,
  toolConfig,
  withChosenSearch,
  withPossibleFormat,
} from "./support.choice.ts";
import { GEMINI_SETTINGS } from "./support.ts";
import {
  BYPASS_SIGNATURE,
  CALL_BYPASSED,
  GEMINI,
  isBeforeGemini3,
  isVertex,
  OPERATIONS,
  partFromState,
  requiresSignatures,
} from "./wire.ts";

/** What the functions that encode one request share. */
interface RequestScope {
  readonly conversation: Conversation;
  readonly context: EncodeContext;
  /** Tool calls by id, with their order in the conversation. */
  readonly calls: ReadonlyMap<string, { call: ToolCall; order: number }>;
  /** Calls and images without a signature where the vendor requires one. */
  readonly unsigned: ReadonlySet<ToolCall | Media>;
  /** Media of results that are sent after them, so far. */
  attached: number;
}

/**
 * Encodes a request to generate content or to count tokens.
 * @throws GatewayError for what the format cannot express, naming the client's field
 */
export function* encodeRequest(asked: Conversation, context: EncodeContext): Steps<EncodedRequest> {
  const conversation = withPossibleFormat(withChosenSearch(asked, context), context);
  const calls = callsById(conversation);
  const unsigned = new Set([...unsignedCalls(conversation, context), ...unsignedMedia(conversation, context)]);
  const scope: RequestScope = { conversation, context, calls, unsigned, attached: 0 };
  yield;
  const request = yield* writeRequestBody(scope);
  yield;
  if (conversation.task === "count")
    return { operation: OPERATIONS.countTokens, body: writeJson(countTokensBody(request, context)) };
  const body = yield* Steps.writingJson(request);
  if (!conversation.stream) return { operation: OPERATIONS.generateContent, body };
  return { operation: OPERATIONS.streamGenerateContent, query: "alt=sse", body };
}

function callsById({ turns }: Conversation): RequestScope["calls"] {
  const calls = turns.flatMap(({ parts }) => parts.filter((part) => part.kind === "tool_call"));
  return new Map(calls.map((call, order) => [call.id, { call, order }]));
}

function* writeRequestBody(scope: RequestScope): Steps<JsonObject> {
  const { conversation, context } = scope;
  const settings = writeSettings(GEMINI_SETTINGS, conversation, context);
  const mediaResolution = commonResolution(scope);
  const config = { ...asObject(settings["generationConfig"]), ...dropUndefined({ mediaResolution }) };
  return dropUndefined({
    ...(yield* writeTurns(scope)),
    tools: writeTools(scope),
    toolConfig: toolConfig.write(scope),
    ...settings,
    generationConfig: Object.keys(config).length > 0 ? config : undefined,
  });
}

/**
 * Returns the body of `countTokens`: `contents` alone, or the whole request in an object that names the model. The Vertex form has some
 * members of the request beside `contents`. [S]
 */
function countTokensBody(request: JsonObject, context: EncodeContext): JsonObject {
  const { contents, ...others } = request;
  const { model } = context;
  if (isVertex(context)) {
    const { systemInstruction, tools, generationConfig } = others;
    return dropUndefined({ contents, systemInstruction, tools, generationConfig });
  }
  if (Object.keys(others).length === 0) return { contents };
  return { generateContentRequest: { model: `models/${model}`, ...request } };
}

const RESOLUTIONS: Readonly<Record<string, string>> = {
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  ultra_high: "HIGH",
  original: "HIGH",
};

/** Returns the resolution that all media share. The vendor accepts only one; where they differ, the model chooses. */
function commonResolution({ conversation, context }: RequestScope): string | undefined {
  const resolutions = new Set(allMedia(conversation).map(({ detail }) => ownProperty(RESOLUTIONS, detail ?? "auto")));
  const [resolution] = resolutions;
  if (resolutions.size > 1)
    for (const { feature, path } of conversation.uses)
      if (feature === "media_detail") context.drop(path, "the provider has one resolution for all media");
  return resolutions.size === 1 && resolution !== undefined ? `MEDIA_RESOLUTION_${resolution}` : undefined;
}

const allMedia = ({ turns }: Conversation): Media[] =>
  turns.flatMap(({ parts }) =>
    parts
      .flatMap((part) => (part.kind === "tool_result" ? part.parts : [part]))
      .filter((part) => part.kind === "media"),
  );

const isSystem = ({ role }: Turn): boolean => role === "system" || role === "developer";

/** Encodes the system turns at the start as the instruction, and all other turns as contents with alternating roles. */
function* writeTurns(scope: RequestScope): Steps<{ systemInstruction?: JsonObject; contents: unknown[] }> {
  const { turns } = scope.conversation;
  const firstTurn = turns.findIndex((turn) => !isSystem(turn));
  // If there are only system turns, the last one becomes the user's content.
  const first = firstTurn < 0 ? Math.max(0, turns.length - 1) : firstTurn;
  const instruction = writeParts(
    turns
      .slice(0, first)
      .flatMap(({ parts }) => parts)
      .filter(isWritten),
    scope,
  );
  const contents = yield* writeContents(turns.slice(first), scope);
  if (contents.length === 0) contents.push(emptyContent(scope));
  return { ...(instruction.length > 0 ? { systemInstruction: { parts: instruction } } : {}), contents };
}

function* writeContents(turns: readonly Turn[], scope: RequestScope): Steps<unknown[]> {
  const { conversation, context } = scope;
  const last = turns.at(-1);
  if (last?.role === "assistant" && context.facts.prefill === false)
    context.refuse(pathOfUse(conversation, "prefill", last.at), "the model does not continue its own turn");
  const converted = turns.map((turn) => (isSystem(turn) ? asSystemReminder(turn, context) : turn));
  const writable = converted.map((turn) => ({ ...turn, parts: turn.parts.filter(isWritten) }));
  yield;
  const joinedTurns = mergeTurns(writable.filter(({ parts }) => parts.length > 0)).flatMap((turn) =>
    splitResults(turn, scope),
  );
  const contents: unknown[] = [];
  const [first] = joinedTurns;
  if (first?.role === "assistant" && first.parts.some(({ kind }) => kind === "tool_call")) contents.push(BLANK_CONTENT);
  for (const [n, { role, parts }] of joinedTurns.entries()) {
    if (Steps.endsStep(n)) yield;
    contents.push({ role: role === "assistant" ? "model" : "user", parts: writeParts(parts, scope) });
  }
  return contents;
}

/**
 * What the vendor requires in front of a call, up to which clients shorten histories. [D] Vertex refuses empty texts: "it has an empty text
 * parameter". [D; S: LiteLLM]
 */
const BLANK_CONTENT: JsonObject = { role: "user", parts: [{ text: " " }] };

/** Returns the only content of an empty request, because the vendor requires one [F]. @throws GatewayError if it has no user turn */
function emptyContent({ conversation: { turns, turnsAt = "messages" }, context }: RequestScope): JsonObject {
  if (!turns.some(({ role }) => role === "user"))
    context.refuse(turns[0]?.at ?? turnsAt, "a user turn is required besides the system message");
  return { role: "user", parts: [{ text: "" }] };
}

/** Converts a system turn between other turns: the vendor accepts it only as text of the user. */
function asSystemReminder(turn: Turn, context: EncodeContext): Turn {
  const parts = turn.parts.filter((part) => part.kind !== "text" || part.text.trim() !== "");
  if (parts.length === 0) return { ...turn, role: "user", parts: [] };
  context.change(turn.at, "a system message between turns is sent as a text of the user's, in <system-reminder>");
  const tag = (text: string): Part => ({ kind: "text", at: turn.at, text });
  return { ...turn, role: "user", parts: joinTexts([tag("<system-reminder>"), ...parts, tag("</system-reminder>")]) };
}

/** Joins adjacent texts with a line feed. Media between them stay in place. */
function joinTexts(parts: readonly Part[]): Part[] {
  const out: Part[] = [];
  for (const part of parts) {
    const last = out.at(-1);
    if (last?.kind !== "text" || part.kind !== "text") out.push(part);
    else out[out.length - 1] = { kind: "text", at: last.at, text: `${last.text}\n${part.text}` };
  }
  return out;
}

/**
 * Puts tool results directly after their calls, in the order of the calls: the vendor may pair them by position. The user's
 * other parts become a content of their own, as in every recorded request [F], after the media that results cannot contain.
 */
function splitResults(turn: Turn, scope: RequestScope): Turn[] {
  const results = turn.parts.filter((part) => part.kind === "tool_result");
  if (results.length === 0) return [turn];
  const order = (id: string): number => scope.calls.get(id)?.order ?? 0;
  results.sort((a, b) => order(a.callId) - order(b.callId));
  const attached: Part[] = [];
  const sent = results.map((result) => detachMedia(result, attached, scope));
  const others = [...attached, ...turn.parts.filter((part) => part.kind !== "tool_result")];
  return [{ ...turn, parts: sent }, ...(others.length > 0 ? [{ ...turn, parts: others }] : [])];
}

/** Media types that a function's result may contain. [D: multimodal function responses] */
const RESULT_MEDIA: ReadonlySet<string> = new Set([
  ...["image/png", "image/jpeg", "image/webp"],
  ...["application/pdf", "text/plain"],
]);

/** Moves the media that a result cannot contain to the parts that follow it, and mentions them in its text. */
function detachMedia(result: ToolResult, attached: Part[], scope: RequestScope): ToolResult {
  const { context } = scope;
  const takesMedia = !isBeforeGemini3(context);
  if (result.parts.every((part) => part.kind !== "media")) return result;
  const parts = result.parts.map((part): Part => {
    if (part.kind !== "media" || (takesMedia && RESULT_MEDIA.has(mimeOf(part, context)))) return part;
    context.change(part.at, "the model takes it only after the result, as the user's");
    attached.push(part);
    return { kind: "text", at: part.at, text: `[${part.media} ${++scope.attached} attached]` };
  });
  return { ...result, parts };
}

/**
 * Returns the calls that need a signature and have none: the first call of each step after the last user turn. The vendor's
 * models with thinking levels refuse a request without these signatures. [D: thought signatures] A turn with tool results is
 * no user turn here, nor what follows it after an empty answer, which is not sent.
 */
function unsignedCalls({ turns }: Conversation, context: EncodeContext): ToolCall[] {
  if (!requiresSignatures(context)) return [];
  const steps = mergeTurns(turns.filter((turn) => !isSystem(turn) && turn.parts.some(isWritten)));
  const lastUserTurn = steps.findLastIndex(
    ({ role, parts }) => role === "user" && !parts.some((part) => part.kind === "tool_result"),
  );
  const firstCalls = steps
    .slice(lastUserTurn + 1)
    .filter(({ role }) => role === "assistant")
    .map(({ parts }) => parts.find((part) => part.kind === "tool_call"))
    .filter((call) => call !== undefined);
  const unsigned = firstCalls.filter(({ opaque }) => opaque?.protocol !== GEMINI);
  if (unsigned[0]) context.change(unsigned[0].at, CALL_BYPASSED);
  return unsigned;
}

/** Returns the model's own images without a signature: "Image part is missing a thought_signature". [D: thought signatures] */
function unsignedMedia({ turns }: Conversation, context: EncodeContext): Media[] {
  if (!requiresSignatures(context)) return [];
  const assistantParts = turns.filter(({ role }) => role === "assistant").flatMap(({ parts }) => parts);
  const unsigned = assistantParts
    .filter((part) => part.kind === "media")
    .filter(({ opaque }) => opaque?.protocol !== GEMINI);
  if (unsigned[0])
    context.change(
      unsigned[0].at,
      "media of the assistant have no thought signature of the model; it is sent with the vendor's bypass",
    );
  return unsigned;
}

/** Reports whether a part is sent: empty texts and blocks of other vendors are not. */
function isWritten(part: Part): boolean {
  if (part.kind === "foreign") return part.protocol === GEMINI;
  if (part.kind === "text") return part.text !== "" || signature(part.opaque) !== undefined;
  return part.kind !== "reasoning" || Boolean(thoughtText(part)) || signature(part.opaque) !== undefined;
}

const writeParts = (parts: readonly Part[], scope: RequestScope): unknown[] =>
  parts.map((part) => writePart(part, scope));

/** Encodes one part. */
function writePart(part: Part, scope: RequestScope): unknown {
  switch (part.kind) {
    case "text":
      return dropUndefined({ text: part.text, thoughtSignature: signature(part.opaque) });
    case "refusal":
      return { text: part.text };
    case "reasoning":
      return (
        partFromState(part.opaque) ??
        dropUndefined({ text: thoughtText(part), thought: true, thoughtSignature: signature(part.opaque) })
      );
    case "tool_call":
      return callPart(part, scope);
    case "tool_result":
      return resultPart(part, scope);
    case "media":
      return dropUndefined({ ...mediaPart(part, scope), thoughtSignature: signatureOrBypass(part, scope) });
    case "foreign":
      return part.json;
  }
}

const signature = (opaque: Opaque | undefined): string | undefined =>
  opaque?.protocol === GEMINI ? opaque.data : undefined;

const signatureOrBypass = (part: ToolCall | Media, { unsigned }: RequestScope): string | undefined =>
  signature(part.opaque) ?? (unsigned.has(part) ? BYPASS_SIGNATURE : undefined);

const thoughtText = ({ text, summary }: Reasoning): string | undefined => text ?? summary?.join("\n\n");

function callPart(call: ToolCall, scope: RequestScope): JsonObject {
  const args = argumentsObject(call, scope.context);
  const functionCall = { id: safeId(call.id), name: fitGeminiToolName(scope, call), args };
  return dropUndefined({ functionCall, thoughtSignature: signatureOrBypass(call, scope) });
}

/** Encodes a tool result. The vendor requires the function's name, which other protocols send only with the call. */
function resultPart(result: ToolResult, scope: RequestScope): JsonObject {
  const media = result.parts.filter((part) => part.kind === "media").map((part) => mediaPart(part, scope));
  const functionResponse = dropUndefined({
    id: safeId(result.callId),
    name: resultName(result, scope),
    response: responseObject(result, scope),
    parts: media.length > 0 ? media : undefined,
  });
  return { functionResponse };
}

function resultName(result: ToolResult, scope: RequestScope): string {
  const call = scope.calls.get(result.callId)?.call;
  if (call) return fitGeminiToolName(scope, call);
  if (result.name !== undefined) return fitGeminiToolName(scope, { name: result.name });
  return scope.context.refuse(result.at, "the result names no tool, and no call before it has its id");
}

/** A member by which a result refers to its media. The vendor refuses any other value, like the references of a JSON schema. [D] */
const MEDIA_REFERENCE = /(?:\$|\\u0024)ref"/i;

/** Returns a JSON object unchanged and a text as `output`; a failure of either kind as `error`. */
function responseObject({ at, json, parts, isError }: ToolResult, { context }: RequestScope): unknown {
  const texts = parts.filter((part) => part.kind === "text").map(({ text }) => text);
  const text = json ?? texts.join("\n");
  const isSent = /^\s*\{/.test(text) && !MEDIA_REFERENCE.test(text);
  const kind = isSent ? context.nested.kindOf(text) : undefined;
  if (kind === "large") context.change(at, "the result is too large to be sent as JSON; it is sent as text");
  const object = kind === "object" ? new RawJson(text) : undefined;
  if (isError === true) return { error: object ?? text };
  return object ?? { output: text };
}

/** Media types by file extension: the vendor requires a type for every file, also for one that it fetches. */
const MIME_BY_EXTENSION: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  heic: "image/heic",
  heif: "image/heif",
  svg: "image/svg+xml",
  pdf: "application/pdf",
  txt: "text/plain",
  md: "text/markdown",
  csv: "text/csv",
  html: "text/html",
  htm: "text/html",
  xml: "text/xml",
  json: "text/plain",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  ogg: "audio/ogg",
  flac: "audio/flac",
  aac: "audio/aac",
  m4a: "audio/mp4",
  mp4: "video/mp4",
  mpeg: "video/mpeg",
  mov: "video/quicktime",
  webm: "video/webm",
};

/** Encodes media as bytes, or as the URI of a file that the vendor fetches. */
function mediaPart(media: Media, { context }: RequestScope): JsonObject {
  const { source, filename, at } = media;
  const data =
    "base64" in source ? source.base64 : "text" in source ? Buffer.from(source.text).toString("base64") : undefined;
  const fileUri = data === undefined ? uriOf(media, context) : undefined;
  const mimeType = mimeOf(media, context);
  if (filename !== undefined)
    context.change(at, "the provider accepts no file names; the file is sent without its name");
  if (media.mime && mimeType !== media.mime) context.change(at, `sent as ${mimeType}, which it is`);
  return data === undefined ? { fileData: { mimeType, fileUri } } : { inlineData: { mimeType, data } };
}

function uriOf({ source, at }: Media, context: EncodeContext): string {
  if ("url" in source) {
    if (/^(?:https?|gs):/i.test(source.url)) return source.url;
    return context.refuse(at, "the vendor fetches only http, https and gs: URLs. Send the bytes");
  }
  if ("id" in source && source.protocol === GEMINI) return source.id;
  return context.refuse(at, "the provider cannot read another vendor's file by its id. Send its bytes or its URL");
}

/** Types of data as text, which the vendor refuses: "a mimeType parameter with value application/json, which is not supported". [D] */
const TEXT_TYPE = /^application\/(?:(?:[\w.-]+\+)?(?:json|xml)|(?:x-)?(?:yaml|ndjson|toml|sql))(?:;|$)/i;

/** Returns a file's type; that of an image by its bytes: the vendor refuses types like `image/jpg` that clients name. [D] */
function mimeOf({ media, mime, source, filename, at }: Media, context: EncodeContext): string {
  if ((media === "image" || mime?.startsWith("image/")) && "base64" in source) {
    const type = imageType(source.base64);
    if (type !== undefined) return type;
  }
  if (mime !== undefined && TEXT_TYPE.test(mime)) return "text/plain";
  if (mime !== undefined && mime !== "") return mime === "image/jpg" ? "image/jpeg" : mime;
  if ("text" in source) return "text/plain";
  const name = filename ?? ("url" in source ? source.url.replace(/[?#].*$/s, "") : "");
  const extension = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? "";
  return (
    ownProperty(MIME_BY_EXTENSION, extension) ??
    context.refuse(
      at,
      "the provider requires a file's type, and neither a media type nor the ending of its name gives it",
    )
  );
}

/** The schema of a function that stands for a custom tool: free text as its only argument. */
const FREE_TEXT_SCHEMA = new RawJson('{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}');

function writeTools(scope: RequestScope): JsonObject[] | undefined {
  const { tools } = scope.conversation;
  const functions = tools.filter(isClientTool).map((tool) => functionDeclaration(tool, scope));
  const others = tools.map((tool) => vendorTool(tool, scope)).filter((json) => json !== undefined);
  const all = functions.length > 0 ? [{ functionDeclarations: functions }, ...others] : others;
  return all.length > 0 ? all : undefined;
}

function functionDeclaration(tool: ClientTool, scope: RequestScope): JsonObject {
  const { description } = tool;
  const name = fitGeminiToolName(scope, tool);
  if (tool.kind === "function") {
    const schema = tool.parameters && objectParameters(tool.parameters);
    return dropUndefined({ name, description, parametersJsonSchema: schema });
  }
  if (tool.grammar !== undefined)
    scope.context.drop(tool.grammarAt ?? tool.at, "the provider accepts no grammar for a tool's text");
  return dropUndefined({ name, description, parametersJsonSchema: FREE_TEXT_SCHEMA });
}

/** Encodes a tool that the vendor runs. Without Vertex, the format has no list of sites and no limit of searches. [S] */
function vendorTool(tool: Tool, scope: RequestScope): JsonObject | undefined {
  const { conversation, context } = scope;
  if (tool.kind === "server") {
    if (tool.protocol === GEMINI) return { [tool.name]: tool.json };
    return context.refuse(tool.at, `the tool ${tool.name} is run by another vendor`);
  }
  if (tool.kind !== "web_search") return undefined;
  if (!isToolSent(tool, scope)) {
    if (maySearch(conversation, tool))
      context.drop(tool.at, "the model does not search the web while it has functions to call, or answers in JSON");
    else if (conversation.toolChoice?.mode !== "none") context.change(tool.at, "not among the allowed tools");
    return undefined;
  }
  for (const [name, label] of DROPPED_SEARCH_OPTIONS)
    if (tool[name] !== undefined) context.drop(tool.paths?.[name] ?? tool.at, `its web search accepts no ${label}`);
  return { googleSearch: {} };
}

const DROPPED_SEARCH_OPTIONS = [
  ["allowed", "list of domains"],
  ["blocked", "list of blocked domains"],
  ["maxUses", "limit of searches"],
  ["size", "size of context"],
  ["location", "location of the user"],
] as const;
