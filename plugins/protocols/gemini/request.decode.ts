import {
  asObject,
  asText,
  type Conversation,
  dropUndefined,
  type Feature,
  type FeatureUse,
  type IncomingRequest,
  type Media,
  type MediaSource,
  type Opaque,
  ownProperty,
  type Part,
  parseExact,
  RawJson,
  readSettings,
  requestFields,
  Steps,
  type ToolCall,
  type ToolResult,
  type Turn,
} from "model-gateway/protocol";
import { readTools } from "./request.decode.tools.ts";
import { GEMINI_SETTINGS } from "./support.ts";
import {
  bothSpellings,
  DUMMY_SIGNATURES,
  GEMINI,
  inBothSpellings,
  mediaKind,
  NON_TEXT_MEMBERS,
  ProtoFields,
  spellingIn,
} from "./wire.ts";

/** Objects whose original text is kept. */
export const RAW_MEMBERS: ReadonlySet<string> = new Set(
  bothSpellings([
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
    "schema",
  ]),
);

/** Thresholds that block nothing, like the vendor's default. */
const PERMISSIVE: ReadonlySet<unknown> = new Set(["OFF", "BLOCK_NONE"]);

/**
 * Decodes a request to generate content or to count its tokens, in camel case or snake case.
 * @throws GatewayError `invalid_field` with the client's own path
 */
export function* decodeRequest(incoming: IncomingRequest): Steps<Conversation> {
  const uses: FeatureUse[] = [];
  const body = new ProtoFields(requestFields(incoming, uses, RAW_MEMBERS).members, "", uses);
  yield;
  const request = (incoming.task === "count" && body.object("generateContentRequest")) || body;
  // The path names the model; here it is repeated.
  if (request !== body && !request.text("model")?.startsWith("models/")) request.ignore("model", "cosmetic");
  const reader = new ContentsReader(incoming);
  const conversation: Conversation = {
    protocol: GEMINI,
    task: incoming.task,
    stream: incoming.streaming,
    turns: [...reader.readInstruction(request), ...(yield* reader.readContents(request))],
    turnsAt: request.path("contents"),
    ...readTools(request),
    uses,
  };
  readSettings(GEMINI_SETTINGS, request, conversation);
  const config = request.object("generationConfig");
  if (config) readResolution(config, conversation.turns);
  config?.declareUnread("other", CONFIG_FEATURES);
  readSafety(request);
  request.declareUnread("other", TOP_LEVEL_FEATURES);
  body.declareUnread();
  return conversation;
}

/** Top-level members without a field in conversations. */
const TOP_LEVEL_FEATURES = inBothSpellings<Feature>({
  continuationToken: "stored_state",
  modelArmorConfig: "safety",
  model: "cosmetic",
});

/** The same for `generationConfig`. */
const CONFIG_FEATURES = inBothSpellings<Feature>({ speechConfig: "audio_out" });

/** Further members of a safety setting: its category, and its method. */
const SAFETY_MEMBERS: ReadonlySet<string> = new Set(["category", "method"]);

/** Declares safety settings stricter than none, which is the vendor's default. */
function readSafety(request: ProtoFields): void {
  for (const setting of request.objects("safetySettings") ?? []) {
    const threshold = setting.enumValue("threshold");
    if (threshold !== undefined && !PERMISSIVE.has(threshold)) setting.declareSelf("safety");
    for (const name of SAFETY_MEMBERS) setting.ignore(name);
    setting.declareUnread();
  }
  request.ignore("safetySettings", "cosmetic");
}

/** Applies the general media resolution to media without one. */
function readResolution(config: ProtoFields, turns: readonly Turn[]): void {
  const detail = detailFromLevel(config.enumValue("mediaResolution", "media_detail"));
  config.ignore("mediaResolution", "media_detail");
  if (detail === undefined) return;
  const detailAt = config.path("mediaResolution");
  const applyDetail = (part: Part): void => {
    if (part.kind === "tool_result") part.parts.forEach(applyDetail);
    else if (part.kind === "media" && part.detail === undefined && !isTextFile(part))
      Object.assign(part, { detail, detailAt });
  };
  for (const { parts } of turns) parts.forEach(applyDetail);
}

