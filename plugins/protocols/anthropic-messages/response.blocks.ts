import {
  asList,
  asObject,
  asText,
  type Event,
  type JsonObject,
  type ResponseSource,
  type Usage,
} from "model-gateway/protocol";
import { citationFrom, citationRest } from "./citations.ts";
import { NAME, type OpaqueKind, reasonOf, without } from "./words.ts";

/** What an event's `native` holds: members that the event has no word for, or a whole frame that says nothing in it. */
export interface OwnEvent {
  rest?: JsonObject | undefined;
  /** Members of the frame around what `rest` belongs to. */
  frame?: JsonObject | undefined;
  /** The vendor's usage object, for its members; numbers are taken from the event. */
  usage?: JsonObject | undefined;
  /** An opening block as it came, for those that are only this vendor's. */
  block?: JsonObject;
  /** Arguments that the opening of the call held already. */
  begun?: boolean;
  /** A frame that is no event of ours. */
  whole?: JsonObject;
  name?: string | undefined;
}

const MESSAGE = ["id", "type", "role", "model", "content", "usage"];

const OURS: ReadonlySet<string> = new Set(["text", "thinking", "redacted_thinking", "tool_use"]);

/** True for a type of block that only this vendor understands. */
export const isServer = (type: string): boolean => !OURS.has(type);

/** Reads blocks and how an answer ended, which streamed and whole answers have in common. */
export class Blocks {
  constructor(protected readonly source: ResponseSource) {}

  protected native(own: OwnEvent): { native?: OwnEvent } {
    return this.source.native ? { native: own } : {};
  }

  protected opaque(kind: OpaqueKind, data: string) {
    return { protocol: NAME, account: this.source.account, model: this.source.model, kind, data };
  }

  /** `start`, from a message; `ending` names members that are read where it ends. */
  protected start(message: JsonObject, usage: Usage | undefined, ending: readonly string[], frame?: JsonObject): Event {
    const own = (): OwnEvent => ({
      rest: without(message, [...MESSAGE, ...ending]),
      usage: asObject(message["usage"]),
      frame,
    });
    return {
      type: "start",
      id: asText(message["id"]) ?? "",
      model: asText(message["model"]) ?? this.source.model,
      ...(usage ? { usage } : {}),
      ...(this.source.native ? { native: own() } : {}),
    };
  }

  /** Opens a block and tells what it holds already. @param begun its `native` keeps the input that it began with */
  protected open(block: number, content: JsonObject, out: Event[], begun = false): string {
    const type = asText(content["type"]) ?? "";
    const at = { type: "open", block, choice: 0 } as const;
    const own = (...taken: string[]): { native?: OwnEvent } =>
      this.source.native ? { native: { rest: without(content, ["type", ...taken]) } } : {};
    switch (type) {
      case "text":
        out.push({
          ...at,
          kind: "text",
          ...own("text", ...(asList(content["citations"]).length > 0 ? ["citations"] : [])),
        });
        this.text(block, content["text"], out);
        for (const citation of asList(content["citations"])) out.push(this.citation(block, citation));
        return type;
      case "thinking":
        out.push({ ...at, kind: "reasoning", ...own("thinking", "signature") });
        this.text(block, content["thinking"], out);
        if (content["signature"] !== "") this.signature(block, content["signature"], out);
        return type;
      case "redacted_thinking":
        out.push({ ...at, kind: "reasoning", redacted: true, ...own("data") });
        out.push({ type: "opaque", block, opaque: this.opaque("redacted", asText(content["data"]) ?? "") });
        return type;
      case "tool_use":
        out.push({ ...at, kind: "tool_call", ...called(content), ...own("id", "name", ...(begun ? [] : ["input"])) });
        return type;
      default:
        out.push({
          ...at,
          kind: "server",
          name: type,
          result: /_result$/.test(type),
          ...this.native({ block: content }),
        });
        return type;
    }
  }

  protected text(block: number, text: unknown, out: Event[]): void {
    if (typeof text === "string" && text !== "") out.push({ type: "text", block, text });
  }

  protected signature(block: number, signature: unknown, out: Event[], own?: OwnEvent): void {
    // One without a letter is none, and only told to give the same frames.
    if (typeof signature !== "string" || (signature === "" && !own)) return;
    out.push({ type: "opaque", block, opaque: this.opaque("signature", signature), ...(own ? { native: own } : {}) });
  }

  protected citation(block: number, citation: unknown): Event {
    return {
      type: "citation",
      block,
      citation: citationFrom(citation),
      ...(this.source.native ? { native: { rest: citationRest(citation) } satisfies OwnEvent } : {}),
    };
  }

  protected finish(ending: JsonObject, own: OwnEvent): Event {
    const raw = asText(ending["stop_reason"]) ?? "";
    const sequence = asText(ending["stop_sequence"]);
    const message = asText(asObject(ending["stop_details"])?.["explanation"]);
    return {
      type: "finish",
      choice: 0,
      reason: reasonOf(raw),
      raw,
      ...(sequence === undefined ? {} : { stopSequence: sequence }),
      ...(message === undefined ? {} : { message }),
      ...this.native(own),
    };
  }
}

function called(content: JsonObject): { id?: string; name: string } {
  const id = asText(content["id"]);
  return { ...(id ? { id } : {}), name: asText(content["name"]) ?? "" };
}
