import {
  asObject,
  type CacheMark,
  type Citation,
  type Conversation,
  type DecodingChange,
  dropUndefined,
  type FeatureUse,
  type Fields,
  type Foreign,
  type IncomingRequest,
  invalidField,
  type Media,
  type Opaque,
  objectFields,
  ownProperty,
  type Part,
  type Reasoning,
  type Refusal,
  readSettings,
  requestFields,
  Steps,
  type Text,
  type Tool,
  type ToolCall,
  type ToolChoice,
  type ToolResult,
  type Turn,
} from "model-gateway/protocol";
import { audioMediaType, dataUrlSource, readDataUrl } from "../openai/wire.ts";
import { readToolList } from "./request.decode.tools.ts";
import { imageTool, RESPONSES_TOOL_CHOICE } from "./support.choice.ts";
import { RESPONSES_SETTINGS, UNTRANSLATED_FIELDS } from "./support.ts";
import {
  COMPACTION,
  COMPACTION_TRIGGER,
  IMAGE_CALL,
  IMAGE_TOOL,
  ITEM_REFERENCE,
  OPENAI_RESPONSES,
  requestsCompaction,
  SUMMARY_LEAD,
  SUMMARY_STATE,
} from "./wire.ts";

/** Top-level members with values that are the same as absent. */
const DEFAULT_FIELDS = { background: [false], truncation: ["disabled"], top_logprobs: [0] };

/** Translation always sends the reasoning of all turns. */
const DEFAULT_REASONING = { context: ["auto", "all_turns"], mode: ["standard"] };

/** @throws GatewayError `invalid_field` with the field's path */
export function* decodeRequest(request: IncomingRequest): Steps<Conversation> {
  const uses: FeatureUse[] = [];
  const body = requestFields(request, uses);
  yield;
  body.any("model");
  body.flag("stream");
  const tools: Tool[] = [];
  readToolList(body, tools);
  const input = new InputReader(request, tools);
  const conversation: Conversation = {
    protocol: OPENAI_RESPONSES,
    task: request.task,
    stream: request.task === "generate" && request.streaming,
    turns: yield* input.readTurns(body),
    turnsAt: "input",
    tools,
    uses,
  };
  const isCompaction = requestsCompaction(body.members["input"]);
  if (isCompaction) conversation.toolChoice = readCompactionChoice(body);
  else readSettings(RESPONSES_TOOL_CHOICE, body, conversation);
  readSettings(isCompaction ? compactionSettings : RESPONSES_SETTINGS, body, conversation);
  body.object("reasoning")?.ignoreDefaults(DEFAULT_REASONING);
  body.ignoreDefaults(DEFAULT_FIELDS);
  for (const [name, feature] of Object.entries(UNTRANSLATED_FIELDS)) body.ignore(name, feature);
  body.declareUnread();
  if (input.changed.length > 0) conversation.changed = input.changed;
  imageTool.read(conversation);
  return conversation;
}

/** The prompt for a compaction. docs/decisions/0012-a-compaction-is-asked-for-in-words.md */
const SUMMARY_PROMPT =
  "Sum up the conversation so far, so that the work can go on from the summary alone: the goal and what was asked for, " +
  "the decisions made and their reasons, the state of the files and of everything else that was changed, and what is " +
  "still open. Keep names, paths, commands and values as they are. Answer with the summary and nothing else.";

/** A compaction is plain text, whatever `text.format` the request has. */
const compactionSettings = RESPONSES_SETTINGS.filter(({ path }) => path !== "text.format");

/** Forbids calls. The tools stay offered: the history has calls of them, and the vendor's cached prompt begins with them. */
function readCompactionChoice(body: Fields): ToolChoice {
  body.ignore("tool_choice");
  body.object("text")?.ignore("format");
  return { mode: "none" };
}

/** Top-level members that refer to a prompt, or a part of it, stored at the vendor. */
const STORED_STATE_MEMBERS = ["previous_response_id", "conversation", "prompt"];

const ROLES = ["user", "assistant", "system", "developer"] as const;

/** Decodes the input of one request: each item becomes a turn of its own, except those that only add tools. */
class InputReader {
  /** Values replaced by equivalents, because no other vendor has the client's. */
  readonly changed: DecodingChange[] = [];
  /** Indices of tools, by identity, once an item adds some. */
  private toolIndices: Map<unknown, number> | undefined;
  /** The numbers of namespaces. */
  private readonly namespaces = new Map<string | undefined, number>();

