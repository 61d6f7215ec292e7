import {
  asList,
  asObject,
  asText,
  type Conversation,
  dropUndefined,
  type Feature,
  type FeatureUse,
  Fields,
  type Foreign,
  type IncomingRequest,
  invalidField,
  isObject,
  type JsonObject,
  type Media,
  type MediaSource,
  objectFields,
  ownProperty,
  type Part,
  PrefixKey,
  RawJson,
  type Reasoning,
  readSettings,
  requestFields,
  Steps,
  type Text,
  TextKey,
  type Tool,
  type ToolCall,
  type ToolResult,
  type Turn,
} from "model-gateway/protocol";
import { TOOL_CHOICE_SETTINGS } from "./support.choice.ts";
import { thinkingCodec } from "./support.thinking.ts";
import { answerSettings, promptSettings, readCacheMark } from "./support.ts";
import { ANTHROPIC_MESSAGES, CITATION_MEMBERS, NO_THREADS, parseCitation, RAW_MEMBERS } from "./wire.ts";

/** Top-level members that only this vendor uses. Others are `other`. */
const VENDOR_MEMBERS: Readonly<Record<string, Feature>> = {
  context_management: "context_edits",
  container: "container",
  mcp_servers: "tools_server",
  diagnostics: "cosmetic",
  betas: "cosmetic",
  anthropic_beta: "cosmetic",
  anthropic_version: "cosmetic",
};

/** Decodes a Messages request. @throws GatewayError `invalid_field`, `invalid_json` */
export function* decodeRequest(request: IncomingRequest): Steps<Conversation> {
  const uses: FeatureUse[] = [];
  const body = requestFields(request, uses, RAW_MEMBERS);
  yield;
  body.ignore("model");
  body.flag("stream");
  const conversation: Conversation = {
    protocol: ANTHROPIC_MESSAGES,
    task: request.task,
    stream: request.streaming,
    ...(yield* turnsOf(body, request)),
    turnsAt: "messages",
    tools: toolsOf(body),
    uses,
  };
  readSettings(answerSettings, body, conversation);
  readSettings(promptSettings, body, conversation);
  if (request.task === "generate") checkMaxTokens(body, conversation);
  if (request.task === "generate") refuseCompaction(body);
  readSettings(TOOL_CHOICE_SETTINGS, body, conversation);
  thinkingCodec.read(body, conversation);
  // A request that continues a thread contains only new content.
  if (body.any("thread") !== undefined) uses.push({ feature: "stored_state", path: "thread", ...NO_THREADS });
  body.declareUnread("other", VENDOR_MEMBERS);
  return conversation;
}

function checkMaxTokens(body: Fields, { maxTokens }: Conversation): void {
  if (!body.has("max_tokens")) body.refuse("max_tokens", "is required.");
  if (maxTokens === 0)
    body.refuse("max_tokens", "is 0, which fills a prompt cache of this protocol's vendor and no other.");
}

/** Refuses a request for nothing but a summary in a block: a client would replace the conversation by another answer. */
function refuseCompaction(body: Fields): void {
  if (body.any("compaction") !== undefined)
    body.refuse("compaction", "asks for a block that only this protocol's vendor makes. Ask for a summary in words.");
}

function systemTurns(body: Fields, request: IncomingRequest): Turn[] {
  const at = "system";
  const system = body.any(at);
  if (system === undefined) return [];
  const parts = partsOf(system, at, "system", body.uses, request).filter((part) => !isBilling(part, body.uses));
  return parts.length === 0 ? [] : [{ role: "system", at, parts }];
}

/** The text with which Claude Code 2.1 begins its system prompt; it differs between runs. */
const BILLING = /^x-anthropic-billing-header:.*$/;

/** Reports whether a part is that text: it has no meaning to other vendors, and would defeat their prompt caches. */
function isBilling(part: Part, uses: FeatureUse[]): boolean {
  if (part.kind !== "text" || !BILLING.test(part.text.trimEnd())) return false;
  uses.push({ feature: "cosmetic", path: part.at });
  if (part.cache) uses.push({ feature: "other", path: `${part.at}.cache_control` });
  return true;
}

