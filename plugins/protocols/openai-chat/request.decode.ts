import {
  asList,
  asObject,
  asText,
  type Conversation,
  type FeatureUse,
  type Fields,
  type IncomingRequest,
  invalidField,
  type Media,
  type Opaque,
  objectFields,
  type Part,
  type Reasoning,
  readSettings,
  requestFields,
  Steps,
  TextKey,
  type ToolCall,
  type Turn,
  writeJson,
} from "model-gateway/protocol";
import { imageOf, partsOf } from "./request.decode.parts.ts";
import {
  type DetailReasoning,
  declareUnreadDetails,
  detailReasonings,
  type MessageReasoning,
  placeReasoning,
} from "./request.decode.reasoning.ts";
import { functionsOf, toolsOf, webSearchOf } from "./request.decode.tools.ts";
import { CHAT_TOOL_CHOICE } from "./support.choice.ts";
import { ANSWER_SETTINGS, CHAT_SETTINGS } from "./support.ts";
import {
  createOpaque,
  ENVELOPE_FORMAT,
  LEGACY_CALL,
  parseUrlCitation,
  readPartCacheMark,
  reasoningKey,
} from "./wire.ts";

/** Decodes a Chat request. @throws GatewayError `invalid_field` with the client's own path. */
export function* decodeRequest(incoming: IncomingRequest): Steps<Conversation> {
  const uses: FeatureUse[] = [];
  const body = requestFields(incoming, uses);
  yield;
  const messages = body.list("messages") ?? body.refuse("messages", "must be a list.");
  body.text("model");
  body.flag("stream");
  body.ignore("stream_options", "cosmetic");
  body.ignore("usage", "cosmetic");
  const conversation: Conversation = {
    protocol: "openai-chat",
    task: incoming.task,
    stream: incoming.streaming,
    turns: yield* turnsOf(messages, incoming, uses),
    turnsAt: "messages",
    tools: [],
    uses,
  };
  readSettings(CHAT_SETTINGS, body, conversation);
  readTools(body, conversation);
  readSettings(CHAT_TOOL_CHOICE, body, conversation);
  readSettings(ANSWER_SETTINGS, body, conversation);
  body.ignore("audio", "audio_out");
  body.ignore("prediction", "prediction");
  body.declareUnread();
  return conversation;
}

function readTools(body: Fields, conversation: Conversation): void {
  const tools = body.list("tools");
  if (tools) conversation.tools.push(...toolsOf(tools, body.uses));
  const functions = body.list("functions");
  if (functions) conversation.tools.push(...functionsOf(functions, body.uses));
  const search = body.object("web_search_options");
  if (search) conversation.tools.push(webSearchOf(search));
}

/** Decodes `messages`, a turn for each; a tool's result is the user's. @throws GatewayError with the message's path. */
function* turnsOf(list: readonly unknown[], incoming: IncomingRequest, uses: FeatureUse[]): Steps<Turn[]> {
  const turns: Turn[] = [];
  const reader = new ChatMessageReader(incoming, uses, new AnswerPlace(turns));
  for (const [n, value] of list.entries()) {
    turns.push(reader.turn(objectFields(value, `messages.${n}`, uses)));
    if (Steps.endsStep(n)) yield;
  }
  const isSystem = (turn: Turn) => turn.role === "system" || turn.role === "developer";
  const first = turns.findIndex((turn) => !isSystem(turn));
  for (const turn of first < 0 ? [] : turns.slice(first))
    if (isSystem(turn)) uses.push({ feature: "system_in_place", path: turn.at });
  const last = turns.at(-1);
  if (last?.role === "assistant" && !last.parts.some((part) => part.kind === "tool_call"))
    uses.push({ feature: "prefill", path: last.at });
  return turns;
}

/** The place of the answer that follows the turns so far, for state that is kept under a call's id. */
class AnswerPlace {
  private count = -1;
  private digest = "";

  constructor(private readonly turns: readonly Turn[]) {}

  /** The same for all calls of an answer. */
  get key(): string {
    const { length } = this.turns;
    if (this.count !== length) this.digest = TextKey.ofPlace(this.turns);
    this.count = length;
    return this.digest;
  }
}

class ChatMessageReader {
  private readonly calls: ChatCallReader;

  constructor(
    private readonly incoming: IncomingRequest,
    private readonly uses: FeatureUse[],
    private readonly place: AnswerPlace,
  ) {
    this.calls = new ChatCallReader(incoming, uses, place);
  }