/** Reports whether media are a text, which has no resolution. */
const isTextFile = ({ media, mime }: Media): boolean => media === "file" && mime?.startsWith("text/") === true;

const detailFromLevel = (level: string | undefined): string | undefined =>
  level?.replace("MEDIA_RESOLUTION_", "").toLowerCase();

/** Roles. Results of functions formerly had the role `function`; Genkit gives them `tool`, which most models accept. [S: genkit] */
const ROLES: Readonly<Record<string, Turn["role"]>> = {
  user: "user",
  model: "assistant",
  function: "user",
  tool: "user",
};

/** Those that are sent on as `user` without a loss; empty is the same as absent (proto JSON). */
const USER_ROLES: ReadonlySet<string | undefined> = new Set(["function", "tool", ""]);

/** Members of which a part has exactly one. [S] */
const CONTENT_MEMBERS = ["text", ...NON_TEXT_MEMBERS] as const;

/** Contents that other protocols can express. */
const TRANSLATED_MEMBERS = ["functionCall", "functionResponse", "inlineData", "fileData", "text"] as const;

/** Members that any part may have beside its content. */
const SHARED_MEMBERS: ReadonlySet<string> = new Set(
  bothSpellings(["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata"]),
);

/** Features of known members of a part, a content, a call or a result that are not decoded. */
const UNREAD_FEATURES = inBothSpellings<Feature>({
  videoMetadata: "video",
  thought: "cosmetic",
  thoughtSignature: "cosmetic",
  partMetadata: "cosmetic",
  id: "cosmetic",
  role: "cosmetic",
});

/** Decodes the turns of one request. */
class ContentsReader {
  /** Opaque strings of other protocols already decoded; clients send them once with the thought and once with the call. */
  private readonly openedStates = new Set<string>();

  constructor(private readonly incoming: IncomingRequest) {}

  /** Decodes the system instruction, if any: text or a content, whose role is ignored. */
  readInstruction(request: ProtoFields): Turn[] {
    const at = request.path("systemInstruction");
    const text = request.any("systemInstruction");
    if (typeof text === "string") return [{ role: "system", at, parts: [{ kind: "text", at, text }] }];
    const content = request.object("systemInstruction");
    return content ? [{ role: "system", at, parts: this.readParts(content, new CallMatcher(new Set())) }] : [];
  }

  /** Decodes all other turns, in order. */
  *readContents(request: ProtoFields): Steps<Turn[]> {
    const contents =
      request.objects("contents") ?? request.refuse("contents", "is missing.", "It is a list of {role, parts}.");
    const calls = new CallMatcher(collectIds(contents, "functionCall"), collectIds(contents, "functionResponse"));
    const turns: Turn[] = [];
    for (const [n, content] of contents.entries()) {
      if (Steps.endsStep(n)) yield;
      const name = content.text("role");
      const role = ownProperty(ROLES, name || "user") ?? content.refuse("role", "must be user or model.");
      if (USER_ROLES.has(name)) content.ignore("role", "cosmetic");
      calls.beginTurn(role);
      const last = turns.at(-1);
      // Chats of the vendor's SDK keep each chunk of a stream as a content: pieces of one text or one thought are joined.
      if (role === "assistant" && last?.role === role) this.readParts(content, calls, last.parts);
      else turns.push({ role, at: content.ownPath, parts: this.readParts(content, calls) });
    }
    const placed = turns.flatMap(splitByRole);
    const last = contents.at(-1);
    if (last && placed.at(-1)?.role === "assistant") request.uses.push({ feature: "prefill", path: last.ownPath });
    return placed;
  }

  /** Decodes the parts of a content. @param turnParts the preceding parts of the same turn */
  private readParts(content: ProtoFields, calls: CallMatcher, turnParts: Part[] = []): Part[] {
    const { uses } = content;
    const parts = content.objects("parts") ?? [];
    const continuesTurn = turnParts.length > 0;
    content.declareUnread("other", UNREAD_FEATURES);
    for (const part of parts) {
      const usesBefore = uses.length;
      for (const decoded of this.readPart(part, calls))
        if (!mergeThought(turnParts, decoded, uses, usesBefore) && !(continuesTurn && mergeText(turnParts, decoded)))
          turnParts.push(decoded);
    }
    return turnParts;
  }