function* turnsOf(body: Fields, request: IncomingRequest): Steps<Pick<Conversation, "turns" | "turnsKey">> {
  const turns = systemTurns(body, request);
  const messages = body.list("messages") ?? body.refuse("messages", "must be a list.");
  const prefix = new PrefixKey(turns);
  // The vendor reads nothing before a compaction, which may still be in the request.
  const first = Math.max(0, messages.findLastIndex(holdsCompaction));
  for (let i = 0; i < first; i++) body.uses.push({ feature: "cosmetic", path: `messages.${i}` });
  for (let i = first; i < messages.length; i++) {
    const turn = turnOf(objectFields(messages[i], `messages.${i}`, body.uses), request);
    const summary = i === first ? takeSummary(turn, messages[i]) : undefined;
    if (summary) turns.push(summary);
    if (turn.role === "assistant") turn.parts.push(...stateAfterText(turn.parts, prefix, turns.length, request));
    if (turn.parts.length > 0 || !summary) turns.push(turn);
    if (Steps.endsStep(i)) yield;
  }
  const last = turns.at(-1);
  if (last?.role === "assistant") body.uses.push({ feature: "prefill", path: last.at });
  // Here, where a large request is read in steps: the start of an answer, which needs it, is encoded in one.
  return request.task === "generate"
    ? {
        turns,
        turnsKey: request.parsed === undefined ? prefix.turn(turns.length) : yield* prefix.turnInSteps(turns.length),
      }
    : { turns };
}

const isCompaction = (block: unknown): boolean =>
  isObject(block) && block["type"] === "compaction" && typeof block["content"] === "string";

const holdsCompaction = (message: unknown): boolean =>
  isObject(message) && Array.isArray(message["content"]) && message["content"].some(isCompaction);

/** Takes the summary of what was before from a turn, as a turn of the user's, and what the turn has before it. */
function takeSummary(turn: Turn, message: unknown): Turn | undefined {
  if (!holdsCompaction(message)) return undefined;
  const [summary] = turn.parts
    .splice(0, asList(asObject(message)?.["content"]).findLastIndex(isCompaction) + 1)
    .slice(-1);
  return { role: "user", at: summary?.at ?? turn.at, parts: summary ? [summary] : [] };
}

const ROLES = ["user", "assistant", "system"] as const;

function turnOf(message: Fields, request: IncomingRequest): Turn {
  const { ownPath: at, uses } = message;
  const role = message.oneOf("role", ROLES) ?? message.refuse("role", "must be user, assistant or system.");
  if (role === "system") message.declareSelf("system_in_place");
  const parts = partsOf(message.any("content"), message.path("content"), role, uses, request);
  message.declareUnread();
  return { role, at, parts };
}

/** Returns state that followed the last text of a response; this protocol has no place for it. */
function stateAfterText(parts: readonly Part[], prefix: PrefixKey, turn: number, request: IncomingRequest): Part[] {
  const last = parts.at(-1);
  if (last?.kind !== "text") return [];
  const before = parts.at(-2);
  const signed = before?.kind === "reasoning" && before.opaque?.on === "text";
  const opaque = request.recall({ toString: () => `${prefix.turn(turn)} ${new TextKey(signed).add(last.text)}` });
  if (!opaque) return [];
  const { on: _, ...state } = opaque;
  return [{ kind: "text", at: last.at, text: "", opaque: state }];
}

/** The place of content: a turn of some role, or a tool's result. */
type ContentPlace = Turn["role"] | "result";

/** Parts that are allowed in one place only. The vendor refuses them elsewhere, and no other vendor has an equivalent there. */
const REQUIRED_PLACES: Readonly<Partial<Record<Part["kind"], ContentPlace>>> = {
  reasoning: "assistant",
  tool_call: "assistant",
  tool_result: "user",
};

type BlockReader = (block: Fields, request: IncomingRequest) => Part;

const READERS: Readonly<Record<string, BlockReader>> = {
  text: textPart,
  image: (block) => mediaPart(block, "image"),
  document: documentPart,
  search_result: searchResultPart,
  thinking: thinkingPart,
  redacted_thinking: redactedPart,
  tool_use: toolCallPart,
  tool_result: toolResultPart,
  tool_reference: (block) => toolNotice(block, block.any("tool_name"), "available now"),
  compaction: compactionPart,
  tool_addition: (block) =>
    toolNotice(block, inlineDefinition(block.members)?.["name"] ?? referencedTool(block.members), "available now"),
  tool_removal: (block) => toolNotice(block, referencedTool(block.members), "no longer available"),
};

/** Decodes content: a string is one text. `at` is the content's path; a block's is `at` and its number. */
function partsOf(
  content: unknown,
  at: string,
  place: ContentPlace,
  uses: FeatureUse[],
  request: IncomingRequest,
): Part[] {
  if (typeof content === "string") return [{ kind: "text", at, text: content }];
  if (!Array.isArray(content)) throw invalidField(at, `${at} must be a string or a list of blocks.`);
  return content.map((value, i) => {
    const block = objectFields(value, `${at}.${i}`, uses);
    const type = block.required("type");
    const part = (ownProperty(READERS, type) ?? foreignPart)(block, request);
    if (part.kind !== "foreign") {
      readMark(block, part);
      block.declareUnread();
    }
    const requiredPlace = REQUIRED_PLACES[part.kind] ?? place;
    if (requiredPlace !== place)
      block.refuseSelf(`is a ${type} block, which can only stand in a turn of the ${requiredPlace}.`);
    return part;
  });
}