  /** @param tools receives tools that an item adds */
  constructor(
    private readonly request: Pick<IncomingRequest, "open">,
    private readonly tools: Tool[],
  ) {}

  /** Decodes the turns. Instructions come before the input, as at the vendor. @throws GatewayError `invalid_field` */
  *readTurns(body: Fields): Steps<Turn[]> {
    const input = body.any("input");
    const turns: Turn[] = [];
    const instructions = body.text("instructions");
    if (instructions !== undefined) turns.push(textTurn("system", instructions, "instructions"));
    if (typeof input === "string") return [...turns, textTurn("user", input, "input")];
    const absent = input === undefined && STORED_STATE_MEMBERS.some((name) => body.has(name));
    if (!absent && !Array.isArray(input)) body.refuse("input", "must be a string or a list of items.");
    const items = (Array.isArray(input) ? input : []).map((value, i) => objectFields(value, `input.${i}`, body.uses));
    const inputTurns: Turn[] = [];
    for (const [i, item] of items.entries()) {
      if (Steps.endsStep(i)) yield;
      const turn = this.readItem(item, i === items.length - 1);
      if (turn) inputTurns.push(turn);
    }
    declareTurnUses(inputTurns, body.uses);
    return [...turns, ...inputTurns];
  }

  private openState(sealed: string): Opaque {
    return this.request.open(sealed, "encrypted");
  }

  private readItem(item: Fields, isLast: boolean): Turn | undefined {
    const type = item.members["type"] ?? undefined;
    if (type === "additional_tools") return this.addTools(item);
    return type === COMPACTION_TRIGGER ? this.readTrigger(item, isLast) : this.readTurn(item);
  }

  private readTurn(item: Fields): Turn {
    const untyped = !item.has("type");
    if (untyped && item.has("role")) return readMessage(item);
    if (untyped && isReference(item)) return singlePartTurn("assistant", readForeign(item, ITEM_REFERENCE));
    const type = item.required("type");
    switch (type) {
      case "message":
        return readMessage(item);
      case "reasoning":
        return singlePartTurn("assistant", this.readReasoning(item));
      case "function_call":
        return singlePartTurn("assistant", readCall(item, "arguments"));
      case "custom_tool_call":
        return singlePartTurn("assistant", readCall(item, "input"));
      case "function_call_output":
      case "custom_tool_call_output":
        return singlePartTurn("user", readResult(item, type));
      case COMPACTION:
        return this.readCompaction(item) ?? singlePartTurn("assistant", readForeign(item, type));
      case IMAGE_CALL:
        return singlePartTurn("assistant", readImageCall(item) ?? readForeign(item, type));
      default:
        return singlePartTurn("assistant", readForeign(item, type));
    }
  }

  /**
   * Adds tools that an agent sends as an item instead of in `tools`; they are offered from the start. A tool that was already
   * offered, deferred or by another item, is offered once, in its last form.
   */
  private addTools(item: Fields): undefined {
    item.any("type");
    const added: Tool[] = [];
    readToolList(item, added);
    this.toolIndices ??= new Map(this.tools.map((tool, index) => [this.toolIdentity(tool), index]));
    for (const tool of added) {
      const existingIndex = this.toolIndices.get(this.toolIdentity(tool));
      if (existingIndex !== undefined) this.tools[existingIndex] = tool;
      else this.toolIndices.set(this.toolIdentity(tool), this.tools.push(tool) - 1);
    }
    leaveMembers(item, "id", "role");
    item.declareUnread();
  }

  /**
   * Returns a tool's identity: the client's own by name; each of the vendor's is distinct. A namespace has a number in it: it may be
   * long, and have thousands of tools.
   */
  private toolIdentity(tool: Tool): unknown {
    if (tool.kind !== "function" && tool.kind !== "custom") return tool;
    const { namespace, name } = tool;
    if (!this.namespaces.has(namespace)) this.namespaces.set(namespace, this.namespaces.size);
    return `${this.namespaces.get(namespace)} ${name}`;
  }