  /** Decodes one part. Opaque state of another protocol on it becomes a reasoning part before it. */
  private readPart(part: ProtoFields, calls: CallMatcher): Part[] {
    checkSingleContent(part);
    const kind = TRANSLATED_MEMBERS.find((name) => part.has(name));
    const member =
      kind ?? Object.keys(part.members).find((name) => !SHARED_MEMBERS.has(name) && part.members[name] !== null);
    if (member !== undefined && kind === undefined) return [foreignPart(part, member)];
    const thought = part.flag("thought") === true;
    if (thought && (kind === "inlineData" || kind === "fileData")) return [foreignPart(part, "thought")];
    const opaque = this.openSignature(part);
    if (thought && (kind === "text" || kind === undefined)) return [this.readThought(part, opaque)];
    part.ignore("thought", "cosmetic");
    const isForeign = opaque && opaque.protocol !== GEMINI && (opaque.on === undefined || opaque.on === "reasoning");
    const partState = opaque && !isForeign ? withoutPlace(opaque) : undefined;
    const reasoning = isForeign ? this.foreignReasoning(part, opaque) : [];
    const known = readKnownPart(kind ?? "text", part, partState, calls);
    // An empty text that is there only for the state: some vendors refuse empty texts.
    return isForeign && known.kind === "text" && known.text === "" ? reasoning : [...reasoning, known];
  }

  private openSignature(part: ProtoFields): Opaque | undefined {
    const text = part.text("thoughtSignature");
    if (text !== undefined && text !== "" && !DUMMY_SIGNATURES.has(text))
      return this.incoming.open(text, "thoughtSignature");
    part.ignore("thoughtSignature", "cosmetic");
    return undefined;
  }

  /** Returns state of another protocol, for which this part was the only place. */
  private foreignReasoning(part: ProtoFields, opaque: Opaque): Part[] {
    if (this.openedStates.has(opaque.data)) return [];
    this.openedStates.add(opaque.data);
    return [{ kind: "reasoning", at: part.path("thoughtSignature"), text: "", opaque }];
  }

  private readThought(part: ProtoFields, opaque: Opaque | undefined): Part {
    part.declareSelf("reasoning_text");
    if (opaque) this.openedStates.add(opaque.data);
    const text = part.text("text");
    part.declareUnread("other", UNREAD_FEATURES);
    return { kind: "reasoning", at: part.ownPath, ...dropUndefined({ text, opaque }) };
  }
}

/** Whose parts of these kinds are. The vendor does not mind their content's role, and some clients name the other. [S: Bifrost] */
const ROLES_BY_KIND: Readonly<Partial<Record<Part["kind"], Turn["role"]>>> = {
  reasoning: "assistant",
  tool_call: "assistant",
  tool_result: "user",
};

/** Splits a turn that has parts of the other role: other protocols have no place for these in it. */
function splitByRole(turn: Turn): Turn[] {
  const roleOf = ({ kind }: Part) => ROLES_BY_KIND[kind] ?? turn.role;
  if (turn.parts.every((part) => roleOf(part) === turn.role)) return [turn];
  const turns: Turn[] = [];
  for (const part of turn.parts) {
    const role = roleOf(part);
    const last = turns.at(-1);
    if (last?.role === role) last.parts.push(part);
    else turns.push({ ...turn, role, parts: [part] });
  }
  return turns;
}

/** Removes `on`: the state is now on the part that `on` names. */
const withoutPlace = ({ on: _, textBehind: __, ...opaque }: Opaque): Opaque => opaque;

/**
 * Joins a thought that arrives in pieces, the last of which has its signature. Returns true for a part merged into the one
 * before.
 * @param usesBefore number of declared uses before the part was decoded
 */
function mergeThought(turnParts: Part[], part: Part, uses: FeatureUse[], usesBefore: number): boolean {
  const last = turnParts.at(-1);
  if (part.kind !== "reasoning" || last?.kind !== "reasoning" || last.opaque) return false;
  // State on the text that follows is in its place now.
  const opaque = part.opaque?.on === "reasoning" ? withoutPlace(part.opaque) : part.opaque;
  const text = `${last.text ?? ""}${part.text ?? ""}`;
  turnParts[turnParts.length - 1] = { ...part, at: last.at, text, ...dropUndefined({ opaque }) };
  for (const use of uses.splice(usesBefore))
    if (use.feature !== "reasoning_text" || use.path !== part.at) uses.push(use);
  return true;
}