/** Decodes the cache mark of a block or a tool. */
function readMark(fields: Fields, marked: Part | Tool): void {
  const cache = readCacheMark(fields);
  if (!cache) return;
  fields.declare("cache_control", "cache_mark");
  marked.cache = cache;
}

function textPart(block: Fields): Text {
  const citations = block.objects("citations") ?? [];
  if (citations.length > 0) block.declare("citations", "citations");
  for (const citation of citations) {
    for (const member of CITATION_MEMBERS) citation.ignore(member);
    citation.declareUnread();
  }
  const text: Text = { kind: "text", at: block.ownPath, text: block.required("text") };
  if (citations.length > 0) text.citations = citations.map(({ members }) => parseCitation(members));
  return text;
}

function documentPart(block: Fields): Part {
  const source = block.object("source");
  return source?.members["type"] === "content" ? contentDocument(block, source) : mediaPart(block, "file");
}

function mediaPart(block: Fields, media: "image" | "file"): Media | Foreign {
  const source = block.object("source") ?? block.refuse("source", "must be an object.");
  const decodedSource = mediaSource(block, source, media);
  if (!decodedSource) return foreignPart(block);
  // Documents that the vendor fetches are PDFs, wherever they are. [S: URLPDFSource]
  const mime =
    source.text("media_type") ?? (media === "file" && "url" in decodedSource ? "application/pdf" : undefined);
  return {
    kind: "media",
    at: block.ownPath,
    media,
    source: decodedSource,
    ...(mime === undefined ? {} : { mime }),
    ...(media === "file" ? titleOf(block) : {}),
  };
}

/** Returns a media source; undefined for an unknown type. */
function mediaSource(block: Fields, source: Fields, media: "image" | "file"): MediaSource | undefined {
  const type = source.any("type");
  switch (type) {
    case "base64":
      block.declareSelf(`${media}_base64`);
      return { base64: source.required("data") };
    case "url":
      block.declareSelf(`${media}_url`);
      return { url: source.required("url") };
    case "file":
      source.declare("file_id", "file_id");
      return { id: source.required("file_id"), protocol: ANTHROPIC_MESSAGES };
    case "text":
      if (media === "image") return undefined;
      block.declareSelf("file_text");
      return { text: source.required("data") };
    default:
      return undefined;
  }
}

/** Returns a document's title as the file's name; its context and its citation setting have no equivalent. */
function titleOf(block: Fields): { filename?: string } {
  const title = block.text("title");
  readCitationsFlag(block);
  return title === undefined ? {} : { filename: title };
}

/** Declares the request for citations of document positions, which only this vendor has. */
function readCitationsFlag(block: Fields): void {
  if (block.object("citations")?.flag("enabled") === true) block.declare("citations", "other");
}

/** Converts a document made of blocks to the text of the blocks; one with images is kept for its vendor alone. */
function contentDocument(block: Fields, source: Fields): Part {
  const content = source.any("content");
  const texts = typeof content === "string" ? [content] : textsOf(content, source.path("content"), block.uses);
  if (!texts) return foreignPart(block);
  source.ignore("type");
  block.declareSelf("file_text");
  const text = texts.join(TEXT_SEPARATOR);
  return { kind: "media", at: block.ownPath, media: "file", mime: "text/plain", source: { text }, ...titleOf(block) };
}

/** The separator of block texts that are joined. */
const TEXT_SEPARATOR = "\n\n";

/** Returns the texts of blocks; undefined when they are not all texts. */
function textsOf(content: unknown, at: string, uses: FeatureUse[]): string[] | undefined {
  if (!Array.isArray(content)) return undefined;
  const isText = (value: unknown) => isObject(value) && value["type"] === "text" && typeof value["text"] === "string";
  if (!content.every(isText)) return undefined;
  return content.map((value, i) => {
    const block = objectFields(value, `${at}.${i}`, uses);
    block.ignore("type");
    const text = block.required("text");
    block.declareUnread();
    return text;
  });
}