  /** Returns the request for a compaction as a user's text. @throws GatewayError `invalid_field` where more items follow */
  private readTrigger(item: Fields, isLast: boolean): Turn {
    if (!isLast)
      throw invalidField(item.ownPath, `${item.ownPath}: a ${COMPACTION_TRIGGER} must be the last item of the input.`);
    const notice = "a compaction is requested by a prompt, as plain text and without tool calls";
    this.changed.push({ path: item.ownPath, why: notice });
    leaveMembers(item, "type", "id");
    item.declareUnread();
    return textTurn("user", SUMMARY_PROMPT, item.ownPath);
  }

  /** Returns a compaction made for a provider of another protocol as a user's text; undefined for the vendor's own. */
  private readCompaction(item: Fields): Turn | undefined {
    const sealed = item.text("encrypted_content");
    const opaque = sealed === undefined ? undefined : this.openState(sealed);
    if (!opaque || (opaque.protocol === OPENAI_RESPONSES && opaque.account === undefined)) return undefined;
    leaveMembers(item, "type", "id", "created_by");
    item.declareUnread();
    return textTurn("user", summaryText(opaque, item.path("encrypted_content")), item.ownPath);
  }

  /**
   * Decodes a reasoning item without its id: nothing is stored, and the vendor refuses an unknown id with 404. Its `content`
   * is null where an agent repeats it. [S, clients seen on the wire]
   */
  private readReasoning(item: Fields): Reasoning {
    const sealed = item.text("encrypted_content");
    const summary = readTexts(item, "summary");
    const content = readTexts(item, "content");
    item.declareSelf("reasoning_text");
    leaveMembers(item, "id", "status");
    item.declareUnread();
    return {
      kind: "reasoning",
      at: item.ownPath,
      ...(content.length > 0 && { text: content.join("\n") }),
      ...(summary.length > 0 && { summary }),
      ...(sealed !== undefined && { opaque: this.openState(sealed) }),
    };
  }
}

/**
 * Returns the summary in an envelope, as text that any provider can read.
 * @throws GatewayError `invalid_field` for an envelope with other content
 */
export function summaryText({ protocol, kind, data }: Opaque, at: string): string {
  if (protocol !== SUMMARY_STATE.protocol || kind !== SUMMARY_STATE.kind)
    throw invalidField(at, `${at} contains no compaction.`);
  return SUMMARY_LEAD + data;
}

/** Leaves members that only concern the vendor's own objects, like ids of stored items. */
function leaveMembers(fields: Fields, ...names: readonly string[]): void {
  for (const name of names) fields.ignore(name);
}

const singlePartTurn = (role: Turn["role"], part: Part): Turn => ({ role, parts: [part], at: part.at });

const textTurn = (role: Turn["role"], text: string, at: string): Turn =>
  singlePartTurn(role, { kind: "text", text, at });

/** Declares system and developer messages that are not at the beginning. */
function declareTurnUses(turns: readonly Turn[], uses: FeatureUse[]): void {
  const first = turns.findIndex(({ role }) => role === "user" || role === "assistant");
  turns.forEach(({ role, at }, i) => {
    const isInstruction = role === "system" || role === "developer";
    if (isInstruction && first >= 0 && i > first) uses.push({ feature: "system_in_place", path: at });
  });
  const last = turns.at(-1);
  if (last?.role === "assistant" && last.parts.some(({ kind }) => kind === "text"))
    uses.push({ feature: "prefill", path: last.at });
}

/**
 * Reports whether an item is the SDK's short form of a reference: an id and nothing else. [S: ItemReference.type is optional]
 */
const isReference = ({ members }: Fields): boolean =>
  typeof members["id"] === "string" &&
  Object.entries(members).every(([name, value]) => name === "id" || value === null);

function readMessage(item: Fields): Turn {
  const role = item.oneOf("role", ROLES);
  if (!role) return item.refuse("role", "is missing.");
  const parts = readContent(item, "content");
  const phase = item.text("phase");
  const name = item.text("name");
  if (phase !== undefined) item.declare("phase", "phase");
  if (name !== undefined) item.declare("name", "name");
  leaveMembers(item, "type", "id", "status");
  item.declareUnread();
  return { role, parts, at: item.ownPath, ...dropUndefined({ phase, name }) };
}

/** Returns the texts of a list of text parts. */
function readTexts(item: Fields, name: string): string[] {
  return (item.objects(name) ?? []).map((part) => {
    const text = part.required("text");
    part.ignore("type");
    part.declareUnread();
    return text;
  });
}

