import {
  asObject,
  asText,
  type Fields,
  fieldsOf,
  type IncomingRequest,
  invalidField,
  type JsonObject,
  type Opaque,
  type ToolCall,
  writeJson,
} from "model-gateway/protocol";
import { piece, type Reading } from "./request.parts.ts";

/** The form of a call that came as the older `function_call`. */
export const LEGACY = "function_call";
/** LiteLLM packs Gemini's signature into the id of the call it sits on. */
const THOUGHT = "__thought__";

/** Calls in order, of which each is taken once. */
class Line {
  private readonly calls: { id: string; taken: boolean }[] = [];
  private next = 0;

  add(call: { id: string; taken: boolean }): void {
    this.calls.push(call);
  }

  /** The id of the first that no line has given yet. */
  take(): string | undefined {
    while (this.calls[this.next]?.taken) this.next++;
    const call = this.calls[this.next];
    if (call) call.taken = true;
    return call?.id;
  }
}

/**
 * The tool calls of a history, with the ids of the results that answer them: results without an id (the older functions,
 * and vendors that give none) belong to the calls without one, by name and order.
 */
export class Calls {
  /** Calls that the client gave no id: all, and those of each name. */
  private readonly nameless = new Line();
  private readonly byName = new Map<string, Line>();
  private readonly custom = new Set<string>();

  constructor(
    private readonly asked: IncomingRequest,
    private readonly reading: Reading,
  ) {}

  /** The id of the call that a result answers. */
  answered(given: string | undefined, name: string | undefined, at: string): string {
    if (given) return plain(given).id;
    const id = (name === undefined ? this.nameless : this.byName.get(name))?.take();
    if (id === undefined) throw invalidField(at, `${at} is the result of a call that is not there.`);
    return id;
  }

  /** Whether the call of this id gave its tool free text. */
  isCustom(id: string): boolean {
    return this.custom.has(id);
  }

  /** An entry of `tool_calls`. @param stated calls whose opaque state came in another place. */
  call(value: unknown, at: string, stated: ReadonlySet<string>): ToolCall {
    const entry = fieldsOf(value, at, this.reading.uses, this.reading.native);
    const type = entry.text("type");
    const custom = type === "custom";
    // Some vendors' have an empty one, or none.
    if (type !== "function" && !custom) entry.leave("type");
    const inner = entry.object(custom ? "custom" : "function");
    if (!inner) throw invalidField(`${at}.function`, `${at}.function must be an object.`);
    // Recorded: the place of a call in its stream, sent back.
    entry.leave("index");
    const given = entry.text("id");
    const { id, signature } = plain(given || `call_${at.replaceAll(".", "_")}`);
    if (id !== given) entry.leave("id");
    const name = nameOf(inner);
    if (!given) this.awaits(id, name);
    if (custom) this.custom.add(id);
    const { opaque, rest } = this.extra(entry, signature);
    const state = opaque ?? (stated.has(id) ? undefined : this.asked.recall(id));
    return {
      kind: "tool_call",
      id,
      name,
      arguments: inner.text(custom ? "input" : "arguments") ?? "",
      at,
      ...(custom ? { custom: true } : {}),
      ...(state ? { opaque: state } : {}),
      ...piece(this.reading, entry.rest(), { inner: inner.rest(), names: namesOf(entry, inner), ...rest }),
    };
  }

  /** The older `function_call` of a message. */
  legacy(inner: Fields): ToolCall {
    const id = `call_${inner.at.replaceAll(".", "_")}`;
    const name = nameOf(inner);
    this.awaits(id, name);
    const text = inner.text("arguments") ?? "";
    const native = piece(this.reading, inner.rest(), { form: LEGACY, names: namesOf(inner) });
    return { kind: "tool_call", id, name, arguments: text, at: inner.at, ...native };
  }

  /** A call without an id of the client's is to be answered. */
  private awaits(id: string, name: string): void {
    const call = { id, taken: false };
    this.nameless.add(call);
    const line = this.byName.get(name) ?? new Line();
    this.byName.set(name, line);
    line.add(call);
  }

  /**
   * Opaque state on the call itself: Google's compatible API has its signature there, and so do we. What else stands
   * beside a signature only means something to who wrote it there.
   */
  private extra(entry: Fields, packed: string | undefined): { opaque?: Opaque; rest?: { extra: JsonObject } } {
    const { extra_content: whole } = entry.of;
    const signature = asText(asObject(asObject(whole)?.["google"])?.["thought_signature"]);
    if (signature === undefined) {
      if (packed === undefined) return {};
      if (this.asked.sealed(packed)) return { opaque: this.asked.open(packed, "thoughtSignature") };
      return { opaque: { protocol: "gemini", kind: "thoughtSignature", data: packed } };
    }
    const extra = entry.object("extra_content") as Fields;
    const google = extra.object("google") as Fields;
    google.any("thought_signature");
    const more = google.rest();
    const rest = { ...extra.rest(), ...(Object.keys(more).length > 0 ? { google: more } : {}) };
    if (this.asked.sealed(signature))
      return { opaque: this.asked.open(signature, "thoughtSignature"), rest: { extra: rest } };
    return { opaque: { protocol: "openai-chat", kind: "extra_content", data: writeJson(whole) } };
  }
}

const namesOf = (...objects: readonly Fields[]): string[] => objects.flatMap(({ of }) => Object.keys(of));

function nameOf(inner: Fields): string {
  const name = inner.text("name");
  if (name === undefined) throw invalidField(inner.path("name"), `${inner.path("name")} must be a string.`);
  return name;
}

function plain(id: string): { id: string; signature?: string } {
  const at = id.indexOf(THOUGHT);
  return at < 0 ? { id } : { id: id.slice(0, at), signature: id.slice(at + THOUGHT.length) };
}

/** The calls whose opaque state came beside a message's reasoning. */
export const stated = (states: readonly (Opaque | undefined)[]): Set<string> =>
  new Set(states.flatMap((state) => (typeof state?.on === "object" ? [state.on.call] : [])));

/** Opaque state on a message itself, as Google's compatible API has it. */
export function messageState(message: JsonObject): Opaque | undefined {
  const { extra_content, thought_signature } = message;
  if (!asObject(extra_content) && typeof thought_signature !== "string") return undefined;
  return { protocol: "openai-chat", kind: "message", data: writeJson({ extra_content, thought_signature }) };
}