/** Joins a text that arrives in pieces. Returns true for a part merged into the one before. */
function mergeText(turnParts: Part[], part: Part): boolean {
  const last = turnParts.at(-1);
  if (part.kind !== "text" || last?.kind !== "text" || part.opaque || last.opaque) return false;
  turnParts[turnParts.length - 1] = { ...last, text: last.text + part.text };
  return true;
}

/** Refuses a part with two contents: it is ambiguous. */
function checkSingleContent(part: ProtoFields): void {
  if (Object.keys(part.members).length < 2) return;
  const members = CONTENT_MEMBERS.filter((name) => part.has(name));
  if (members.length > 1)
    part.refuseSelf(`holds ${members.join(" and ")}; a part is one of them.`, "Send a separate part for each.");
}

/** Decodes a part that only this protocol understands, like code that the vendor ran. */
function foreignPart(part: ProtoFields, name: string): Part {
  part.declareSelf("foreign_block");
  const tools = toolNamesOf(part, name);
  return { kind: "foreign", at: part.ownPath, protocol: GEMINI, name, json: part.members, ...dropUndefined({ tools }) };
}

/** Returns the tool members that ran the code, or that a server's call is of, in both spellings. [S: ToolType] */
function toolNamesOf(part: ProtoFields, name: string): readonly string[] | undefined {
  if (/^(?:executable|code)/.test(name)) return bothSpellings(["codeExecution"]);
  const call = asObject(part.members[name]) ?? {};
  const type = asText(call[spellingIn(call, "toolType")])?.toLowerCase();
  return type === undefined
    ? undefined
    : bothSpellings([type.replaceAll(/_./g, (pair) => pair.slice(1).toUpperCase())]);
}

function readKnownPart(
  kind: (typeof TRANSLATED_MEMBERS)[number],
  part: ProtoFields,
  opaque: Opaque | undefined,
  calls: CallMatcher,
): Part {
  switch (kind) {
    case "functionCall":
      return readCall(part, opaque, calls);
    case "functionResponse":
      return readResult(part, calls);
    case "text": {
      // A part without text only has a signature.
      const text = part.text("text") ?? "";
      part.declareUnread("other", UNREAD_FEATURES);
      return { kind: "text", at: part.ownPath, text, ...dropUndefined({ opaque }) };
    }
    default:
      return readMedia(part);
  }
}

function readCall(part: ProtoFields, opaque: Opaque | undefined, calls: CallMatcher): ToolCall {
  const call = part.object("functionCall") as ProtoFields;
  const name = call.text("name") ?? call.refuse("name", "is missing.");
  const clientId = call.text("id") || undefined;
  const id = calls.addCall(name, clientId);
  if (id !== clientId) call.ignore("id", "cosmetic");
  const args = call.raw("args")?.text ?? "";
  call.declareUnread("other", UNREAD_FEATURES);
  part.declareUnread("other", UNREAD_FEATURES);
  return { kind: "tool_call", at: part.ownPath, id, name, arguments: args, ...dropUndefined({ opaque }) };
}

/** Members of `response` for a result and for a failure, by the vendor's documents. [S] */
const RESULT_MEMBERS: ReadonlySet<string> = new Set(["output", "error"]);