  turn(message: Fields): Turn {
    const role = message.text("role");
    switch (role) {
      case "system":
      case "developer":
      case "user":
        return toTurn(message, role, contentOf(message), message.text("name"));
      case "assistant":
        return toTurn(message, role, this.assistant(message), message.text("name"));
      case "tool":
      case "function":
        return toTurn(message, "user", [this.result(message, role)]);
      default: {
        const roles = "system, developer, user, assistant, tool or function";
        return message.refuse("role", `must be ${roles}.`);
      }
    }
  }

  private result(message: Fields, role: "tool" | "function"): Part {
    const id = role === "tool" ? message.text("tool_call_id") : undefined;
    if (role === "tool" && id === undefined) return message.refuse("tool_call_id", "must name the call it answers.");
    const name = message.text("name");
    const callId = this.calls.answeredId(id, name, message.ownPath);
    const parts = contentOf(message);
    const media = parts.find((part) => part.kind === "media");
    if (media) this.uses.push({ feature: "tool_result_media", path: media.at });
    const cache = parts.findLast((part) => part.cache)?.cache;
    // The mark is on the result, not on its text as well.
    for (const part of parts) delete part.cache;
    return {
      kind: "tool_result",
      callId,
      parts,
      at: message.ownPath,
      ...(name === undefined ? {} : { name }),
      ...(this.calls.isCustom(callId) ? { custom: true } : {}),
      ...(cache ? { cache } : {}),
    };
  }

  private assistant(message: Fields): Part[] {
    const { before, between, after } = this.readReasoning(message);
    const texts = textPartsOf(message);
    const images = this.images(message, [...before, ...after]);
    const idsWithState = callsWithState([...before, ...after]);
    const calls = (message.list("tool_calls") ?? []).map((value, n) =>
      this.calls.call(value, `${message.path("tool_calls")}.${n}`, idsWithState),
    );
    const legacy = message.object(LEGACY_CALL);
    if (legacy) calls.push(this.calls.legacy(legacy));
    message.ignore("audio", "foreign_block");
    const placed = placeReasoning(between, texts, calls);
    return [...before, ...placed.parts, ...placed.texts, ...after, ...images, ...placed.calls];
  }

  /** Decodes images of the model in OpenRouter's format, which the encoder uses too. @param states the reasoning beside them */
  private images(message: Fields, states: readonly Reasoning[]): Media[] {
    const list = message.members["images"];
    if (!Array.isArray(list) || !list.every((entry) => asObject(entry)?.["image_url"])) return [];
    const hasMediaState = states.some(({ opaque }) => typeof opaque?.on === "object" && "media" in opaque.on);
    return (message.objects("images") ?? []).map((entry) => {
      const image = imageOf(entry);
      for (const name of ["type", "index"]) entry.ignore(name);
      entry.declareUnread();
      const { source } = image;
      if (hasMediaState || !("base64" in source)) return image;
      const opaque = this.incoming.recall({ toString: () => TextKey.ofMedia(source.base64) });
      return opaque ? { ...image, opaque } : image;
    });
  }

  /**
   * Decodes reasoning in any of three dialects: `reasoning_details` (OpenRouter's, which the encoder uses too) before
   * `reasoning_content` (DeepSeek's) before `reasoning` (Groq's); the latter two repeat the former's text.
   */
  private readReasoning(message: Fields): MessageReasoning {
    const sentDetails = asList(message.members["reasoning_details"]);
    if (Array.isArray(message.members["reasoning_details"])) message.ignore("reasoning_details");
    const recalled = sentDetails.length === 0 ? this.recalledDetails(message) : [];
    const entries = recalled.length > 0 ? recalled : sentDetails;
    const details = recalled.length > 0 ? this.readRecalled(message, recalled) : this.details(message, sentDetails);
    const member = (["reasoning_content", "reasoning"] as const).find((name) => asText(message.members[name]));
    const text = member && asText(message.members[member]);
    const before = details.filter(({ place }) => place === undefined).map(({ reasoning }) => reasoning);
    if (member && details.length === 0) before.push({ kind: "reasoning", text: text ?? "", at: message.path(member) });
    const first = details[0]?.reasoning ?? before[0];
    if (first && recalled.length === 0) this.uses.push({ feature: "reasoning_text", path: first.at });
    const single = details.length === 1 ? details[0]?.reasoning : undefined;
    // A client that keeps no texts in the entries sends the text of a single entry beside them.
    const belongsToEntry =
      text && single?.text === undefined && !single?.summary && !single?.opaque?.on && !single?.redacted;
    const detailsText = details.map(({ reasoning }) => reasoning.text ?? reasoning.summary?.join("") ?? "").join("");
    // Beside entries of the gateway it is the same text, of which a client may have kept only a part.
    const hasEnvelope = entries.some((entry) => asObject(entry)?.["format"] === ENVELOPE_FORMAT);
    if (member && (details.length === 0 || detailsText === text || hasEnvelope)) message.any(member);
    else if (member) message.ignore(member, belongsToEntry ? undefined : "other");
    if (belongsToEntry && single) single.text = text;
    const state = messageState(message);
    if (state) before.push({ kind: "reasoning", redacted: true, opaque: state, at: message.ownPath });
    const between = details.flatMap(({ reasoning, place }) =>
      typeof place === "object" ? [{ reasoning, place }] : [],
    );
    return { before, between, after: details.filter(({ place }) => place === "end").map(({ reasoning }) => reasoning) };
  }