function readCall(item: Fields, input: "arguments" | "input"): ToolCall {
  const namespace = item.text("namespace");
  if (namespace !== undefined) item.declare("namespace", "tools_namespace");
  if (input === "input") item.declareSelf("tools_custom");
  leaveMembers(item, "id", "status");
  item.ignoreDefaults({ async: [false] });
  const call = { id: item.required("call_id"), name: item.required("name"), arguments: item.required(input) };
  item.declareUnread();
  return {
    kind: "tool_call",
    ...call,
    at: item.ownPath,
    ...(namespace !== undefined && { namespace }),
    ...(input === "input" && { custom: true }),
  };
}

function readResult(item: Fields, type: string): ToolResult {
  const callId = item.required("call_id");
  const parts = readContent(item, "output");
  for (const part of parts) if (part.kind === "media") item.uses.push({ feature: "tool_result_media", path: part.at });
  leaveMembers(item, "id", "status");
  item.declareUnread();
  return {
    kind: "tool_result",
    callId,
    parts,
    at: item.ownPath,
    ...(type === "custom_tool_call_output" && { custom: true }),
  };
}

const RESEND_HINT = "Send the item itself instead of its id, as SDKs do with `store: false`.";

/** Types of items of the vendor's tools; they are named after the tool. */
const ITEM_OF_TOOL = /^(.+)_(?:call|call_output|list_tools|approval_request|approval_response)$/;

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
/** The allowed subtype of a media type. */
const IMAGE_FORMAT = /^[a-z0-9][a-z0-9.+-]{0,63}$/i;

/**
 * Decodes an image that the model made; undefined where the vendor stores it, and the item has only its id.
 * @throws GatewayError `invalid_field` for a result that is neither base64 nor a `data:` URL in base64, and for an invalid
 * format
 */
function readImageCall(item: Fields): Media | undefined {
  const result = item.text("result");
  if (!result) return undefined;
  const inline = readDataUrl(result, item.path("result"));
  const base64 = inline?.base64 ?? result;
  if (!BASE64.test(base64)) item.refuse("result", "must be the image in base64.");
  const format = item.text("output_format") ?? "png";
  if (!IMAGE_FORMAT.test(format)) item.refuse("output_format", "must be a format of images, like png.");
  const mime = inline?.mime || `image/${format}`;
  item.declare("result", "image_base64");
  leaveMembers(item, "type", "id", "status", "action", "background", "quality", "size");
  item.declareUnread();
  return { kind: "media", media: "image", mime, source: { base64 }, at: item.ownPath, tools: [IMAGE_TOOL] };
}

/** Decodes an item that only the vendor understands: it is declared and dropped as a whole. */
function readForeign(item: Fields, name: string): Foreign {
  // Without a compaction the conversation before it is lost.
  if (name === COMPACTION) item.declareSelf("stored_state");
  else if (name !== ITEM_REFERENCE) item.declareSelf("foreign_block");
  // An SDK repeats items by reference although nothing was stored. Reasoning can be left out, a turn or a call cannot.
  else if (String(item.members["id"]).startsWith("rs_")) item.declareSelf("other");
  else item.declareSelf("stored_state", RESEND_HINT);
  const tool = ITEM_OF_TOOL.exec(name)?.[1];
  const tools = tool === undefined ? undefined : [tool, `${tool}_use_preview`];
  return {
    kind: "foreign",
    protocol: OPENAI_RESPONSES,
    name,
    json: item.members,
    at: item.ownPath,
    ...dropUndefined({ tools }),
  };
}

/**
 * Decodes the content of a message or of a tool's output: a string, or a list of parts.
 * @throws GatewayError `invalid_field`
 */
function readContent(item: Fields, name: string): Part[] {
  const content = item.any(name);
  const at = item.path(name);
  if (typeof content === "string") return [{ kind: "text", text: content, at }];
  if (!Array.isArray(content)) return item.refuse(name, "must be a string or a list of parts.");
  return content.map((part, i) => readPart(objectFields(part, `${at}.${i}`, item.uses)));
}

function readPart(part: Fields): Part {
  const type = part.required("type");
  const reader = ownProperty(PART_READERS, type);
  if (!reader) {
    part.declareForeign(type);
    return { kind: "foreign", protocol: OPENAI_RESPONSES, name: type, json: part.members, at: part.ownPath };
  }
  const decoded = reader(part);
  part.declareUnread();
  return decoded;
}

