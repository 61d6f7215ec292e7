import {
  asList,
  asObject,
  asText,
  type Fields,
  fieldsOf,
  type IncomingRequest,
  invalidField,
  isObject,
  type JsonObject,
  type Part,
  type Reasoning,
  type Turn,
} from "model-gateway/protocol";
import { citationOf } from "./citations.ts";
import { FORMAT, isBehind, reasoningsIn, sayUnread } from "./reasoning.ts";
import { Calls, LEGACY, messageState, stated } from "./request.calls.ts";
import type { MessageNative } from "./request.native.ts";
import { cacheOf, partsOf, type Reading, readable } from "./request.parts.ts";

/** The turns of `messages`, one for each; a tool's result is the user's. @throws GatewayError with the message's path. */
export function turnsOf(list: readonly unknown[], asked: IncomingRequest, reading: Reading): Turn[] {
  const { uses, native } = reading;
  const messages = new Messages(asked, reading);
  const turns = list.map((value, n) => {
    const at = `messages.${n}`;
    const turn = readable(reading, () => messages.turn(fieldsOf(value, at, uses, native)));
    return turn ?? unread(value, at);
  });
  const isSystem = (turn: Turn) => turn.role === "system" || turn.role === "developer";
  const first = turns.findIndex((turn) => !isSystem(turn));
  for (const turn of first < 0 ? [] : turns.slice(first))
    if (isSystem(turn)) uses.push({ feature: "system_in_place", path: turn.at });
  const last = turns.at(-1);
  if (last?.role === "assistant" && !last.parts.some((part) => part.kind === "tool_call"))
    uses.push({ feature: "prefill", path: last.at });
  return turns;
}

/** A message that only its vendor understands. */
const unread = (json: unknown, at: string): Turn => ({
  role: "user",
  at,
  parts: [{ kind: "foreign", protocol: "openai-chat", name: "message", json, at }],
});

class Messages {
  private readonly calls: Calls;

  constructor(
    private readonly asked: IncomingRequest,
    private readonly reading: Reading,
  ) {
    this.calls = new Calls(asked, reading);
  }

  turn(message: Fields): Turn {
    const role = message.text("role");
    switch (role) {
      case "system":
      case "developer":
      case "user":
        return this.finish(message, role, this.content(message), { role });
      case "assistant":
        return this.assistant(message);
      case "tool":
      case "function":
        return this.result(message, role);
      default: {
        const roles = "system, developer, user, assistant, tool or function";
        throw invalidField(message.path("role"), `${message.path("role")} must be ${roles}.`);
      }
    }
  }

  private content(message: Fields): Part[] {
    const parts = partsOf(message.any("content"), message.path("content"), this.reading);
    // Vendors that took over Anthropic's mark also have it on the message.
    const { cache } = cacheOf(message);
    const last = parts.at(-1);
    if (cache && last) last.cache = cache;
    return parts;
  }

  private finish(message: Fields, role: Turn["role"], parts: Part[], native: Omit<MessageNative, "rest">): Turn {
    // On a result it is the function's name, which the call says.
    const name = native.role === "function" || native.role === "tool" ? undefined : message.text("name");
    if (name !== undefined) message.declare("name", "name");
    const rest = message.rest();
    const list = Array.isArray(message.of["content"]) ? { list: true } : {};
    return {
      role,
      parts,
      at: message.at,
      ...(name === undefined ? {} : { name }),
      ...(this.reading.native ? { native: { ...native, ...list, rest } } : {}),
    };
  }

  private result(message: Fields, role: "tool" | "function"): Turn {
    const id = role === "tool" ? message.text("tool_call_id") : undefined;
    if (role === "tool" && id === undefined)
      throw invalidField(
        message.path("tool_call_id"),
        `${message.path("tool_call_id")} must name the call it answers.`,
      );
    const name = message.text("name");
    const callId = this.calls.answered(id, name, message.at);
    const parts = this.content(message);
    const media = parts.find((part) => part.kind === "media");
    if (media) this.reading.uses.push({ feature: "tool_result_media", path: media.at });
    const cache = parts.findLast((part) => part.cache)?.cache;
    // The result is marked, not its text as well.
    if (!this.reading.native) for (const part of parts) delete part.cache;
    const result: Part = {
      kind: "tool_result",
      callId,
      parts,
      at: message.at,
      ...(name === undefined ? {} : { name }),
      ...(this.calls.isCustom(callId) ? { custom: true } : {}),
      ...(cache ? { cache } : {}),
    };
    return this.finish(message, "user", [result], { role, ...(id === callId ? {} : { call: id ?? "" }) });
  }