/** Decodes a function's result. */
function readResult(part: ProtoFields, calls: CallMatcher): ToolResult {
  const result = part.object("functionResponse") as ProtoFields;
  const name = result.text("name") ?? result.refuse("name", "is missing.");
  const id = result.text("id") || undefined;
  const callId = calls.matchResult(name, id) ?? refuseOrphan(result, name);
  if (callId !== id) result.ignore("id", "cosmetic");
  // A signature on a result has no place in other protocols.
  part.ignore("thoughtSignature", "cosmetic");
  const { key, value } = unwrapResponse(result.raw("response"));
  const media = resultMedia(result);
  const text = typeof value === "string" ? value : value?.text;
  const json = media.length === 0 && value instanceof RawJson && value.text.startsWith("{") ? value.text : undefined;
  const texts: Part[] = text === undefined || json !== undefined ? [] : [{ kind: "text", at: result.ownPath, text }];
  const isError = key === "error" ? true : undefined;
  if (isError) result.declare("response", "tool_result_error");
  result.declareUnread("other", UNREAD_FEATURES);
  part.declareUnread("other", UNREAD_FEATURES);
  return {
    kind: "tool_result",
    at: part.ownPath,
    callId,
    name,
    parts: [...texts, ...media],
    ...dropUndefined({ json, isError }),
  };
}

const refuseOrphan = (result: ProtoFields, name: string): never =>
  result.refuseSelf(
    `is a result of ${name}, for which there is no call before it.`,
    "Each functionResponse needs a functionCall of the same id, or name, in the turn of the model before it.",
  );

/** Returns the result itself: the value of `output` or `error` where it is the only member, otherwise the whole object. */
function unwrapResponse(response: RawJson | undefined): { key?: "output" | "error"; value?: string | RawJson } {
  if (!response) return {};
  const members = Object.entries(parseExact(response.text, RESULT_MEMBERS) as object);
  const [name, value] = members[0] ?? [];
  if (members.length !== 1 || (name !== "output" && name !== "error")) return { value: response };
  if (typeof value === "string" || value instanceof RawJson) return { key: name, value };
  return { key: name, value: new RawJson(JSON.stringify(value)) };
}

/** Decodes images and files beside the result. */
function resultMedia(result: ProtoFields): Part[] {
  return (result.objects("parts") ?? []).map((part) => {
    if (!part.has("inlineData") && !part.has("fileData")) part.refuseSelf("must hold inlineData or fileData.");
    checkSingleContent(part);
    part.declareSelf("tool_result_media");
    return readMedia(part);
  });
}

/** Decodes bytes or a file, in a part or in a function's result. */
function readMedia(part: ProtoFields): Media {
  const inline = part.object("inlineData");
  const blob = inline ?? (part.object("fileData") as ProtoFields);
  const mime = blob.text("mimeType");
  const filename = blob.text("displayName");
  const source = inline ? readBytes(inline) : readFileUri(blob);
  const media = mime === undefined && "url" in source && VIDEO_URL.test(source.url) ? "video" : mediaKind(mime);
  declareMedia(media, source, part);
  const detail = readDetail(part);
  // A signature on media has no place in other protocols.
  part.ignore("thoughtSignature", "cosmetic");
  blob.declareUnread("other", UNREAD_FEATURES);
  part.declareUnread("other", UNREAD_FEATURES);
  return { kind: "media", at: part.ownPath, media, source, ...dropUndefined({ mime, filename }), ...detail };
}

function readBytes(blob: ProtoFields): MediaSource {
  return { base64: standardBase64(blob.text("data") ?? blob.refuse("data", "is missing.")) };
}

/** Returns base64 in the standard alphabet, padded: proto JSON also accepts the URL alphabet. [F] */
function standardBase64(data: string): string {
  if (!/[-_]/.test(data) && data.length % 4 === 0) return data;
  const standard = data
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .replace(/(?<!=)=+$/, "");
  return standard.padEnd(Math.ceil(standard.length / 4) * 4, "=");
}

/** URLs in the vendor's own stores, which nobody else can open. */
const VENDOR_FILE_URL = /^gs:|^https?:\/\/generativelanguage\.googleapis\.com\/|^(?!https?:)/i;

/** URLs of videos, which the vendor accepts without a type. [D] */
const VIDEO_URL = /^https?:\/\/(?:(?:www\.|m\.)?youtube\.com|youtu\.be)\//i;

function readFileUri(file: ProtoFields): MediaSource {
  const uri = file.text("fileUri") ?? file.refuse("fileUri", "is missing.");
  return VENDOR_FILE_URL.test(uri) ? { id: uri, protocol: GEMINI } : { url: uri };
}