  /** Returns the stored `reasoning_details` of a message whose client sent none back. */
  private recalledDetails(message: Fields): readonly unknown[] {
    const id = asText(asObject(asList(message.members["tool_calls"])[0])?.["id"]);
    const state = id ? this.incoming.recall({ toString: () => `${reasoningKey(id)} ${this.place.key}` }) : undefined;
    return state ? asList(JSON.parse(state.data)) : [];
  }

  private readRecalled(message: Fields, list: readonly unknown[]): DetailReasoning[] {
    try {
      return detailReasonings(list, message.ownPath, this.incoming).map(
        ({ reasoning: { opaque, ...rest }, place }) => ({
          reasoning: { ...rest, at: message.ownPath, ...(opaque ? { opaque: { ...opaque, recalled: true } } : {}) },
          place,
        }),
      );
    } catch {
      // The key has a new owner, who cannot open the envelope.
      return [];
    }
  }

  /** Decodes the entries of `reasoning_details`. */
  private details(message: Fields, list: readonly unknown[]): DetailReasoning[] {
    const path = message.path("reasoning_details");
    declareUnreadDetails(list, path, this.uses);
    return detailReasonings(list, path, this.incoming);
  }
}

/** Returns a message as a turn, and declares its unread members. */
function toTurn(message: Fields, role: Turn["role"], parts: Part[], name?: string): Turn {
  if (name !== undefined) message.declare("name", "name");
  message.declareUnread();
  return { role, parts, at: message.ownPath, ...(name === undefined ? {} : { name }) };
}

function contentOf(message: Fields): Part[] {
  const parts = partsOf(message.any("content"), message.path("content"), message.uses);
  // Vendors that adopted Anthropic's mark also have it on the message.
  const { cache } = readPartCacheMark(message);
  const last = parts.at(-1);
  if (cache && last) last.cache = cache;
  return parts;
}

/** Decodes an assistant's text and refusal, with citations. */
function textPartsOf(message: Fields): Part[] {
  const parts = contentOf(message);
  const refusal = message.text("refusal");
  if (refusal !== undefined) parts.push({ kind: "refusal", text: refusal, at: message.path("refusal") });
  const citations = asList(message.members["annotations"]).flatMap((annotation) => parseUrlCitation(annotation) ?? []);
  message.ignore("annotations", citations.length > 0 ? "citations" : undefined);
  const texts = parts.filter((part) => part.kind === "text");
  if (citations.length > 0 && texts.length === 1) (texts[0] as Part & { kind: "text" }).citations = citations;
  return parts;
}

/** The separator after which LiteLLM packs Gemini's signature into a call's id. */
const PACKED_SIGNATURE = "__thought__";

function unpackId(id: string): { id: string; signature?: string } {
  const index = id.indexOf(PACKED_SIGNATURE);
  return index < 0 ? { id } : { id: id.slice(0, index), signature: id.slice(index + PACKED_SIGNATURE.length) };
}

/** Calls without a result, oldest first; each is taken once, from any of its queues. */
class UnansweredCalls {
  private readonly calls: { id: string; answered: boolean }[] = [];
  private next = 0;

  add(call: { id: string; answered: boolean }): void {
    this.calls.push(call);
  }

  /** Returns the id of the first call that no queue has returned yet. */
  answerNext(): string | undefined {
    while (this.calls[this.next]?.answered) this.next++;
    const call = this.calls[this.next];
    if (call) call.answered = true;
    return call?.id;
  }
}

/**
 * Decodes the tool calls of a history, and matches results: those without an id (the older functions, and vendors without ids)
 * belong to the calls without one, by name and order.
 */