/** Converts a search result sent by the client to its title, source and text, a paragraph each. */
function searchResultPart(block: Fields): Part {
  const title = block.text("title");
  const source = block.text("source");
  const texts = textsOf(block.any("content"), block.path("content"), block.uses);
  if (!texts || title === undefined || source === undefined) return foreignPart(block);
  readCitationsFlag(block);
  return { kind: "text", at: block.ownPath, text: [title, source, ...texts].join(TEXT_SEPARATOR) };
}

/** Decodes a summary of the conversation before it; one that failed has no content. */
function compactionPart(block: Fields): Part {
  const text = block.text("content");
  if (text === undefined) return foreignPart(block);
  for (const member of ["encrypted_content", "signature"]) block.ignore(member);
  block.any("tool_changes");
  return { kind: "text", at: block.ownPath, text };
}

function thinkingPart(block: Fields, request: IncomingRequest): Reasoning {
  block.declareSelf("reasoning_text");
  const signature = block.text("signature");
  const text = block.required("thinking");
  // Without a signature it is not the vendor's: it is another's reasoning, or a client's own text.
  const signed = signature !== undefined && signature !== "";
  return {
    kind: "reasoning",
    at: block.ownPath,
    text,
    ...(signed ? { opaque: request.open(signature, "signature") } : {}),
  };
}

function redactedPart(block: Fields, request: IncomingRequest): Reasoning {
  block.declareSelf("reasoning_text");
  const opaque = request.open(block.required("data"), "redacted");
  return { kind: "reasoning", at: block.ownPath, redacted: true, opaque };
}

/** Reports whether a value is a JSON object that was kept as its original text. */
const isRawObject = (value: unknown): value is RawJson => value instanceof RawJson && value.text.startsWith("{");

function toolCallPart(block: Fields): ToolCall {
  const input = block.any("input");
  if (!isRawObject(input)) return block.refuse("input", "must be an object.");
  // The vendor's tool that made the call; usually none.
  block.ignore("caller", "cosmetic");
  return {
    kind: "tool_call",
    at: block.ownPath,
    id: block.required("id"),
    name: block.required("name"),
    arguments: input.text,
  };
}

function toolResultPart(block: Fields, request: IncomingRequest): ToolResult {
  const isError = block.flag("is_error");
  const content = block.any("content");
  const parts = content === undefined ? [] : partsOf(content, block.path("content"), "result", block.uses, request);
  for (const part of parts) if (part.kind === "media") block.uses.push({ feature: "tool_result_media", path: part.at });
  if (isError === true) block.declare("is_error", "tool_result_error");
  return {
    kind: "tool_result",
    at: block.ownPath,
    callId: block.required("tool_use_id"),
    parts,
    ...(isError === undefined ? {} : { isError }),
  };
}

/**
 * Converts the announcement that a tool can be called from now on, a deferred one or one that the block defines, or not any more. Other
 * vendors get the tools of the end from the start, so that a text is enough.
 */
function toolNotice(block: Fields, name: unknown, state: string): Part {
  if (typeof name !== "string") return foreignPart(block);
  const tool = block.object("tool");
  tool?.ignore("type");
  for (const member of ["name", "definition"]) tool?.any(member);
  return { kind: "text", at: block.ownPath, text: `The tool ${name} is ${state}.` };
}

/** Returns a block that only this vendor understands. */
function foreignPart(block: Fields): Foreign {
  const name = block.required("type");
  if (name === "container_upload") block.declareSelf("container");
  else block.declareForeign(name);
  const tools = toolNamesOf(name, asText(block.members["name"]));
  return {
    kind: "foreign",
    at: block.ownPath,
    protocol: ANTHROPIC_MESSAGES,
    name,
    json: block.members,
    ...dropUndefined({ tools }),
  };
}

/** Returns the possible names of the vendor's tool that a call or a result belongs to. Code execution has several. [S] */
function toolNamesOf(type: string, name: string | undefined): readonly string[] | undefined {
  if (type.startsWith("mcp_tool_")) return ["mcp_servers"];
  const tool = type === "server_tool_use" ? name : /^(.+)_tool_result$/.exec(type)?.[1];
  return tool === undefined ? undefined : [tool, tool.replace(/^(?:bash|text_editor)_(?=code_execution$)/, "")];
}

const WEB_SEARCH = /^web_search_\d+$/;
/** Search among deferred tools. Other vendors get all tools from the start. */
const TOOL_SEARCH = /^tool_search_tool_/;
/** Members of a function that only control when it is shown, or how its arguments are streamed. */
const TOOL_MEMBERS: Readonly<Record<string, Feature>> = {
  defer_loading: "cosmetic",
  eager_input_streaming: "cosmetic",
};

/**
 * Decodes the tools of a request as they are at its end: its messages may define further ones, which replace earlier ones of their
 * name, and withdraw any.
 */