function declareMedia(media: Media["media"], source: MediaSource, part: ProtoFields): void {
  if ("id" in source) part.declareSelf("file_id");
  if (media === "audio" || media === "video") part.declareSelf(media);
  else if (!("id" in source)) part.declareSelf(`${media}_${"url" in source ? "url" : "base64"}`);
}

function readDetail(part: ProtoFields): Pick<Media, "detail" | "detailAt"> {
  const resolution = part.object("mediaResolution");
  if (!resolution) return {};
  resolution.declareSelf("media_detail");
  const detail = detailFromLevel(resolution.enumValue("level", "cosmetic"));
  resolution.declareUnread();
  return detail === undefined ? {} : { detail, detailAt: resolution.ownPath };
}

/** Returns the ids that the client sent on its calls or their results. */
function collectIds(contents: readonly ProtoFields[], kind: "functionCall" | "functionResponse"): Set<string> {
  const snakeCase = kind === "functionCall" ? "function_call" : "function_response";
  const ids = new Set<string>();
  for (const content of contents) {
    const { parts } = content.members;
    for (const part of Array.isArray(parts) ? parts : [parts]) {
      const members = part instanceof RawJson ? undefined : asObject(part);
      const object = asObject(members?.[kind] ?? members?.[snakeCase]);
      if (typeof object?.["id"] === "string") ids.add(object["id"]);
    }
  }
  return ids;
}

/** A call that may wait for its result. */
interface PendingCall {
  id: string;
  answered: boolean;
}

/** Calls under the same id or name, by the step they were made in; the latest step last. */
class CallQueues {
  private readonly byKey = new Map<string, { step: number; calls: PendingCall[]; next: number }[]>();

  add(key: string, call: PendingCall, step: number): void {
    const steps = this.byKey.getOrInsertComputed(key, () => []);
    if (steps.at(-1)?.step !== step) steps.push({ step, calls: [], next: 0 });
    steps.at(-1)?.calls.push(call);
  }

  /** Returns the first call without a result, of the latest step that has one. */
  take(key: string): PendingCall | undefined {
    const steps = this.byKey.get(key) ?? [];
    for (;;) {
      const step = steps.at(-1);
      if (!step) return undefined;
      const call = step.calls[step.next++];
      if (call && !call.answered) return call;
      if (!call) steps.pop();
    }
  }
}

/**
 * Pairs functions' results with their calls. Most calls of this protocol come without an id, some with another call's id: such
 * a call gets one of its own, the same whenever the conversation is sent again. Its result is found by id, then by name in the
 * order of the calls, those last whose id another result names.
 */
export class CallMatcher {
  private readonly byId = new CallQueues();
  private readonly byName = new CallQueues();
  private readonly namedById = new CallQueues();
  private step = 0;
  private readonly usedIds = new Set<string>();
  private generated = 0;
  private lastRole: Turn["role"] | undefined;

  /**
   * @param ids the client's ids of calls, none of which is given to another call
   * @param resultIds the client's ids of results
   */
  constructor(
    private readonly ids: ReadonlySet<string>,
    private readonly resultIds: ReadonlySet<string> = new Set(),
  ) {}

  beginTurn(role: Turn["role"]): void {
    if (role === "assistant" && this.lastRole !== "assistant") this.step++;
    this.lastRole = role;
  }

  /** Records a call and returns its id. */
  addCall(name: string, clientId: string | undefined): string {
    const id = clientId === undefined || this.usedIds.has(clientId) ? this.generateId() : clientId;
    this.usedIds.add(id);
    const call = { id, answered: false };
    if (clientId !== undefined) this.byId.add(clientId, call, this.step);
    const hasResult = clientId !== undefined && this.resultIds.has(clientId);
    (hasResult ? this.namedById : this.byName).add(name, call, this.step);
    return id;
  }

  /** Returns the id of a result's call; undefined where no earlier call waits for one. */
  matchResult(name: string, clientId: string | undefined): string | undefined {
    const named = clientId === undefined ? undefined : this.byId.take(clientId);
    const call = named ?? this.byName.take(name) ?? this.namedById.take(name);
    if (call) call.answered = true;
    return call?.id;
  }

  private generateId(): string {
    let id: string;
    do id = `call_${this.generated++}`;
    while (this.ids.has(id));
    return id;
  }
}