class ChatCallReader {
  /** Calls without an id from the client: all, and those of each name. */
  private readonly unanswered = new UnansweredCalls();
  private readonly byName = new Map<string, UnansweredCalls>();
  private readonly custom = new Set<string>();

  constructor(
    private readonly incoming: IncomingRequest,
    private readonly uses: FeatureUse[],
    private readonly place: AnswerPlace,
  ) {}

  /** Returns the id of a result's call. */
  answeredId(clientId: string | undefined, name: string | undefined, at: string): string {
    if (clientId) return unpackId(clientId).id;
    const id = (name === undefined ? this.unanswered : this.byName.get(name))?.answerNext();
    if (id === undefined)
      throw invalidField(at, `${at} is the result of a call that the conversation does not contain.`);
    return id;
  }

  /** Reports whether the call with this id was of a free-text tool. */
  isCustom(id: string): boolean {
    return this.custom.has(id);
  }

  /** Decodes an entry of `tool_calls`. @param idsWithState ids of calls whose opaque state is in another place. */
  call(value: unknown, at: string, idsWithState: ReadonlySet<string>): ToolCall {
    const entry = objectFields(value, at, this.uses);
    // Some vendors' type is empty, or absent.
    const custom = entry.text("type") === "custom";
    const inner = entry.object(custom ? "custom" : "function") ?? entry.refuse("function", "must be an object.");
    // Recorded: the index of a streamed call, sent back.
    entry.ignore("index");
    const clientId = entry.text("id");
    const { id, signature } = unpackId(clientId || `call_${at.replaceAll(".", "_")}`);
    const name = inner.required("name");
    if (!clientId) this.addUnanswered(id, name);
    if (custom) this.custom.add(id);
    const key = { toString: () => `${id} ${this.place.key}` };
    const opaque = this.stateOn(entry, signature) ?? (idsWithState.has(id) ? undefined : this.incoming.recall(key));
    const text = inner.text(custom ? "input" : "arguments") ?? "";
    entry.declareUnread();
    return {
      kind: "tool_call",
      id,
      name,
      arguments: text,
      at,
      ...(custom ? { custom: true } : {}),
      ...(opaque ? { opaque } : {}),
    };
  }

  /** Decodes the older `function_call` of a message. */
  legacy(inner: Fields): ToolCall {
    const id = `call_${inner.ownPath.replaceAll(".", "_")}`;
    const name = inner.required("name");
    this.addUnanswered(id, name);
    return { kind: "tool_call", id, name, arguments: inner.text("arguments") ?? "", at: inner.ownPath };
  }

  /** Records a call without an id, for its result. */
  private addUnanswered(id: string, name: string): void {
    const call = { id, answered: false };
    this.unanswered.add(call);
    this.byName.getOrInsertComputed(name, () => new UnansweredCalls()).add(call);
  }

  /**
   * Returns opaque state on the call itself: Google's compatible API has its signature there, and so do we. Other members
   * beside a signature are specific to their vendor.
   */
  private stateOn(entry: Fields, packed: string | undefined): Opaque | undefined {
    const { extra_content: extraContent } = entry.members;
    const signature = asText(asObject(asObject(extraContent)?.["google"])?.["thought_signature"]);
    if (signature === undefined) {
      if (packed === undefined) return undefined;
      if (this.incoming.isEnvelope(packed)) return this.incoming.open(packed, "thoughtSignature");
      return { protocol: "gemini", kind: "thoughtSignature", data: packed };
    }
    entry.object("extra_content")?.object("google")?.any("thought_signature");
    if (this.incoming.isEnvelope(signature)) return this.incoming.open(signature, "thoughtSignature");
    return createOpaque("extra_content", writeJson(extraContent));
  }
}

/** Returns the calls whose opaque state is in a message's reasoning. */
const callsWithState = (parts: readonly Reasoning[]): Set<string> =>
  new Set(
    parts.flatMap(({ opaque }) => (typeof opaque?.on === "object" && "call" in opaque.on ? [opaque.on.call] : [])),
  );

/** Returns opaque state on a message itself, as in Google's compatible API. */
function messageState(message: Fields): Opaque | undefined {
  const { extra_content, thought_signature } = message.members;
  if (!asObject(extra_content) && typeof thought_signature !== "string") return undefined;
  for (const name of ["extra_content", "thought_signature"]) message.any(name);
  return createOpaque("message", writeJson({ extra_content, thought_signature }));
}