  private assistant(message: Fields): Turn {
    const thoughts = this.reasonings(message);
    const details = message.of["reasoning_details"];
    const behind = thoughts.parts.filter((part) => isBehind(details, part));
    const before = thoughts.parts.filter((part) => !isBehind(details, part));
    const parts: Part[] = [...before, ...this.uses(message), ...behind];
    const elsewhere = stated(thoughts.parts.map(({ opaque }) => opaque));
    const calls = message.list("tool_calls") ?? [];
    if (calls.length === 0) message.leave("tool_calls");
    calls.forEach((value, n) => {
      parts.push(this.calls.call(value, `${message.path("tool_calls")}.${n}`, elsewhere));
    });
    const legacy = message.object(LEGACY);
    if (legacy) parts.push(this.calls.legacy(legacy));
    message.leave("audio", "foreign_block");
    return this.finish(message, "assistant", parts, {
      role: "assistant",
      ...(thoughts.plain === undefined ? {} : { plain: thoughts.plain }),
    });
  }

  /** Text and refusal of an assistant, with the sources its text names. */
  private uses(message: Fields): Part[] {
    const parts = this.content(message);
    const refusal = message.text("refusal");
    if (refusal !== undefined) parts.push({ kind: "refusal", text: refusal, at: message.path("refusal") });
    const citations = asList(message.of["annotations"]).flatMap((annotation) => citationOf(annotation) ?? []);
    message.leave("annotations", citations.length > 0 ? "citations" : undefined);
    const texts = parts.filter((part) => part.kind === "text");
    if (citations.length > 0 && texts.length === 1) (texts[0] as Part & { kind: "text" }).citations = citations;
    return parts;
  }

  /**
   * Thoughts in any of three dialects: `reasoning_details` (OpenRouter's, and ours) before `reasoning_content` (DeepSeek's)
   * before `reasoning` (Groq's); the latter two repeat the former's text.
   */
  private reasonings(message: Fields): { parts: Reasoning[]; plain?: "reasoning" | "reasoning_content" } {
    const details = this.details(message);
    const plain = (["reasoning_content", "reasoning"] as const).find((name) => asText(message.of[name]));
    const text = plain && (asText(message.of[plain]) as string);
    const parts = details.length > 0 ? details : plain ? [this.plain(message, plain)] : [];
    if (parts.length > 0) this.reading.uses.push({ feature: "reasoning_text", path: (parts[0] as Reasoning).at });
    const repeated = plain && details.map((part) => part.text ?? part.summary?.join("") ?? "").join("") === text;
    const only = details.length === 1 ? details[0] : undefined;
    // A client that keeps no texts in its entries has the text of the only one beside them.
    const lent = text && only?.text === undefined && !only?.summary && !only?.opaque?.on && !only?.redacted;
    if (lent && only && !this.reading.native) only.text = text;
    const state = messageState(message.of);
    if (state) parts.push({ kind: "reasoning", redacted: true, opaque: state, at: message.at });
    for (const name of state ? ["extra_content", "thought_signature"] : []) message.any(name);
    // Beside entries of ours it is the same text, of which a client may have kept less.
    const ours = asList(message.of["reasoning_details"]).some((entry) => asObject(entry)?.["format"] === FORMAT);
    if (plain && (details.length === 0 || repeated || ours)) message.any(plain);
    else if (plain) message.leave(plain, lent ? undefined : "other");
    return { parts, ...(plain && repeated ? { plain } : {}) };
  }

  /** The entries of `reasoning_details`; of a list with anything else in it none, where it is to be written again. */
  private details(message: Fields): Reasoning[] {
    const name = "reasoning_details";
    const list = asList(message.of[name]);
    const path = message.path(name);
    sayUnread(list, path, this.reading.uses);
    const details = this.reading.native && !list.every(isObject) ? [] : reasoningsIn(list, path, this.asked);
    if (details.length > 0) message.any(name);
    else if (Array.isArray(message.of[name])) message.leave(name);
    return details;
  }

  private plain(message: Fields, name: "reasoning" | "reasoning_content"): Reasoning {
    const native: JsonObject = { rest: {}, form: name };
    return {
      kind: "reasoning",
      text: asText(message.of[name]) ?? "",
      at: message.path(name),
      ...(this.reading.native ? { native } : {}),
    };
  }
}