function toolsOf(body: Fields): Tool[] {
  const tools = (body.objects("tools") ?? []).map(readTool);
  const defined = new Map<string, Tool>();
  const withdrawn = new Set<string>();
  for (const { change, at } of toolChanges(body)) {
    const definition = inlineDefinition(change);
    const tool = definition && readTool(objectFields(definition, `${at}.tool.definition`, body.uses));
    const name = tool ? nameOf(tool) : referencedTool(change);
    if (tool) defined.set(nameOf(tool), tool);
    if (name !== undefined && change["type"] === "tool_removal") withdrawn.add(name);
    else if (name !== undefined) withdrawn.delete(name);
  }
  if (defined.size + withdrawn.size === 0) return tools;
  const all = [...tools.filter((tool) => !defined.has(nameOf(tool))), ...defined.values()];
  return all.filter((tool) => !withdrawn.has(nameOf(tool)));
}

const nameOf = (tool: Tool): string => ("name" in tool ? tool.name : tool.at);

function readTool(tool: Fields): Tool {
  const type = tool.text("type") ?? "custom";
  if (type !== "custom" && !WEB_SEARCH.test(type)) return serverTool(tool, type);
  const decoded = type === "custom" ? functionTool(tool) : webSearch(tool);
  readMark(tool, decoded);
  tool.declareUnread("other", TOOL_MEMBERS);
  return decoded;
}

/** Yields what the messages change of the tools, in order; a compaction repeats the changes in what it replaces. */
function* toolChanges(body: Fields): Generator<{ change: JsonObject; at: string }> {
  for (const [i, message] of asList(body.members["messages"]).entries())
    for (const [n, value] of asList(asObject(message)?.["content"]).entries()) {
      const block = asObject(value) ?? {};
      const at = `messages.${i}.content.${n}`;
      if (TOOL_CHANGES.has(block["type"])) yield { change: block, at };
      else if (isCompaction(block))
        for (const [k, change] of asList(block["tool_changes"]).entries())
          yield { change: asObject(change) ?? {}, at: `${at}.tool_changes.${k}` };
    }
}

const TOOL_CHANGES: ReadonlySet<unknown> = new Set(["tool_addition", "tool_removal"]);

/** Returns the name of the tool that a block refers to; undefined where only this vendor knows the tool, like one of a server. */
function referencedTool(block: JsonObject): string | undefined {
  const { type, name } = asObject(block["tool"]) ?? {};
  return type === "tool_reference" ? asText(name) : undefined;
}

/** Returns the tool that a block defines. [S: BetaToolChangeToolDefinitionParam] */
function inlineDefinition(block: unknown): JsonObject | undefined {
  const { type, tool } = asObject(block) ?? {};
  const { type: kind, definition } = asObject(tool) ?? {};
  return type === "tool_addition" && kind === "tool_definition" ? asObject(definition) : undefined;
}

function functionTool(tool: Fields): Tool {
  tool.declareSelf("tools");
  const schema = tool.any("input_schema");
  if (schema !== undefined && !isRawObject(schema)) tool.refuse("input_schema", "must be an object.");
  const strict = tool.flag("strict");
  if (strict === true) tool.declare("strict", "tools_strict");
  return {
    kind: "function",
    at: tool.ownPath,
    name: tool.required("name"),
    ...dropUndefined({ description: tool.text("description"), strict, parameters: schema as RawJson | undefined }),
  };
}

function webSearch(tool: Fields): Tool {
  tool.declareSelf("web_search");
  tool.ignore("name");
  const allowed = tool.texts("allowed_domains");
  const blocked = tool.texts("blocked_domains");
  const maxUses = tool.number("max_uses");
  const userLocation = tool.object("user_location");
  userLocation?.ignoreDefaults({ type: ["approximate"] });
  const location = userLocation?.textMembers("city", "region", "country", "timezone");
  return {
    kind: "web_search",
    at: tool.ownPath,
    ...dropUndefined({ allowed, blocked, maxUses, location }),
    paths: dropUndefined({
      allowed: allowed && tool.path("allowed_domains"),
      blocked: blocked && tool.path("blocked_domains"),
      maxUses: maxUses === undefined ? undefined : tool.path("max_uses"),
      location: location && tool.path("user_location"),
    }),
  };
}

function serverTool(tool: Fields, type: string): Tool {
  tool.declareSelf(TOOL_SEARCH.test(type) ? "other" : "tools_server");
  return {
    kind: "server",
    protocol: ANTHROPIC_MESSAGES,
    name: asText(tool.members["name"]) ?? type,
    json: tool.members,
    at: tool.ownPath,
  };
}