const PART_READERS: Readonly<Record<string, (part: Fields) => Part>> = {
  input_text: readText,
  output_text: readText,
  text: readText,
  refusal: readRefusal,
  input_image: readImage,
  input_file: readFile,
  input_audio: readAudio,
};

function readText(part: Fields): Text {
  const text = part.required("text");
  const cache = readCacheMark(part);
  const annotations = part.list("annotations") ?? [];
  const citations = annotations.flatMap((annotation) => parseCitation(annotation) ?? []);
  if (annotations.length > 0) part.declare("annotations", "citations");
  // Logprobs of an earlier response have no effect.
  part.ignore("logprobs");
  return { kind: "text", text, at: part.ownPath, ...cache, ...(citations.length > 0 && { citations }) };
}

function parseCitation(annotation: unknown): Citation | undefined {
  const { type, url, title, start_index: start, end_index: end } = asObject(annotation) ?? {};
  if (type !== "url_citation" || typeof url !== "string") return undefined;
  if (typeof start !== "number" || typeof end !== "number") return undefined;
  return { url, ...(typeof title === "string" && { title }), start, end };
}

function readRefusal(part: Fields): Refusal {
  return { kind: "refusal", text: part.required("refusal"), at: part.ownPath };
}

function readImage(part: Fields): Media {
  const url = part.text("image_url");
  const source = url === undefined ? readFileId(part, "image_url") : readUrl(part, url);
  const detail = readDetail(part);
  return { kind: "media", media: "image", ...source, at: part.ownPath, ...detail, ...readCacheMark(part) };
}

function readDetail(part: Fields): Pick<Media, "detail" | "detailAt"> {
  const detail = part.text("detail");
  if (detail !== undefined && detail !== "auto") part.declare("detail", "media_detail");
  return detail === undefined ? {} : { detail, detailAt: part.path("detail") };
}

type SourcedMedia = Pick<Media, "mime" | "source">;

function readUrl(part: Fields, url: string): SourcedMedia {
  const inline = readDataUrl(url, part.path("image_url"));
  part.declare("image_url", inline ? "image_base64" : "image_url");
  return inline ? dataUrlSource(inline) : { source: { url } };
}

/** Decodes a part's `file_id`. @param alternative the member that a part without an id must have */
function readFileId(part: Fields, alternative: string): SourcedMedia {
  const id = part.text("file_id");
  if (id === undefined) return part.refuse(alternative, "or file_id is missing.");
  part.declare("file_id", "file_id");
  return { source: { id, protocol: OPENAI_RESPONSES } };
}

function readFile(part: Fields): Media {
  const filename = part.text("filename");
  const source = readFileSource(part);
  const detail = readDetail(part);
  return {
    kind: "media",
    media: "file",
    ...source,
    at: part.ownPath,
    ...(filename !== undefined && { filename }),
    ...detail,
    ...readCacheMark(part),
  };
}

function readFileSource(part: Fields): SourcedMedia {
  const content = part.text("file_data");
  if (content !== undefined) {
    part.declare("file_data", "file_base64");
    const inline = readDataUrl(content, part.path("file_data"));
    return inline ? dataUrlSource(inline) : { source: { base64: content } };
  }
  const url = part.text("file_url");
  if (url === undefined) return readFileId(part, "file_data");
  part.declare("file_url", "file_url");
  return { source: { url } };
}

function readAudio(part: Fields): Media {
  const audio = part.object("input_audio");
  if (!audio) return part.refuse("input_audio", "must be an object.");
  const mime = audioMediaType(audio.required("format"));
  const base64 = audio.required("data");
  part.declareSelf("audio");
  return { kind: "media", media: "audio", mime, source: { base64 }, at: part.ownPath };
}

const CACHE_TTLS: readonly unknown[] = ["5m", "30m", "1h", "12h"] satisfies CacheMark["ttl"][];

/** Decodes a cache mark on a part of a message or of a tool's output. */
function readCacheMark(part: Fields): { cache?: CacheMark } {
  const mark = part.object("prompt_cache_breakpoint");
  if (!mark) return {};
  mark.declareSelf("cache_mark");
  mark.ignore("mode");
  const ttl = CACHE_TTLS.includes(mark.members["ttl"]) ? (mark.any("ttl") as CacheMark["ttl"]) : undefined;
  return { cache: { ...(ttl && { ttl }), at: mark.ownPath } };
}
