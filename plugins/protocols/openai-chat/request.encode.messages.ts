import {
  asObject,
  asText,
  type Conversation,
  type EncodeContext,
  type JsonObject,
  joined,
  type Media,
  type Opaque,
  type Part,
  parseExact,
  type Reasoning,
  safeId,
  type ToolCall,
  type ToolResult,
  type Turn,
} from "model-gateway/protocol";
import { failedText } from "../openai/request.encode.ts";
import { saidIn } from "./reasoning.ts";
import { LEGACY } from "./request.calls.ts";
import { nameOf } from "./request.encode.tools.ts";
import { marked, mediaPart, samePart, textPart } from "./request.media.ts";
import type { MessageNative, PieceNative } from "./request.native.ts";

/** The messages for a conversation's turns. */
export function messagesOf(conversation: Conversation, terms: EncodeContext): unknown[] {
  const writing = new Writing(terms);
  if (conversation.native) for (const turn of conversation.turns) writing.same(turn);
  else for (const run of runsOf(conversation.turns)) writing.run(run);
  return writing.messages;
}

/** Turns of an assistant in a row are written together, as are those of a user. */
function runsOf(turns: readonly Turn[]): Turn[][] {
  const runs: Turn[][] = [];
  for (const turn of turns) {
    const last = runs.at(-1);
    const merges = turn.role === "user" || turn.role === "assistant";
    if (merges && last?.[0]?.role === turn.role) last.push(turn);
    else runs.push([turn]);
  }
  return runs;
}

class Writing {
  readonly messages: unknown[] = [];

  /** Media of results so far. */
  private attached = 0;

  constructor(private readonly terms: EncodeContext) {}

  /** One message for one turn, as it was. */
  same(turn: Turn): void {
    const native = turn.native as MessageNative | undefined;
    const [first] = turn.parts;
    if (!native) this.messages.push(...turn.parts.flatMap((part) => (part.kind === "foreign" ? [part.json] : [])));
    else if (turn.role === "assistant") this.assistant(turn);
    else if (first?.kind === "tool_result") this.messages.push(this.sameResult(first, turn, native));
    else this.plain(turn, turn.parts);
  }

  /**
   * Turns of an assistant are one message; those of others are one each. Results first: they must follow their call
   * without anything between.
   */
  run(turns: readonly Turn[]): void {
    if (turns[0]?.role === "assistant") {
      for (const turn of joined(turns)) this.assistant(turn);
      return;
    }
    const attached: JsonObject[] = [];
    for (const turn of turns)
      for (const part of turn.parts) if (part.kind === "tool_result") this.result(part, attached);
    if (attached.length > 0) this.messages.push({ role: "user", content: attached });
    for (const turn of turns) {
      const parts = turn.parts.filter((part) => part.kind !== "tool_result");
      if (parts.length > 0) this.plain(turn, parts);
    }
  }

  private plain(turn: Turn, parts: readonly Part[]): void {
    const native = turn.native as MessageNative | undefined;
    const content = native ? this.sameContent(parts) : this.content(parts, turn.role !== "user");
    if (content.length === 0 && !native) return;
    this.messages.push({
      role: turn.role,
      ...named(turn),
      ...bare(content, native),
      ...native?.rest,
    });
  }

  /** Content parts. @param textOnly the role takes nothing but text. */
  private content(parts: readonly Part[], textOnly: boolean): (JsonObject | string)[] {
    return parts.flatMap((part) => {
      switch (part.kind) {
        case "text":
          return [textPart(part)];
        case "media":
          if (textOnly) this.terms.refuse(part.at, "Chat Completions takes only text here");
          return [mediaPart(part, this.terms)];
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
    const native = turn.native as MessageNative | undefined;
    const calls = turn.parts.filter((part) => part.kind === "tool_call");
    const refusals = turn.parts.filter((part) => part.kind === "refusal");
    const content = native ? this.sameContent(turn.parts) : this.content(turn.parts, true);
    if (!native) this.lastWords(turn.parts);
    const message: JsonObject = { role: "assistant", ...named(turn), ...bare(content, native) };
    // Without a content there must be a null, or vendors refuse the message.
    if (!native && content.length === 0) message["content"] = null;
    const refusal = refusals.filter((part) => !native || part.native === undefined);
    if (refusal.length > 0) message["refusal"] = refusal.map((part) => part.text).join("");
    Object.assign(message, this.thoughts(turn.parts, native));
    if (native) Object.assign(message, this.sameCalls(calls));
    else if (calls.length > 0) message["tool_calls"] = calls.map((call) => this.call(call));
    if (native || content.length > 0 || calls.length > 0 || refusal.length > 0)
      this.messages.push({ ...message, ...native?.rest });
  }

  /** Chat has a place for calls behind the text only. */
  private lastWords(parts: readonly Part[]): void {
    const firstCall = parts.findIndex((part) => part.kind === "tool_call");
    const late = firstCall < 0 ? undefined : parts.slice(firstCall).find((part) => part.kind === "text");
    if (late) this.terms.change(late.at, "Text behind a tool call is written before it");
    for (const part of parts)
      if (part.cache && part.kind !== "text")
        this.terms.drop(part.at, "Chat Completions marks only content for its cache");
  }

  /** The parts that stood in the content. */
  private sameContent(parts: readonly Part[]): unknown[] {
    return parts.map((part) => samePart(part, this.terms)).filter((part) => part !== undefined);
  }

  /** Thoughts go back to the vendor they came from, in the field they came in; those of others stay away. */
  private thoughts(parts: readonly Part[], native: MessageNative | undefined): JsonObject {
    const members: JsonObject = {};
    const details: JsonObject[] = [];
    for (const part of parts) {
      if (part.kind !== "reasoning") continue;
      const text = part.text ?? part.summary?.join("\n\n");
      const form = part.opaque?.kind ?? (part.native as PieceNative | undefined)?.form;
      if (!native && part.opaque?.protocol !== "openai-chat") {
        if (!part.opaque) this.terms.drop(part.at, "Earlier thoughts can only go back to the vendor that made them");
        continue;
      }
      if (form === "message") Object.assign(members, asObject(parseExact(part.opaque?.data ?? "{}")));
      else if (part.opaque && form === "reasoning_details") {
        const entry = asObject(parseExact(part.opaque.data)) ?? {};
        const member = saidIn(entry);
        details.push({ ...(text && member ? { [member]: text } : {}), ...entry });
      } else if (form === "reasoning" || form === "reasoning_content")
        members[form] = `${asText(members[form]) ?? ""}${part.opaque?.data || text || ""}`;
    }
    if (details.length > 0) members["reasoning_details"] = details;
    if (native?.plain && details.length > 0) members[native.plain] ??= details.map(wordsOf).join("");
    return members;
  }

  private call(call: ToolCall): JsonObject {
    const name = nameOf(call.name, call.namespace, this.terms);
    const kind = call.custom ? "custom" : "function";
    const uses = call.custom ? { input: call.arguments } : { arguments: call.arguments || "{}" };
    return { id: safeId(call.id), type: kind, [kind]: { name, ...uses }, ...stateOn(call) };
  }

  private sameCalls(calls: readonly ToolCall[]): JsonObject {
    const written = calls.map((call) => {
      const native = call.native as PieceNative;
      return { legacy: native.form === LEGACY, json: this.sameCall(call, native) };
    });
    const listed = written.filter(({ legacy }) => !legacy).map(({ json }) => json);
    const legacy = written.find(({ legacy }) => legacy);
    return { ...(listed.length > 0 ? { tool_calls: listed } : {}), ...(legacy ? { [LEGACY]: legacy.json } : {}) };
  }

  /** A call as it was. */
  private sameCall(call: ToolCall, native: PieceNative): JsonObject {
    const { id, name, custom } = call;
    const there = (members: JsonObject) =>
      Object.fromEntries(Object.entries(members).filter(([member]) => native.names?.includes(member)));
    const uses = { name, [custom ? "input" : "arguments"]: call.arguments };
    if (native.form === LEGACY) return { ...there(uses), ...native.rest };
    const kind = custom ? "custom" : "function";
    const inner = { [kind]: { ...there(uses), ...native.inner } };
    return { ...there({ id, type: kind }), ...inner, ...stateOn(call, native.extra), ...native.rest };
  }

  private sameResult(part: ToolResult, turn: Turn, native: MessageNative): JsonObject {
    const id = native.role === "tool" ? { tool_call_id: native.call ?? part.callId } : {};
    const name = part.name === undefined ? {} : { name: part.name };
    return {
      role: native.role,
      ...id,
      ...name,
      ...named(turn),
      ...bare(this.sameContent(part.parts), native),
      ...native.rest,
    };
  }

  /** A result as text; its media follow in a message of the user, for Chat has no other place for them. */
  private result(part: ToolResult, attached: JsonObject[]): void {
    const texts: string[] = part.json === undefined ? [] : [part.json];
    for (const each of part.parts) {
      if (each.kind === "text") texts.push(each.text);
      else if (each.kind === "media") attached.push(this.attach(each, texts));
    }
    const failed = part.isError ? failedText(texts) : undefined;
    const uses = failed === undefined ? texts : [failed];
    const content: JsonObject[] = uses.map((text) => ({ type: "text", text }));
    const last = content.at(-1);
    if (last) Object.assign(last, marked(part.cache));
    const body = content.length > 0 ? bare(content, undefined) : { content: "" };
    this.messages.push({ role: "tool", tool_call_id: safeId(part.callId), ...body });
  }

  private attach(media: Media, texts: string[]): JsonObject {
    this.attached++;
    texts.push(`[${media.media} ${this.attached} attached]`);
    this.terms.change(
      media.at,
      "A tool's result is only text in Chat Completions; its media follow in a message of the user",
    );
    return mediaPart(media, this.terms);
  }
}

/** Opaque state that the vendor put on a call, and what else stands there. */
function stateOn({ opaque }: ToolCall, more: JsonObject = {}): JsonObject {
  const own = opaque?.protocol === "openai-chat" && opaque.kind === "extra_content";
  const extra = own ? { ...more, ...asObject(parseExact(opaque.data)) } : more;
  return Object.keys(extra).length > 0 ? { extra_content: extra } : {};
}

/** Whether a reasoning came as a part of the content, as Mistral's does. */
const isThinking = (part: Reasoning): part is Reasoning & { opaque: Opaque } =>
  part.opaque?.protocol === "openai-chat" && part.opaque.kind === "thinking";

const thinkingPart = (text: string): JsonObject => ({ type: "thinking", thinking: [{ type: "text", text }] });

const wordsOf = (entry: JsonObject): string => asText(entry["text"]) ?? asText(entry["summary"]) ?? "";

const named = ({ name }: Turn): JsonObject => (name === undefined ? {} : { name });

/** Content as a string where it is one text without anything on it, else as a list. */
function bare(parts: readonly unknown[], native: MessageNative | undefined): JsonObject {
  if (native) {
    if (native.list) return { content: parts };
    const only = asObject(parts[0]);
    return only ? { content: only["text"] } : {};
  }
  if (parts.length === 0) return {};
  const only = parts.length === 1 ? asObject(parts[0]) : undefined;
  const plain = only?.["type"] === "text" && Object.keys(only).length === 2;
  return { content: plain ? only["text"] : parts };
}
